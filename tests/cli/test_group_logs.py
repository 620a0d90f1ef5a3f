"""`lattice logs -f` of groups and of several allocations: each line behind the name of its task, until all have ended."""

import subprocess
import sys
from pathlib import Path

import pytest

from lattice.testing import LocalCluster

pytestmark = pytest.mark.e2e

PROGRAM = str(Path(sys.executable).with_name("lattice"))
SCRIPT = "echo begun $LATTICE_TASK_INDEX; test -e {gate} || sleep 0.3; echo problem >&2; printf 'no end of line'"


def group(cluster: LocalCluster, tasks: str, script: str) -> str:
    return cluster.cli("submit", f"--task-group={tasks}", "--cpus=1", "--", "sh", "-c", script).stdout.split()[-1]


def test_every_task_of_a_group_is_followed_from_its_start(cluster: LocalCluster) -> None:
    name = group(cluster, "0-5%2", SCRIPT.format(gate="/nonexistent"))
    done = cluster.cli("logs", "-f", name)
    wanted = [f"{name}_{index}: {text}" for index in range(6) for text in (f"begun {index}", "no end of line")]
    assert sorted(done.stdout.splitlines()) == sorted(wanted)
    assert sorted(done.stderr.splitlines()) == [f"{name}_{index}: problem" for index in range(6)]
    again = cluster.cli("logs", "-f", name, "--stderr", "--grep=probl")
    assert sorted(again.stdout.splitlines()) == sorted(done.stderr.splitlines())


def test_more_tasks_than_are_followed_at_once(cluster: LocalCluster) -> None:
    name = group(cluster, "0-39", "echo $LATTICE_TASK_INDEX")
    done = cluster.cli("logs", "-f", name)
    assert sorted(done.stdout.splitlines()) == sorted(f"{name}_{index}: {index}" for index in range(40))


def test_several_are_followed_beside_each_other(cluster: LocalCluster) -> None:
    first = cluster.cli("submit", "--", "sh", "-c", "echo one").stdout.split()[-1]
    second = group(cluster, "7", "echo two")
    done = cluster.cli("logs", "-f", first, second, "-o", "json")
    assert sorted(line.split('"data":')[1] for line in done.stdout.splitlines()) == ['"one\\n"}', '"two\\n"}']
    missing = cluster.cli("logs", "-f", first, "a999999", check=False)
    assert (missing.returncode, missing.stdout) == (4, "")


def test_a_cancelled_group_ends_it(cluster: LocalCluster) -> None:
    name = group(cluster, "0-3%1", "echo begun; sleep 60")
    with subprocess.Popen(
        [PROGRAM, "logs", "-f", name], env=cluster.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == f"{name}_0: begun\n".encode()
        cluster.cli("cancel", name)
        assert following.wait(30) == 0
