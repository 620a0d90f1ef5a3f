"""Output on its way to the store: every byte once, whatever dies or is away."""

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from lattice.agent.connection import Outbox
from lattice.agent.runs import signed_store, uploads
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.signed_store import ChunkSink
from lattice.agent.runs.uploads import UNSTORED, OutputUploads
from lattice.agent.shim.journal import Journal
from lattice.agent.shim.output import RingFile, TimeMarks, read_output, read_times
from lattice.agent.steps import uploads as step_uploads
from lattice.agent.steps.folders import StepFolders, StepSpec
from lattice.agent.steps.uploads import StepUploads
from lattice.ports.nodes.agents import RunKey, StartOrder, StepKey
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.testing import scenario
from lattice.wire.files.chunks import CHUNK_BYTES, place_of, unpack
from lattice.wire.pb import agent_pb2 as pb

KEY = RunKey(7, 1)
PREFIX = "chem/-/a7/logs/run-1"


class Killed(BaseException):
    """The agent dies here."""


class Store:
    """Takes objects unless it is away; `dies` is asked before and after each of them."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.is_away = False
        self.dies: Iterator[bool] = itertools.repeat(False)

    async def put(self, name: str, data: bytes) -> None:
        if self.is_away:
            raise ObjectStoreError("away")
        if next(self.dies):
            raise Killed
        self.objects[name] = data
        if next(self.dies):
            raise Killed

    def output(self, stream: str = "stdout") -> tuple[bytes, int]:
        """All that is stored, and how many bytes are missing before or between; fails when a byte is there twice."""
        whole, missing, end = b"", 0, 0
        for name in sorted(self.objects):
            place = place_of(name)
            if place is not None and name.startswith(f"{PREFIX}/{stream}/n1/"):
                assert place.offset >= end, "a byte is there twice"
                missing += place.offset - end
                data, marks = unpack(place, self.objects[name])
                assert place.line == whole.count(b"\n") or missing
                assert marks[0][0] == place.offset
                whole, end = whole + data, place.offset + len(data)
        return whole, missing


class Node:
    def __init__(self, folder: Path, store: Store, *, prefix: str = PREFIX, limit: int = 64 << 20) -> None:
        self.folders, self.store = RunFolders(folder, reachable=False), store
        order = StartOrder(key=KEY, output_prefix=prefix)
        self.folder = self.folders.create(order, (0, 0), "shim")
        self.ring = RingFile(str(self.folder / "stdout"), limit)
        self.live = [KEY]
        self.start_agent()

    def start_agent(self) -> None:
        self.uploads = OutputUploads(self.store, "n1", self.folders, lambda: self.live)
        self.uploads.recall()

    async def turn(self) -> None:
        await self.uploads._turn()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "CHUNK_S", 0.0)


@scenario
async def test_a_chunk_waits_for_its_size_or_its_time(tmp_path: Path) -> None:
    store = Store()
    node = Node(tmp_path, store)
    node.ring.write(b"x" * (CHUNK_BYTES - 1))
    await node.turn()
    assert store.output() == (b"", 0)
    node.ring.write(b"yz")
    await node.turn()
    assert store.output() == (b"x" * (CHUNK_BYTES - 1) + b"y", 0)
    node.live = []
    assert await node.uploads.finish(KEY) == ""
    assert store.output() == (b"x" * (CHUNK_BYTES - 1) + b"yz", 0)


@scenario
async def test_the_end_of_a_run_that_wrote_nothing_waits_for_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = RunFolders(tmp_path, reachable=False)
    folders.create(StartOrder(key=KEY, output_prefix=PREFIX), (0, 0), "shim")
    store = Store()
    monkeypatch.delattr(asyncio, "to_thread")
    assert await OutputUploads(store, "n1", folders, lambda: ()).finish(KEY) == ""
    assert store.objects == {}


@scenario
async def test_the_order_of_a_run_that_wrote_nothing_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store()
    node = Node(tmp_path, store)
    monkeypatch.delattr(RunFolders, "order")
    await node.turn()
    node.live = []
    assert await node.uploads.finish(KEY) == ""
    assert store.objects == {}


@scenario
async def test_an_empty_stream_of_which_the_node_dropped_all_is_not_taken_for_one_without_output(
    tmp_path: Path,
) -> None:
    store = Store()
    node = Node(tmp_path, store, prefix="")
    (node.folder / "stdout").touch()
    (node.folder / "stdout.base").write_bytes(b"10\n")
    assert await node.uploads.finish(KEY) == ""
    assert store.objects == {"logs/7/1/n1.stdout.base": b"10"}


@scenario
async def test_a_fast_writer_is_kept_up_with_in_one_turn(tmp_path: Path) -> None:
    store = Store()
    node = Node(tmp_path, store)
    node.ring.write(b"x" * (7 * CHUNK_BYTES + 1))
    await node.turn()
    assert len(store.objects) == 7


@pytest.mark.parametrize("dies_at", range(12))
def test_an_agent_that_dies_at_any_moment_loses_and_doubles_nothing(
    tmp_path: Path, at_once: None, dies_at: int
) -> None:
    async def story() -> None:
        store = Store()
        store.dies = (index == dies_at for index in itertools.count())
        node, whole = Node(tmp_path, store), b""
        for number in range(5):
            line = b"line %d\n" % number
            whole += line
            node.ring.write(line)
            try:
                await node.turn()
            except Killed:
                node.start_agent()
        node.live = []
        try:
            await node.uploads.finish(KEY)
        except Killed:
            node.start_agent()
            await node.uploads.finish(KEY)
        assert store.output() == (whole, 0)

    asyncio.run(story())


@scenario
async def test_a_store_that_is_away_costs_nothing_while_the_node_has_room(tmp_path: Path) -> None:
    store = Store()
    node = Node(tmp_path, store)
    store.is_away = True
    node.ring.write(b"x" * CHUNK_BYTES)
    await node.turn()
    node.ring.write(b"y\n")
    node.live = []
    assert "was not stored: away" in await node.uploads.finish(KEY)
    assert (node.folder / UNSTORED).exists()
    node.start_agent()
    await node.turn()
    assert store.objects == {}
    store.is_away = False
    await node.turn()
    assert store.output() == (b"x" * CHUNK_BYTES + b"y\n", 0)
    assert not (node.folder / UNSTORED).exists()


@scenario
async def test_what_the_node_had_to_drop_is_a_gap_that_is_counted(tmp_path: Path) -> None:
    store = Store()
    node = Node(tmp_path, store, limit=1000)
    node.ring.write(b"first\n")
    await node.turn()
    for _ in range(300):
        node.ring.write(b"0123456789")
    node.live = []
    assert await node.uploads.finish(KEY) == ""
    kept, missing = store.output()
    assert len(kept) + missing == 3006
    assert 0 < len(kept) <= 1000


@scenario
async def test_a_run_of_an_older_server_is_stored_as_that_server_reads_it(tmp_path: Path) -> None:
    store = Store()
    node = Node(tmp_path, store, prefix="", limit=8)
    node.ring.write(b"0123456789")
    await node.turn()
    assert store.objects == {}
    node.live = []
    assert await node.uploads.finish(KEY) == ""
    base = int(store.objects["logs/7/1/n1.stdout.base"])
    assert store.objects["logs/7/1/n1.stdout"] == b"0123456789"[base:]


@scenario
async def test_a_run_whose_folder_is_gone_is_given_up(tmp_path: Path) -> None:
    store = Store()
    node = Node(tmp_path, store)
    node.ring.write(b"x")
    store.is_away, node.live = True, []
    await node.uploads.finish(KEY)
    node.folders.remove(KEY)
    await node.turn()
    assert node.uploads._late == set()


def test_another_attempt_continues_behind_what_the_one_before_dropped(tmp_path: Path) -> None:
    path = str(tmp_path / "stdout")
    first = RingFile(path, 100)
    for number in range(40):
        first.write(b"%05d" % number)
    first.close()
    begin, _ = read_output(path, 0, 1000)
    assert begin > 0
    second = RingFile(path, 100)
    for number in range(40, 80):
        second.write(b"%05d" % number)
    second.close()
    start, text = read_output(path, 0, 1000)
    assert start > begin
    assert text.endswith(b"00079")
    assert text == b"".join(b"%05d" % number for number in range(start // 5, 80))
    assert start % 5 == 0


def test_times_say_when_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(1_000_000_000, 5_000_000)
    monkeypatch.setattr("lattice.agent.shim.output.time.time_ns", lambda: next(now))
    path = str(tmp_path / "stdout")
    ring = RingFile(path, 1 << 20)
    assert read_times(path, 0, 10) == []
    ring.write(b"abc")
    (only,) = read_times(path, 0, 3)
    assert only[0] == 0, "the time of the file, while there is one mark"
    for _ in range(4):
        ring.write(b"abc")
    assert read_times(path, 0, 15) == [(0, 1000), (3, 1005), (6, 1010), (9, 1015), (12, 1020)]
    assert read_times(path, 4, 10) == [(3, 1005), (6, 1010), (9, 1015)]
    assert read_times(path, 14, 15) == [(12, 1020)]
    assert read_times(path, 100, 200) == [(12, 1020)]


def test_old_times_go_when_there_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = itertools.count(1_000_000_000, 1_000_000)
    monkeypatch.setattr("lattice.agent.shim.output.time.time_ns", lambda: next(now))
    monkeypatch.setattr("lattice.agent.shim.output.TIMES_LIMIT_BYTES", 64)
    path = str(tmp_path / "stdout")
    marks = TimeMarks(path)
    for position in range(11):
        marks.note(position)
    marks.close()
    assert read_times(path, 0, 100) == [(position, 1000 + position) for position in range(4, 11)]
    assert read_times(path, 9, 10) == [(9, 1009)]


class Refusing(Store):
    """Never takes what lies below these."""

    def __init__(self, *prefixes: str) -> None:
        super().__init__()
        self.prefixes = prefixes

    async def put(self, name: str, data: bytes) -> None:
        if name.startswith(self.prefixes):
            raise ObjectStoreError("refused")
        await super().put(name, data)


@pytest.mark.usefixtures("at_once")
@scenario
async def test_runs_whose_output_is_refused_do_not_keep_that_of_others_from_the_store(tmp_path: Path) -> None:
    store = Refusing("a/", "b/")
    folders = RunFolders(tmp_path, reachable=False)
    keys = [RunKey(number, 1) for number in (1, 2, 3)]
    for key, prefix in zip(keys, ("a/logs", "b/logs", "c/logs"), strict=True):
        folder = folders.create(StartOrder(key=key, output_prefix=prefix), (0, 0), "shim")
        RingFile(str(folder / "stdout"), 1 << 20).write(b"text")
    node = OutputUploads(store, "n1", folders, lambda: keys)
    for _ in keys:
        await node._turn()
    assert [name[:2] for name in store.objects] == ["c/"]


@pytest.mark.usefixtures("at_once")
@scenario
async def test_steps_whose_output_is_refused_do_not_keep_that_of_others_from_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_uploads, "CHUNK_S", 0.0)
    store, folders = Refusing("a/", "b/"), StepFolders(tmp_path, reachable=False)
    for number, prefix in ((1, "a/logs"), (2, "b/logs"), (3, "c/logs")):
        spec = StepSpec(launch_id="x", plan=b"", ranks=(0,), output_prefix=prefix)
        folder = folders.create(StepKey(number, 1, 0), spec, "", (0, 0))
        Journal(str(folder), 1 << 20).write(1, 0, b"text")
    node = StepUploads(ChunkSink(store), "n1", folders)
    for _ in range(3):
        with contextlib.suppress(ObjectStoreError):
            await node.turn()
    assert [name[:2] for name in store.objects] == ["c/"]


@scenario
async def test_a_step_that_never_stops_writing_leaves_the_others_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_uploads, "CHUNK_S", 0.0)
    store, folders = Store(), StepFolders(tmp_path, reachable=False)
    journals = []
    for number in (1, 2):
        spec = StepSpec(launch_id="x", plan=b"", ranks=(0,), output_prefix=f"{number}/logs")
        journals.append(Journal(str(folders.create(StepKey(number, 1, 0), spec, "", (0, 0))), 1 << 20))
        journals[-1].write(1, 0, b"text")
    monkeypatch.setattr(Store, "put", _and_write(Store.put, journals[0]))
    await StepUploads(ChunkSink(store), "n1", folders).turn()
    assert {name[:2] for name in store.objects} == {"1/", "2/"}


def _and_write(
    put: Callable[[Store, str, bytes], Awaitable[None]], journal: Journal
) -> Callable[[Store, str, bytes], Awaitable[None]]:
    async def both(store: Store, name: str, data: bytes) -> None:
        await put(store, name, data)
        journal.write(1, 0, b"more")

    return both


@scenario
async def test_a_server_that_does_not_sign_holds_up_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_store, "ANSWER_WITHIN_S", 0.01)
    folders = RunFolders(tmp_path, reachable=False)
    folder = folders.create(StartOrder(key=KEY, output_prefix=PREFIX, upload_grant="granted"), (0, 0), "shim")
    RingFile(str(folder / "stdout"), 1 << 20).write(b"text")
    node = OutputUploads(None, "n1", folders, lambda: ())
    node.sink.signed.opened(Outbox())
    node.sink.signed.received(pb.ServerMessage(welcome=pb.Welcome(signs_uploads=True)))
    async with asyncio.timeout(20):
        assert await node.finish(KEY) == "its output was not stored: the server did not sign in time"
    assert (folder / UNSTORED).exists()


@pytest.mark.usefixtures("at_once")
@scenario
async def test_output_of_a_step_is_stored_that_was_made_while_nothing_was_left_to_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(step_uploads, "CHUNK_S", 0.0)
    monkeypatch.setattr(step_uploads, "POLL_S", 0.0)
    store, folders, turns = Store(), StepFolders(tmp_path, reachable=False), asyncio.Semaphore(0)
    node = StepUploads(ChunkSink(store), "n1", folders)
    turn = node.turn

    async def counted() -> None:
        await turn()
        turns.release()

    monkeypatch.setattr(node, "turn", counted)
    watching = asyncio.create_task(node.watch())
    async with asyncio.timeout(10):
        await turns.acquire()  # what was there before; from here on it sleeps
        spec = StepSpec(launch_id="x", plan=b"", ranks=(0,), output_prefix="a/logs")
        folder = await asyncio.to_thread(folders.create, StepKey(1, 1, 0), spec, "", (0, 0))
        Journal(str(folder), 1 << 20).write(1, 0, b"text")
        while not store.objects:
            await turns.acquire()
    watching.cancel()
    assert [name[:2] for name in store.objects] == ["a/"]


@pytest.mark.usefixtures("at_once")
@scenario
async def test_output_is_stored_of_a_run_that_was_started_while_there_was_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, stored = Store(), asyncio.Event()
    monkeypatch.setattr(Store, "put", _and_say(Store.put, stored))
    node = Node(tmp_path, store)
    node.live, runs = [], node.live
    watching = asyncio.create_task(node.uploads.watch())
    async with asyncio.timeout(20):
        while not _is_resting(node.uploads):  # noqa: ASYNC110 - turns of the loop, no time
            await asyncio.sleep(0)
        node.ring.write(b"text")
        node.live = runs
        node.uploads.look()
        await stored.wait()
    watching.cancel()
    assert store.output() == (b"text", 0)


def _is_resting(uploads: OutputUploads) -> bool:
    return bool(uploads._looked_for._waiters)


def _and_say(
    put: Callable[[Store, str, bytes], Awaitable[None]], stored: asyncio.Event
) -> Callable[[Store, str, bytes], Awaitable[None]]:
    async def both(store: Store, name: str, data: bytes) -> None:
        await put(store, name, data)
        stored.set()

    return both
