"""The format engines and the columns of squeue, with figures taken from Slurm's own output."""

import time

import pytest

from lattice.slurm.listings import squeue
from lattice.slurm.listings.rows import JobRow
from lattice.slurm.text.formats import (
    Column,
    Field,
    UnknownField,
    delimited,
    line,
    parse_named,
    parse_percent,
    parse_sized,
    sized_line,
)
from lattice.slurm.text.states import State, end_reason, find_state, state_of

NOON = time.mktime((2026, 3, 10, 12, 0, 0, 0, 0, -1))


def row(**changes: object) -> JobRow:
    values: dict[str, object] = {
        "number": 3,
        "name": "wrap",
        "user": "ada",
        "uid": 1000,
        "partition": "main",
        "state": State.RUNNING,
        "submitted_at": NOON,
        "started_at": NOON + 5,
        "nodes": ("n3",),
        "cpus": 2,
        **changes,
    }
    return JobRow(**values)  # type: ignore[arg-type]


def written(text: str, job: JobRow, now: float = NOON + 21) -> str:
    return line(parse_percent(text, squeue.LETTERS), squeue.Writer(now).value_of(job))


def header(text: str) -> str:
    return line(parse_percent(text, squeue.LETTERS), squeue.LETTERS.__getitem__)


def test_the_usual_table_looks_as_it_always_did() -> None:
    task = row(array_number=2, array_index=1)
    waiting = row(
        number=2,
        state=State.PENDING,
        array_number=2,
        waiting="3-5",
        array_limit=2,
        reason="JobArrayTaskLimit",
        nodes=(),
        started_at=None,
    )
    assert header(squeue.DEFAULT) == (
        "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    )
    assert written(squeue.DEFAULT, waiting) == (
        "         2_[3-5%2]      main     wrap      ada PD       0:00      1 (JobArrayTaskLimit)"
    )
    assert written(squeue.DEFAULT, task) == ("               2_1      main     wrap      ada  R       0:16      1 n3")
    assert row(array_number=17, waiting="2-3", array_limit=1).shown_id == "17_[2-3%1]"
    assert header(squeue.LONG).endswith("   STATE       TIME TIME_LIMI  NODES NODELIST(REASON)")


def test_widths_cut_and_pad_and_text_between_is_kept() -> None:
    job = row(array_number=2, array_index=1)
    assert written("%5i|%.5i|%%i,%2j", job) == "2_1  |  2_1|2_1,wr"
    assert written("<%i>%?", job) == "<2_1>%?"
    assert written("%-5i", job) == "%-5i"


@pytest.mark.parametrize(
    ("letter", "text"),
    [
        ("A", "3"),
        ("F", "3"),
        ("K", "N/A"),
        ("B", "n3"),
        ("N", "n3"),
        ("Z", "(null)"),
        ("b", "N/A"),
        ("l", "1:00:00"),
        ("L", "59:44"),
        ("M", "0:16"),
        ("S", "2026-03-10T12:00:05"),
        ("V", "2026-03-10T12:00:00"),
        ("e", "2026-03-10T13:00:05"),
        ("D", "1"),
        ("C", "2"),
        ("m", "100M"),
        ("U", "1000"),
        ("a", "(null)"),
        ("p", "0.50000000000000"),
        ("Q", "2147483648"),
        ("E", "(null)"),
        ("r", "None"),
        ("T", "RUNNING"),
    ],
)
def test_every_letter_says_what_it_says_in_slurm(letter: str, text: str) -> None:
    assert written(f"%{letter}", row(time_limit_s=3600, memory_mb=100, priority=2**31)) == text


def test_every_letter_has_a_value_and_every_name_a_letter() -> None:
    parts = parse_percent("".join(f"%{letter}|" for letter in squeue.LETTERS), squeue.LETTERS)
    assert line(parts, squeue.Writer(NOON).value_of(row())).count("|") == len(squeue.LETTERS)
    assert {"H", "I", "J"} == set(squeue.LETTERS) - {column.key for column in squeue.NAMES.values()}
    for column in squeue.NAMES.values():
        assert squeue.header_of(column.key) == column.header


def test_limits_that_are_not_there_and_ends_that_are_not_known() -> None:
    job = row()
    assert [written(f"%{letter}", job) for letter in "lLe"] == ["UNLIMITED", "UNLIMITED", "NONE"]
    assert written("%L", row(time_limit_s=60), NOON + 600) == "INVALID"
    ended = row(state=State.FAILED, reason="NonZeroExitCode", ended_at=NOON + 65)
    assert [written(f"%{letter}", ended) for letter in "MeR"] == ["1:00", "2026-03-10T12:01:05", "(NonZeroExitCode)"]
    assert written("%R", row(state=State.COMPLETED, ended_at=NOON + 65)) == "n3"


def test_named_columns_are_twenty_wide() -> None:
    parts = parse_named("JobArrayID,StateCompact,Reason:.8,Name:5x", squeue.NAMES)
    assert line(parts, squeue.LETTERS.__getitem__) == f"{'JOBID':20}{'ST':20}  REASONNAME x"
    with pytest.raises(UnknownField, match="bogus"):
        parse_named("JobID,bogus", squeue.NAMES)


def test_sized_columns_are_justified_and_marked_where_cut() -> None:
    columns = {"jobid": Column("JobID", "JobID", 12), "state": Column("State", "State", 10)}
    assert parse_sized("state%20,JobID%-4", columns) == [Field("State", 20, True), Field("JobID", 4)]
    assert sized_line(parse_sized("JobID%-4,State", columns), lambda key: "CANCELLED+1") == "CAN+ CANCELLED+ "
    with pytest.raises(UnknownField, match="Bogus"):
        parse_sized("Bogus", columns)
    assert delimited(["a", "b"], trailing=True) == "a|b|"
    assert delimited(["a", "b"], trailing=False) == "a|b"


@pytest.mark.parametrize(
    ("state", "cause", "word", "reason"),
    [
        ("Pending", "", "PENDING", "None"),
        ("Starting", "", "CONFIGURING", "None"),
        ("Stopping", "", "COMPLETING", "None"),
        ("Completed", "exit", "COMPLETED", "None"),
        ("Failed", "exit", "FAILED", "NonZeroExitCode"),
        ("Failed", "signal", "FAILED", "JobLaunchFailure"),
        ("Failed", "walltime", "TIMEOUT", "TimeLimit"),
        ("Failed", "oom", "OUT_OF_MEMORY", "OutOfMemory"),
        ("Failed", "node", "NODE_FAIL", "NodeDown"),
        ("Cancelled", "cancelled", "CANCELLED", "None"),
    ],
)
def test_states_have_slurm_s_words(state: str, cause: str, word: str, reason: str) -> None:
    assert state_of(state, cause).long == word
    assert end_reason(state, cause) == reason


def test_states_are_found_by_either_name() -> None:
    assert find_state("pd") is State.PENDING
    assert find_state("Running") is State.RUNNING
    assert find_state("nope") is None


@pytest.mark.parametrize(("passing", "shown"), [(State.CONFIGURING, "RUNNING"), (State.COMPLETING, "RUNNING")])
def test_accounting_knows_no_passing_states(passing: State, shown: str) -> None:
    assert passing.accounted.long == shown
    assert State.FAILED.accounted is State.FAILED
