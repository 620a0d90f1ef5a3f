"""The command line of scancel, and signals by name."""

import pytest

from lattice.slurm.faults import Fault
from lattice.slurm.listings.scancel import JobWord, read_line
from lattice.slurm.text.signals import parse_signal
from lattice.slurm.text.states import State


def test_jobs_tasks_and_steps_are_told_apart() -> None:
    line = read_line(["17", "17_3", "17_[2-4,7]", "17.0", "18,19"])
    assert line.jobs == (
        JobWord("17", 17),
        JobWord("17_3", 17, tasks="3"),
        JobWord("17_[2-4,7]", 17, tasks="2-4,7"),
        JobWord("17.0", 17, step="0"),
        JobWord("18", 18),
        JobWord("19", 19),
    )
    assert not line.is_filtered


def test_filters_are_by_name() -> None:
    line = read_line(["-u", "ada", "--name=x", "-t", "pd", "--me", "-p", "main"])
    assert line.filters == {"name": "x", "partition": "main", "user": "ada"}
    assert (line.state, line.mine, line.is_filtered) == (State.PENDING, True, True)


@pytest.mark.parametrize(
    ("words", "signal", "target"),
    [
        (["5"], 0, "steps"),
        (["-s", "USR1", "5"], 10, "steps"),
        (["--signal=SIGUSR1", "-b", "5"], 10, "entrypoint"),
        (["5", "--signal", "USR2"], 12, "steps"),
        (["-s", "10", "-f", "5"], 10, "all"),
    ],
)
def test_a_signal_goes_where_it_is_sent(words: list[str], signal: int, target: str) -> None:
    line = read_line(words)
    assert (line.signal, line.target) == (signal, target)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "scancel: error: No job identification provided"),
        (["-b"], "scancel: error: No job identification provided"),
        (["x"], "scancel: error: Invalid job id x"),
        (["12_x"], "scancel: error: Invalid job id 12_x"),
        (["-t", "CD"], "Invalid job state specified: CD"),
        (["-s", "0", "5"], "Unknown job signal: 0"),
        (["--bogus"], "scancel: unrecognized option '--bogus'"),
    ],
)
def test_all_that_is_wrong_ends_with_one(words: list[str], text: str) -> None:
    with pytest.raises(Fault) as caught:
        read_line(words)
    assert (caught.value.lines[0], caught.value.code) == (text, 1)


def test_help_and_version_need_no_job() -> None:
    assert [read_line([word]).asks for word in ("--help", "--usage", "-V")] == ["help", "usage", "version"]


def test_signals_have_names_and_numbers() -> None:
    assert [parse_signal(text) for text in ("usr1", "SIGTERM", "9", "64")] == [10, 15, 9, 64]
    assert [parse_signal(text) for text in ("", "0", "65", "SIG", "9999", "USR3")] == [None] * 6
