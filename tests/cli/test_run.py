"""`lattice run`: what a person sees and types, and what a script gets."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lattice.testing import LocalCluster
from tests.cli.terminal import CONTROL_C, Terminal

pytestmark = pytest.mark.e2e

PROGRAM = str(Path(sys.executable).with_name("lattice"))
RED = "\x1b\\[31m"


@contextmanager
def terminal(cluster: LocalCluster, *words: str) -> Iterator[Terminal]:
    opened = Terminal(cluster, PROGRAM, *words)
    try:
        yield opened
    finally:
        opened.close()


def newest(cluster: LocalCluster) -> str:
    return str(cluster.get("/allocations?limit=1")["items"][0]["id"])


def test_both_streams_and_the_exit_code_are_those_of_the_work(cluster: LocalCluster) -> None:
    script = "echo out; echo err >&2; exit 7"
    done = subprocess.run(
        [PROGRAM, "run", "--", "sh", "-c", script],
        env=cluster.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    sentence = f"lattice: {newest(cluster)} failed with exit code 7"
    assert (done.returncode, done.stdout) == (7, "out\n")
    assert done.stderr.splitlines() == ["err", sentence]


def test_what_never_ran_says_why(cluster: LocalCluster) -> None:
    done = cluster.cli("run", "--", "no-such-program", check=False)
    assert done.returncode == 125
    assert done.stderr == (
        f"lattice: {newest(cluster)} could not be started: no-such-program: command not found in PATH\n"
    )


@pytest.mark.parametrize("flag", ["--wait", "--dry-run", "--task-group=0-3"])
def test_flags_that_make_no_sense_are_refused_by_name(cluster: LocalCluster, flag: str) -> None:
    done = cluster.cli("run", flag, "--", "true", check=False)
    assert done.returncode == 2
    assert f"{flag.partition('=')[0]} cannot be used with `lattice run`" in done.stderr


def test_output_is_live_and_errors_are_red(cluster: LocalCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    gate = tmp_path / "gate"
    script = f"echo first; until [ -e {gate} ]; do sleep 0.05; done; echo trouble >&2"
    with terminal(cluster, "run", "--", "sh", "-c", script) as shell:
        shell.until("first\r\n")
        gate.touch()
        shell.until(RED + "trouble")
        assert shell.ends() == 0


def test_while_it_waits_one_line_says_why(cluster: LocalCluster) -> None:
    with terminal(cluster, "run", "--hold", "--", "echo", "began") as shell:
        allocation_id = shell.until(r"(a\d+) is pending: held by its user")[1]
        cluster.cli("release", allocation_id)
        shell.until("began\r\n")
        assert shell.ends() == 0
    assert "\r\x1b[K" in shell.seen  # the line is gone before the output


def test_an_interrupt_asks_and_detaching_leaves_the_work_alone(cluster: LocalCluster) -> None:
    with terminal(cluster, "run", "--", "sh", "-c", "echo up; sleep 60") as shell:
        shell.until("up\r\n")
        shell.type(CONTROL_C)
        allocation_id = shell.until(r"(a\d+): detach \(d\), cancel \(c\)")[1]
        shell.type("d\n")
        assert shell.ends() == 130
    assert f"lattice logs -f {allocation_id}" in shell.seen
    cluster.wait_state(allocation_id, "Running")  # its first line may come before the node has said that it started


def test_a_second_interrupt_cancels(cluster: LocalCluster) -> None:
    with terminal(cluster, "run", "--", "sh", "-c", "echo up; sleep 60") as shell:
        shell.until("up\r\n")
        shell.type(CONTROL_C)
        allocation_id = shell.until(r"(a\d+): detach")[1]
        shell.type(CONTROL_C)
        shell.until(f"lattice: {allocation_id} was cancelled")
        assert shell.ends() == 130
    assert cluster.allocation(allocation_id)["state"] == "Cancelled"


def test_closing_the_terminal_leaves_the_work_alone(cluster: LocalCluster) -> None:
    with terminal(cluster, "run", "--", "sh", "-c", "echo up; sleep 60") as shell:
        shell.until("up\r\n")
    allocation_id = newest(cluster)
    assert cluster.allocation(allocation_id)["state"] == "Running"
