"""The Slurm listings as people and programs call them, against a whole cluster."""

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

PROGRAMS = Path(sys.prefix) / "libexec" / "slurm"


@pytest.fixture(scope="module")
def slurm() -> Iterator["Slurm"]:
    with LocalCluster(nodes=2) as cluster:
        cluster.cli("compat-aliases")
        yield Slurm(cluster)


class Slurm:
    """The commands as a shell would find them."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster

    def run(self, *words: str, check: bool = True, **environment: str) -> "subprocess.CompletedProcess[str]":
        program, *arguments = words
        outcome = subprocess.run(
            [str(PROGRAMS / program), *arguments],
            capture_output=True,
            text=True,
            env=self.cluster.environment() | environment,
            cwd=self.cluster.directory,
            timeout=60,
            check=False,
        )
        assert outcome.returncode == 0 or not check, outcome
        return outcome

    def lines(self, *words: str, **environment: str) -> list[str]:
        return self.run(*words, check=True, **environment).stdout.splitlines()

    def submit(self, *words: str) -> str:
        return self.run("sbatch", "--parsable", *words).stdout.strip()

    def state(self, job: str) -> str:
        return " ".join(self.lines("squeue", "-h", "-t", "all", "-j", job, "-o", "%T"))

    def wait_state(self, job: str, wanted: str) -> None:
        eventually(lambda: self.state(job) == wanted, f"job {job} is {wanted}")


def test_a_job_is_seen_everywhere_from_its_submission_to_its_end(slurm: Slurm) -> None:
    job = slurm.submit("-J", "seen", "-c", "2", "--mem=100", "--comment=two words", "--wrap", "sleep 60")
    assert slurm.lines("squeue", "-h", "-j", job, "-o", "%i %j %c %m %k") == [f"{job} seen 2 100M two words"]
    assert slurm.lines("sacct", "-nX", "-P", "-j", job, "-o", "JobID,JobName") == [f"{job}|seen"]
    slurm.wait_state(job, "RUNNING")
    text = slurm.run("scontrol", "show", "job", job).stdout
    found = dict(pair.split("=", 1) for pair in re.findall(r"\S+=\S*", text))
    assert found == found | {
        "JobId": job,
        "JobState": "RUNNING",
        "CPUs/Task": "2",
        "MinMemoryNode": "100M",
        "WorkDir": str(slurm.cluster.directory),
        "StdOut": f"{slurm.cluster.directory}/slurm-{job}.out",
    }
    node = found["NodeList"]
    assert slurm.lines("sinfo", "-h", "-n", node, "-o", "%N %T") == [f"{node} allocated"]
    assert slurm.lines("squeue", "-h", "-s", "-j", job, "-o", "%i") == [f"{job}.batch"]
    slurm.run("scancel", job)
    slurm.wait_state(job, "CANCELLED")
    assert slurm.lines("squeue", "-h", "-j", job) == []
    rows = slurm.lines("sacct", "-nP", "-j", job, "-o", "JobID,State,ExitCode")
    assert re.fullmatch(rf"{job}\|CANCELLED by \d+\|0:0", rows[0])
    assert rows[1] == f"{job}.batch|CANCELLED|0:15"


def test_reasons_are_single_words_that_slurm_knows(slurm: Slurm) -> None:
    running = [slurm.submit("-N1", "--wrap", "sleep 60") for _ in range(2)]
    for job in running:
        slurm.wait_state(job, "RUNNING")
    jobs = {
        "Resources": slurm.submit("-N2", "--wrap", "true"),
        "JobHeldUser": slurm.submit("-H", "--wrap", "true"),
        "BeginTime": slurm.submit("--begin=now+1hour", "--wrap", "true"),
        "Dependency": slurm.submit("-d", f"afterok:{running[0]}", "--wrap", "true"),
    }
    for reason, job in jobs.items():
        eventually(partial(_waits_for, slurm, job, reason), f"{job} waits for {reason}")
    assert slurm.lines("squeue", "-h", "-j", jobs["Dependency"], "-o", "%E") == [f"afterok:{running[0]}(unfulfilled)"]
    slurm.run("scancel", *running, *jobs.values())
    for job in running:
        slurm.wait_state(job, "CANCELLED")


def _waits_for(slurm: Slurm, job: str, reason: str) -> bool:
    return slurm.lines("squeue", "-h", "-j", job, "-o", "%r") == [reason]


def test_arrays_are_shown_by_task(slurm: Slurm) -> None:
    array = slurm.submit("-a", "0-2%1", "--wrap", "sleep 60")
    eventually(lambda: slurm.lines("squeue", "-h", "-t", "R", "-o", "%i") == [f"{array}_0"], "a task runs")
    assert slurm.lines("squeue", "-h", "-t", "PD", "-o", "%i %r") == [f"{array}_[1-2%1] JobArrayTaskLimit"]
    tasks = slurm.lines("squeue", "-h", "-r", "-S", "K", "-o", "%i %K %F")
    assert tasks == [f"{array}_{index} {index} {array}" for index in range(3)]
    slurm.run("scancel", array)
    eventually(lambda: slurm.lines("squeue", "-h") == [], "the array is gone")


def test_drained_nodes_are_told_with_their_reason(slurm: Slurm) -> None:
    node = sorted(slurm.cluster.nodes())[0]
    slurm.cluster.cli("node", "drain", node, "--reason", "bad disk")
    eventually(lambda: slurm.lines("sinfo", "-h", "-n", node, "-N", "-o", "%T") == ["drained"], "it is drained")
    assert "bad disk" in slurm.lines("sinfo", "-R", "-h")[0]
    assert "State=IDLE+DRAIN " in slurm.run("scontrol", "show", "node", node).stdout
    slurm.cluster.cli("node", "undrain", node)
    slurm.cluster.wait_node(node, "Ready")
    assert slurm.lines("sinfo", "-h", "-o", "%D %t") == ["2 idle"]


def test_every_listing_answers_without_arguments(slurm: Slurm) -> None:
    for program in ("squeue", "sinfo", "sacct", "sprio", "sshare", "sdiag"):
        assert slurm.run(program).stderr == ""
    assert slurm.run("squeue", "-j", "999999", check=False).returncode == 1
    assert slurm.lines("scontrol", "show", "hostnames", SLURM_JOB_NODELIST="n[1-2]") == ["n1", "n2"]


def test_a_question_for_one_job_is_answered_quickly(slurm: Slurm) -> None:
    job = slurm.submit("-H", "--wrap", "true")
    taken = []
    for _ in range(10):
        began = time.perf_counter()
        slurm.run("squeue", "-h", "-j", job)
        taken.append(time.perf_counter() - began)
    # Half a second on a machine that does other things besides; docs/performance.md has the figure.
    assert min(taken) < 0.5
    slurm.run("scancel", job)
