"""The output of an allocation, as it comes."""

from collections import deque
from dataclasses import dataclass, field

from lattice.cli.tui.lines import ACCENT, BAD, DIM, PLAIN, Line, Span, line, printable_lines, wrapped
from lattice.cli.tui.views.view import PageView
from lattice_sdk.client import Client

KEPT = 5000  # lines
TAIL = 500


@dataclass
class LogLines:
    """Pieces of output in, whole lines out; the last, unfinished one of each source is shown as far as it is known."""

    kept: deque[tuple[str, str, str]] = field(default_factory=lambda: deque(maxlen=KEPT))  # node, stream, text
    nodes: list[str] = field(default_factory=list)
    _rest: dict[tuple[str, str], bytes] = field(default_factory=dict)
    is_over: bool = False
    problem: str = ""

    def take(self, node: str, stream: str, data: bytes) -> None:
        if node not in self.nodes:
            self.nodes.append(node)
        *whole, rest = (self._rest.get((node, stream), b"") + data).split(b"\n")
        # A line without an end must not grow for ever.
        if len(rest) > 64 * 1024:
            whole, rest = [*whole, rest], b""
        self._rest[node, stream] = rest
        for text in whole:
            self.kept.append((node, stream, text.decode("utf-8", "replace")))

    def clear(self) -> None:
        self.kept.clear()
        self._rest.clear()

    def lines(self, *, node: str = "", stream: str = "") -> list[tuple[str, str, str]]:
        open_ends = [(*source, rest.decode("utf-8", "replace")) for source, rest in self._rest.items() if rest]
        return [
            each for each in (*self.kept, *open_ends) if node in ("", each[0]) and (not stream or each[1] == stream)
        ]


class Log(PageView[None]):
    word = "allocations"
    every_s = 3600.0
    keys = "f follow  / find  n next  e stream  tab node  w wrap  Esc back"

    def __init__(self, address: str, allocation_id: str) -> None:
        super().__init__(address)
        self.id = allocation_id
        self.log = LogLines()
        self.is_following = True
        self.is_wrapped = False
        self.node = ""
        self.stream = ""
        self.wanted = ""
        self.height = 1

    def heading(self) -> str:
        return f"{self.id}  output"

    def remark(self) -> str:
        parts = [self.stream or "stdout and stderr", self.node or "", f'"{self.wanted}"' if self.wanted else ""]
        state = "ended" if self.log.is_over else "following" if self.is_following else "not following"
        return ", ".join(part for part in (*parts, state) if part)

    def command(self, who: str) -> str:
        flags = " --stderr" if self.stream == "stderr" else ""
        node = f" --node={self.node}" if self.node else ""
        return f"lattice logs{' --follow' if self.is_following else ''}{flags}{node} {self.id}"

    def read(self, client: Client) -> None:
        """Its threads read."""

    def take(self, answer: None) -> None:
        """Its threads feed it."""

    def compose(self, width: int) -> list[Line]:
        several = len(self.log.nodes) > 1 and not self.node
        found = []
        for node, stream, text in self.log.lines(node=self.node, stream=self.stream):
            tone = BAD if stream == "stderr" else PLAIN
            head: Line = (Span(f"{node}: ", DIM),) if several else ()
            for part in self._parts(text, width - (len(node) + 2 if several else 0), tone):
                found.append((*head, *self._lit(part)))
        if self.log.problem:
            found += wrapped(self.log.problem, width, BAD)
        return found or [line("No output yet." if not self.log.is_over else "It wrote nothing.", DIM)]

    def _parts(self, text: str, room: int, tone: str) -> list[Line]:
        if self.is_wrapped:
            return wrapped(text, max(10, room), tone)
        # A progress bar rewrites its line: what it wrote last is what counts.
        shown = printable_lines(text.rstrip("\r").rpartition("\r")[2])
        return [(Span(each, tone),) for each in shown]

    def _lit(self, part: Line) -> Line:
        """The text that was searched for stands out."""
        if not self.wanted:
            return part
        lit: list[Span] = []
        for span in part:
            rest, low, key = span.text, span.text.casefold(), self.wanted.casefold()
            while (at := low.find(key)) >= 0 and len(low) == len(rest):
                lit += [Span(rest[:at], span.tone), Span(rest[at : at + len(key)], ACCENT)]
                rest, low = rest[at + len(key) :], low[at + len(key) :]
            lit.append(Span(rest, span.tone))
        return tuple(span for span in lit if span.text)

    def lines(self, width: int, height: int) -> list[Line]:
        self.height, self.is_read = height, True
        if self.is_following:
            self.top = 10**9
        return super().lines(width, height)

    def move(self, by: int) -> None:
        self.top = min(self.top, max(0, self.count - self.height))
        super().move(by)
        self.is_following = by > 0 and self.top >= self.count - self.height and self.is_following

    def to_end(self, *, is_last: bool) -> None:
        super().to_end(is_last=is_last)
        self.is_following = is_last

    def find(self, text: str, width: int, *, is_next: bool = False) -> bool:
        """Go to the next line with it, from the top again after the last."""
        self.wanted = text
        texts = ["".join(span.text for span in each).casefold() for each in self.compose(width)]
        start = self.top + 1 if is_next else 0
        places = [place for place, each in enumerate(texts) if text.casefold() in each]
        if not text or not places:
            return not text
        self.is_following = False
        self.top = next((place for place in places if place >= start), places[0])
        return True

    def next_node(self) -> None:
        names = ["", *self.log.nodes]
        self.node = names[(names.index(self.node) + 1) % len(names)] if self.node in names else ""

    def next_stream(self) -> None:
        names = ["", "stdout", "stderr"]
        self.stream = names[(names.index(self.stream) + 1) % len(names)]
