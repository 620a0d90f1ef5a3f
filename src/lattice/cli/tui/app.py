"""The session on a terminal, by textual: one widget that draws the lines that changed, and nothing else."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from shutil import get_terminal_size

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App, ComposeResult
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from lattice.cli.context import Context
from lattice.cli.tui.keys import press
from lattice.cli.tui.lines import ACCENT, BAD, CURSOR, DIM, GOOD, HEAD, PLAIN, STRONG, WARN, Line
from lattice.cli.tui.orders import run_with_terminal
from lattice.cli.tui.session import ScreenSession
from lattice.cli.tui.source import Source
from lattice.cli.tui.views.view import ListView

TICK_S = 0.25
DRAW_S = 0.1  # what the server says within this time is drawn together
WHEEL = 3

STYLES = {
    PLAIN: Style(),
    GOOD: Style(color="green"),
    WARN: Style(color="yellow"),
    BAD: Style(color="red"),
    DIM: Style(dim=True),
    STRONG: Style(bold=True),
    ACCENT: Style(color="cyan", bold=True),
    CURSOR: Style(reverse=True),
    HEAD: Style(dim=True, underline=False),
}
WITHOUT_COLOUR = {
    **STYLES,
    GOOD: Style(),
    WARN: Style(),
    BAD: Style(bold=True),
    ACCENT: Style(bold=True),
}


class Paper(Widget, can_focus=True):
    """The whole screen."""

    DEFAULT_CSS = "Paper { width: 100%; height: 100%; }"

    def __init__(self, session: ScreenSession, styles: dict[str, Style]) -> None:
        super().__init__()
        self._session, self._styles = session, styles
        self._drawn: list[Line] = []

    def update(self) -> None:
        """Draw the lines that differ from those on the screen."""
        width, height = self.size
        if not width or not height:
            return
        fresh = self._session.lines(width, height)
        if len(fresh) != len(self._drawn):
            self._drawn = fresh
            self.refresh()
            return
        changed = [place for place, each in enumerate(fresh) if each != self._drawn[place]]
        self._drawn = fresh
        if changed:
            self.refresh(*(Region(0, place, width, 1) for place in changed))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        spans = self._drawn[y] if y < len(self._drawn) else ()
        strip = Strip([Segment(span.text, self._styles[span.tone]) for span in spans])
        return strip.adjust_cell_length(width, self._styles[PLAIN])

    def on_resize(self) -> None:
        self._drawn = []
        self.update()

    def on_click(self, event: events.Click) -> None:
        session = self._session
        view = session.view
        if event.y == 0 or session.prompt is not None or not isinstance(view, ListView):
            return
        inside = event.y - session.body_top - view.list_top
        if inside == 0 and (column := view.listing.column_at(event.x, self.size.width)) is not None:
            is_again = view.listing.sorted_by == column
            view.listing.sort(column, is_descending=is_again and not view.listing.is_descending)
        elif (row := view.listing.row_at(inside)) is not None:
            if row == view.listing.cursor:
                press(session, "enter", None)
            view.listing.cursor = row
            session.moved()
        self.update()

    def on_mouse_scroll_down(self, _: events.MouseScrollDown) -> None:
        self._scroll(WHEEL)

    def on_mouse_scroll_up(self, _: events.MouseScrollUp) -> None:
        self._scroll(-WHEEL)

    def _scroll(self, by: int) -> None:
        self._session.view.move(by)
        self._session.moved()
        self.update()


class Tui(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = []  # noqa: RUF012 - as textual declares it
    CSS = "Screen { background: ansi_default; color: ansi_default; }"

    def __init__(self, context: Context, address: str) -> None:
        super().__init__(ansi_color=True)
        self._cli, self._address = context, address
        self.session = ScreenSession(context, Source(context, self._post), self)
        is_plain = context.flags.no_color or bool(context.process.environment.get("NO_COLOR"))
        self.paper = Paper(self.session, WITHOUT_COLOUR if is_plain else STYLES)
        self._is_due = False
        self._misfit: Size | None = None
        self._inside = copy_context()
        self.animation_level = "none"

    def compose(self) -> ComposeResult:
        yield self.paper

    def on_mount(self) -> None:
        self._inside = copy_context()  # textual finds itself by it
        self.session.begin(self._address)
        self.set_interval(TICK_S, self._tick)
        self.paper.focus()

    def _tick(self) -> None:
        self.session.tick()
        self._fit()

    def _fit(self) -> None:
        """Take the size of the terminal where word of it was lost.

        On a busy machine textual drops a timer that is late when it starts, the one that passes a new size on too;
        it waits for that timer then, and no later size reaches the screen either.
        """
        size = self._terminal_size()
        if size is None or size == self.paper.size:
            self._misfit = None
        elif size != self._misfit:
            self._misfit = size  # word of it may be on its way until the next tick
        else:
            self.post_message(events.Resize(size, size))
            self.screen.post_message(events.Resize(size, size))

    def _terminal_size(self) -> Size | None:
        """None where there is no terminal, it does not know, or the environment names another size to textual."""
        if self.is_headless or not {"COLUMNS", "LINES"}.isdisjoint(os.environ):
            return None
        return Size(*get_terminal_size((0, 0))) or None

    def _post(self, act: Callable[[], None]) -> None:
        """Called by other threads, which must not wait for the screen."""
        with suppress(RuntimeError):  # it is being closed
            if self._loop is not None:
                self._loop.call_soon_threadsafe(act, context=self._inside)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            event.stop()
            press(self.session, event.key, event.character)
            self.paper.update()
        elif isinstance(event, events.Paste) and self.session.prompt is not None:
            self.session.prompt.insert(event.text)
            self.paper.update()
        else:
            await super().on_event(event)

    def draw(self) -> None:
        """Soon, and once for all that happens until then."""
        if not self._is_due and self.is_running and self._loop is not None:
            self._is_due = True
            # Not a timer of textual, which is dropped when it starts late: nothing would be drawn again.
            self._loop.call_later(DRAW_S, self._draw, context=self._inside)

    def _draw(self) -> None:
        self._is_due = False
        if self.is_running:
            self.paper.update()

    def quit(self) -> None:
        self.exit()

    def hand_over(self, words: Sequence[str]) -> int:
        with self.suspend():
            os.write(1, b"\x1b[2J\x1b[H")
            code = run_with_terminal(words, self._cli)
            if code:
                os.write(1, b"\r\nEnter goes back. ")
                with suppress(OSError):
                    os.read(0, 1024)
        self.refresh(layout=True)
        return code


def _follow_the_terminal() -> None:
    """Let the size be that of the terminal at every moment.

    COLUMNS and LINES, which build servers and some shells export, would hold for ever, and no change of size would be noticed.
    """
    with suppress(OSError):
        if all(os.get_terminal_size(1)):
            os.environ.pop("COLUMNS", None)
            os.environ.pop("LINES", None)


def run_tui(context: Context, address: str, *, has_mouse: bool) -> None:
    _follow_the_terminal()
    Tui(context, address).run(mouse=has_mouse)
