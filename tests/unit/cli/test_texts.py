"""Small readers: times, durations, constraints, lists of nodes, directives."""

import io
from pathlib import Path

import pytest

from lattice.cli.context import Context, Process, Streams
from lattice.cli.errors import UsageError
from lattice.cli.flags import Flags
from lattice.cli.input.constraints import expand_names, parse_constraints, parse_nodes
from lattice.cli.input.directives import read_directives
from lattice.cli.output import Column, sheet, table
from lattice.cli.pager import page
from lattice.cli.times import clock_text, parse_duration_s, parse_moment, readable_detail
from tests.unit.cli.runner import NOON


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "00:00:00"), (59.9, "00:00:59"), (259200, "72:00:00"), (360000, "100:00:00")]
)
def test_elapsed_time(seconds: float | None, text: str) -> None:
    assert clock_text(seconds) == text


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("1.5", 1.5), ("1h30m", 5400), ("2D", 172800)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1x", "1h-"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-03-05T12:00:00Z"),
        ("now+1h30m", "2026-03-05T13:30:00Z"),
        ("+90", "2026-03-05T12:01:30Z"),
        ("16:30", "2026-03-05T16:30:00Z"),
        ("11:00", "2026-03-06T11:00:00Z"),
        ("2026-04-01", "2026-04-01T00:00:00Z"),
        ("2026-04-01T10:00", "2026-04-01T10:00:00Z"),
        ("2026-04-01T10:00:00+02:00", "2026-04-01T08:00:00Z"),
    ],
)
def test_moments_to_come(text: str, moment: str) -> None:
    assert parse_moment(text, NOON) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [("2h", "2026-03-05T10:00:00Z"), ("now-1d", "2026-03-04T12:00:00Z"), ("16:30", "2026-03-04T16:30:00Z")],
)
def test_moments_past(text: str, moment: str) -> None:
    assert parse_moment(text, NOON, past=True) == moment


@pytest.mark.parametrize("text", ["tomorrow", "25:00", "2026-13-01", "+", "+9999999999d", "+99999999d", "+nan"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(UsageError):
        parse_moment(text, NOON)


@pytest.mark.parametrize("text", ["99999999d", "-99999999d", "now-9999999w"])
def test_moments_before_the_calendar_began(text: str) -> None:
    with pytest.raises(UsageError, match="beyond the years"):
        parse_moment(text, NOON, past=True)


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ("start: none -> 1772712000000", "start: none -> 2026-03-05T12:00:00Z"),
        ("duration_ms: 5400000 -> 7200000; grace_s: none -> 30", "duration: 90m -> 2h; grace: none -> 30s"),
        ("nodes: n1 -> none; max_nodes: 4 -> 1000", "nodes: n1 -> none; max_nodes: 4 -> 1000"),
        ("serial: 17727120000001 and x1772712000000", "serial: 17727120000001 and x1772712000000"),
    ],
)
def test_details_of_the_audit_log_have_times_that_people_read(kept: str, shown: str) -> None:
    assert readable_detail(kept) == shown


def test_constraints_of_several_flags_are_one() -> None:
    found = parse_constraints(["gpu_type:GH200, nvme", "features=a+b,memory_gb=512", "nvme,topology=any"])
    assert (found.gpu_type, found.memory_gb, found.topology) == ("GH200", 512, "any")
    assert found.features == ["nvme", "a", "b"]


@pytest.mark.parametrize(("text", "bounds"), [("4", (4, 0)), ("2-8", (2, 8)), ("3-3", (3, 3))])
def test_numbers_of_nodes(text: str, bounds: tuple[int, int]) -> None:
    assert parse_nodes(text) == bounds


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("n1,n2", ["n1", "n2"]),
        ("n[08-10],x", ["n08", "n09", "n10", "x"]),
        ("n[1-2,5],n1", ["n1", "n2", "n5"]),
        ("r[1-2]n[3-4]", ["r1n3", "r1n4", "r2n3", "r2n4"]),
    ],
)
def test_lists_of_nodes(text: str, names: list[str]) -> None:
    assert expand_names(text) == names


@pytest.mark.parametrize("text", ["n[", "n]", "n[a-b]", "n[5-1]", "n[1-999999999]"])
def test_what_is_no_list_of_nodes(text: str) -> None:
    with pytest.raises(UsageError):
        expand_names(text)


def test_directives_end_where_commands_begin() -> None:
    script = "#!/bin/sh\n\n  # note\n#LATTICE --name 'a b' --tag=x#1 # why\n#LATTICE\necho\n#LATTICE --late\n"
    found = read_directives(script, "s.sh")
    assert [(d.line, d.words) for d in found.found] == [(4, ["--name", "a b", "--tag=x#1"]), (5, [])]
    assert found.late == [7]


def test_columns_are_aligned_and_sparse_ones_left_out() -> None:
    rows = [("a", ""), ("bbb", "")]
    columns = (
        Column[tuple[str, str]]("NAME", lambda r: r[0]),
        Column[tuple[str, str]]("X", lambda r: r[1]),
        Column[tuple[str, str]]("WHY", lambda r: r[1], is_sparse=True),
    )
    assert table(rows, columns, wide=False, coloured=False) == "NAME  X\na     -\nbbb   -\n"
    assert table(rows, columns, wide=True, coloured=False).splitlines()[0] == "NAME  X  WHY"
    assert sheet([("a", "1"), ("long name", "")]) == "a:          1\nlong name:  -\n"


def test_a_time_that_cannot_be_read_is_answered_with_those_that_can() -> None:
    for past, hint in ((True, "16:30 or 2h (ago)"), (False, "16:30 or now+2h")):
        with pytest.raises(UsageError) as refused:
            parse_moment("yesterday", 0.0, past=past)
        assert refused.value.hint.endswith(hint)


@pytest.mark.parametrize(("pager", "shown"), [("sed s/a/b/", b"b17\n"), ("", b"a17\n"), ("no-such-program", b"a17\n")])
def test_a_long_list_goes_through_the_pager_of_the_user(tmp_path: Path, pager: str, shown: bytes) -> None:
    path = tmp_path / "shown"
    with path.open("wb") as out:
        streams = Streams(stdin=io.BytesIO(), stdout=out, stderr=io.BytesIO())
        process = Process(streams=streams, environment={"PAGER": pager})
        page(Context(process=process, flags=Flags()), "a17\n")
    assert path.read_bytes() == shown
