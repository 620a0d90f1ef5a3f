"""The list of allocations: searched, live, task groups folded."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from lattice.cli.context import Clock
from lattice.cli.errors import UsageError
from lattice.cli.times import span_text
from lattice.cli.tui.listing import Column, Row, order_of
from lattice.cli.tui.search import Search, understand
from lattice.cli.tui.views.view import ListView, View
from lattice.cli.views.allocations import nodes_text, state_text, why_text
from lattice_sdk.client import Client
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, Allocation, AllocationFilter, Counts, Page

FIRST = 200
MORE = 500
MAX_ROWS = 20_000  # rows that are kept
TASKS = 1000  # of a group that is unfolded
SOON = 60  # rows before the end: read on


class Answer(NamedTuple):
    page: Page[Allocation]
    counts: Counts
    tasks: list[Allocation]


class Allocations(ListView[Answer]):
    word = "allocations"
    columns = (
        Column("ID", 6),
        Column("NAME", 8, most=24),
        Column("USER", 5, most=12),
        Column("STATE", 9),
        Column("NODES", 5, is_right=True),
        Column("TIME", 6, is_right=True),
        Column("WHY", 10, grows=True),
    )
    nothing = "No allocations. / changes the filter, :submit makes one."
    keys = "Enter open  Space log  / filter  : command  x cancel  m mark  <> sort  ? keys"

    def __init__(self, address: str, search: Search, text: str, clock: Clock) -> None:
        super().__init__(address)
        self.search, self.text, self._clock = search, text, clock
        self.found: dict[str, Allocation] = {}
        self.tasks: list[Allocation] = []
        self.total: int | None = None
        self.cursor: str | None = None
        self.is_reading_on = False

    def heading(self) -> str:
        return f"Allocations  {self.text}".rstrip()

    def remark(self) -> str:
        if self.total is None:
            return ""
        kept = f", {len(self.found):,} read" if len(self.found) < self.total else ""
        return f"{self.total:,} found{kept}"

    def command(self, who: str) -> str:
        return self.search.command(who)

    @property
    def filter_text(self) -> str:
        return self.text

    def filtered(self, text: str) -> View[Any]:
        return search_view(text, self._clock)

    def read(self, client: Client) -> Answer:
        wanted = self.search.filter()
        page = client.list_allocations(wanted, limit=FIRST)
        tasks: list[Allocation] = []
        for group in sorted(self.listing.opened):
            tasks += client.list_allocations(AllocationFilter(group=group, is_archive_included=True), limit=TASKS).items
        return Answer(page, client.count_allocations(wanted), tasks)

    def take(self, answer: Answer) -> None:
        self.total = answer.counts.total
        self.tasks = answer.tasks
        items = answer.page.items
        kept: list[Allocation] = []
        if items and answer.page.next_cursor:
            last = items[-1].number
            kept = [each for each in self.found.values() if each.number < last]
        if not kept:
            self.cursor = answer.page.next_cursor
        self.found = {each.id: each for each in (*items, *kept)}
        self._draw()

    def wants_more(self) -> bool:
        """Whether the cursor comes near the end of what was read, or all of it has to be sorted."""
        near = self.listing.cursor >= len(self.listing.rows) - SOON or self.listing.sorted_by is not None
        return near and bool(self.cursor) and not self.is_reading_on and len(self.found) < MAX_ROWS

    def read_on(self, client: Client) -> Page[Allocation]:
        return client.list_allocations(self.search.filter(), limit=MORE, cursor=self.cursor or "")

    def take_more(self, page: Page[Allocation]) -> None:
        self.is_reading_on = False
        self.cursor = page.next_cursor
        self.found.update((each.id, each) for each in page.items if each.id not in self.found)
        self._draw()

    def unfold(self) -> bool:
        """Show the tasks of the group at the cursor, or fold them; whether they have to be read."""
        row = self.current
        if row is None:
            return False
        key = row.under or row.key
        if key in self.listing.opened:
            self.listing.opened.discard(key)
            if row.under:
                self.listing.cursor = next(
                    (place for place, each in enumerate(self.listing.rows) if each.key == key), self.listing.cursor
                )
            self._draw()
            return False
        if not row.has_parts:
            return False
        self.listing.opened.add(key)
        return True

    def hears(self, event: Event) -> bool:
        if event.kind == GAP:
            return True
        if event.what != "allocation":
            return False
        if event.id in self.found:
            self.found[event.id] = changed(self.found[event.id], event)
            self._draw()
        return True

    def tick(self) -> None:
        """Time has passed."""
        self._draw()

    def _draw(self) -> None:
        now = self._clock.now()
        rows = [row_of(each, now) for each in self.found.values()]
        rows += [row_of(each, now, under=each.group_id or "") for each in self.tasks if each.id not in self.found]
        self.listing.show(rows)


def search_view(text: str, clock: Clock) -> Allocations:
    """Raises UsageError with the first thing that is wrong."""
    search = understand(text, clock.now())
    if search.problems:
        raise UsageError(search.problems[0])
    return Allocations(f"allocations?{text}", search, text, clock)


def changed(row: Allocation, event: Event) -> Allocation:
    """What a change says about a row of the list."""
    fields: dict[str, object] = {"state": event.state}
    if event.nodes:
        fields |= {"nodes": event.nodes, "node_count": len(event.nodes)}
    if event.kind == "started":
        fields["started_at"] = event.at
    if event.kind == "ended":
        fields["completed_at"] = event.at
    if event.exit_code is not None:
        fields["exit_code"] = event.exit_code
    if event.reason is not None:
        fields["reason"] = event.reason
    return replace(row, **fields)


def elapsed_s(row: Allocation, now: float) -> float | None:
    if row.started_at is None:
        return None
    if row.elapsed_s is not None and row.is_terminal:
        return float(row.elapsed_s)
    from datetime import datetime

    return max(0.0, now - datetime.fromisoformat(row.started_at).timestamp())


def short_span(seconds: float | None) -> str:
    """As long as three or four characters allow: 45 s, 12 min, 26 h."""
    return "" if seconds is None else span_text(seconds - seconds % 5 if seconds < 90 else seconds)


def row_of(each: Allocation, now: float, *, under: str = "") -> Row:
    elapsed = elapsed_s(each, now)
    count = each.node_count or each.resources.nodes
    state = state_text(each)
    name = f"{each.name} [{each.task_index}]" if under and each.task_index is not None else each.name
    why = why_text(each)
    return Row(
        key=each.id,
        cells=(each.id, name, each.user, state, nodes_text(each), short_span(elapsed), why),
        values=tuple(map(order_of, (each.number, name, each.user, state, count, elapsed, why))),
        state=state,
        opens=f"allocations/{each.id}",
        under=under,
        has_parts=each.task_counts is not None,
    )
