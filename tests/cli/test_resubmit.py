"""Work is run again from its record, with what is to be different."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster

pytestmark = pytest.mark.e2e

SCRIPT = """#!/bin/sh
#LATTICE --name=fit --env=GREETING=hello --tag=kind=test
echo "$GREETING $1 $MORE in $(pwd)"
[ -e "$2" ]
"""


def recorded(cluster: LocalCluster, allocation_id: str) -> dict[str, Any]:
    shown: dict[str, Any] = cluster.get(f"/allocations/{allocation_id}?details=true")
    return shown


def new_id(said: str) -> str:
    return said.strip().removeprefix("Submitted allocation ")


def test_a_script_runs_again_with_everything_it_had_and_what_was_changed(cluster: LocalCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    script, gate, out = tmp_path / "fit.sh", tmp_path / "gate", tmp_path / "out"
    script.write_text(SCRIPT)
    words = ["--walltime=5m", "--memory=32M", f"--stdout={out}", "--signal=USR1@30", "--preemption-class=6"]
    first = cluster.cli("submit", "-q", "--wait", *words, str(script), "points", str(gate), cwd=tmp_path, check=False)
    old = first.stdout.split()[0]
    assert cluster.wait_end(old)["exit_code"] == 1
    script.unlink()
    gate.touch()
    said = cluster.cli("resubmit", old, "--walltime=10m", "--env=MORE=more", cwd=Path("/"))
    new = new_id(said.stdout)
    assert cluster.wait_end(new)["exit_code"] == 0
    assert out.read_text() == f"hello points more in {tmp_path}\n"
    before, after = recorded(cluster, old), recorded(cluster, new)
    assert (after["walltime_s"], after["name"], after["preemption_class"]) == (600, "fit", 6)
    assert after["tags"] == {"kind": "test", "resubmit_of": old}
    assert after["resources"] == before["resources"]
    assert after["details"].pop("environment") == {"GREETING": "hello", "MORE": "more"}
    assert before["details"].pop("environment") == {"GREETING": "hello"}
    assert after["details"] == before["details"]


def test_what_was_submitted_is_printed(cluster: LocalCluster, tmp_path: Path) -> None:
    script = tmp_path / "fit.sh"
    script.write_text(SCRIPT)
    old = cluster.cli("submit", "-q", "--hold", str(script)).stdout.strip()
    assert cluster.cli("status", old, "--script").stdout == SCRIPT
    command = cluster.cli("submit", "-q", "--hold", "--", "echo", "two words").stdout.strip()
    assert cluster.cli("status", command, "--script").stdout == "echo 'two words'\n"
    wanted = {"program": "scontrol", "argv": ["write", "batch_script", old[1:], "-"]}
    assert cluster.post("/slurm/commands", wanted)["stdout"] == SCRIPT
    sacct = {"program": "sacct", "argv": ["-B", "-j", old[1:]]}
    assert cluster.post("/slurm/commands", sacct)["stdout"] == f"Batch Script for {old[1:]}\n{'-' * 80}\n{SCRIPT}\n"
    file = {"program": "scontrol", "argv": ["write", "batch_script", old[1:]]}
    assert "files are not written" in cluster.post("/slurm/commands", file)["stderr"]


def test_only_the_tasks_that_failed_run_again(cluster: LocalCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    gate = tmp_path / "gate"
    test = f"case $LATTICE_TASK_INDEX in 1|4|5) [ -e {gate} ] ;; esac; echo >> {tmp_path}/ran.$LATTICE_TASK_INDEX"
    submitted = cluster.cli("submit", "-q", "--task-group=0-5%2", "--", "sh", "-ec", test)
    old = submitted.stdout.strip()
    assert cluster.wait_end(old)["tasks"]["failed"] == 3
    assert re.search(r"^Failed tasks: +1,4-5$", cluster.cli("status", old, "-v").stdout, re.MULTILINE)
    gate.touch()
    new = new_id(cluster.cli("resubmit", old, "--failed").stdout)
    ended = cluster.wait_end(new)
    assert (ended["state"], ended["tasks"]["size"], ended["tasks"]["concurrency"]) == ("Completed", 3, 2)
    runs = {path.name: path.read_text() for path in tmp_path.glob("ran.*")}
    assert runs == {f"ran.{index}": "\n" for index in range(6)}
    assert cluster.cli("resubmit", new, "--failed", check=False).stderr.startswith(
        f"error: no task of {new} has failed"
    )


def test_work_of_a_slurm_command_is_refused_by_name(cluster: LocalCluster, tmp_path: Path) -> None:
    body = {"program": "sbatch", "argv": ["--parsable", "-H", "--wrap=true"], "cwd": str(tmp_path)}
    number = cluster.post("/slurm/commands", body)["stdout"].strip()
    done = cluster.cli("resubmit", f"a{number}", check=False)
    assert done.returncode == 1
    assert "was submitted by a Slurm command" in done.stderr
    assert json.dumps(cluster.allocation(f"a{number}"))


def test_work_that_saved_its_state_at_its_limit_goes_on_at_once(cluster: LocalCluster, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    script = f"cd {tmp_path}; [ -e saved ] && exit 0; trap 'touch saved' USR1; sleep 60 & wait; sleep 60"
    flags = ("--walltime=2s", "--signal=USR1@1", "--requeue=on_walltime")
    allocation_id = cluster.cli("submit", "-q", *flags, "--", "sh", "-c", script).stdout.strip()
    ended = cluster.wait_end(allocation_id)
    assert (ended["state"], ended["requeue_count"], ended["run"]) == ("Completed", 1, 2)
