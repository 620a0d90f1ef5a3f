"""A list with a cursor: sorted by a column, folded, marked. Rows may come and go; the cursor stays with its row."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lattice.cli.output import cell_width, printable
from lattice.cli.tui.lines import ACCENT, CURSOR, HEAD, PLAIN, Line, Span, padded, tone_of

Sortable = tuple[int, float, str]


def order_of(value: float | str | None) -> Sortable:
    """Comparable whatever it is: nothing first, then figures, then texts."""
    if value is None or value == "":
        return (0, 0.0, "")
    return (1, float(value), "") if isinstance(value, int | float) else (2, 0.0, value.casefold())


class Column(NamedTuple):
    """`room` is its least width and `most` its largest, 0 = any; the one that `grows` takes what the others leave."""

    head: str
    room: int
    most: int = 0
    is_right: bool = False
    grows: bool = False


@dataclass(frozen=True, kw_only=True)
class Row:
    """`opens` is the address of its page. `under` is the key of the row that it is folded into."""

    key: str
    cells: tuple[str, ...]
    values: tuple[Sortable, ...]
    state: str = ""
    opens: str = ""
    under: str = ""
    has_parts: bool = False


FOLDED, OPEN, PART = "▸ ", "▾ ", "  "


@dataclass
class Listing:
    columns: Sequence[Column]
    rows: list[Row] = field(default_factory=list)
    sorted_by: int | None = None  # None = as they come
    is_descending: bool = False
    opened: set[str] = field(default_factory=set)  # rows whose parts are shown
    marked: set[str] = field(default_factory=set)
    cursor: int = 0
    top: int = 0

    def show(self, rows: Iterable[Row]) -> None:
        """Take other rows; the cursor and the place on the screen stay with what they were at."""
        at = self.current
        above = self.cursor - self.top
        self.rows = self._arranged(list(rows))
        keys = {row.key: place for place, row in enumerate(self.rows)}
        self.marked &= keys.keys()
        if at is not None and at.key in keys and (self.cursor > 0 or self.sorted_by is not None):
            self.cursor = keys[at.key]
            self.top = max(0, self.cursor - above)
        self.cursor = max(0, min(self.cursor, len(self.rows) - 1))

    def sort(self, by: int | None, *, is_descending: bool = False) -> None:
        self.sorted_by, self.is_descending = by, is_descending
        self.show(self.rows)

    def sort_beside(self, step: int) -> None:
        """By the column to the left or right; beyond the ends as they come."""
        places: list[int | None] = [None, *range(len(self.columns))]
        self.sort(places[(places.index(self.sorted_by) + step) % len(places)])

    def _arranged(self, rows: list[Row]) -> list[Row]:
        by = self.sorted_by
        heads = [row for row in rows if not row.under]
        if by is not None:
            heads.sort(key=lambda row: row.values[by], reverse=self.is_descending)
        parts: dict[str, list[Row]] = {}
        for row in rows:
            if row.under in self.opened:
                parts.setdefault(row.under, []).append(row)
        return [each for head in heads for each in (head, *parts.get(head.key, ()))]

    @property
    def current(self) -> Row | None:
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def move(self, by: int) -> None:
        self.cursor = max(0, min(self.cursor + by, len(self.rows) - 1))

    def mark(self) -> None:
        if self.current is not None:
            self.marked ^= {self.current.key}
            self.move(1)

    def chosen(self) -> list[Row]:
        """The marked rows, or else the one at the cursor."""
        if self.marked:
            return [row for row in self.rows if row.key in self.marked]
        return [] if self.current is None else [self.current]

    def lines(self, width: int, height: int) -> list[Line]:
        """The heading and the rows around the cursor."""
        body = max(1, height - 1)
        self.top = max(min(self.top, self.cursor), self.cursor - body + 1, 0)
        self.top = min(self.top, max(0, len(self.rows) - body))
        shown = self.rows[self.top : self.top + body]
        rooms = self._rooms(shown, width)
        lines = [self._heading(rooms)]
        for place, row in enumerate(shown, self.top):
            lines.append(self._line(row, rooms, is_current=place == self.cursor))
        return lines

    def row_at(self, line: int) -> int | None:
        """Which row is at that line of `lines`, for the mouse."""
        place = self.top + line - 1
        return place if line > 0 and place < len(self.rows) else None

    def column_at(self, cell: int, width: int) -> int | None:
        """Which column has that cell of the heading."""
        at = 1
        for place, room in enumerate(self._rooms(self.rows[self.top : self.top + 100], width)):
            if at <= cell < at + room + 1:
                return place
            at += room + 1
        return None

    def _rooms(self, shown: Sequence[Row], width: int) -> list[int]:
        """Columns as wide as what is seen of them, cut from the right where all do not fit."""
        wanted = []
        for place, column in enumerate(self.columns):
            widest = max((cell_width(row.cells[place]) for row in shown), default=0)
            wanted.append(max(column.room, min(widest, column.most or widest)))
        wanted[0] += len(PART)
        left = width - 1
        rooms = []
        for place, room in enumerate(wanted):
            least_after = sum(column.room + 1 for column in self.columns[place + 1 :])
            fair = max(self.columns[place].room + (len(PART) if place == 0 else 0), left - least_after - 1)
            given = max(0, min(room, fair, left - 1))
            rooms.append(given)
            left -= given + 1
        if left > 0:
            growing = next((place for place, column in enumerate(self.columns) if column.grows), len(rooms) - 1)
            rooms[growing] += left
        return rooms

    def _heading(self, rooms: Sequence[int]) -> Line:
        spans = [Span(" ", HEAD)]
        for place, (column, room) in enumerate(zip(self.columns, rooms, strict=True)):
            arrow = ("↓" if self.is_descending else "↑") if place == self.sorted_by else ""
            indent = PART if place == 0 else ""
            spans.append(Span(padded(f"{indent}{column.head}{arrow}", room, is_right=column.is_right) + " ", HEAD))
        return tuple(spans)

    def _line(self, row: Row, rooms: Sequence[int], *, is_current: bool) -> Line:
        base = CURSOR if is_current else PLAIN
        spans = [Span("*" if row.key in self.marked else " ", base or ACCENT)]
        for place, (text, room) in enumerate(zip(row.cells, rooms, strict=True)):
            if place == 0:
                sign = (OPEN if row.key in self.opened else FOLDED) if row.has_parts else PART
                text = (sign + text) if not row.under else f"{PART}{PART}{text}"
            tone = tone_of(text) if text == row.state and not is_current else base
            cell = padded(printable(text), room, is_right=self.columns[place].is_right)
            spans.append(Span(cell + " ", tone))
        return tuple(spans)
