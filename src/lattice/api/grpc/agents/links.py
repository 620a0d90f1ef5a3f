"""The open streams, one per node: what is queued for each, and who reads output through it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

from msgspec.structs import replace

from lattice.api.grpc.agents.bulk import BulkTable
from lattice.api.grpc.agents.telemetry import TelemetryReaders, answers
from lattice.core.model.nodes.health import HealthReport
from lattice.core.model.site.protocols import IMAGES, LOGS, MEASURE, TELEMETRY, TUNNELS
from lattice.ports.nodes.agents import AgentUnreachable, Order, OutputName, OutputPiece, OutputUnavailable, RunKey
from lattice.ports.nodes.checkpoints import CheckpointOrder
from lattice.ports.nodes.collecting import CollectingOrder
from lattice.ports.nodes.images import ImagesAsk, NodeImagesTold
from lattice.ports.nodes.measures import GroupUse, NodeUse
from lattice.ports.nodes.steps import AnyStepOrder, InputPiece, StepOrder, StepRefused
from lattice.ports.nodes.telemetry import TelemetryAsk, TelemetryTold
from lattice.wire.agents.messages import IMAGES_ASK, RUN_KEY, STEP_KEY, order_message
from lattice.wire.agents.telemetry import TELEMETRY_ASK
from lattice.wire.pb import agent_pb2 as pb

OUTBOX_MAX = 20_000
# A start carries script and environment; an agent that reads nothing must not fill the memory with repeated ones.
OUTBOX_BYTES_MAX = 64 << 20
# Of one message that holds others: far below what a stream takes, and enough for a whole cycle's orders.
BATCH_MAX = 128
BATCH_BYTES = 256 << 10
# An agent that has its acknowledgement late only keeps a little longer what it need not: worth a message less.
ACK_WITHIN_S = 0.02
CHUNKS_MAX = 64
INPUT_WITHIN_S = 10.0
MEASURED_WITHIN_S = 5.0
IMAGES_WITHIN_S = 10.0  # it reads a folder, and removes files
_ALONE = ("welcome", "goodbye")
_STREAMS: dict[OutputName, pb.OutputStream] = {
    "stdout": pb.OUTPUT_STREAM_STDOUT,
    "stderr": pb.OUTPUT_STREAM_STDERR,
}


T = TypeVar("T")


class OutputReader:
    """One reading of one file. Holds a bounded number of chunks: what comes beyond is dropped and asked for again."""

    def __init__(self) -> None:
        self.chunks: deque[pb.OutputChunk] = deque()
        self.is_cut = False  # chunks were dropped since the last request
        self.is_lost = False  # the stream ended
        self._arrived = asyncio.Event()

    def take(self, chunk: pb.OutputChunk) -> bool:
        """Keeps the chunk; False when it had to be dropped."""
        if self.is_cut or len(self.chunks) >= CHUNKS_MAX:
            self.is_cut = True
            return False
        self.chunks.append(chunk)
        self._arrived.set()
        return True

    def lose(self) -> None:
        self.is_lost = True
        self._arrived.set()

    async def next_chunk(self) -> pb.OutputChunk | None:
        """The next chunk; None when the rest was cut off and must be asked for again."""
        while not self.chunks:
            if self.is_cut:
                return None
            if self.is_lost:
                raise AgentUnreachable("the connection to the node was lost")
            self._arrived.clear()
            await self._arrived.wait()
        return self.chunks.popleft()


class Link:
    """One stream: messages wait here until they are written."""

    def __init__(self, node: str, *, takes_batches: bool = False, features: Collection[str] = ()) -> None:
        self.node = node
        self.features = features
        self._takes_batches = takes_batches
        self._acks: list[pb.ServerMessage] = []
        self._ack_timer: asyncio.TimerHandle | None = None
        self.is_confirmed = False
        self.is_closing = False
        self.closing = asyncio.Event()
        self.readers: dict[int, OutputReader] = {}
        self.inputs: dict[int, asyncio.Future[pb.StepInputTaken]] = {}
        self.checks: dict[int, asyncio.Future[HealthReport]] = {}
        self.figures: dict[int, asyncio.Future[NodeUse]] = {}
        self.images: dict[int, asyncio.Future[NodeImagesTold]] = {}
        self.logs: dict[int, asyncio.Future[list[str]]] = {}
        self.telemetry = TelemetryReaders()
        self._outbox: deque[pb.ServerMessage] = deque()
        self._outbox_bytes = 0
        self._wake = asyncio.Event()

    def put(self, message: pb.ServerMessage) -> bool:
        """Queues a message; False when the stream is closing or its queue is full."""
        if self.is_closing or len(self._outbox) >= OUTBOX_MAX or self._outbox_bytes >= OUTBOX_BYTES_MAX:
            return False
        self._flush_acks()
        self._append(message)
        return True

    def acknowledge(self, acks: Iterable[pb.ReportAck]) -> None:
        """Sends them with the next message, or by themselves before long."""
        self._acks += [pb.ServerMessage(report_ack=ack) for ack in acks]
        if not self._takes_batches or len(self._acks) >= BATCH_MAX:
            self._flush_acks()
        elif self._acks and self._ack_timer is None:
            self._ack_timer = asyncio.get_running_loop().call_later(ACK_WITHIN_S, self._flush_acks)

    def _flush_acks(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        acks, self._acks = self._acks, []
        if not self.is_closing:
            for ack in acks[: max(0, OUTBOX_MAX - len(self._outbox))]:
                self._append(ack)

    def _append(self, message: pb.ServerMessage) -> None:
        self._outbox.append(message)
        self._outbox_bytes += message.ByteSize()
        self._wake.set()

    def close(self, why: str) -> None:
        """Says goodbye behind what is queued; nothing more is taken."""
        if self.is_closing:
            return
        self.is_confirmed = False
        self._flush_acks()
        self._append(pb.ServerMessage(goodbye=pb.Goodbye(why=why)))
        self.is_closing = True
        self.closing.set()

    async def next_message(self) -> pb.ServerMessage | None:
        """The next message to write; None after the goodbye."""
        while not self._outbox:
            if self.is_closing:
                return None
            self._wake.clear()
            await self._wake.wait()
        message, size = self._pop()
        if not self._takes_batches or not self._is_next_batched(size) or message.WhichOneof("body") in _ALONE:
            return message
        several = pb.Batch(messages=[message])
        while self._is_next_batched(size) and len(several.messages) < BATCH_MAX:
            message, more = self._pop()
            several.messages.append(message)
            size += more
        return pb.ServerMessage(batch=several)

    def _pop(self) -> tuple[pb.ServerMessage, int]:
        message = self._outbox.popleft()
        size = message.ByteSize()
        self._outbox_bytes -= size
        return message, size

    def _is_next_batched(self, size: int) -> bool:
        """Whether the next message may go along with others of this size."""
        if not self._outbox or self._outbox[0].WhichOneof("body") in _ALONE:
            return False
        return size + self._outbox[0].ByteSize() <= BATCH_BYTES

    def take_chunk(self, chunk: pb.OutputChunk) -> None:
        reader = self.readers.get(chunk.reader)
        if reader is None or not reader.take(chunk):
            self.put(pb.ServerMessage(stop_reading=pb.StopReading(reader=chunk.reader)))

    def lose(self) -> None:
        """The stream is gone."""
        self.is_closing = True
        self.is_confirmed = False
        self._flush_acks()
        self.closing.set()
        self._wake.set()
        for reader in self.readers.values():
            reader.lose()
        self.telemetry.lose()
        everybody: list[asyncio.Future[Any]] = [*self.inputs.values(), *self.checks.values(), *self.figures.values()]
        for waiting in (*everybody, *self.images.values(), *self.logs.values()):
            if not waiting.done():
                waiting.set_exception(AgentUnreachable("the connection to the node was lost"))

    def take_input(self, taken: pb.StepInputTaken) -> None:
        waiting = self.inputs.pop(taken.ticket, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(taken)

    def take_figures(self, ticket: int, use: NodeUse) -> None:
        waiting = self.figures.pop(ticket, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(use)

    def take_images(self, ticket: int, told: NodeImagesTold) -> None:
        waiting = self.images.pop(ticket, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(told)

    def take_log(self, told: pb.LogTold) -> None:
        waiting = self.logs.pop(told.ticket, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(list(told.lines))

    def take_health(self, report: HealthReport, server_time_ms: int) -> None:
        """Acknowledges a report, and answers those who asked for it."""
        self.put(pb.ServerMessage(health_ack=pb.HealthAck(seq=report.seq, server_time_ms=server_time_ms)))
        for ticket in report.tickets:
            waiting = self.checks.pop(ticket, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(report)

    async def answer(
        self, asked: pb.ServerMessage, waiting: dict[int, asyncio.Future[T]], ticket: int, within_s: float
    ) -> T:
        """What the node answers under this ticket. Raises AgentUnreachable, and TimeoutError when it does not answer in time."""
        if not self.put(asked):
            raise AgentUnreachable(f"node {self.node} is not connected")
        waiting[ticket] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(within_s):
                return await waiting[ticket]
        finally:
            waiting.pop(ticket, None)


class AgentLinkTable:
    """Implements `AgentLinks` over the open streams."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}
        self._reader_ids = count(1)
        self.bulk = BulkTable(self._order_bulk)

    def adopt(self, link: Link) -> None:
        """Makes this the node's stream; an older one is closed."""
        older = self._links.get(link.node)
        if older is not None and older is not link:
            older.close("replaced by a newer stream")
        self._links[link.node] = link

    def reached(self) -> frozenset[RunKey]:
        return self.bulk.reached()

    def drop(self, link: Link) -> None:
        link.lose()
        if self._links.get(link.node) is link:
            del self._links[link.node]

    def send(self, node: str, order: Order) -> bool:
        link = self._links.get(node)
        return link is not None and link.is_confirmed and link.put(order_message(order))

    def ask_checkpoint(self, node: str, order: CheckpointOrder) -> bool:
        link = self._links.get(node)
        return link is not None and link.is_confirmed and link.put(order_message(order))

    def _order_bulk(self, node: str, message: pb.ServerMessage) -> bool | None:
        link = self._links.get(node)
        if link is None or not link.is_confirmed:
            return None
        return TUNNELS in link.features and link.put(message)

    def is_connected(self, node: str) -> bool:
        link = self._links.get(node)
        return link is not None and link.is_confirmed

    def connected(self) -> frozenset[str]:
        return frozenset(node for node, link in self._links.items() if link.is_confirmed)

    def close(self, node: str, why: str) -> None:
        link = self._links.get(node)
        if link is not None:
            link.close(why)

    async def read_output(
        self,
        node: str,
        number: int,
        run: int,
        stream: OutputName,
        *,
        offset: int = 0,
        tail_lines: int = 0,
        follow: bool = False,
    ) -> AsyncIterator[OutputPiece]:
        ask = pb.ReadOutput(
            key=pb.RunKey(number=number, run=run),
            stream=_STREAMS[stream],
            offset=offset,
            tail_lines=tail_lines,
            follow=follow,
        )
        async for piece in self._pieces(node, ask):
            yield piece

    def refresh_inventory(self, node: str) -> bool:
        link = self._links.get(node)
        return link is not None and link.put(pb.ServerMessage(refresh_inventory=pb.RefreshInventory()))

    def order_step(self, node: str, order: AnyStepOrder) -> bool:
        link = self._links.get(node)
        return link is not None and link.is_confirmed and link.put(order_message(order))

    def order_collecting(self, node: str, order: CollectingOrder) -> bool:
        link = self._links.get(node)
        return link is not None and link.is_confirmed and link.put(order_message(order))

    def read_journal(self, node: str, order: StepOrder, *, offset: int, follow: bool) -> AsyncIterator[OutputPiece]:
        key = RUN_KEY.write(order.key.of_run)
        return self._pieces(node, pb.ReadOutput(key=key, step=order.key.step, offset=offset, follow=follow))

    async def feed_step(self, node: str, order: StepOrder, piece: InputPiece) -> int:
        link = self._links.get(node)
        ticket = next(self._reader_ids)
        key = STEP_KEY.write(order.key)
        fed = pb.StepInput(key=key, ticket=ticket, offset=piece.offset, data=piece.data, eof=piece.eof)
        fed.client = piece.client
        if piece.task is not None:
            fed.task = piece.task
        if link is None or not link.put(pb.ServerMessage(step_input=fed)):
            raise AgentUnreachable(f"node {node} is not connected")
        waiting = link.inputs[ticket] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(INPUT_WITHIN_S):
                taken: pb.StepInputTaken = await waiting
        except TimeoutError:
            raise AgentUnreachable(f"node {node} does not answer") from None
        finally:
            link.inputs.pop(ticket, None)
        if taken.error:
            raise StepRefused("conflict", taken.error)
        return taken.upto

    async def run_checks(self, node: str, names: Sequence[str], *, within_s: float) -> HealthReport:
        link = self._connected(node)
        ticket = next(self._reader_ids)
        asked = pb.ServerMessage(run_checks=pb.RunChecks(ticket=ticket, names=names))
        try:
            return await link.answer(asked, link.checks, ticket, within_s)
        except TimeoutError:
            raise AgentUnreachable(f"node {node} did not run its checks within {within_s:g} s") from None

    async def measure(self, node: str, key: RunKey | None = None) -> tuple[GroupUse, ...]:
        return (await self._measure(node, key)).groups

    async def measure_node(self, node: str) -> NodeUse:
        return await self._measure(node, None)

    async def _measure(self, node: str, key: RunKey | None) -> NodeUse:
        link = self._connected(node)
        if MEASURE not in link.features:
            return NodeUse()
        ticket = next(self._reader_ids)
        asked = pb.Measure(ticket=ticket, key=None if key is None else RUN_KEY.write(key))
        try:
            return await link.answer(pb.ServerMessage(measure=asked), link.figures, ticket, MEASURED_WITHIN_S)
        except TimeoutError:
            raise AgentUnreachable(f"node {node} does not answer") from None

    async def ask_images(self, node: str, ask: ImagesAsk) -> NodeImagesTold:
        link = self._connected(node)
        if IMAGES not in link.features:
            raise AgentUnreachable(f"the agent of node {node} is of a release that does not tell of its images")
        ticket = next(self._reader_ids)
        asked = IMAGES_ASK.write(ask)
        asked.ticket = ticket
        try:
            return await link.answer(pb.ServerMessage(ask_images=asked), link.images, ticket, IMAGES_WITHIN_S)
        except TimeoutError:
            raise AgentUnreachable(f"node {node} does not answer") from None

    async def read_log(self, node: str, since_s: float) -> list[str]:
        link = self._connected(node)
        if LOGS not in link.features:
            raise AgentUnreachable(f"the agent of node {node} is of a release that does not send its log")
        ticket = next(self._reader_ids)
        asked = pb.AskLog(ticket=ticket, since_s=since_s)
        try:
            return await link.answer(pb.ServerMessage(ask_log=asked), link.logs, ticket, MEASURED_WITHIN_S)
        except TimeoutError:
            raise AgentUnreachable(f"node {node} does not answer") from None

    async def ask_telemetry(self, node: str, ask: TelemetryAsk) -> TelemetryTold:
        async for told in self.follow_telemetry(node, replace(ask, follow=False)):
            return told
        raise AgentUnreachable(f"node {node} does not answer")

    async def follow_telemetry(self, node: str, ask: TelemetryAsk) -> AsyncIterator[TelemetryTold]:
        link = self._connected(node)
        if TELEMETRY not in link.features:
            raise AgentUnreachable(f"the agent of node {node} is of a release that does not measure")
        ticket = next(self._reader_ids)
        asked = TELEMETRY_ASK.write(ask)
        asked.ticket = ticket
        reader = link.telemetry.open(ticket)
        try:
            if not link.put(pb.ServerMessage(ask_telemetry=asked)):
                raise AgentUnreachable(f"node {node} is not connected")
            async for told in answers(reader, node):
                yield told
                if not ask.follow:
                    return
        finally:
            link.telemetry.close(ticket)
            if ask.follow:
                link.put(pb.ServerMessage(stop_telemetry=pb.StopTelemetry(ticket=ticket)))

    def _connected(self, node: str) -> Link:
        link = self._links.get(node)
        if link is None:
            raise AgentUnreachable(f"node {node} is not connected")
        return link

    async def _pieces(self, node: str, ask: pb.ReadOutput) -> AsyncIterator[OutputPiece]:
        while True:
            is_complete = False
            async for chunk in self._chunks(node, ask):
                if chunk.error:
                    raise OutputUnavailable(chunk.error)
                ask.offset = chunk.offset + len(chunk.data)
                ask.tail_lines = 0
                is_complete = chunk.eof
                if chunk.data:
                    marks = tuple(zip(chunk.marks[::2], chunk.marks[1::2], strict=False))
                    yield OutputPiece(offset=chunk.offset, data=chunk.data, marks=marks)
            if is_complete:
                return

    async def _chunks(self, node: str, ask: pb.ReadOutput) -> AsyncIterator[pb.OutputChunk]:
        """Chunks of one request, up to its end or to where chunks were dropped."""
        link = self._links.get(node)
        reader_id = next(self._reader_ids)
        request = pb.ReadOutput()
        request.CopyFrom(ask)
        request.reader = reader_id
        if link is None or not link.put(pb.ServerMessage(read_output=request)):
            raise AgentUnreachable(f"node {node} is not connected")
        reader = link.readers[reader_id] = OutputReader()
        is_over = False
        try:
            while (chunk := await reader.next_chunk()) is not None:
                is_over = chunk.eof or bool(chunk.error)
                yield chunk
                if is_over:
                    return
        finally:
            del link.readers[reader_id]
            if not is_over:
                link.put(pb.ServerMessage(stop_reading=pb.StopReading(reader=reader_id)))
