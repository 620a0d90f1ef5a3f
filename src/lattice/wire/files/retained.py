"""What is kept of work that has ended, as objects of the store: checkpoints that will go, and what its owner wants to stay.

_retention/ended/ID   the checkpoints of ended work, from its end until they are removed
_retention/kept/ID    nothing of this work goes, until it is said otherwise
"""

import msgspec
from msgspec import Struct

from lattice.core.model.ids import allocation_id

ENDED, KEPT = "_retention/ended/", "_retention/kept/"


class Retained(Struct, frozen=True, kw_only=True):
    """`directory` holds the checkpoints and lies below `root`."""

    number: int
    user: str
    tenant: str
    ended_at: int  # milliseconds since 1970
    root: str
    directory: str
    count: int
    bytes: int


class Mark(Struct, frozen=True, kw_only=True):
    """Who wants to keep it; the rest tells without the record who may see the mark."""

    number: int
    user: str
    tenant: str
    by: str
    at: int


def ended_name(number: int) -> str:
    return f"{ENDED}{allocation_id(number)}"


def kept_name(number: int) -> str:
    return f"{KEPT}{allocation_id(number)}"


def write(record: Retained | Mark) -> bytes:
    return msgspec.json.encode(record)


def read_retained(data: bytes) -> Retained:
    """Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=Retained)


def read_mark(data: bytes) -> Mark:
    """Raises msgspec.MsgspecError."""
    return msgspec.json.decode(data, type=Mark)
