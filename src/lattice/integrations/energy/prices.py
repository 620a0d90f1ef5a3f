"""Electricity prices from a CSV file, or from an HTTP address that answers with CSV or JSON.

CSV: one `time,price` per line, with or without that heading. JSON: a list of {"time": ..., "price": ...}, or an object with
such a list under "prices". Times are RFC 3339; without a zone they are UTC.
"""

import asyncio
import json
import urllib.request
from collections.abc import Iterable
from datetime import UTC, datetime
from http.client import HTTPException
from math import isfinite
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

from lattice.ports.site.energy import PriceSource, PricesUnavailable

TIMEOUT_S = 10.0
MAX_BYTES = 16 * 1024 * 1024
Prices = tuple[tuple[int, float], ...]


def open_prices(place: str) -> PriceSource:
    """A source for a path or for an http or https address."""
    return HttpPrices(place) if urlsplit(place).scheme in ("http", "https") else FilePrices(Path(place))


class FilePrices:
    """Implements `PriceSource`; the file is re-read each time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def prices(self) -> Prices:
        try:
            text = await asyncio.to_thread(self._path.read_text, "utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise PricesUnavailable(f"{self._path}: {error}") from error
        return read_csv(text, str(self._path))


class HttpPrices:
    """Implements `PriceSource`."""

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        self._url = url
        self._timeout_s = timeout_s

    async def prices(self) -> Prices:
        kind, text = await asyncio.to_thread(self._fetch)
        return read_json(text, self._url) if kind.endswith("json") else read_csv(text, self._url)

    def _fetch(self) -> tuple[str, str]:
        try:
            with urllib.request.urlopen(self._url, timeout=self._timeout_s) as answer:  # noqa: S310 - scheme checked
                body = answer.read(MAX_BYTES + 1)
                kind = answer.headers.get_content_type()
        except HTTPError as error:
            error.close()
            raise PricesUnavailable(f"{self._url}: {error}") from error
        except (OSError, HTTPException, ValueError) as error:
            raise PricesUnavailable(f"{self._url}: {error}") from error
        if len(body) > MAX_BYTES:
            raise PricesUnavailable(f"{self._url}: more than {MAX_BYTES} bytes")
        try:
            return kind, body.decode()
        except UnicodeDecodeError as error:
            raise PricesUnavailable(f"{self._url}: not UTF-8") from error


def read_csv(text: str, place: str) -> Prices:
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#") or (number == 1 and line.lower().startswith("time")):
            continue
        time, comma, price = line.partition(",")
        if not comma:
            raise PricesUnavailable(f"{place}, line {number}: no comma between time and price")
        entries.append(_entry(time, price.split(",")[0], f"{place}, line {number}"))
    return _rising(entries)


def read_json(text: str, place: str) -> Prices:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise PricesUnavailable(f"{place}: not JSON: {error}") from error
    items = found.get("prices") if isinstance(found, dict) else found
    if not isinstance(items, list):
        raise PricesUnavailable(f"{place}: no list of prices")
    entries = []
    for number, item in enumerate(items, start=1):
        if not isinstance(item, dict) or "time" not in item or "price" not in item:
            raise PricesUnavailable(f"{place}, entry {number}: time and price wanted")
        entries.append(_entry(str(item["time"]), str(item["price"]), f"{place}, entry {number}"))
    return _rising(entries)


def _entry(time: str, price: str, where: str) -> tuple[int, float]:
    try:
        moment = datetime.fromisoformat(time.strip())
        value = float(price)
    except ValueError as error:
        raise PricesUnavailable(f"{where}: {error}") from error
    if not isfinite(value):
        raise PricesUnavailable(f"{where}: {price.strip()} is no price")
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000), value


def _rising(entries: Iterable[tuple[int, float]]) -> Prices:
    """By time; of several prices for one moment the last counts."""
    return tuple(sorted(dict(entries).items()))
