"""Budgets of tenants from a JSON file, or from an HTTP address that answers with JSON.

One object, by tenant; each budget with what is left of it::

    {"tenants": {"physics": {"gpu_hours_budget": 100000, "gpu_hours_remaining": 12500,
                             "node_hours_budget": 5000, "node_hours_remaining": 4100}}}
"""

import asyncio
import urllib.request
from collections.abc import Mapping
from http.client import HTTPException
from math import isfinite
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

import msgspec

from lattice.core.model.site.budgets import Remaining
from lattice.ports.site.budgets import BudgetSource, BudgetsUnavailable

TIMEOUT_S = 10.0
MAX_BYTES = 16 * 1024 * 1024


class _Answer(msgspec.Struct):
    tenants: dict[str, Remaining]


def open_budgets(place: str, token_file: str = "") -> BudgetSource:
    """A source for a path or for an http or https address; the file holds the token that the address wants."""
    if urlsplit(place).scheme in ("http", "https"):
        return HttpBudgets(place, Path(token_file) if token_file else None)
    return FileBudgets(Path(place))


class FileBudgets:
    """Implements `BudgetSource`; the file is re-read each time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def remaining(self) -> Mapping[str, Remaining]:
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
        except OSError as error:
            raise BudgetsUnavailable(f"{self._path}: {error}") from error
        return read_budgets(text, str(self._path))


class HttpBudgets:
    """Implements `BudgetSource`."""

    def __init__(self, url: str, token_file: Path | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._token_file = token_file
        self._timeout_s = timeout_s

    async def remaining(self) -> Mapping[str, Remaining]:
        return read_budgets(await asyncio.to_thread(self._fetch), self._url)

    def _fetch(self) -> bytes:
        try:
            request = urllib.request.Request(self._url)  # noqa: S310 - scheme checked
            if self._token_file is not None:
                # Not repeated to where the answer redirects to: the token is for this address.
                request.add_unredirected_header("Authorization", f"Bearer {self._token_file.read_text().strip()}")
            with urllib.request.urlopen(request, timeout=self._timeout_s) as answer:  # noqa: S310 - scheme checked
                body: bytes = answer.read(MAX_BYTES + 1)
        except HTTPError as error:
            error.close()
            raise BudgetsUnavailable(f"{self._url}: {error}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise BudgetsUnavailable(f"{self._url}: {error}") from error
        if len(body) > MAX_BYTES:
            raise BudgetsUnavailable(f"{self._url}: more than {MAX_BYTES} bytes")
        return body


def read_budgets(text: bytes, place: str) -> Mapping[str, Remaining]:
    try:
        found = msgspec.json.decode(text, type=_Answer).tenants
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BudgetsUnavailable(f"{place}: {error}") from error
    for tenant, each in found.items():
        for name in each.__struct_fields__:
            value = getattr(each, name)
            if value is not None and not (isfinite(value) and (value >= 0 or name.endswith("remaining"))):
                raise BudgetsUnavailable(f"{place}: tenant {tenant[:64]!r}: {name} is {value}")
    return found
