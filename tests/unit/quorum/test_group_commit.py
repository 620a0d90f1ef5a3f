"""Proposals become entries: together when they can, each with its own fate when something fails."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from lattice.core.machine.codec import decode_batch, encode_batch
from lattice.core.machine.commands import AnyCommand, Envelope, SetSetting, SubmitAllocation
from lattice.core.machine.outcomes import Accepted, Outcome
from lattice.ports.quorum.log import Conflict, Entry, LogCorrupt, LogFull, LogUnavailable
from lattice.quorum import group_commit
from lattice.quorum.group_commit import Committed, GroupCommit
from lattice.quorum.logs.memory import MemoryLog
from lattice.testing import HandClock, scenario
from tests.unit.quorum.world import run, submission


class FaultyLog(MemoryLog):
    """Fails appends and reads as told; `gate` holds appends back."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()
        self.append_errors: list[Exception] = []
        self.late_errors: list[Exception] = []
        self.read_errors: list[Exception] = []

    async def append(self, expected_last: int, payload: bytes) -> int:
        await self.gate.wait()
        if self.append_errors:
            raise self.append_errors.pop(0)
        index = await super().append(expected_last, payload)
        if self.late_errors:
            raise self.late_errors.pop(0)
        return index

    async def read(self, first: int, limit: int) -> Sequence[Entry]:
        if self.read_errors:
            raise self.read_errors.pop(0)
        return await super().read(first, limit)


class Bench:
    """A group commit whose entries are answered at once."""

    def __init__(self) -> None:
        self.log = FaultyLog()
        self.clock = HandClock(ms=1_000_000)
        self.delivered: list[Committed] = []
        self.latencies: list[tuple[float, int]] = []
        self.commit = GroupCommit(
            self.log,
            self.clock,
            last_index=0,
            last_at=0,
            deliver=self._deliver,
            observe=lambda seconds, commands: self.latencies.append((seconds, commands)),
        )

    async def _deliver(self, committed: Committed) -> None:
        self.delivered.append(committed)
        for waiter in committed.waiters:
            if not waiter.done():
                waiter.set_result(Accepted(number=committed.index))

    def submit(self, command: AnyCommand | None = None) -> asyncio.Future[Outcome]:
        return self.commit.submit(command or submission(), "ada", "", 0)

    @property
    def sizes(self) -> list[int]:
        return [len(committed.envelopes) for committed in self.delivered]


@asynccontextmanager
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    await made.log.open()
    task = asyncio.create_task(made.commit.run())
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@scenario
async def test_what_gathers_during_an_append_becomes_the_next_entry() -> None:
    async with bench() as b:
        b.log.gate.clear()
        first = b.submit()
        await asyncio.sleep(0)
        rest = [b.submit() for _ in range(40)]
        b.log.gate.set()
        await asyncio.gather(first, *rest)
        assert b.sizes == [1, 40]
        assert [commands for _, commands in b.latencies] == [1, 40]


@scenario
async def test_under_load_an_entry_waits_for_company_and_without_load_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench() as here:
        monkeypatch.setattr(group_commit, "SPACING_S", 600.0)
        for _ in range(3):
            await here.submit()  # one after the other: each is an entry at once
        monkeypatch.setattr(group_commit, "SPACING_S", 0.5)
        here.log.gate.clear()
        first = here.submit()
        await asyncio.sleep(0)
        early = here.submit()
        here.log.gate.set()
        await first
        late = here.submit()  # the first entry is written, the next has not begun
        await asyncio.gather(early, late)
        assert [len(entry.envelopes) for entry in here.delivered] == [1, 1, 1, 1, 2]


@scenario
async def test_an_entry_has_at_most_512_commands() -> None:
    async with bench() as b:
        await asyncio.gather(*(b.submit() for _ in range(1200)))
        assert b.sizes == [512, 512, 176]


@scenario
async def test_large_payloads_are_spread_over_entries() -> None:
    async with bench() as b:
        await asyncio.gather(*(b.submit(submission(payload=bytes(400_000))) for _ in range(5)))
        assert b.sizes == [2, 2, 1]
        entries = await b.log.read(1, 10)
        assert all(len(entry.payload) <= group_commit.MAX_BYTES for entry in entries)


@scenario
async def test_commands_that_turn_out_too_large_together_are_split() -> None:
    async with bench() as b:
        await asyncio.gather(*(b.submit(SetSetting(key="k", value="v" * 300_000)) for _ in range(8)))
        assert sum(b.sizes) == 8
        assert max(b.sizes) <= 3


@scenario
async def test_the_order_of_proposals_is_the_order_in_the_log() -> None:
    async with bench() as b:
        await asyncio.gather(*(b.submit(submission(f"n{i}")) for i in range(700)))
        names = [
            envelope.command.name
            for committed in b.delivered
            for envelope in committed.envelopes
            if isinstance(envelope.command, SubmitAllocation)
        ]
        assert names == [f"n{i}" for i in range(700)]


