"""A list with a cursor."""

import pytest

from lattice.cli.tui.lines import CURSOR, Line, width_of
from lattice.cli.tui.listing import Column, Listing, Row, order_of

COLUMNS = (Column("ID", 4), Column("NAME", 4, most=10), Column("SIZE", 4, is_right=True), Column("WHY", 5, grows=True))


def row(number: int, name: str = "", size: float | None = None, **more: object) -> Row:
    values = tuple(map(order_of, (number, name, size, "")))
    cells = (f"a{number}", name, "" if size is None else f"{size:g}", "")
    return Row(key=f"a{number}", cells=cells, values=values, **more)  # type: ignore[arg-type]


def text(line: Line) -> str:
    return "".join(span.text for span in line)


def shown(listing: Listing, width: int = 60, height: int = 10) -> list[str]:
    return [text(line).rstrip() for line in listing.lines(width, height)]


def keys(listing: Listing) -> list[str]:
    return [each.key for each in listing.rows]


@pytest.fixture
def listing() -> Listing:
    made = Listing(columns=COLUMNS)
    made.show([row(3, "c", 1), row(2, "b", 30), row(1, "a", None)])
    return made


def test_rows_are_shown_as_they_come_under_a_heading(listing: Listing) -> None:
    assert shown(listing)[0].split() == ["ID", "NAME", "SIZE", "WHY"]
    assert [line.split()[0] for line in shown(listing)[1:]] == ["a3", "a2", "a1"]


def test_a_column_sorts_and_turns_round_and_beyond_the_last_they_stand_as_they_came(listing: Listing) -> None:
    listing.sort_beside(1)
    assert keys(listing) == ["a1", "a2", "a3"]
    assert "ID↑" in shown(listing)[0]
    listing.sort(2)
    assert keys(listing) == ["a1", "a3", "a2"]  # nothing, 1, 30: by figures, not by texts
    listing.sort(2, is_descending=True)
    assert keys(listing) == ["a2", "a3", "a1"]
    listing.sort(3)
    listing.sort_beside(1)
    assert listing.sorted_by is None


def test_the_cursor_stays_with_its_row_when_others_come(listing: Listing) -> None:
    listing.move(1)
    listing.show([row(5), row(4), *listing.rows])
    assert listing.current is not None
    assert listing.current.key == "a2"
    listing.show([row(5), row(4)])  # its row is gone
    assert listing.current is not None


def test_at_the_top_the_newest_is_what_one_sees(listing: Listing) -> None:
    listing.show([row(4), *listing.rows])
    assert listing.cursor == 0


def test_no_line_is_wider_than_the_screen_and_the_cursor_is_always_on_it(listing: Listing) -> None:
    listing.show(row(number, "x" * (number % 40), number) for number in range(500))
    for width in (20, 60, 80, 200):
        for at in (0, 7, 250, 499):
            listing.cursor = at
            lines = listing.lines(width, 12)
            assert len(lines) == 12
            assert all(width_of(line) <= width for line in lines)
            assert sum(line[0].tone == CURSOR for line in lines) == 1


def test_parts_are_seen_only_while_their_group_is_open(listing: Listing) -> None:
    rows = [row(9, "group", has_parts=True), row(10, "task", under="a9"), row(1, "other")]
    listing.show(rows)
    assert keys(listing) == ["a9", "a1"]
    assert shown(listing)[1].startswith(" ▸ a9")
    listing.opened.add("a9")
    listing.show(rows)
    assert keys(listing) == ["a9", "a10", "a1"]
    assert shown(listing)[1].startswith(" ▾ a9")
    listing.sort(0, is_descending=True)
    assert keys(listing) == ["a9", "a10", "a1"]  # a part stays below its group


def test_what_is_marked_is_meant_and_else_what_the_cursor_is_at(listing: Listing) -> None:
    assert [each.key for each in listing.chosen()] == ["a3"]
    listing.mark()
    listing.mark()
    assert [each.key for each in listing.chosen()] == ["a3", "a2"]
    listing.show([row(2)])
    assert listing.marked == {"a2"}


def test_a_name_that_steers_terminals_is_made_harmless(listing: Listing) -> None:
    listing.show([row(1, "\x1b[2Jx\n")])
    assert shown(listing)[1].split() == ["a1", "?[2Jx?"]


def test_the_mouse_finds_rows_and_columns(listing: Listing) -> None:
    listing.lines(60, 10)
    assert (listing.row_at(0), listing.row_at(1), listing.row_at(3), listing.row_at(4)) == (None, 0, 2, None)
    assert listing.column_at(3, 60) == 0
    assert listing.column_at(59, 60) == 3
