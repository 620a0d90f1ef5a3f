"""What every source of electricity prices has to do, whatever it stands on."""

import asyncio
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lattice.integrations.energy.prices import HttpPrices, open_prices
from lattice.ports.site.energy import PriceSource, PricesUnavailable

MIDNIGHT = 1_772_668_800_000  # 2026-03-05T00:00:00Z
HOUR = 3_600_000
CSV = "time,price\n2026-03-05T01:00:00Z,40.5\n2026-03-05T00:00:00+00:00,55\n\n# night\n2026-03-05T03:00:00+01:00,-3\n"
JSON = (
    '{"prices": [{"time": "2026-03-05T01:00:00Z", "price": 40.5}, {"time": "2026-03-05T00:00:00Z", "price": "55"},'
    ' {"time": "2026-03-05T02:00:00", "price": -3}]}'
)
GOOD = ((MIDNIGHT, 55.0), (MIDNIGHT + HOUR, 40.5), (MIDNIGHT + 2 * HOUR, -3.0))

Served = Callable[[str], PriceSource]


class _Server(ThreadingHTTPServer):
    body = b""
    kind = "text/csv"


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Server)
        self.send_response(200 if self.path == "/prices" else 404)
        self.send_header("Content-Type", self.server.kind)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as running:
        thread = Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(params=["file", "http csv", "http json"])
def served(request: pytest.FixtureRequest, tmp_path: Path, server: _Server) -> Served:
    """Turns a text into a source that has it."""

    def in_file(text: str) -> PriceSource:
        (tmp_path / "prices.csv").write_text(text)
        return open_prices(str(tmp_path / "prices.csv"))

    def by_http(text: str) -> PriceSource:
        server.body = text.encode()
        server.kind = "application/json" if request.param == "http json" else "text/csv; charset=utf-8"
        return open_prices(f"http://127.0.0.1:{server.server_port}/prices")

    return in_file if request.param == "file" else by_http


@pytest.fixture
def good(request: pytest.FixtureRequest) -> str:
    return JSON if "json" in request.node.callspec.id else CSV


def test_prices_come_in_order_of_time(served: Served, good: str) -> None:
    assert asyncio.run(served(good).prices()) == GOOD


def test_what_is_no_price_is_refused_with_its_place(served: Served, good: str) -> None:
    for bad in (good.replace("40.5", "cheap" if "{" not in good else '"cheap"'), good.replace("2026-03-05T01", "soon")):
        with pytest.raises(PricesUnavailable, match=r"line 2|entry 1"):
            asyncio.run(served(bad).prices())


def test_a_price_must_be_a_number(served: Served, good: str) -> None:
    with pytest.raises(PricesUnavailable, match="is no price"):
        asyncio.run(served(good.replace("40.5", "NaN")).prices())


@pytest.mark.parametrize("body", ["nothing at all", '"no list"'])
def test_what_makes_no_sense_is_refused(served: Served, body: str) -> None:
    with pytest.raises(PricesUnavailable):
        asyncio.run(served(body).prices())


def test_a_source_that_is_not_there_says_so(tmp_path: Path, server: _Server) -> None:
    for place in (str(tmp_path / "none.csv"), f"http://127.0.0.1:{server.server_port}/elsewhere"):
        with pytest.raises(PricesUnavailable, match=place.rsplit("/", 1)[-1]):
            asyncio.run(open_prices(place).prices())


def test_an_address_that_nobody_serves_says_so(server: _Server) -> None:
    server.server_close()
    with pytest.raises(PricesUnavailable):
        asyncio.run(HttpPrices(f"http://127.0.0.1:{server.server_port}/prices", timeout_s=2).prices())