@scenario
async def test_time_never_falls_even_when_the_clock_does() -> None:
    async with bench() as b:
        await b.submit()
        b.clock.ms -= 500_000
        await b.submit()
        b.clock.ms += 600_000
        await b.submit()
        assert [c.envelopes[0].at for c in b.delivered] == [1_000_000, 1_000_000, 1_100_000]


@scenario
async def test_a_full_log_fails_its_own_proposals_and_no_others() -> None:
    async with bench() as b:
        b.log.append_errors = [LogFull("no room")]
        refused = [b.submit() for _ in range(3)]
        results = await asyncio.gather(*refused, return_exceptions=True)
        assert [type(result) for result in results] == [LogFull] * 3
        assert await b.submit() == Accepted(number=1)
        assert await b.log.bounds() == (1, 1)


@scenario
async def test_an_unknown_outcome_that_was_written_counts_as_written() -> None:
    async with bench() as b:
        b.log.late_errors = [LogUnavailable("connection lost")]
        b.log.read_errors = [LogUnavailable("still"), LogUnavailable("still")]
        assert await b.submit() == Accepted(number=1)
        assert await b.submit() == Accepted(number=2)


@scenario
async def test_an_unknown_outcome_that_was_not_written_fails_its_proposals() -> None:
    async with bench() as b:
        b.log.append_errors = [LogUnavailable("connection lost")]
        with pytest.raises(LogUnavailable, match="connection lost"):
            await b.submit()
        assert await b.submit() == Accepted(number=1)


@scenario
async def test_while_the_log_does_not_answer_proposals_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "_GIVE_UP_S", 0.0)
    monkeypatch.setattr(group_commit, "_RETRY_S", (0.01,))
    async with bench() as b:
        b.log.late_errors = [LogUnavailable("connection lost")]
        b.log.read_errors = [LogUnavailable("down")] * 10
        first = b.submit()
        with pytest.raises(LogUnavailable, match="connection lost"):
            await first
        with pytest.raises(LogUnavailable):
            b.submit()
        await b.commit.drained()
        assert [committed.index for committed in b.delivered] == [1]
        assert await b.submit() == Accepted(number=2)


@scenario
async def test_entries_of_another_proposer_are_handed_over_and_ours_refused() -> None:
    async with bench() as b:
        foreign = Envelope(at=5_000_000, command=submission("foreign"), actor="bob")
        await b.log.append(0, encode_batch("other-1", [foreign]))
        await b.log.append(1, encode_batch("other-2", [foreign]))
        with pytest.raises(Conflict):
            await b.submit()
        assert [committed.index for committed in b.delivered] == [1, 2]
        assert await b.submit() == Accepted(number=3)
        assert b.delivered[-1].envelopes[0].at == 5_000_000


UNWRITABLE: dict[str, AnyCommand] = {
    "a lone surrogate": submission("bad \ud800 name"),
    "a number beyond 64 bits": SubmitAllocation(
        name="n", user="u", account="a", tenant="t", vcluster="v", request=submission().request, walltime_s=2**70
    ),
    "a field of the wrong type": SetSetting(key=5, value="v"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", UNWRITABLE)
@scenario
async def test_a_command_that_could_not_be_read_back_never_enters_the_log(what: str) -> None:
    async with bench() as b:
        b.log.gate.clear()
        head = b.submit()
        await asyncio.sleep(0)
        waiters = [b.submit(), b.submit(UNWRITABLE[what]), b.submit()]
        b.log.gate.set()
        results = await asyncio.gather(head, *waiters, return_exceptions=True)
        assert [isinstance(result, Accepted) for result in results] == [True, True, False, True]
        for entry in await b.log.read(1, 10):
            decode_batch(entry.payload)


@scenario
async def test_damage_of_the_log_ends_the_group_commit() -> None:
    b = Bench()
    await b.log.open()
    b.log.append_errors = [LogCorrupt("damaged")]
    waiter = b.submit()
    with pytest.raises(LogCorrupt):
        await b.commit.run()
    b.commit.fail_all(LogCorrupt("damaged"))
    with pytest.raises(LogCorrupt):
        await waiter


@scenario
async def test_a_proposer_that_went_away_changes_nothing_for_the_others() -> None:
    async with bench() as b:
        b.log.gate.clear()
        waiters = [b.submit() for _ in range(3)]
        waiters[1].cancel()
        b.log.gate.set()
        assert await waiters[0] == await waiters[2] == Accepted(number=1)
        assert b.sizes == [3]


def test_a_proposal_that_fails_when_nobody_waits_for_it_any_more_is_no_error_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        waiter = asyncio.get_running_loop().create_future()
        group_commit.fail([waiter], LogUnavailable("this server is no longer the leader"))
        del waiter
        gc.collect()
        await asyncio.sleep(0)

    run(scenario())
    assert caplog.records == []
