"""Task lists as people write them."""

import pytest

from lattice.wire.problems import BadField
from lattice.wire.tasks import parse_tasks


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
