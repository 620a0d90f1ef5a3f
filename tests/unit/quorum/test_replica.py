"""The replica: acknowledged means applied, told and kept; what must not go on stops."""

import asyncio
import logging
from pathlib import Path

import msgspec
import pytest

from lattice.core.machine.apply import apply
from lattice.core.machine.codec import UnreadableBatch
from lattice.core.machine.commands import AnyCommand, CancelAllocation, Envelope, SetSetting, SetTenant
from lattice.core.machine.events import AllocationSubmitted, AnyEvent, TenantSet
from lattice.core.machine.outcomes import Accepted, Outcome, Rejected
from lattice.core.machine.state import State
from lattice.core.model.site.tenants import Tenant
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.ports.quorum.archive import ArchiveFilter
from lattice.ports.quorum.log import LogCorrupt, LogFull
from lattice.ports.quorum.replica import Replica, ReplicaStopped
from lattice.quorum import replica as replica_module
from lattice.quorum.applier import BrokenInvariant
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.memory import MemoryLog
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.replica import LogReplica
from lattice.testing import HandClock, scenario
from tests.unit.quorum.world import finish, founded, replica_at, run, running, submission, submit

Seen = list[tuple[int, str, list[str]]]


def in_memory(log: MemoryLog | None = None) -> LogReplica:
    return LogReplica(log=log or MemoryLog(), archive=SqliteArchive(None), snapshots=None, clock=HandClock())


def test_it_is_what_the_port_asks_for() -> None:
    replica: Replica = in_memory()
    assert replica.applied_index == 0
    assert not replica.is_leader


@scenario
async def test_an_answered_command_is_in_the_state() -> None:
    async with founded(in_memory()) as replica:
        number = await submit(replica)
        assert replica.state.allocations[number].state is AllocationState.PENDING
        assert replica.applied_index == await replica.read_index() == 2
        assert replica.is_leader


@scenario
async def test_a_refusal_is_an_outcome_and_counted() -> None:
    async with founded(in_memory()) as replica:
        outcome = await replica.propose(CancelAllocation(number=77), actor="ada")
        assert isinstance(outcome, Rejected)
        assert replica.counters.rejections == {"not_found": 1}
        assert replica.counters.commands == 3


@scenario
async def test_a_repeated_command_id_gets_the_first_answer() -> None:
    async with founded(in_memory()) as replica:
        first = await submit(replica, command_id="c1")
        assert await submit(replica, command_id="c1") == first
        assert len(replica.state.allocations) == 1


@scenario
async def test_many_are_answered_in_their_order() -> None:
    async with founded(in_memory()) as replica:
        commands: list[AnyCommand] = [submission("a"), CancelAllocation(number=99), submission("b")]
        outcomes = await replica.propose_many(commands, "ada")
        assert [type(outcome) for outcome in outcomes] == [Accepted, Rejected, Accepted]
        assert [a.name for a in replica.state.allocations.values()] == ["a", "b"]
        assert await replica.propose_many([], "ada") == []


