"""Work that is asked by gRPC: it registers or listens, estimates, reports progress, puts off, and answers; also to an agent that follows."""

import asyncio
import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from lattice.agent.checkpoints import doors, talk, watching
from lattice.agent.checkpoints.control import (
    SOCKET,
    Request,
    control_folder,
    read_request,
    was_hinted,
    were_registered,
    write_request,
)
from lattice.agent.checkpoints.doors import ASK, REGISTER, Doors
from lattice.testing import scenario
from lattice.wire.agents.messages import order_message
from lattice.wire.pb import checkpoints_pb2 as pb
from lattice_sdk.checkpoints import registered
from lattice_sdk.checkpoints.program import CheckpointRequest, Checkpoints
from tests.unit.agent.checkpoints.checkpoint_node import KEY, OWNER, Node

GRPC = {"protocol": "grpc", "max_deferral_s": 30.0}


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a name that is short enough for the path of a socket."""
    with tempfile.TemporaryDirectory(prefix="lattice-") as name:
        yield Path(name)


def socket_of(node: Node) -> Path:
    return control_folder(node.state, KEY) / SOCKET


class Program:
    """A program with the helper of the client library, in a thread of its own; `act` carries a request out."""

    def __init__(self, node: Node, act: Callable[[CheckpointRequest], None]) -> None:
        self.seen: list[CheckpointRequest] = []
        self._act = act
        self._node = node
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        way = {"LATTICE_CHECKPOINT_PROTOCOL": "grpc", "LATTICE_CHECKPOINT_SOCKET": str(socket_of(self._node))}
        checkpoints = Checkpoints(way)
        while not self._ends.wait(0.005):
            if request := checkpoints.requested():
                self.seen.append(request)
                self._act(request)

    def end(self) -> None:
        self._ends.set()
        self._thread.join(10)


@contextlib.asynccontextmanager
async def opened(node: Node, callers: int = 1) -> AsyncIterator[Doors]:
    """The door of the run, and so many processes that have come through it once the caller has started them."""
    await node.doors.open(KEY, OWNER)
    try:
        yield node.doors
    finally:
        await node.doors.close_all()


async def arrived(node: Node, count: int) -> None:
    async with asyncio.timeout(60):
        while len(node.doors._open[KEY].callers) != count:  # noqa: ASYNC110 - from another thread
            await asyncio.sleep(0.01)


def writes(request: CheckpointRequest) -> None:
    (request.path / "state").write_bytes(b"x" * 100)
    request.done()


@scenario
async def test_work_that_registered_is_asked_and_says_that_it_is_done(place: Path) -> None:
    node = Node(place)
    async with opened(node):
        assert oct(socket_of(node).stat().st_mode & 0o777) == "0o600"
        program = Program(node, writes)
        await arrived(node, 1)
        told = await node.answer(node.order(**GRPC))
        assert (told.phase, told.bytes, node.hints) == ("done", 100, 0)
        request = read_request(control_folder(node.state, KEY))
        assert request is not None
        (seen,) = program.seen
        assert (seen.n, str(seen.path), seen.reason, seen.deadline) == (1, request.path, "user", request.deadline)
        assert (await node.answer(node.order(n=2, **GRPC))).phase == "done"
        assert [each.n for each in program.seen] == [1, 2]
        program.end()


@scenario
async def test_work_that_did_not_register_cannot_be_asked_and_nothing_is_left(place: Path) -> None:
    node = Node(place)
    async with opened(node):
        told = await node.answer(node.order(**GRPC))
        assert (told.phase, told.message) == ("nothing", "none of its processes has registered for checkpoints")
        assert (node.path.exists(), read_request(control_folder(node.state, KEY))) == (False, None)
        program = Program(node, writes)
        await arrived(node, 1)
        assert (await node.answer(node.order(**GRPC))).phase == "done", "the same number, once it can answer"
        program.end()


@scenario
async def test_all_who_registered_have_to_be_done_and_one_that_fails_fails_it(place: Path) -> None:
    node, go = Node(place), threading.Event()

    def waits(request: CheckpointRequest) -> None:
        assert go.wait(20)
        request.done()

    async with opened(node):
        programs = [Program(node, writes), Program(node, waits)]
        await arrived(node, 2)
        node.made.received(order_message(node.order(**GRPC)))
        await until(lambda: all(program.seen for program in programs))
        await asyncio.sleep(0.2)
        assert node.reports == []
        go.set()
        async with asyncio.timeout(60):
            await node.said.wait()
        assert node.reports[-1].phase == "done"
        programs.append(Program(node, lambda request: request.failed("disk\x1b full\n")))
        await arrived(node, 3)
        told = await node.answer(node.order(n=2, **GRPC))
        assert (told.phase, told.message) == ("failed", "disk full")
        for program in programs:
            program.end()


async def until(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - from another thread
            await asyncio.sleep(0.01)


@scenario
async def test_work_puts_a_checkpoint_off_until_it_may_no_longer(place: Path) -> None:
    node, deferred = Node(place), list[bool]()

    def later(request: CheckpointRequest) -> None:
        deferred.append(request.defer(0.3))
        if not deferred[-1]:
            request.done()

    async with opened(node):
        program = Program(node, later)
        await arrived(node, 1)
        told = await node.answer(node.order(protocol="grpc", max_deferral_s=0.7))
        assert (told.phase, deferred[0], deferred[-1]) == ("done", True, False)
        assert told.elapsed_s >= 0.7
        first, last = program.seen[0], program.seen[-1]
        assert (first.n, last.n, last.may_defer_s) == (1, 1, 0.0)
        assert last.deadline > first.deadline + 0.5, "it has its whole time from then on"
        program.end()


@scenario
async def test_a_deferral_that_is_not_granted_gives_no_more_time(place: Path) -> None:
    node = Node(place)
    async with opened(node), grpc.aio.insecure_channel(f"unix:{socket_of(node)}") as channel:
        call = channel.stream_stream(REGISTER, pb.CheckpointAnswer.SerializeToString, pb.CheckpointAsked.FromString)(
            None
        )
        await call.write(pb.CheckpointAnswer())
        await arrived(node, 1)
        node.made.received(order_message(node.order(protocol="grpc", timeout_s=3.0)))
        asked: Any = await call.read()
        assert (asked.n, asked.may_defer_s) == (1, 0.0)
        await call.write(pb.CheckpointAnswer(n=1, defer_s=float("inf")))
        again: Any = await call.read()
        assert (again.n, again.may_defer_s) == (1, 0.0), "it hears at once that it has to write"
        async with asyncio.timeout(60):
            await node.said.wait()
        assert node.reports[-1].message.startswith("not complete within")
        call.cancel()


@scenario
async def test_what_cannot_be_done_in_time_is_known_at_once(place: Path) -> None:
    node = Node(place)
    async with opened(node):
        program = Program(node, lambda request: request.estimate(10_000))
        await arrived(node, 1)
        begun = time.monotonic()
        told = await node.answer(node.order(timeout_s=300.0, **GRPC))
        assert (told.phase, "more, and has" in told.message) == ("failed", True)
        assert time.monotonic() - begun < 30, "not only at its deadline"
        program.end()


@scenario
async def test_progress_gives_half_as_long_again(place: Path) -> None:
    node = Node(place)

    def slowly(request: CheckpointRequest) -> None:
        """Until it has got more time."""
        for step in range(1000):
            request.progress(step)
            time.sleep(0.02)
            written = read_request(control_folder(node.state, KEY))
            if written is not None and written.deadline > request.deadline:
                break
        request.done()

    async with opened(node):
        program = Program(node, slowly)
        await arrived(node, 1)
        told = await node.answer(node.order(protocol="grpc", timeout_s=4.0))
        assert (told.phase, told.elapsed_s > 4.0) == ("done", True)
        program.end()


@scenario
async def test_the_agent_that_follows_hears_the_answer_of_everyone_who_was_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, go = Node(place), threading.Event()

    def waits(request: CheckpointRequest) -> None:
        assert go.wait(20)
        request.done()

    await node.doors.open(KEY, OWNER)
    programs = [Program(node, writes), Program(node, waits)]
    await arrived(node, 2)
    node.made.received(order_message(node.order(**GRPC)))
    await until(lambda: all(program.seen for program in programs))
    await until(lambda: (control_folder(node.state, KEY) / "hinted").exists())
    for task in list(node.tasks):
        task.cancel()
    await node.doors.close_all()
    socket_of(node).touch()  # as after kill -9
    heir = node.agent()
    await node.doors.recall([KEY])
    node.said.clear()
    assert heir.received(order_message(node.order(**GRPC)))
    await arrived(node, 2)
    await asyncio.sleep(0.3)
    assert node.reports == [], "the first one is done again, the second is awaited"
    go.set()
    async with asyncio.timeout(60):
        await node.said.wait()
    assert node.reports[-1].phase == "done"
    assert [len(program.seen) for program in programs] == [1, 1], "nobody was given the request again"
    for program in programs:
        program.end()
    await node.doors.close_all()


@scenario
async def test_what_an_agent_that_follows_needs_is_noted_before_the_request_is_in_place(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to write between the request and the word to the work."""
    node, noted = Node(place), list[tuple[int, bool]]()

    def placed(folder: Path, request: Request, gid: int) -> None:
        noted.append((were_registered(folder, request.n), was_hinted(folder, request.n)))
        write_request(folder, request, gid)

    monkeypatch.setattr(watching, "write_request", placed)
    async with opened(node):
        programs = [Program(node, writes), Program(node, writes)]
        await arrived(node, 2)
        assert (await node.answer(node.order(**GRPC))).phase == "done"
        assert noted == [(2, True)]
        for program in programs:
            program.end()


