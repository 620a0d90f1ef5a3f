"""Programs of others that were written for Slurm, unchanged, on a live cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.slurm.environments import tool_python
from tests.slurm.live import Commands

pytestmark = pytest.mark.e2e

Said = dict[str, dict[str, Any]]


def used(commands: Commands, tool: str, folder: Path) -> Said:
    """What tests/tools/use_TOOL.py said, by subject."""
    program = ROOT / "tests" / "tools" / f"use_{tool.replace('-', '_')}.py"
    done = commands.run([str(tool_python(tool)), str(program), str(folder)])
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each.pop("what"): each for each in said}


def test_submitit(commands: Commands, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    said = used(commands, "submitit", tmp_path)
    assert said["sum"] == {"result": 42, "state": "COMPLETED"}
    assert said["array"]["results"] == [0, 2, 4, 6]
    assert [each.partition("_")[2] for each in said["array"]["ids"]] == ["0", "1", "2", "3"]
    assert [(rank, size) for rank, size, _ in said["ranks"]["results"]] == [(0, 2), (1, 2)]
    assert said["failed"] == {"tells": True, "state": "FAILED"}
    assert said["left"]["state"] == "FAILED"
    assert commands("sacct", "-XnPo", "ExitCode", "-j", said["left"]["id"]).stdout == "7:0\n"
    assert said["late"]["state"] == "TIMEOUT"
    assert said["cancelled"] == {"state": "CANCELLED"}
    assert said["resumed"]["result"] == "resumed"
    assert " Restarts=1 " in commands("scontrol", "-o", "show", "job", said["resumed"]["id"]).stdout


def test_dask_jobqueue(commands: Commands, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    said = used(commands, "dask-jobqueue", tmp_path)
    assert said["sum"] == {"result": 42}
    assert said["many"] == {"result": [5, 4, 3, 2, 1]}
    assert said["smaller"] == {"states": ["CANCELLED", "RUNNING"]}
    assert said["closed"] == {"states": ["CANCELLED", "CANCELLED"]}
    numbers = said["ids"]["values"]
    assert commands("sacct", "-XnPo", "JobName,Comment", "-j", ",".join(numbers)).stdout == "dask-worker|dask\n" * 2
    assert sorted(path.suffix for path in tmp_path.glob(f"dask-worker-{numbers[0]}.*")) == [".err", ".out"]
