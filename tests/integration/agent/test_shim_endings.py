"""The last line of a run's stderr says how it ended, in the shim's log and in the user's own file."""

import os
import sys

import pytest

from tests.integration.agent.shim_process import NOBODY, Client, ShimProcess


def test_the_last_line_of_stderr_says_the_exit_code(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", "echo partial >&2; printf half >&2; exit 3"))
    agent.ended(1)
    assert shim.output(1, "stderr") == "partial\nhalf\nlattice: a1 failed with exit code 3\n"


def test_a_run_that_ended_well_adds_nothing(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **{**shim.request(1, "sh", "-c", "printf half"), "files": {"stdout": "own.out"}})
    agent.ended(1)
    assert (shim.scratch / "own.out").read_text() == "half"
    assert shim.output(1) == "half"


def test_the_walltime_is_named_in_the_users_file(shim: ShimProcess, agent: Client) -> None:
    fields = shim.request(1, "sh", "-c", "printf begin; sleep 300", walltime_s=1, grace_s=0)
    agent.ask("start", **{**fields, "files": {"stdout": "own.out"}})
    agent.ended(1)
    wanted = "begin\nlattice: a1 was killed at its walltime limit of 00:00:01\n"
    assert (shim.scratch / "own.out").read_text() == wanted
    assert shim.output(1) == wanted


def test_a_signal_is_named(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **shim.request(1, "sh", "-c", "kill -SEGV $$"))
    agent.ended(1)
    assert shim.output(1, "stderr") == "lattice: a1 was killed by signal 11 (SIGSEGV)\n"


@pytest.mark.parametrize(
    ("why", "wanted"),
    [
        ("cancelled", "was cancelled"),
        ("deadline", "was stopped at its deadline"),
        ("walltime", "was killed at its walltime limit of 00:10:00"),
        ("requeued", "was stopped to run again"),
        ("drained", "was stopped: its node is drained urgently"),
        ("part_failed", "was stopped: it failed on another of its nodes"),
    ],
)
def test_who_was_told_to_stop_says_why(shim: ShimProcess, agent: Client, why: str, wanted: str) -> None:
    agent.ask("start", **shim.request(1, "sleep", "300", walltime_s=600))
    agent.ask("stop", number=1, run=1, grace_s=0, why=why)
    agent.ended(1)
    assert shim.output(1, "stderr") == f"lattice: a1 {wanted}\n"


def test_what_could_not_be_started_says_so_in_the_users_file(shim: ShimProcess, agent: Client) -> None:
    agent.ask("start", **{**shim.request(1, "no-such-program"), "files": {"stdout": "own.out"}})
    wanted = "lattice: a1 could not be started: no-such-program: command not found in PATH\n"
    assert (shim.scratch / "own.out").read_text() == wanted


def test_processes_that_closed_their_output_are_waited_for(shim: ShimProcess, agent: Client) -> None:
    script = "exec >/dev/null 2>&1; sleep 0.3; exit 5"
    agent.ask("start", **{**shim.request(1, "sh", "-c", script), "files": {"stdout": "own.out"}})
    assert agent.ended(1)["exit_code"] == 5
    assert (shim.scratch / "own.out").read_text() == "lattice: a1 failed with exit code 5\n"


@pytest.mark.root
def test_who_was_out_of_memory_reads_limit_and_peak(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    fields = root_shim.request(1, sys.executable, "-S", "-c", "x = bytearray(400 << 20)", memory_mb=64)
    agent.ask("start", **fields)
    agent.ended(1)
    assert root_shim.output(1, "stderr").startswith("lattice: a1 was killed: out of memory, limit 64 MB, peak 6")


@pytest.mark.root
def test_the_line_is_written_as_the_user(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    fields = root_shim.request(1, "sh", "-c", "exit 2", uid=NOBODY, gid=NOBODY)
    agent.ask("start", **{**fields, "files": {"stdout": "own.out"}})
    agent.ended(1)
    own = root_shim.scratch / "own.out"
    assert own.read_text() == "lattice: a1 failed with exit code 2\n"
    assert own.stat().st_uid == NOBODY != os.geteuid()
