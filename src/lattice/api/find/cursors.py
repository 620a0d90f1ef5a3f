"""Cursors: opaque to callers, a small list of values inside. A cursor names the last thing seen, not a place in a list."""

import base64
import binascii
from typing import TypeVar

import msgspec

from lattice.api.errors import ApiError
from lattice.wire.text.problems import BadField

_T = TypeVar("_T")
# What a database can look up.
MAX_NUMBER = 2**63 - 1


def make_cursor(*values: int | str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(values)).decode().rstrip("=")


def read_cursor(text: str, shape: type[_T]) -> _T:
    """The values of a cursor. Raises ApiError when it is not one of ours."""
    try:
        plain = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        values = msgspec.json.decode(plain, type=shape)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise ApiError("invalid", "the cursor is not valid", hint="start again without a cursor") from None
    parts = values if isinstance(values, tuple | list) else (values,)
    if any(isinstance(part, int) and abs(part) > MAX_NUMBER for part in parts):
        raise ApiError("invalid", "the cursor is not valid", hint="start again without a cursor")
    return values


def page_size(asked: int | None, default: int, most: int) -> int:
    """The number of items per page. Raises BadField."""
    if asked is None:
        return default
    if not 1 <= asked <= most:
        raise BadField("limit", f"{asked} is not possible", limit=f"from 1 to {most:,}")
    return asked
