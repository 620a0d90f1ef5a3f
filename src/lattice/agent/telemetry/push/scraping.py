"""Reads the figures that runs show on a port named `metrics`, so that the store has them: services are scaled by them.

The connection is made as that of a probe: only where a process of the run itself listens. What the figures say of whose they are comes from
the node and never from the work.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.push.encoding import Sample, labelled
from lattice.agent.telemetry.push.exposition import Shown, parse
from lattice.ports.nodes.agents import RunKey

PORT = "metrics"  # or metrics-NAME, as names of services belong to one user of a tenant
EVERY_S = 10.0
WITHIN_S = 2.0
MAX_BYTES = 1 << 20
AT_A_TIME = 8
MAX_PORTS = 4  # of one run

Connect = Callable[[RunKey, int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def is_metrics(name: str) -> bool:
    return name == PORT or name.startswith(f"{PORT}-")


def ports_of(target: Target) -> tuple[int, ...]:
    """Where a run shows figures."""
    exposes = () if target.order is None else target.order.exposes
    return tuple(each.port for each in exposes if each.port and is_metrics(each.name))[:MAX_PORTS]


class Scraper:
    """`run` for good. `offer` takes samples with the labels of a run added."""

    def __init__(
        self,
        targets: Callable[[], Iterable[Target]],
        offer: Callable[[Target, Iterable[Shown]], None],
        connect: Connect,
        refused: type[Exception],
    ) -> None:
        self._targets = targets
        self._offer = offer
        self._connect = connect
        self._expected = (refused, OSError, TimeoutError, ValueError, EOFError, asyncio.LimitOverrunError)
        self._places = asyncio.Semaphore(AT_A_TIME)

    async def run(self) -> None:
        """Never returns."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.turn()

    async def turn(self) -> None:
        asked = [(target, port) for target in list(self._targets()) for port in ports_of(target)]
        await asyncio.gather(*(self._ask(target, port) for target, port in asked))

    async def _ask(self, target: Target, port: int) -> None:
        """A run that does not answer has no figures, and that is all."""
        if target.key is None:
            return
        async with self._places:
            with contextlib.suppress(*self._expected):
                async with asyncio.timeout(WITHIN_S):
                    reader, writer = await self._connect(target.key, port)
                    with contextlib.closing(writer):
                        text = await _get(reader, writer, port)
                self._offer(target, parse(text))


async def _get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> str:
    """The page; raises ValueError for what is none."""
    # HTTP/1.0: the answer ends with the connection, and is not in chunks.
    writer.write(f"GET /metrics HTTP/1.0\r\nHost: localhost:{port}\r\nAccept: text/plain\r\n\r\n".encode())
    await writer.drain()
    answer = b""
    while piece := await reader.read(1 << 16):
        answer += piece
        if len(answer) > MAX_BYTES:
            raise ValueError("the page is too large")
    head, _, body = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not words[0].startswith(b"HTTP/") or words[1:2] != [b"200"]:
        raise ValueError("not a page of figures")
    return body.decode("utf-8", "replace")


def samples_of_shown(shown: Iterable[Shown], own: dict[str, str], at_ms: int) -> list[Sample]:
    """Labels of the node's win over those of the same name in the page."""
    return [Sample(each.name, labelled({**each.labels, **own}), each.value, at_ms) for each in shown]
