"""The log's time goes on whatever the machine's clock does."""

import asyncio
from pathlib import Path

import pytest

from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.log_clock import LogClock, boot_s, clock_fault, years_off
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.replica import LogReplica
from lattice.testing import scenario
from tests.unit.quorum.world import founding, running, submit

NOON = 1_000_000_000
HOUR_S = 3600.0
HOUR_MS = 3_600_000


class Machine:
    """A machine's two clocks: one that can be set, one that cannot."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.up_s = 50.0

    def now_ms(self) -> int:
        return NOON + int((self.up_s + self.ahead_s) * 1000)

    def monotonic_s(self) -> float:
        return self.up_s

    def steady_s(self) -> float:
        return self.up_s


def clocks() -> tuple[Machine, LogClock]:
    machine = Machine()
    return machine, LogClock(machine, 60.0, machine.steady_s)


def test_it_is_the_machines_time_while_that_is_sound() -> None:
    machine, clock = clocks()
    for ahead_s in (0.0, 0.5, 20.0, 59.0):
        machine.up_s += 10
        machine.ahead_s = ahead_s
        assert clock.now_ms() == machine.now_ms()
    assert clock.jump_s == 0


def test_it_goes_on_from_an_entry_that_is_ahead_and_meets_the_clock_again() -> None:
    machine, clock = clocks()
    ahead = machine.now_ms() + HOUR_MS
    clock.note(ahead)
    machine.up_s += 100
    assert ahead + 90_000 < clock.now_ms() < ahead + 100_000
    machine.up_s += 21 * HOUR_S
    assert clock.now_ms() == machine.now_ms()


def test_a_clock_that_is_set_back_a_little_neither_stops_nor_turns_it() -> None:
    machine, clock = clocks()
    before = clock.now_ms()
    machine.ahead_s -= 30
    machine.up_s += 10
    assert before + 9_000 < clock.now_ms() < before + 10_000


@pytest.mark.parametrize("seconds", [HOUR_S, -HOUR_S])
def test_a_jump_is_told_once_and_not_followed_until_it_is_accepted(seconds: float) -> None:
    machine, clock = clocks()
    told: list[float] = []
    clock.on_jump(told.append)
    before = clock.now_ms()
    machine.ahead_s += seconds
    machine.up_s += 10
    assert clock.now_ms() == before + 10_000
    assert (told, clock.jump_s) == ([seconds], seconds)
    machine.up_s += 10
    assert clock.now_ms() == before + 20_000
    clock.accept()
    machine.up_s += 10
    assert clock.now_ms() == max(machine.now_ms(), before + 29_500)
    assert clock.jump_s == 0
    assert len(told) == 1


def test_a_jump_that_is_taken_back_is_over() -> None:
    machine, clock = clocks()
    machine.ahead_s = HOUR_S
    clock.now_ms()
    machine.ahead_s = 0
    assert clock.now_ms() == machine.now_ms()
    assert clock.jump_s == 0


@pytest.mark.parametrize(
    ("ahead_s", "fault"),
    [
        ([], ""),
        ([0.1, -0.2], ""),
        ([3600.0, 0.2], ""),
        ([-3600.0, -3600.2], "3600.0 s ahead of the other servers'"),
        ([90.0, 90.5], "90.0 s behind the other servers'"),
        ([-90.0], "90.0 s ahead of the other servers'"),
        ([90.0], ""),
        ([90.0, -90.0], ""),
    ],
)
def test_the_middle_clock_is_right_and_of_two_the_one_that_is_behind(ahead_s: list[float], fault: str) -> None:
    said = clock_fault(ahead_s, 60.0)
    assert fault in said
    assert bool(fault) == bool(said)


@scenario
async def test_a_log_written_by_a_clock_that_was_ahead_does_not_stand_still(tmp_path: Path) -> None:
    def replica(machine: Machine) -> LogReplica:
        return LogReplica(
            log=SqliteLog(tmp_path / "log"),
            archive=SqliteArchive(tmp_path / "archive"),
            snapshots=None,
            clock=machine,
            steady_s=boot_s,
        )

    fast = Machine()
    fast.ahead_s = HOUR_S
    async with running(replica(fast)) as first:
        await first.propose_many(founding(), "system")
        await submit(first)
        ahead = first.state.last_at
    assert ahead >= NOON + HOUR_MS
    async with running(replica(Machine())) as second:
        assert second.clock.now_ms() >= ahead
        await asyncio.sleep(0.02)
        await submit(second)
        assert second.state.last_at > ahead


NOW_MS = 1_795_000_000_000  # 2026-11-18
YEAR_MS = 366 * 86_400_000


@pytest.mark.parametrize(
    ("now_ms", "last_at_ms", "told"),
    [
        (NOW_MS, 0, ""),
        (NOW_MS, NOW_MS - YEAR_MS, ""),
        (NOW_MS, NOW_MS + 3_600_000, ""),
        (0, 0, "the clock of this machine says 1970-01-01, before Lattice existed"),
        (
            NOW_MS,
            NOW_MS - 2 * YEAR_MS,
            "says 2026-11-18, more than a year after the last entry of the log (2024-11-16)",
        ),
        (NOW_MS, NOW_MS + 2 * YEAR_MS, "says 2026-11-18, more than a year before the last entry of the log"),
    ],
)
def test_a_clock_that_is_years_off_is_told_with_both_days(now_ms: int, last_at_ms: int, told: str) -> None:
    said = years_off(now_ms, last_at_ms)
    assert (told in said) if told else said == ""
