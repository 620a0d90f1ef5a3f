"""The line at the bottom of the screen in which a filter, a command, a reason or an answer is typed."""

from collections.abc import Callable
from dataclasses import dataclass

from lattice.cli.output import cell_width
from lattice.cli.tui.lines import ACCENT, CURSOR, PLAIN, Line, Span

LONGEST = 2000


@dataclass
class Prompt:
    """`done` gets the text after Enter; Escape changes nothing. With `is_question` the keys y and n answer at once."""

    label: str
    done: Callable[[str], None]
    text: str = ""
    place: int = 0
    is_question: bool = False
    history: tuple[str, ...] = ()
    _back: int = 0

    def __post_init__(self) -> None:
        self.place = len(self.text)

    def key(self, name: str, char: str | None) -> bool:
        """Take a key; False when the prompt is over."""
        if self.is_question:
            if name in ("y", "Y"):
                self.done("y")
            return False
        if name == "enter":
            self.done(self.text.strip())
            return False
        if name in ("escape", "ctrl+c", "ctrl+g"):
            return False
        if name == "backspace" and not self.text:
            return False
        self._edit(name, char)
        return True

    def insert(self, text: str) -> None:
        clean = "".join(char for char in text if char.isprintable())
        self.text = (self.text[: self.place] + clean + self.text[self.place :])[:LONGEST]
        self.place = min(self.place + len(clean), len(self.text))

    def _edit(self, name: str, char: str | None) -> None:
        before, after = self.text[: self.place], self.text[self.place :]
        match name:
            case "backspace" | "ctrl+h":
                self._set(before[:-1], after)
            case "delete":
                self._set(before, after[1:])
            case "ctrl+u":
                self._set("", after)
            case "ctrl+k":
                self._set(before, "")
            case "ctrl+w":
                self._set(before.rstrip()[: before.rstrip().rfind(" ") + 1], after)
            case "left":
                self.place = max(0, self.place - 1)
            case "right":
                self.place = min(len(self.text), self.place + 1)
            case "home" | "ctrl+a":
                self.place = 0
            case "end" | "ctrl+e":
                self.place = len(self.text)
            case "up" | "down":
                self._recall(1 if name == "up" else -1)
            case _ if char is not None and char.isprintable():
                self.insert(char)

    def _set(self, before: str, after: str) -> None:
        self.text, self.place = before + after, len(before)

    def _recall(self, step: int) -> None:
        if self.history:
            self._back = max(0, min(self._back + step, len(self.history)))
            self.text = self.history[-self._back] if self._back else ""
            self.place = len(self.text)

    def line(self, width: int) -> Line:
        """The end of a long text is seen, and the place where the next character goes."""
        if self.is_question:
            return (Span(f" {self.label} [y/N] ", ACCENT), Span(" ", CURSOR))
        label = f" {self.label}"
        room = max(1, width - cell_width(label) - 2)
        start = max(0, self.place - room + 1)
        seen = self.text[start : start + room]
        at = self.place - start
        return (
            Span(label, ACCENT),
            Span(seen[:at], PLAIN),
            Span(seen[at : at + 1] or " ", CURSOR),
            Span(seen[at + 1 :], PLAIN),
        )
