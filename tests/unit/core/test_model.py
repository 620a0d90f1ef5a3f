"""Ids, durations and sizes as people write them."""

import pytest

from lattice.core.model.ids import allocation_id, parse_allocation_id, parse_task_id
from lattice.core.model.units import BadUnit, format_duration, parse_duration_s, parse_size_mb


@pytest.mark.parametrize(("text", "number"), [("a17", 17), ("17", 17), ("A17", None), ("a", None), ("0", None), ("a-1", None), ("", None), ("9" * 17, None), ("a1.5", None), ("٣", None)])  # fmt: skip
def test_ids_and_numbers_are_read_alike(text: str, number: int | None) -> None:
    assert parse_allocation_id(text) == number
    if number:
        assert allocation_id(number) == f"a{number}"


@pytest.mark.parametrize(("text", "task"), [("a17_3", (17, 3)), ("17_0", (17, 0)), ("a17", None), ("a17_", None), ("x_1", None)])  # fmt: skip
def test_tasks_are_named_by_group_and_index(text: str, task: tuple[int, int] | None) -> None:
    assert parse_task_id(text) == task


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("45s", 45), ("30m", 1800), ("1h30m", 5400), ("2d", 172800), ("1.5h", 5400), ("01:00:00", 3600), ("10:30", 37800), ("1-00:00:00", 86400), ("72:00:00", 259200), ("0.2s", 1)])  # fmt: skip
def test_durations(text: str, seconds: int) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "0", "-5", "1h soon", "10:99", "99999999d", "h", "1x"])
def test_bad_durations_say_what_would_be_good(text: str) -> None:
    with pytest.raises(BadUnit, match="duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(("text", "size"), [("512", 512), ("512M", 512), ("4G", 4096), ("4GB", 4096), ("1.5T", 1572864), ("100k", 1), ("2GiB", 2048)])  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size_mb(text) == size


@pytest.mark.parametrize("text", ["", "big", "-1G", "0", "4X", "1e30"])
def test_bad_sizes(text: str) -> None:
    with pytest.raises(BadUnit):
        parse_size_mb(text)


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00:00"), (3661, "01:01:01"), (90061, "1-01:01:01")])
def test_durations_are_shown_as_a_clock(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text
