"""What a view of the screen is: an address, questions to the server, and lines."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from lattice.cli.tui.lines import DIM, Line, fitted, line
from lattice.cli.tui.listing import Column, Listing, Row
from lattice_sdk.client import Client
from lattice_sdk.models.changes import Event

EVERY_S = 10.0
A = TypeVar("A")  # what the server answers with


class View(ABC, Generic[A]):
    """Reads in a thread, shows in the thread of the screen."""

    word = ""  # of the heading that it belongs to
    every_s = EVERY_S  # between readings when nothing is heard
    keys: str = ""  # for the bottom line

    def __init__(self, address: str) -> None:
        self.address = address
        self.is_read = False
        self.problem = ""

    def heading(self) -> str:
        return self.address

    def remark(self) -> str:
        return ""

    def command(self, who: str) -> str:
        """The command that shows the same."""
        return ""

    @abstractmethod
    def read(self, client: Client) -> A:
        """Ask the server; runs in another thread and must not change the view."""

    @abstractmethod
    def take(self, answer: A) -> None: ...

    def hears(self, event: Event) -> bool:
        """Whether to read again because of it."""
        return False

    @abstractmethod
    def lines(self, width: int, height: int) -> list[Line]: ...

    @abstractmethod
    def move(self, by: int) -> None: ...

    @abstractmethod
    def to_end(self, *, is_last: bool) -> None: ...

    def filtered(self, text: str) -> "View[Any] | None":
        """The view for a filter that was typed; None where there is nothing to filter. Raises UsageError."""
        return None

    @property
    def filter_text(self) -> str:
        return ""


class ListView(View[A]):
    columns: Sequence[Column] = ()
    nothing = "Nothing here."

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.listing = Listing(columns=self.columns)

    def preface(self, width: int, height: int) -> list[Line]:
        """Lines above the list."""
        return []

    def lines(self, width: int, height: int) -> list[Line]:
        above = [fitted(each, width) for each in self.preface(width, height)][: max(0, height - 4)]
        self.list_top = len(above)
        if self.is_read and not self.listing.rows:
            return [*above, *self.listing.lines(width, 2)[:1], line(f"  {self.nothing}", DIM)]
        return [*above, *self.listing.lines(width, height - len(above))]

    list_top = 0

    def move(self, by: int) -> None:
        self.listing.move(by)

    def to_end(self, *, is_last: bool) -> None:
        self.listing.move(10**9 if is_last else -(10**9))

    @property
    def current(self) -> Row | None:
        return self.listing.current


class PageView(View[A]):
    """Text that is scrolled."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.top = 0
        self.count = 0

    @abstractmethod
    def compose(self, width: int) -> list[Line]: ...

    def lines(self, width: int, height: int) -> list[Line]:
        if not self.is_read:
            return [line("Reading ...", DIM)]
        found = self.compose(width)
        self.count = len(found)
        self.top = max(0, min(self.top, self.count - height))
        return [fitted(each, width) for each in found[self.top : self.top + height]]

    def move(self, by: int) -> None:
        self.top = max(0, self.top + by)

    def to_end(self, *, is_last: bool) -> None:
        self.top = 10**9 if is_last else 0
