"""The log in etcd against what happens to it: answers that get lost, rivals, full databases, members that die."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lattice.ports.clock import SystemClock
from lattice.ports.quorum.log import Conflict, Entry, Log, LogCorrupt, LogFull, LogUnavailable, Trimmed
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.etcd.client import EtcdClient, EtcdUnavailable
from lattice.quorum.etcd.keys import EPOCH, MAX_PAYLOAD_BYTES, entry_key
from lattice.quorum.logs import etcd_space
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.replica import LogReplica
from lattice.testing import scenario
from lattice.wire.pb import etcd_pb2 as pb
from tests.integration.quorum.etcd_world import Etcd, in_time, running_etcd
from tests.unit.quorum.world import founded, running, submit


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def etcd(one: Etcd) -> Etcd:
    asyncio.run(one.wipe())
    return one


@asynccontextmanager
async def opened(log: EtcdLog) -> AsyncIterator[EtcdLog]:
    await log.open()
    try:
        yield log
    finally:
        await log.close()


async def fill(log: Log, count: int, size: int = 0) -> int:
    _, last = await log.bounds()
    for index in range(last + 1, last + 1 + count):
        last = await log.append(index - 1, b"entry %d" % index + os.urandom(size))
    return last


async def everything(log: Log) -> list[Entry]:
    first, last = await log.bounds()
    return list(await log.read(first, last - first + 1))


class FaultyClient(EtcdClient):
    """Loses what it is told to lose: a request before it is sent, or the answer to one that took effect."""

    def __init__(self, etcd: Etcd) -> None:
        super().__init__(etcd.endpoints, etcd.certificates)
        self.lose_requests = 0
        self.lose_answers = 0

    async def txn(self, request: pb.TxnRequest, timeout_s: float = 3.0) -> pb.TxnResponse:
        if not any(op.HasField("request_put") for op in request.success):
            return await super().txn(request, timeout_s)
        if self.lose_requests:
            self.lose_requests -= 1
            raise EtcdUnavailable("leader changed")
        answer = await super().txn(request, timeout_s)
        if self.lose_answers:
            self.lose_answers -= 1
            raise EtcdUnavailable("deadline exceeded")
        return answer


@pytest.mark.parametrize(("requests", "answers"), [(1, 0), (0, 1), (2, 2)])
@scenario
async def test_an_append_whose_answer_was_lost_recognises_itself(etcd: Etcd, requests: int, answers: int) -> None:
    client = FaultyClient(etcd)
    async with opened(EtcdLog(client)) as log:
        await fill(log, 2)
        client.lose_requests, client.lose_answers = requests, answers
        assert await log.append(2, b"mine") == 3
        assert [entry.payload for entry in await everything(log)] == [b"entry 1", b"entry 2", b"mine"]


@scenario
async def test_the_same_bytes_from_somebody_else_are_a_conflict(etcd: Etcd) -> None:
    async with opened(etcd.log()) as log, opened(etcd.log()) as rival:
        assert await rival.append(0, b"the same") == 1
        with pytest.raises(Conflict):
            await log.append(0, b"the same")


@scenario
async def test_an_append_that_never_gets_an_answer_says_that_its_outcome_is_unknown(etcd: Etcd) -> None:
    client = FaultyClient(etcd)
    async with opened(EtcdLog(client, append_within_s=0.3)) as log:
        client.lose_requests = 10**6
        with pytest.raises(LogUnavailable):
            await log.append(0, b"lost")
        client.lose_requests = 0
        assert await log.append(0, b"found") == 1


@scenario
async def test_the_fence_refuses_a_trimmed_index_even_when_it_is_absent(etcd: Etcd) -> None:
    async with opened(etcd.log()) as log, opened(etcd.log()) as stale:
        await fill(log, 9)
        await log.trim(8)
        for expected_last in (0, 3, 6):
            with pytest.raises(Conflict, match="the newest entry is 9"):
                await stale.append(expected_last, b"again")
        assert [entry.index for entry in await everything(stale)] == [8, 9]


@scenario
async def test_of_two_proposers_each_acknowledged_entry_stands_where_it_was_promised(etcd: Etcd) -> None:
    async def propose(name: str, acknowledged: dict[int, bytes]) -> int:
        conflicts = 0
        async with opened(etcd.log()) as log:
            last = 0
            for n in range(150):
                payload = b"%s %d" % (name.encode(), n)
                try:
                    last = await log.append(last, payload)
                except Conflict:
                    conflicts += 1
                    last = await log.head()
                else:
                    acknowledged[last] = payload
        return conflicts

    acknowledged: dict[int, bytes] = {}
    conflicts = await asyncio.gather(*(propose(name, acknowledged) for name in ("one", "two", "three")))
    async with opened(etcd.log()) as log:
        assert {entry.index: entry.payload for entry in await everything(log)} == acknowledged
    assert sum(conflicts) + len(acknowledged) == 450
    assert sum(conflicts) > 0


@scenario
async def test_a_restored_cluster_takes_nothing_from_a_server_of_the_former_one(etcd: Etcd) -> None:
    async with opened(etcd.log()) as former, etcd.client() as client:
        await fill(former, 1)
        later = former.epoch + 7
        await client.put(pb.PutRequest(key=EPOCH, value=b"%d" % later))
        with pytest.raises(Conflict, match=f"epoch {later}"):
            await former.append(1, b"old history")
        async with opened(etcd.log()) as log:
            assert log.epoch == later
            assert await log.append(1, b"new history") == 2


class LateClient(EtcdClient):
    """Lets the log grow and be compacted between the reading of its end and the watch from there."""

    def __init__(self, etcd: Etcd) -> None:
        super().__init__(etcd.endpoints, etcd.certificates)
        self.etcd = etcd
        self.trim_before = 0
        self.watches = 0

    async def watch(self, request: pb.WatchCreateRequest) -> AsyncGenerator[pb.WatchResponse, None]:
        self.watches += 1
        if self.watches == 1:
            async with opened(self.etcd.log()) as log, self.etcd.client() as client:
                await fill(log, 20)
                await log.trim(self.trim_before)
                now = (await client.range(pb.RangeRequest(key=b"x"))).header.revision
                await client.compact(now, physical=True)
        async for response in super().watch(request):
            yield response


@scenario
async def test_a_tail_whose_revision_was_compacted_reads_on(etcd: Etcd) -> None:
    client = LateClient(etcd)
    async with opened(EtcdLog(client)) as log:
        await fill(log, 5)
        seen = [entry.index async for entry in first_of(log.tail(1), 25)]
        assert seen == list(range(1, 26))


@scenario
async def test_a_tail_whose_entries_were_trimmed_says_so(etcd: Etcd) -> None:
    client = LateClient(etcd)
    client.trim_before = 15
    async with opened(EtcdLog(client)) as log:
        await fill(log, 5)
        with pytest.raises(Trimmed) as gone:
            assert [entry.index async for entry in log.tail(1)] == []
        assert gone.value.first_index == 15


async def first_of(entries: AsyncIterator[Entry], count: int) -> AsyncIterator[Entry]:
    for _ in range(count):
        yield await anext(entries)


@scenario
async def test_a_trim_by_one_server_is_seen_by_the_others(etcd: Etcd) -> None:
    async with opened(etcd.log()) as log, opened(etcd.log()) as other:
        await fill(log, 10)
        assert await other.bounds() == (1, 10)
        await log.trim(6)
        assert await other.bounds() == (6, 10)
        await other.trim(4)
        assert await log.bounds() == (6, 10)


@scenario
async def test_a_damaged_entry_stops_the_reader(etcd: Etcd) -> None:
    async with opened(etcd.log()) as log, etcd.client() as client:
        await fill(log, 3)
        stored = (await client.range(pb.RangeRequest(key=entry_key(2)))).kvs[0].value
        await client.put(pb.PutRequest(key=entry_key(2), value=stored[:-1] + b"X"))
        with pytest.raises(LogCorrupt, match="entry 2 "):
            await log.read(1, 3)


@scenario
async def test_an_entry_that_no_request_can_hold_is_refused_and_harms_nothing(etcd: Etcd) -> None:
    async with opened(etcd.log()) as log:
        with pytest.raises(LogFull, match="too large"):
            await log.append(0, bytes(MAX_PAYLOAD_BYTES + 1))
        assert await log.append(0, bytes(MAX_PAYLOAD_BYTES)) == 1


async def fill_up(log: Log) -> int:
    last = 0
    try:
        while True:
            last = await log.append(last, os.urandom(200_000))
    except LogFull:
        return last


def test_a_full_database_is_reported_trimmed_and_written_again(tmp_path: Path) -> None:
    async def scenario(etcd: Etcd) -> None:
        async with opened(etcd.log()) as log, etcd.client() as client:
            last = await fill_up(log)
            assert await log.bounds() == (1, last)
            assert len(await everything(log)) == last
            assert await etcd_space.is_full(client)
            full = {space.name: space.size_bytes for space in await etcd_space.usage(client)}
            await log.trim(last - 3)
            assert not await etcd_space.is_full(client)
            assert await log.bounds() == (last - 3, last)
            for space in await etcd_space.usage(client):
                assert space.size_bytes < full[space.name] / 2
            for _ in range(5):
                last = await log.append(last, os.urandom(200_000))
            assert [entry.index for entry in await everything(log)] == list(range(last - 8, last + 1))

    with running_etcd(tmp_path, 3, quota_bytes=16 << 20) as etcd:
        in_time(scenario(etcd))


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=[pytest.mark.soak, pytest.mark.timeout(1800)])])
def test_killing_the_leader_of_three_loses_nothing_that_was_acknowledged(tmp_path: Path, kills: int) -> None:
    async def write(log: EtcdLog, stop: asyncio.Event, acknowledged: list[bytes]) -> float:
        longest = 0.0
        while not stop.is_set():
            begin = time.monotonic()
            payload = b"%d:" % len(acknowledged) + os.urandom(100)
            assert await log.append(len(acknowledged), payload) == len(acknowledged) + 1
            acknowledged.append(payload)
            longest = max(longest, time.monotonic() - begin)
        return longest

    async def follow(log: EtcdLog, seen: list[bytes]) -> None:
        async for entry in log.tail(1):
            seen.append(entry.payload)

    async def scenario(etcd: Etcd) -> None:
        stop, acknowledged, seen = asyncio.Event(), list[bytes](), list[bytes]()
        async with opened(etcd.log()) as log, opened(etcd.log("s3", "s1", "s2")) as other:
            writer = asyncio.create_task(write(log, stop, acknowledged))
            follower = asyncio.create_task(follow(other, seen))
            for _ in range(kills):
                before = len(acknowledged)
                leader = await etcd.leader()
                etcd.kill(leader)
                await grown(acknowledged, before + 100, writer)
                etcd.start(leader)
                await etcd.wait_ready()
            stop.set()
            longest = await writer
            await grown(seen, len(acknowledged), follower)
            follower.cancel()
            assert seen == acknowledged
        async with opened(etcd.log("s2")) as log:
            assert [entry.payload for entry in await everything(log)] == acknowledged
        print(f"\n{len(acknowledged)} entries, longest gap {longest:.2f} s")  # noqa: T201
        assert longest < 8

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd), 100 + 20 * kills)


async def grown(things: list[bytes], size: int, worker: asyncio.Task[object]) -> None:
    deadline = time.monotonic() + 30
    while len(things) < size:
        assert not worker.done(), worker.exception()
        assert time.monotonic() < deadline, f"{len(things)} of {size}"
        await asyncio.sleep(0.01)


def test_a_leader_that_is_stopped_and_comes_back_has_written_nothing_of_its_own(tmp_path: Path) -> None:
    async def scenario(etcd: Etcd) -> None:
        leader = await etcd.leader()
        others = [name for name in etcd.members if name != leader]
        async with opened(etcd.log(leader, *others)) as log:
            await fill(log, 20)
            etcd.processes[leader].send_signal(signal.SIGSTOP)
            try:
                last = await fill_from(log, 20, 50)
            finally:
                etcd.processes[leader].send_signal(signal.SIGCONT)
            last = await fill_from(log, last, 50)
            expected = [b"entry %d" % index for index in range(1, last + 1)]
        await etcd.wait_ready()
        for name in etcd.members:
            async with opened(etcd.log(name)) as log:
                assert [entry.payload for entry in await everything(log)] == expected

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd))


async def fill_from(log: Log, last: int, count: int) -> int:
    for _ in range(count):
        last = await log.append(last, b"entry %d" % (last + 1))
    return last


def test_a_replica_over_etcd_is_the_same_after_a_restart_and_on_another_server(tmp_path: Path) -> None:
    def replica(etcd: Etcd, name: str) -> LogReplica:
        return LogReplica(
            log=etcd.log(name),
            archive=SqliteArchive(tmp_path / f"{name}.sqlite"),
            snapshots=None,
            clock=SystemClock(),
        )

    async def scenario(etcd: Etcd) -> None:
        async with founded(replica(etcd, "s1")) as first:
            await asyncio.gather(*(submit(first, command_id=f"{n}") for n in range(500)))
            index, digest = first.applied_index, first.state.digest()
        for name in ("s1", "s2", "s3"):
            async with running(replica(etcd, name)) as again:
                assert (again.applied_index, again.state.digest()) == (index, digest)

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd))


def test_without_a_majority_nothing_is_acknowledged_and_afterwards_all_goes_on(tmp_path: Path) -> None:
    async def scenario(etcd: Etcd) -> None:
        async with opened(etcd.log(append_within_s=1.5)) as log:
            await fill(log, 3)
            etcd.kill("s2")
            etcd.kill("s3")
            with pytest.raises(LogUnavailable):
                await log.append(3, b"without a majority")
            with pytest.raises(LogUnavailable):
                await log.head()
            etcd.start("s2")
            etcd.start("s3")
            await etcd.wait_ready()
            # The entry without an answer may have been kept by the member that was alone: then it is there, whole.
            last = await log.head()
            assert last in (3, 4)
            assert await log.append(last, b"with a majority") == last + 1

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd))
