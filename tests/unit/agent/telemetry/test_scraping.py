"""Figures that work shows: what is read of a page, what is left out, and whose they are."""

import asyncio

import pytest

from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.push.exposition import MAX_SERIES, Shown, parse
from lattice.agent.telemetry.push.scraping import MAX_BYTES, Scraper, samples_of_shown
from lattice.ports.nodes.agents import NamedPort, RunKey, StartOrder


def test_a_page_is_read_as_prometheus_reads_it() -> None:
    page = """# HELP queue_depth Requests that wait.
# TYPE queue_depth gauge
queue_depth 7
requests_total{code="200",path="/a\\"b"} 12 1700000000000
empty{} 1.5e3
last{a="b",} -2
"""
    assert parse(page) == [
        Shown("queue_depth", {}, 7),
        Shown("requests_total", {"code": "200", "path": '/a"b'}, 12),
        Shown("empty", {}, 1500),
        Shown("last", {"a": "b"}, -2),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "lattice_allocation_cpus_used 1",
        "x NaN",
        "x +Inf",
        "x",
        'x{a="b" 1',
        "x{a=b} 1",
        'x{a="b"}1',
        "x{ 1",
        "x{,} 1",
        "9x 1",
        "x" * 300 + " 1",
        "x " + "1" * 5000,
        "<html>",
        "",
    ],
)
def test_what_is_no_figure_or_one_of_ours_is_left_out(line: str) -> None:
    assert parse(line) == []


def test_a_page_has_a_bound() -> None:
    assert len(parse("\n".join(f"x{number} 1" for number in range(2 * MAX_SERIES)))) == MAX_SERIES


def test_work_cannot_say_that_its_figures_are_those_of_others() -> None:
    shown = [Shown("queue_depth", {"node": "n9", "allocation": "a99", "queue": "q"}, 3.0)]
    (sample,) = samples_of_shown(shown, {"node": "n1", "allocation": "a1"}, 5)
    assert dict(sample.labels) == {"node": "n1", "allocation": "a1", "queue": "q"}


class RefusedHere(Exception):
    pass


def shown_by(page: bytes, name: str = "metrics") -> tuple[list[int], list[Shown]]:
    """The ports that were asked, and what came of it."""
    asked: list[int] = []
    found: list[Shown] = []

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(page)
            await writer.drain()
            writer.close()

        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        real = listener.sockets[0].getsockname()[1]

        async def connect(key: RunKey, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            asked.append(port)
            if port == 1:
                raise RefusedHere
            return await asyncio.open_connection("127.0.0.1", real)

        exposes = (NamedPort(name=name, port=7000), NamedPort(name="web", port=80), NamedPort(name="metrics-b", port=1))
        target = Target(RunKey(1, 1), 1.0, StartOrder(key=RunKey(1, 1), exposes=exposes))
        scraper = Scraper(lambda: [target], lambda _, shown: found.extend(shown), connect, RefusedHere)
        await scraper.turn()
        listener.close()

    asyncio.run(scenario())
    return asked, found


def test_only_ports_named_for_it_are_asked_and_one_that_refuses_harms_no_other() -> None:
    asked, found = shown_by(b"HTTP/1.0 200 OK\r\n\r\nqueue_depth 7\n")
    assert sorted(asked) == [1, 7000]
    assert found == [Shown("queue_depth", {}, 7)]
    assert shown_by(b"HTTP/1.0 200 OK\r\n\r\nqueue_depth 7\n", name="other")[0] == [1]


@pytest.mark.parametrize(
    "page",
    [
        b"",
        b"HTTP/1.0 404 Not Found\r\n\r\nqueue_depth 7\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.0 200 OK\r\n\r\n" + b"queue_depth 7\n" * (MAX_BYTES // 10),
    ],
)
def test_what_is_no_page_of_figures_gives_none(page: bytes) -> None:
    assert shown_by(page)[1] == []