@scenario
async def test_subscribers_hear_accepted_commands_in_order_until_they_leave() -> None:
    async with founded(in_memory()) as replica:
        seen: Seen = []

        def note(index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
            seen.append((index, envelope.actor, [type(event).__name__ for event in events]))

        leave = replica.subscribe(note)
        await submit(replica)
        await replica.propose(CancelAllocation(number=99), actor="ada")
        await replica.propose(SetTenant(tenant=Tenant(name="physics"), create=True), actor="root")
        leave()
        leave()
        await submit(replica)
        assert [(index, actor) for index, actor, _ in seen] == [(2, "ada"), (4, "root")]
        assert seen[0][2] == [AllocationSubmitted.__name__]


@scenario
async def test_subscribers_of_some_kinds_of_events_hear_of_no_others() -> None:
    async with founded(in_memory()) as replica:
        heard: list[str] = []
        replica.subscribe(lambda index, envelope, events: heard.append("submitted"), of=(AllocationSubmitted,))
        replica.subscribe(lambda index, envelope, events: heard.append("either"), of=(TenantSet, AllocationSubmitted))
        leave = replica.subscribe(lambda index, envelope, events: heard.append("tenant"), of=(TenantSet,))
        await submit(replica)
        assert heard == ["submitted", "either"]
        await replica.propose(SetTenant(tenant=Tenant(name="physics"), create=True), actor="root")
        assert heard[2:] == ["either", "tenant"]
        leave()
        await replica.propose(SetTenant(tenant=Tenant(name="biology"), create=True), actor="root")
        assert heard[4:] == ["either"]


def test_a_raising_subscriber_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with founded(in_memory()) as replica:
            heard: list[int] = []

            def raise_over(index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
                raise RuntimeError("subscriber's own fault")

            replica.subscribe(raise_over)
            replica.subscribe(lambda index, envelope, events: heard.append(index))
            await submit(replica)
            assert heard == [2]
            assert replica.counters.subscriber_errors == 1

    run(scenario())
    assert "subscriber's own fault" in caplog.text


@scenario
async def test_in_the_middle_of_an_entry_there_is_no_digest() -> None:
    async with founded(in_memory()) as replica:
        before, told = replica.digest_at(replica.applied_index), list[str | None]()
        replica.subscribe(lambda index, envelope, events: told.append(replica.digest_at(replica.applied_index)))
        await replica.propose_many([submission("a"), submission("b")], "ada")
        assert told == [None, None]
        assert replica.digest_at(replica.applied_index) not in (None, before)


@scenario
async def test_waiting_for_an_index_ends_when_it_is_applied() -> None:
    async with founded(in_memory()) as replica:
        await replica.wait_for(1)
        waiting = asyncio.create_task(replica.wait_for(3))
        await submit(replica)
        assert not waiting.done()
        await submit(replica)
        await waiting
        assert replica.applied_index == 3


@scenario
async def test_archived_work_leaves_the_state_and_is_found_in_the_archive() -> None:
    async with founded(in_memory()) as replica:
        kept, gone = await submit(replica, "kept"), await submit(replica, "gone")
        await finish(replica, gone)
        assert list(replica.state.allocations) == [kept]
        record = await replica.archived(gone)
        assert isinstance(record, Allocation)
        assert (record.name, record.state) == ("gone", AllocationState.CANCELLED)
        assert await replica.archived_payload(gone) == submission().payload
        page = await replica.archived_page(ArchiveFilter(user="ada"), None, 10)
        assert [r.number for r in page] == [gone]
        assert await replica.archived(kept) is None


@scenario
async def test_no_room_fails_the_command_and_the_next_one_succeeds() -> None:
    class FullOnce(MemoryLog):
        full = False

        async def append(self, expected_last: int, payload: bytes) -> int:
            if self.full:
                self.full = False
                raise LogFull("no room")
            return await super().append(expected_last, payload)

    log = FullOnce()
    async with founded(in_memory(log)) as replica:
        log.full = True
        with pytest.raises(LogFull):
            await submit(replica)
        log.full = True
        with pytest.raises(LogFull):
            await replica.propose_many([submission(), submission()], "ada")
        assert replica.state.allocations == {}
        assert await submit(replica) == 1


@scenario
async def test_stop_answers_what_was_proposed_and_refuses_what_comes_later() -> None:
    replica = in_memory()
    async with founded(replica):
        proposals = [asyncio.create_task(submit(replica)) for _ in range(50)]
        await asyncio.sleep(0)
    assert sorted(await asyncio.gather(*proposals)) == list(range(1, 51))
    with pytest.raises(ReplicaStopped, match="shutting down"):
        await submit(replica)
    await replica.stop()
    await replica.wait_stopped()
    assert replica.failure is None


@pytest.mark.parametrize("hangs", [False, True])
@scenario
async def test_the_last_snapshot_is_left_out_when_not_all_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    monkeypatch.setattr(replica_module, "_DRAIN_S", 0.05)
    monkeypatch.setattr(replica_module, "SNAPSHOT_ON_STOP", 1)

    async def never(log: SqliteLog, expected_last: int, payload: bytes) -> int:
        await asyncio.Event().wait()
        return 0

    async with founded(replica_at(tmp_path)) as replica:
        if hangs:
            monkeypatch.setattr(SqliteLog, "append", never)
        waiting = asyncio.create_task(submit(replica))
        await asyncio.sleep(0)
    await asyncio.gather(waiting, return_exceptions=True)
    assert any((tmp_path / "snapshots").glob("*")) is not hangs


@scenario
async def test_a_restart_gives_the_same_state() -> None:
    log = MemoryLog()
    async with founded(in_memory(log)) as replica:
        for turn in range(100):
            number = await submit(replica, command_id=f"c{turn}")
            if number % 3 == 0:
                await finish(replica, number)
        before = replica.state.digest()
    again = in_memory(log)
    async with running(again):
        assert again.state.digest() == before
        assert again.counters.replayed == replica.counters.commands
        assert again.counters.commands == 0
        assert len(await again.archived_page(ArchiveFilter(), None, 100)) == 33
        assert await submit(again) == 101


def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(state: State, envelope: Envelope) -> Outcome:
        if isinstance(envelope.command, SetSetting):
            raise KeyError("invariant")
        return apply(state, envelope)

    monkeypatch.setattr("lattice.quorum.applier.apply", failing)


def test_a_broken_invariant_stops_the_replica_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken(monkeypatch)

    async def scenario() -> None:
        async with founded(in_memory()) as replica:
            index_never_reached = asyncio.create_task(replica.wait_for(1000))
            with pytest.raises(ReplicaStopped, match="applying SetSetting"):
                await replica.propose(SetSetting(key="k", value="v"), actor="root")
            await replica.wait_stopped()
            assert isinstance(replica.failure, BrokenInvariant)
            assert not replica.is_leader
            for refused in (submit(replica), index_never_reached, replica.wait_for(1000)):
                with pytest.raises(ReplicaStopped):
                    await refused

    run(scenario())
    assert [r.levelno for r in caplog.records if "acknowledges nothing more" in r.message] == [logging.CRITICAL]


@scenario
async def test_a_broken_invariant_in_the_log_keeps_the_replica_from_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    async with founded(in_memory(log)) as replica:
        await replica.propose(SetSetting(key="k", value="v"), actor="root")
    broken(monkeypatch)
    with pytest.raises(BrokenInvariant, match="entry 2"):
        await in_memory(log).start()


@scenario
async def test_an_entry_of_a_newer_format_keeps_the_replica_from_starting() -> None:
    log = MemoryLog()
    async with founded(in_memory(log)):
        pass
    await log.open()
    await log.append(1, msgspec.msgpack.encode((99, 98, "future-1", [])))
    with pytest.raises(UnreadableBatch, match="upgrade"):
        await in_memory(log).start()


@scenario
async def test_a_damaged_log_stops_the_replica() -> None:
    class Damaged(MemoryLog):
        async def append(self, expected_last: int, payload: bytes) -> int:
            raise LogCorrupt("the log is damaged")

    async with running(in_memory(Damaged())) as replica:
        with pytest.raises(ReplicaStopped, match="damaged"):
            await submit(replica)
        assert isinstance(replica.failure, LogCorrupt)


@scenario
async def test_a_trimmed_log_without_a_snapshot_is_refused() -> None:
    log = MemoryLog()
    async with founded(in_memory(log)) as replica:
        await submit(replica)
        await submit(replica)
        await log.trim(2)
    with pytest.raises(LogCorrupt, match="starts at entry 2"):
        await in_memory(log).start()
