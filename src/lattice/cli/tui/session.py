"""The screen without a terminal: keys and answers in, lines out. `app.py` puts it on a real one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from time import monotonic
from typing import Any, Protocol

from lattice.cli.context import Context
from lattice.cli.errors import CommandError, UsageError, message_of
from lattice.cli.tui.lines import ACCENT, BAD, DIM, GOOD, HEAD, STRONG, WARN, Line, Span, both_ends, fitted, line
from lattice.cli.tui.orders import GoTo, Quit, Run, run_quietly, understand_order
from lattice.cli.tui.places import TITLES, VIEWS, view_at
from lattice.cli.tui.prompt import Prompt
from lattice.cli.tui.source import Following, Source, is_gone
from lattice.cli.tui.views.allocation import OneAllocation
from lattice.cli.tui.views.allocations import Allocations
from lattice.cli.tui.views.dags import OneDag
from lattice.cli.tui.views.log import TAIL, Log
from lattice.cli.tui.views.said import Said
from lattice.cli.tui.views.view import View
from lattice_sdk.client import Client
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import LogChunk

LEAST = (60, 12)  # columns and lines
SOON_S = 1.0  # the least between two readings of a view
TICK_S = 5.0  # between two looks at the clock
PEEK_AFTER_S = 0.25  # the cursor rests before its log is asked for
MESSAGE_S = 8.0


class Terminal(Protocol):
    def draw(self) -> None: ...
    def quit(self) -> None: ...
    def hand_over(self, words: Sequence[str]) -> int:
        """Let a command have the terminal; its exit code."""
        ...


@dataclass
class Peek:
    """The end of the output of what the cursor is at."""

    view: Log
    following: Following | None = None


class ScreenSession:
    def __init__(self, context: Context, source: Source, terminal: Terminal) -> None:
        self.context, self.source, self.terminal = context, source, terminal
        self.clock = context.clock
        self.stack: list[View[Any]] = []
        self.who = ""
        self.prompt: Prompt | None = None
        self.is_live = False
        self.is_reachable = True
        self.answered_at = 0.0
        self.message: tuple[str, str, float] = ("", "", 0.0)
        self.history: list[str] = []
        self.peek: Peek | None = None
        self.width, self.height = 80, 24
        self.body_top = 2
        self._busy: set[int] = set()
        self._again: set[int] = set()
        self._read_at: dict[int, float] = {}
        self._ticked = monotonic()
        self._peek_due = 0.0
        self._following: dict[int, Following] = {}

    # -- views ---------------------------------------------------------------------------------------------------

    @property
    def view(self) -> View[Any]:
        return self.stack[-1]

    def begin(self, address: str) -> None:
        self.open(view_at(address, self.clock))
        self.source.ask(lambda client: client.whoami().user, self._known, lambda _: None)
        self.source.start(self.hear, self.live, self.lost)

    def _known(self, user: str) -> None:
        self.who = user
        self.terminal.draw()

    def go(self, address: str, *, is_root: bool = False) -> None:
        try:
            view = view_at(address, self.clock)
        except UsageError as error:
            self.say(f"{error}", BAD)
            return
        if is_root:
            while self.stack:
                self._close(self.stack.pop())
        self.open(view)

    def open(self, view: View[Any]) -> None:
        self.close_peek()
        self.stack.append(view)
        self.read(view)
        if isinstance(view, OneAllocation):
            self._following[id(view)] = self.source.watch_changes(view.id, partial(self._hear_change, view))
        elif isinstance(view, Log):
            self._follow_log(view)
        self.terminal.draw()

    def back(self) -> None:
        if self.peek is not None:
            self.close_peek()
        elif len(self.stack) > 1:
            self._close(self.stack.pop())
            self.read(self.view)
        else:
            self.ask_yes("Leave?", self.terminal.quit)
        self.terminal.draw()

    def _close(self, view: View[Any]) -> None:
        following = self._following.pop(id(view), None)
        if following is not None:
            following.stop()

    def replace(self, view: View[Any]) -> None:
        self._close(self.stack.pop())
        self.open(view)

    def read(self, view: View[Any]) -> None:
        """Ask for what the view shows; once more afterwards when it was asked for meanwhile."""
        key = id(view)
        if key in self._busy:
            self._again.add(key)
            return
        self._busy.add(key)
        self._read_at[key] = monotonic()
        self.source.ask(view.read, partial(self._take, view), partial(self._failed, view))

    def _take(self, view: View[Any], answer: object) -> None:
        self._busy.discard(id(view))
        self._answered()
        view.take(answer)
        view.is_read, view.problem = True, ""
        self._read_on(view)
        if view is self.view:
            self.terminal.draw()

    def _failed(self, view: View[Any], error: Exception) -> None:
        self._busy.discard(id(view))
        if is_gone(error):
            self.is_reachable = False
        else:
            self._answered()
            view.problem = message_of(error) if isinstance(error, LatticeError) else str(error)
        self.terminal.draw()

    def _read_on(self, view: View[Any]) -> None:
        if isinstance(view, Allocations) and view.wants_more():
            view.is_reading_on = True
            self.source.ask(view.read_on, partial(self._more, view), partial(self._no_more, view))

    def _more(self, view: Allocations, page: object) -> None:
        view.take_more(page)  # type: ignore[arg-type]
        self._read_on(view)
        self.terminal.draw()

    def _no_more(self, view: Allocations, _: Exception) -> None:
        view.is_reading_on = False

    # -- what happens elsewhere ----------------------------------------------------------------------------------

    def _answered(self) -> None:
        self.answered_at = self.clock.now()
        if not self.is_reachable:
            self.is_reachable = True
            if isinstance(self.view, Log) and self.view.log.problem:
                self._follow_log(self.view)

    def hear(self, event: Event) -> None:
        self._answered()
        for view in self.stack:
            if view.hears(event):
                self._again.add(id(view))
        self.terminal.draw()

    def live(self) -> None:
        self._answered()
        self.is_live = True
        self.terminal.draw()

    def lost(self) -> None:
        """The stream of changes is away."""
        if self.is_reachable or self.is_live:
            self.is_reachable = self.is_live = False
            self.terminal.draw()

    def _hear_change(self, view: OneAllocation, event: Event) -> None:
        if event not in view.heard:
            view.heard.append(event)
        self.terminal.draw()

    def tick(self) -> None:
        """Called four times a second: what is due is read again, and time passes on the screen now and then."""
        now = monotonic()
        view = self.view
        since = now - self._read_at.get(id(view), 0.0)
        is_due = id(view) in self._again and since >= SOON_S
        if not self.is_reachable:
            is_due = since >= SOON_S
        if (is_due or since >= view.every_s) and id(view) not in self._busy:
            self._again.discard(id(view))
            self.read(view)
        if self._peek_due and now >= self._peek_due:
            self._peek_due = 0.0
            self._show_peek()
        if now - self._ticked >= TICK_S:
            self._ticked = now
            if isinstance(view, Allocations):
                view.tick()
            self.terminal.draw()
        elif self.message[0] and now >= self.message[2]:
            self.message = ("", "", 0.0)
            self.terminal.draw()

    def _follow_log(self, view: Log) -> None:
        old = self._following.pop(id(view), None)
        if old is not None:
            old.stop()
        view.log.clear()
        view.log.problem, view.log.is_over = "", False
        self._following[id(view)] = self._streams_of(view)

    def _streams_of(self, view: Log) -> Following:
        def take(stream: str, chunk: LogChunk) -> None:
            view.log.take(chunk.node, stream, chunk.data)
            self.terminal.draw()

        def ended(why: str) -> None:
            view.log.is_over, view.log.problem = not why, why
            self.terminal.draw()

        return self.source.follow_log(view.id, TAIL, take, ended, view.log.clear)

    # -- orders --------------------------------------------------------------------------------------------------

    def say(self, text: str, tone: str = "") -> None:
        # What went wrong stays until the next key.
        self.message = (text, tone, inf if tone == BAD else monotonic() + MESSAGE_S)
        self.terminal.draw()

    def ask_yes(self, question: str, act: Callable[[], None]) -> None:
        self.prompt = Prompt(question, lambda _: act(), is_question=True)

    def order(self, doing: str, done: str, question: Callable[[Client], object]) -> None:
        """Send an order and say what became of it."""
        self.say(f"{doing} ...", DIM)

        def then(_: object) -> None:
            self._answered()
            self.say(done, GOOD)
            self.read(self.view)

        def failed(error: Exception) -> None:
            hint = getattr(error, "hint", "")
            text = message_of(error) if isinstance(error, LatticeError | CommandError) else str(error)
            self.say(f"{text}{f' ({hint})' if hint else ''}", BAD)

        self.source.ask(question, then, failed)

    def run_order(self, text: str) -> None:
        if text:
            self.history.append(text)
        try:
            found = understand_order(text)
        except UsageError as error:
            self.say(str(error), BAD)
            return
        match found:
            case None:
                return
            case Quit():
                self.terminal.quit()
            case GoTo(address):
                self.go(address, is_root=address in VIEWS)
            case Run(words, has_terminal):
                if has_terminal:
                    self.hand_over(words)
                else:
                    self._run_quietly(words)

    def _run_quietly(self, words: Sequence[str]) -> None:
        line_text = "lattice " + " ".join(words)
        self.say(f"{line_text} ...", DIM)

        def then(answer: tuple[int, str]) -> None:
            code, said = answer
            self.message = ("", "", 0.0)
            if said.count("\n") <= 1:
                self.say(said.strip() or "done", BAD if code else GOOD)
                self.read(self.view)
            else:
                self.open(Said(line_text, said, code))

        self.source.ask(lambda _: run_quietly(words, self.context), then, lambda error: self.say(str(error), BAD))

    def hand_over(self, words: Sequence[str]) -> None:
        code = self.terminal.hand_over(words)
        self.say(f"`lattice {' '.join(words)}` ended with code {code}", BAD if code else DIM)
        self.read(self.view)

    # -- peek ----------------------------------------------------------------------------------------------------

    def toggle_peek(self) -> None:
        if self.peek is not None:
            self.close_peek()
        else:
            self._show_peek()

    def _show_peek(self) -> None:
        row = self.view.current if isinstance(self.view, Allocations | OneDag) else None
        if row is None:
            return
        wanted = row.opens.partition("/")[2]
        if self.peek is not None and self.peek.view.id == wanted:
            return
        self.close_peek()
        view = Log(f"allocations/{wanted}/log", wanted)
        self.peek = Peek(view)
        self.peek.following = self._streams_of(view)
        self.terminal.draw()

    def close_peek(self) -> None:
        if self.peek is not None and self.peek.following is not None:
            self.peek.following.stop()
        self.peek = None

    def moved(self) -> None:
        if self.peek is not None:
            self._peek_due = monotonic() + PEEK_AFTER_S
        self._read_on(self.view)

    # -- lines ---------------------------------------------------------------------------------------------------

    def lines(self, width: int, height: int) -> list[Line]:
        """All lines of the screen, exactly `height` of them."""
        self.width, self.height = width, height
        if width < LEAST[0] or height < LEAST[1]:
            said = f"This terminal has {width} x {height} characters; lattice tui needs {LEAST[0]} x {LEAST[1]}."
            parts = [said[at : at + max(1, width)] for at in range(0, len(said), max(1, width))]
            return [line(part, WARN) for part in parts][:height] + [()] * max(0, height - len(parts))
        above = [self._tabs(width), self._heading(width)]
        if not self.is_reachable:
            above.append(line(self._gone()[:width], BAD))
        elif self.view.problem:
            above.append(fitted(line(self.view.problem, BAD), width))
        self.body_top = len(above)
        room = height - len(above) - 1
        below: list[Line] = []
        if self.peek is not None:
            half = max(4, room // 2)
            log = self.peek.view
            rule = f"── {log.id} output " + "─" * width
            below = [line(rule[:width], DIM), *log.lines(width, half - 1)]
            below += [()] * (half - len(below))
            room -= half
        body = self.view.lines(width, room)[:room]
        body += [()] * (room - len(body))
        return [*above, *body, *below, self._bottom(width)]

    def _gone(self) -> str:
        from datetime import datetime

        when = f"{datetime.fromtimestamp(self.answered_at):%H:%M:%S}" if self.answered_at else ""  # noqa: DTZ006 - local
        known = f" This is from {when};" if when else ""
        return f"The server does not answer.{known} trying again by itself"

    def _tabs(self, width: int) -> Line:
        spans = []
        for place, word in enumerate(VIEWS, 1):
            tone = ACCENT if word == self.view.word else DIM
            spans += [Span(f" {place}", DIM), Span(f" {TITLES[word]}", tone)]
        state = Span(" live ", GOOD) if self.is_live and self.is_reachable else Span(" away ", WARN)
        full = both_ends(spans, (Span(self.who, DIM), state), width)
        return full if full[-1] is state else both_ends(spans, (state,), width)

    def _heading(self, width: int) -> Line:
        left = [Span(f" {self.view.heading()}", STRONG)]
        remark = self.view.remark()
        left += [Span(f"  {remark}", DIM)] if remark else []
        clean = [*line("".join(span.text for span in left[:1]), STRONG), *left[1:]]
        return both_ends(clean, (Span(f"{self.view.command(self.who)} ", DIM),), width)

    def _bottom(self, width: int) -> Line:
        if self.prompt is not None:
            return fitted(self.prompt.line(width), width)
        text, tone, _ = self.message
        if text:
            return fitted(line(f" {text.replace(chr(10), ' ')}", tone), width)
        return fitted(line(f" {self.view.keys}", HEAD), width)
