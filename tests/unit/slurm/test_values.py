"""Slurm's spellings of times, sizes, hosts, arrays and file names."""

import time

import pytest

from lattice.slurm.text.arrays import Array, parse_array
from lattice.slurm.text.hostlists import BadHostlist, expand, fold
from lattice.slurm.text.patterns import fill
from lattice.slurm.text.sizes import (
    Gpus,
    format_memory,
    parse_count,
    parse_gpus,
    parse_gres,
    parse_memory_mb,
    parse_nodes,
)
from lattice.slurm.text.times import UNLIMITED, format_limit, format_moment, format_span, parse_limit, parse_moment

NOON = time.mktime((2026, 3, 10, 12, 0, 0, 0, 0, -1))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 300),
        ("5:30", 330),
        ("0:3:0", 180),
        ("2:00:00", 7200),
        ("1-0", 86400),
        ("1-2", 93600),
        ("1-2:30", 95400),
        ("0-0:2:30", 150),
        ("0", UNLIMITED),
        ("UNLIMITED", UNLIMITED),
        ("infinite", UNLIMITED),
    ],
)
def test_limits_are_read_in_all_their_forms(text: str, seconds: int) -> None:
    assert parse_limit(text) == seconds


@pytest.mark.parametrize("text", ["", "abc", "1:2:3:4", "5m", "-5", "1-", "1.5"])
def test_other_words_are_no_limit(text: str) -> None:
    assert parse_limit(text) is None


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("now", 0),
        ("now+60", 60),
        ("now+2hours", 7200),
        ("now+1hour", 3600),
        ("now+1minute", 60),
        ("now-2days", -172800),
        ("13:00", 3600),
        ("11:00", 82800),
        ("11:00 PM", 39600),
        ("tomorrow", 43200),
        ("midnight", 43200),
        ("2026-03-10T12:30", 1800),
        ("2026-03-10T12:00:05", 5),
        ("2026-03-10-12:00:05", 5),
        ("2026-03-11", 43200),
        ("03/11/26", 43200),
        ("031126-12:00", 86400),
    ],
)
def test_moments_are_read_relative_to_now_and_to_the_day(text: str, offset: int) -> None:
    assert parse_moment(text, NOON) == NOON + offset


@pytest.mark.parametrize("text", ["", "soon", "now+3fortnights", "25:00", "2026-13-01", "12:61"])
def test_other_words_are_no_moment(text: str) -> None:
    assert parse_moment(text, NOON) is None


def test_times_are_printed_as_each_command_prints_them() -> None:
    assert [format_span(seconds) for seconds in (5, 65, 3661, 90061)] == ["0:05", "1:05", "1:01:01", "1-01:01:01"]
    assert format_span(65, short=False) == "00:01:05"
    assert [format_limit(seconds) for seconds in (0, 61, 3600)] == ["UNLIMITED", "2:00", "1:00:00"]
    assert format_moment(NOON) == "2026-03-10T12:00:00"
    assert format_moment(NOON, "%H:%M") == "12:00"
    assert format_moment(None) == "N/A"
    assert format_moment(None, missing="Unknown") == "Unknown"


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("100", 100), ("100M", 100), ("4G", 4096), ("4GB", 4096), ("2g", 2048), ("1T", 1048576), ("512K", 1), ("0", 0)],
)
def test_memory_is_read_in_megabytes(text: str, megabytes: int) -> None:
    assert parse_memory_mb(text) == megabytes


def test_what_is_no_amount_is_said_to_be_none() -> None:
    assert parse_memory_mb("4X") is None
    assert parse_count("x") is None
    assert parse_nodes("0") is None
    assert parse_nodes("4-2") is None
    assert parse_nodes("a") is None
    assert parse_gpus(":2") is None
    assert parse_gpus("h100:x") is None
    assert parse_gres("") is None


def test_amounts_are_read_and_written() -> None:
    assert [format_memory(megabytes) for megabytes in (100, 4096, 2097152, 0)] == ["100M", "4G", "2T", "0M"]
    assert [parse_count(text) for text in ("7", "2k", "1m")] == [7, 2048, 1048576]
    assert [parse_nodes(text) for text in ("2", "2-4", "1k")] == [(2, 0), (2, 4), (1024, 0)]
    assert parse_gpus("4") == Gpus(4)
    assert parse_gpus("h100:2") == Gpus(2, "h100")


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpu", Gpus(1)),
        ("gpu:2", Gpus(2)),
        ("gpu:h100", Gpus(1, "h100")),
        ("gpu:h100:2", Gpus(2, "h100")),
        ("gpu:1,tmpdisk:100", Gpus(1, "", ("tmpdisk",))),
        ("none", Gpus(0)),
    ],
)
def test_generic_resources_are_read(text: str, gpus: Gpus) -> None:
    assert parse_gres(text) == gpus


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ["n1"]),
        ("n[1-3,5],m07", ["n1", "n2", "n3", "n5", "m07"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"]),
        ("login", ["login"]),
    ],
)
def test_host_lists_are_expanded_and_folded_back(text: str, names: list[str]) -> None:
    assert expand(text) == names
    assert expand(fold(names)) == names


def test_folded_lists_keep_padding_apart() -> None:
    assert fold(["n1", "n2", "n3", "n5", "m07"]) == "n[1-3,5],m07"
    assert fold(["n08", "n09", "n10"]) == "n[08-10]"
    assert fold(["n8", "n9", "n10"]) == "n[8-10]"
    assert fold(["n4"]) == "n4"
    assert fold([]) == ""
    assert fold(["n1", "login", "login", "n2"]) == "n1,login,login,n2"
    assert fold(["n1234567890123456", "n1234567890123457"]) == "n1234567890123456,n1234567890123457"


def test_folding_takes_no_longer_for_long_names() -> None:
    """Of several thousand names in a request each character counts: the answer holds up every other request."""
    short, long = (min(_folding_s("x" * length) for _ in range(5)) for length in (1, 120))
    assert long < 2.5 * short


def _folding_s(prefix: str) -> float:
    names = [f"{prefix}{number}" for number in range(3000)]
    started = time.thread_time()
    assert fold(names) == f"{prefix}[0-2999]"
    return time.thread_time() - started


@pytest.mark.parametrize("text", ["n[1", "n1]", "n[[1]]", "n[a-b]", "n[3-1]", "n[1-999999]"])
def test_broken_host_lists_are_refused(text: str) -> None:
    with pytest.raises(BadHostlist):
        expand(text)


def test_arrays_are_read_with_their_limit() -> None:
    assert parse_array("0-9%4") == Array(((0, 9, 1),), 4)
    array = parse_array("1,3,5-9:2")
    assert array is not None
    assert array.indices == [1, 3, 5, 7, 9]
    assert array.text == "1,3,5,7,9"
    assert parse_array("[1-3]") == Array(((1, 3, 1),))


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-3:0", "1-3%", "1-3%x", "1-5000000", "1--3"])
def test_other_words_are_no_array(text: str) -> None:
    assert parse_array(text) is None


def test_file_names_are_filled_in() -> None:
    values = {"j": "17", "A": "15", "a": "3", "x": "my job", "u": "ada", "N": "n1", "t": "0"}
    assert fill("slurm-%j.out", values) == "slurm-17.out"
    assert fill("%x_%A_%4a.txt", values) == "my job_15_0003.txt"
    assert fill("100%%-%q-%4x", values) == "100%-%q-my job"
    assert fill("raw\\%j", values) == "raw%j"
