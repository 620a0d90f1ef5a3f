"""How work ended: the same sentence wherever a user may look for it."""

from pathlib import Path

import pytest

from lattice.testing import LocalCluster

pytestmark = pytest.mark.e2e


def submit(cluster: LocalCluster, *words: str) -> str:
    return cluster.cli("submit", "-q", *words).stdout.strip()


def everywhere(cluster: LocalCluster, allocation_id: str, sentence: str, *, has_run: bool = True) -> None:
    """Status, explain, wait, JSON, sacct; and the output of work that ran."""
    assert sentence.removeprefix(f"{allocation_id} ") in cluster.cli("status", allocation_id).stdout
    assert sentence in cluster.cli("status", allocation_id, "-v").stdout
    assert f"Reason:      {sentence}" in cluster.cli("explain", allocation_id).stdout
    assert cluster.cli("wait", allocation_id, check=False).stdout == f"{sentence}\n"
    assert cluster.allocation(allocation_id)["ending"] == sentence
    wanted = {"program": "sacct", "argv": ["-nPXj", allocation_id[1:], "-o", "SystemComment,Comment"]}
    assert cluster.post("/slurm/commands", wanted)["stdout"] == f"{sentence}|\n"
    if has_run:
        assert cluster.logs(allocation_id, "stderr").splitlines()[-1] == f"lattice: {sentence}"


def test_an_exit_code_and_the_last_words_before_it(cluster: LocalCluster) -> None:
    script = "for i in 1 2 3 4 5 6; do echo trouble $i >&2; done; exit 3"
    allocation_id = submit(cluster, "--", "sh", "-c", script)
    assert cluster.wait_end(allocation_id)["exit_code"] == 3
    everywhere(cluster, allocation_id, f"{allocation_id} failed with exit code 3")
    last = cluster.cli("explain", allocation_id).stdout.splitlines()[-6:]
    assert last == ["Last lines of stderr:", *(f"  trouble {i}" for i in range(2, 7))]


def test_the_walltime_in_the_file_of_the_user_and_the_flag_to_change(cluster: LocalCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    out = tmp_path / "out"
    allocation_id = submit(
        cluster, "--walltime=1s", f"--stdout={out}", "--", "sh", "-c", "trap 'exit 9' TERM; echo begin; sleep 60 & wait"
    )
    cluster.wait_end(allocation_id)
    sentence = f"{allocation_id} was killed at its walltime limit of 00:00:01"
    everywhere(cluster, allocation_id, sentence, has_run=False)
    assert out.read_text() == f"begin\nlattice: {sentence}\n"
    assert "--walltime=00:00:02" in cluster.cli("explain", allocation_id).stdout


def test_a_cancel_and_what_depended_on_it(cluster: LocalCluster, tmp_path: Path) -> None:
    first = submit(cluster, "--", "sh", "-c", "echo up; sleep 60")
    second = submit(cluster, f"--depends-on={first}:success", "--", "true")
    cluster.wait_state(first, "Running")
    cluster.cli("cancel", first)
    cluster.wait_end(first)
    cluster.wait_end(second)
    everywhere(cluster, first, f"{first} was cancelled")
    ending = cluster.allocation(second)["ending"]
    assert ending.startswith(f"{second} was never started: {first} ")
    everywhere(cluster, second, ending, has_run=False)


def test_a_program_that_does_not_exist(cluster: LocalCluster) -> None:
    allocation_id = submit(cluster, "--", "no-such-program")
    cluster.wait_end(allocation_id)
    sentence = f"{allocation_id} could not be started: no-such-program: command not found in PATH"
    everywhere(cluster, allocation_id, sentence, has_run=False)


def test_work_that_is_suspended_or_held_is_not_called_running(cluster: LocalCluster) -> None:
    running = submit(cluster, "--", "sleep", "60")
    cluster.wait_state(running, "Running")
    cluster.cli("suspend", running)
    assert "Running (suspended)" in cluster.cli("status", running).stdout
    cluster.cli("cancel", running)
    group = submit(cluster, "--task-group=0-1", "--hold", "--", "true")
    cluster.cli("release", f"{group}_0")
    cluster.wait_end(f"{group}_0")
    assert "its last task is held by its user" in cluster.cli("status", group).stdout
    waited = cluster.cli("wait", group, "--timeout=2s", check=False)
    assert waited.returncode == 124
    assert f"{group} cannot continue: its last task is held by its user" in waited.stderr
    cluster.cli("cancel", group)
