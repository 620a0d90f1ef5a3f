"""The session on textual's own screen, where textual loses word of a new size."""

import asyncio

import pytest
from textual.geometry import Size
from textual.timer import Timer

from lattice.cli.context import Context, Process, Streams
from lattice.cli.flags import Flags
from lattice.cli.tui import app
from lattice.testing.coroutines import scenario
from tests.unit.cli.runner import Pipe, StandingClock
from tests.unit.cli.tui.test_session import FakeSource


class Sized(app.Tui):
    """On a terminal of this size."""

    terminal = Size(80, 24)

    def _terminal_size(self) -> Size:
        return self.terminal

    async def shows(self, text: str) -> None:
        while text not in "".join(span.text for line in self.paper._drawn for span in line):  # noqa: ASYNC110 - textual tells nobody
            await asyncio.sleep(0.01)


@pytest.fixture
def tui(monkeypatch: pytest.MonkeyPatch) -> Sized:
    monkeypatch.setattr(app, "Source", lambda *_: FakeSource())
    streams = Streams(stdin=Pipe(), stdout=Pipe(), stderr=Pipe())
    process = Process(streams=streams, environment={}, clock=StandingClock())
    return Sized(Context(process=process, flags=Flags()), "allocations")


@pytest.fixture
def late_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every timer that fires once is late when it starts, and textual drops it."""
    run = Timer._run

    async def run_repeated(self: Timer) -> None:
        if self._repeat is None:
            await run(self)

    monkeypatch.setattr(Timer, "_run", run_repeated)


@scenario
async def test_a_new_size_is_taken_where_no_word_of_it_came(tui: Sized) -> None:
    async with tui.run_test(size=(80, 24)):
        await tui.shows("Allocations")
        tui.terminal = Size(50, 10)
        await tui.shows("This terminal has 50 x 10")
        tui.terminal = Size(100, 30)
        await tui.shows("Allocations")


@scenario
@pytest.mark.usefixtures("late_timers")
async def test_a_new_size_is_taken_where_textual_drops_its_timer(tui: Sized) -> None:
    async with tui.run_test(size=(80, 24)) as pilot:
        await tui.shows("Allocations")
        tui.terminal = Size(50, 10)
        await pilot.resize_terminal(50, 10)
        await tui.shows("This terminal has 50 x 10")


@scenario
@pytest.mark.usefixtures("late_timers")
async def test_what_changes_is_drawn_where_textual_drops_its_timers(tui: Sized) -> None:
    async with tui.run_test(size=(80, 24)):
        await tui.shows("Allocations")
        tui.session.say("said first")
        await tui.shows("said first")
        tui.session.say("said second")
        await tui.shows("said second")
