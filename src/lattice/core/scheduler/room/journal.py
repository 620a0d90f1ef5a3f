"""Undo for columns: what entries held before they were changed, put back in the reverse order.

A journal is idle until a mark is opened: then each change is saved first, by the code that makes it. Marks nest; each ends by
going back to it or by dropping it. See docs/architecture/scheduler.md, "Undo".
"""

from collections.abc import Callable

from lattice.core.scheduler.tables.slots import Bools, Ints, Rows

Column = Ints | Bools
Undo = Callable[[], None]  # puts back what was when it was made; may be called more than once


class Journal:
    """Saved entries of any number of columns."""

    def __init__(self) -> None:
        # Oldest first. Empty while `_open` is 0. A column is saved before it is changed, by the one who changes it.
        self._saved: list[tuple[Column, Rows, Column]] = []
        self._open = 0  # marks that are neither gone back to nor dropped

    def open(self) -> int:
        """Begins to save; returns the place to go back to."""
        self._open += 1
        return len(self._saved)

    def save(self, column: Column, rows: Rows) -> None:
        """To be called before `column[rows]` changes."""
        if self._open:
            self._saved.append((column, rows, column[rows]))

    def undo(self, place: int) -> None:
        """Puts back everything that was saved from that place on."""
        while len(self._saved) > place:
            column, rows, before = self._saved.pop()
            column[rows] = before

    def close(self, open_still: int) -> None:
        """Ends marks until that many are left; without any, nothing is saved any more."""
        self._open = open_still
        if not open_still:
            self._saved.clear()
