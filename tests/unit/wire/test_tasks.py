"""Task lists as people write them."""

import pytest

from lattice.core.model.work.allocations import Allocation, Request, TaskGroup
from lattice.wire.text.problems import BadField
from lattice.wire.text.tasks import TaskRange, indices_text, parse_task_set, parse_tasks, positions_named, read_tasks


@pytest.mark.parametrize(
    ("text", "blocks", "concurrency"),
    [
        ("0-99", ((0, 99, 1),), 0),
        ("7", ((7, 7, 1),), 0),
        ("0-99:2", ((0, 98, 2),), 0),
        ("1,3,5-9", ((1, 1, 1), (3, 3, 1), (5, 9, 1)), 0),
        (" 0-9%4 ", ((0, 9, 1),), 4),
        ("0-9%99", ((0, 9, 1),), 10),
        ("0-99999", ((0, 99_999, 1),), 0),
        ("5,1-3", ((5, 5, 1), (1, 3, 1)), 0),
        ("0-10:3,1-10:3", ((0, 9, 3), (1, 10, 3)), 0),
    ],
)
def test_lists_are_read(text: str, blocks: tuple[tuple[int, int, int], ...], concurrency: int) -> None:
    assert parse_tasks(text) == (blocks, concurrency)


@pytest.mark.parametrize(
    "text",
    [
        *("", "a", "-1", "1-", "3-1", "0-9:0", "0-9%", "0-9%0", "0-9%x", "1,,2", "1,1", "0-9,5"),
        *("0-100000", "0-9:1:1", "1.5", "٣", "0-99999999999", "1000000000"),
    ],
)
def test_others_are_refused(text: str) -> None:
    with pytest.raises(BadField) as refusal:
        parse_tasks(text)
    assert refusal.value.field == "tasks"


def group(*blocks: tuple[int, int, int]) -> TaskGroup:
    size = sum((last - first) // step + 1 for first, last, step in blocks)
    template = Allocation(
        number=17,
        name="sweep",
        user="ada",
        account="ada",
        tenant="physics",
        vcluster="batch",
        request=Request(),
        submitted_at=1,
    )
    return TaskGroup(number=17, template=template, indices=blocks, size=size, pending=((0, size),))


@pytest.mark.parametrize(
    ("wanted", "read"),
    [
        (None, ((), 0)),
        ("1-3%2", (((1, 3, 1),), 2)),
        (TaskRange(end=99, concurrency=20), (((0, 99, 1),), 20)),
        (TaskRange(start=4, end=9, step=3), (((4, 7, 3),), 0)),
    ],
)
def test_tasks_are_a_list_or_an_object(wanted: str | TaskRange | None, read: object) -> None:
    assert read_tasks(wanted) == read


@pytest.mark.parametrize(
    "wanted",
    [TaskRange(start=-1, end=3), TaskRange(start=3, end=1), TaskRange(end=9, step=0), TaskRange(end=9, step=-2)],
)
def test_objects_that_make_no_sense_are_refused(wanted: TaskRange) -> None:
    with pytest.raises(BadField):
        read_tasks(wanted)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("a17", None),
        ("a17_3", None),
        ("work_3-7", None),
        ("a17_[3]", (17, ((3, 3, 1),))),
        ("17_3-7", (17, ((3, 7, 1),))),
        ("a17_[3-7,9,20-30:5]", (17, ((3, 7, 1), (9, 9, 1), (20, 30, 5)))),
        ("a17_3,5", (17, ((3, 3, 1), (5, 5, 1)))),
    ],
)
def test_several_tasks_are_named_together(text: str, named: object) -> None:
    assert parse_task_set(text) == named


@pytest.mark.parametrize("text", ["a17_", "a17_[", "a17_[]", "a17_[3-]", "a17_7-3", "a17_x", "a17_[1,,2]", "a17_3-7%2"])
def test_names_that_cannot_be_read_are_refused_as_they_were_written(text: str) -> None:
    with pytest.raises(BadField, match="cannot read") as refusal:
        parse_task_set(text)
    assert text in str(refusal.value)


def test_the_indices_of_a_group_are_found_and_missing_ones_named() -> None:
    sweep = group((0, 98, 2), (200, 200, 1))
    assert positions_named(sweep, ((0, 9, 1), (200, 200, 1)), "a17") == ((0, 5), (50, 51))
    with pytest.raises(BadField, match="a17 has no task 7") as refusal:
        positions_named(sweep, ((0, 9, 1), (7, 7, 1)), "a17")
    assert refusal.value.current == "its tasks are 0-98:2,200"
    with pytest.raises(BadField, match="a17 has no task 300-400"):
        positions_named(sweep, ((300, 400, 1),), "a17")


def test_indices_are_written_as_ranges_and_cut_short() -> None:
    assert indices_text(group((0, 9, 1)), ((0, 1), (3, 6))) == "0,3-5"
    many = tuple((position, position + 1) for position in range(0, 40, 2))
    assert indices_text(group((0, 99, 1)), many) == "0,2,4,6,8,10,12,14,..."
    assert indices_text(group((0, 9, 1)), ()) == ""
