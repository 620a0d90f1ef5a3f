"""What people at terminals are told, and when."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from lattice.api.running.terminal_notices import Notices, StepNotice, due, with_notices
from lattice.core.model.work.allocations import Allocation, AllocationState, Request, StopIntent

MINUTE = 60_000
RECORD = Allocation(
    number=7,
    name="x",
    user="ada",
    account="ada",
    tenant="t",
    vcluster="v",
    request=Request(),
    submitted_at=0,
    state=AllocationState.RUNNING,
    started_at=MINUTE,
    walltime_s=3600,
)
END = 61 * MINUTE


@pytest.mark.parametrize(
    ("left", "told"),
    [
        (10 * MINUTE, "a7 ends in 10 minutes: its walltime is over then"),
        (5 * MINUTE, "a7 ends in 5 minutes: its walltime is over then"),
        (MINUTE, "a7 ends in 1 minute: its walltime is over then"),
    ],
)
def test_the_end_of_the_walltime_is_told_once(left: int, told: str) -> None:
    moment = END - left
    assert due(RECORD, 0, 0, moment - 1000, moment) == [told]
    assert due(RECORD, 0, 0, moment, moment + 1000) == []
    assert due(replace(RECORD, paused_at=5), 0, 0, moment - 1000, moment) == []
    assert due(replace(RECORD, walltime_s=0), 0, 0, moment - 1000, moment) == []
    assert due(replace(RECORD, state=AllocationState.STOPPING), 0, 0, moment - 1000, moment) == []


def test_idle_work_is_told_before_it_ends() -> None:
    at = 30 * MINUTE
    [text] = due(RECORD, 0, at + 5 * MINUTE, at - 1, at)
    assert text == "a7 is idle and ends in 5 minutes; type something to keep it"


def test_a_terminal_without_input_is_warned_with_what_is_left() -> None:
    [text] = due(RECORD, 2 * MINUTE, 0, 32 * MINUTE - 1, 32 * MINUTE)
    assert text == "Warning: no input for 30 minutes. Walltime remaining: 29 minutes"
    [text] = due(replace(RECORD, walltime_s=0), 2 * MINUTE, 0, 32 * MINUTE - 1, 32 * MINUTE)
    assert text == "Warning: no input for 30 minutes"


class Said:
    """Has one notice to give, once `tell` was called."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def take(self) -> list[StepNotice]:
        texts, self.texts = self.texts, []
        return [StepNotice(text=text) for text in texts]


def test_notices_come_between_the_pieces_of_output() -> None:
    async def scenario() -> None:
        said = Said()
        said.texts = ["soon"]

        async def pieces() -> AsyncGenerator[str, None]:
            yield "one"
            yield "two"

        got: list[Any] = [each async for each in with_notices(pieces(), cast("Notices", said), lambda: None)]
        assert got == [StepNotice(text="soon"), "one", "two"]

    asyncio.run(scenario())


@pytest.mark.parametrize("is_seen_early", [True, False])
def test_a_preemption_is_said_once_however_fast_the_work_ends(is_seen_early: bool) -> None:
    class Clock:
        def now_ms(self) -> int:
            return MINUTE

    class Services:
        clock = Clock()
        idle = None

    class State:
        def __init__(self) -> None:
            self.allocations = {7: RECORD}

    class Asked:
        services = Services()
        state = State()

    asked = Asked()
    notices = Notices(cast("Any", asked), 7, lambda: None)
    assert notices.take() == []
    if is_seen_early:
        stopping = replace(RECORD, state=AllocationState.STOPPING, intent=StopIntent.PREEMPT)
        asked.state.allocations[7] = stopping
    else:
        asked.state.allocations[7] = replace(RECORD, state=AllocationState.PENDING, preempted=1)
    text = "Allocation preempted. Session suspended. Use 'lattice attach a7' to reconnect after rescheduling."
    assert notices.take() == [StepNotice(text=text)]
    asked.state.allocations[7] = replace(RECORD, state=AllocationState.PENDING, preempted=1)
    assert notices.take() == []