@scenario
async def test_a_process_that_goes_without_an_answer_fails_the_checkpoint(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk, "ABSENT_S", 0.3)
    node = Node(place)
    async with opened(node):
        program = Program(node, writes)
        async with grpc.aio.insecure_channel(f"unix:{socket_of(node)}") as channel:
            call = channel.stream_stream(REGISTER, None, None)(None)
            await call.write(b"")
            await arrived(node, 2)
            node.made.received(order_message(node.order(**GRPC)))
            await call.read()
            call.cancel()
        async with asyncio.timeout(60):
            await node.said.wait()
        assert node.reports[-1].message == "a process went away without an answer"
        program.end()


@contextlib.asynccontextmanager
async def listening(node: Node, answers: Callable[[pb.CheckpointAsked], list[Any]]) -> AsyncIterator[list[Any]]:
    """Work that serves Ask on a port of its own, and what it was asked."""
    heard: list[Any] = []

    async def ask(request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        heard.append(request)
        for answer in answers(request):
            yield answer

    server = grpc.aio.server()
    service, method = ASK.strip("/").split("/")
    handler = grpc.unary_stream_rpc_method_handler(
        ask, pb.CheckpointAsked.FromString, pb.CheckpointAnswer.SerializeToString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
    node.port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield heard
    finally:
        await server.stop(None)


@scenario
async def test_work_that_listens_is_called_and_called_again_after_a_deferral(place: Path) -> None:
    node, deferred = Node(place), list[float]()

    def answers(asked: pb.CheckpointAsked) -> list[Any]:
        if not deferred:
            deferred.append(asked.may_defer_s)
            return [pb.CheckpointAnswer(n=asked.n, defer_s=0.2)]
        return [pb.CheckpointAnswer(n=asked.n, per_mille=500), pb.CheckpointAnswer(n=asked.n, done=True)]

    async with listening(node, answers) as heard:
        told = await node.answer(node.order(port=node.port, **GRPC))
        assert (told.phase, [each.n for each in heard]) == ("done", [1, 1])
        assert deferred[0] > 0
        node.alive = True
        silent = await node.answer(node.order(n=2, port=node.port, **{**GRPC, "max_deferral_s": 0.0}))
        assert silent.phase == "done"
    await node.doors.close_all()


@scenario
async def test_nobody_but_the_run_is_called(place: Path) -> None:
    node = Node(place)
    async with listening(node, lambda asked: [pb.CheckpointAnswer(n=asked.n, done=True)]) as heard:
        told = await node.answer(node.order(port=node.port + 1, **GRPC))
        assert (told.phase, "listens on port" in told.message, heard) == ("nothing", True, [])
        usual, looks = node._listens, list[int]()

        async def changes(key: Any, port: int) -> tuple[str, int]:  # noqa: ANN401
            looks.append(port)
            node.inode = len(looks)
            return await usual(key, port)

        node.doors._listens = changes
        told = await node.answer(node.order(port=node.port, **GRPC))
        assert (told.phase, "has changed" in told.message) == ("failed", True)
    await node.doors.close_all()


@scenario
async def test_a_call_that_ends_without_an_answer_has_failed(place: Path) -> None:
    node = Node(place)
    async with listening(node, lambda asked: [pb.CheckpointAnswer(n=asked.n, per_mille=1)]):
        told = await node.answer(node.order(port=node.port, **GRPC))
        assert (told.phase, told.message) == ("failed", "it ended the call without an answer")
    with socket.socket() as deaf:  # takes connections, and says nothing
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        node.port = deaf.getsockname()[1]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(doors, "CALL_WITHIN_S", 0.3)
            told = await node.answer(node.order(n=2, port=node.port, **GRPC))
        assert told.phase == "failed"
    await node.doors.close_all()


@scenario
async def test_a_hostile_process_is_bounded(place: Path) -> None:
    """Nonsense, too much, and more streams than there may be, cost it its answers and the agent nothing."""
    node = Node(place)
    async with opened(node), contextlib.AsyncExitStack() as stack:
        program = Program(node, writes)
        await arrived(node, 1)
        channel = await stack.enter_async_context(grpc.aio.insecure_channel(f"unix:{socket_of(node)}"))
        call = channel.stream_stream(REGISTER, None, None)(None)
        for junk in (b"\xff" * 100, b"", os.urandom(2000)):
            await call.write(junk)
        await arrived(node, 2)
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            await call.write(b"x" * (doors.MAX_MESSAGE_BYTES + 1))
        await arrived(node, 1)
        callers, asked = node.doors._open[KEY].callers, doors.MAX_CALLERS * 2
        calls = [channel.stream_stream(REGISTER, None, None)(None) for _ in range(asked)]
        # Each is let in or refused: one that is still on its way would come, and go without an answer, during the request below.
        await until(
            lambda: len(callers) > doors.MAX_CALLERS or len(callers) - 1 + sum(call.done() for call in calls) == asked
        )
        assert doors.MAX_CALLERS // 2 <= len(callers) <= doors.MAX_CALLERS
        for each in calls:
            each.cancel()
        await arrived(node, 1)
        assert (await node.answer(node.order(**GRPC))).phase == "done"
        program.end()


@scenario
async def test_a_path_that_no_socket_can_have_is_refused(place: Path) -> None:
    with pytest.raises(OSError, match="shorter --state-dir"):
        await Doors(place / ("x" * 100), Node(place)._listens).open(KEY, OWNER)


@pytest.mark.parametrize(
    "answer",
    [
        registered.Answer(),
        registered.Answer(n=3, done=True),
        registered.Answer(n=300, estimate_s=2.5, per_mille=999, defer_s=60.0),
        registered.Answer(n=2**32 - 1, failed=True, message="Platte voll: äöü"),
    ],
)
def test_the_helper_writes_what_the_agent_reads(answer: registered.Answer) -> None:
    read = pb.CheckpointAnswer.FromString(registered.encoded(answer))
    assert registered.Answer(*(getattr(read, name) for name in registered.Answer._fields)) == answer


def test_the_helper_reads_what_the_agent_writes() -> None:
    asked = registered.Asked(n=300, path="/scratch/ä/1", deadline=1.75e9, reason="drain", may_defer_s=0.5)
    data = pb.CheckpointAsked(**asked._asdict()).SerializeToString()
    assert registered.decoded(data + bytes((0x7A, 2, 65, 65, 0x71)) + b"12345678" + bytes((0x68, 1))) == asked
    assert registered.decoded(b"") == registered.Asked()
