"""Programs of others that were written for Slurm, unchanged, on a live cluster."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.architecture.tree import ROOT
from tests.slurm.environments import tool_python
from tests.slurm.live import Commands

pytestmark = pytest.mark.e2e

TOOLS = ROOT / "tests" / "tools"
Said = dict[str, dict[str, Any]]


def used(commands: Commands, tool: str, folder: Path) -> Said:
    """What tests/tools/use_TOOL.py said, by subject."""
    folder.chmod(0o777)
    program = TOOLS / f"use_{tool.replace('-', '_')}.py"
    done = commands.run([str(tool_python(tool)), str(program), str(folder)])
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each.pop("what"): each for each in said}


def test_submitit(commands: Commands, tmp_path: Path) -> None:
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
    said = used(commands, "dask-jobqueue", tmp_path)
    assert said["sum"] == {"result": 42}
    assert said["many"] == {"result": [5, 4, 3, 2, 1]}
    assert said["smaller"] == {"states": ["CANCELLED", "RUNNING"]}
    assert said["closed"] == {"states": ["CANCELLED", "CANCELLED"]}
    numbers = said["ids"]["values"]
    assert commands("sacct", "-XnPo", "JobName,Comment", "-j", ",".join(numbers)).stdout == "dask-worker|dask\n" * 2
    assert sorted(path.suffix for path in tmp_path.glob(f"dask-worker-{numbers[0]}.*")) == [".err", ".out"]


@pytest.mark.soak
def test_simple_slurm(commands: Commands, tmp_path: Path) -> None:
    said = used(commands, "simple-slurm", tmp_path)["array"]
    assert said["states"] == ["COMPLETED", "COMPLETED"]
    assert [(tmp_path / f"{said['id']}_{task}.out").read_text() for task in (1, 2)] == ["task 1\n", "task 2\n"]


@pytest.mark.soak
def test_psij(commands: Commands, tmp_path: Path) -> None:
    said = used(commands, "psij", tmp_path)
    assert said["good"] == {"state": "COMPLETED", "code": 0}
    assert said["bad"] == {"state": "FAILED", "code": 6}
    assert said["stopped"] == {"state": "CANCELED"}
    assert (tmp_path / "good.out").read_text() == "done\n"


@pytest.mark.soak
def test_parsl(commands: Commands, tmp_path: Path) -> None:
    assert used(commands, "parsl", tmp_path)["apps"] == {"sums": [0, 2, 4], "problem": "BashExitFailure"}


@pytest.mark.soak
def test_ipyparallel(commands: Commands, tmp_path: Path) -> None:
    assert used(commands, "ipyparallel", tmp_path)["engines"] == {"results": [32, 32]}


@pytest.mark.soak
def test_reframe(commands: Commands, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    program = tool_python("reframe").with_name("reframe")
    files = ["-C", str(TOOLS / "reframe_settings.py"), "-c", str(TOOLS / "reframe_checks.py")]
    done = commands.run([str(program), *files, "--prefix", str(tmp_path), "-r"])
    assert "Ran 2/2 test case(s) from 2 check(s) (1 failure(s)" in done.stdout, done.stdout
    assert "sanity error: 1 != 0" in done.stdout


@pytest.mark.soak
@pytest.mark.timeout(400)
@pytest.mark.parametrize("more", [[], ["--slurm-array-jobs", "part"]], ids=["single", "arrays"])
def test_snakemake(commands: Commands, tmp_path: Path, more: list[str]) -> None:
    tmp_path.chmod(0o777)
    program = tool_python("snakemake").with_name("snakemake")
    place = ["--default-resources", "slurm_account=default", "slurm_partition=default"]
    where = ["-s", str(TOOLS / "Snakefile"), "-d", str(tmp_path)]
    done = commands.run([str(program), *where, "--executor", "slurm", "-j", "4", *more, *place], timeout_s=350)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "joined.txt").read_text() == "1\n2\n"
    assert ("Submitted array job" in done.stderr) == bool(more)


@pytest.mark.soak
def test_executorlib_with_pysqa(commands: Commands, tmp_path: Path) -> None:
    said = used(commands, "executorlib", tmp_path)
    assert said["sum"] == {"result": 42}
    assert said["problem"] == {"text": "LookupError('not here')"}
    assert commands("sacct", "-XnPo", "State", "-j", said["job"]["id"]).stdout == "COMPLETED\n"


@pytest.mark.soak
@pytest.mark.root
def test_batchspawner_in_a_stripped_environment(commands: Commands, tmp_path: Path) -> None:
    """The commands find the cluster by the site's file alone: seen only in a mount namespace of the test."""
    site = tmp_path / "etc"
    site.mkdir()
    cluster = commands.cluster
    (site / "config.yaml").write_text(f"endpoint: {cluster.api_url}\ntoken_file: {cluster.directory}/token\n")
    words = ["env", "-i", f"PATH={commands.folder}:/usr/bin:/bin", str(tool_python("batchspawner"))]
    program = [*words, str(TOOLS / "use_batchspawner.py"), str(tmp_path)]
    # The directory of the site exists only in a copy of /etc that the namespace sees.
    line = f"""
        mount -t tmpfs none /mnt && mkdir /mnt/upper /mnt/work
        mount -t overlay -o lowerdir=/etc,upperdir=/mnt/upper,workdir=/mnt/work none /etc
        mkdir -p /etc/lattice && mount --bind {site} /etc/lattice && exec "$@"
    """
    done = commands.run(["/usr/bin/unshare", "-m", "--propagation", "private", "sh", "-ec", line, "sh", *program])
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(each) for each in done.stdout.splitlines() if each.startswith("{")]
    assert said[0]["has_port"]
    assert said[1]["poll"] is None
    assert said[1]["status"].startswith("RUNNING ")
    assert said[2] == {"what": "stopped", "poll": 1}
    assert commands("sacct", "-XnPo", "State", "-j", said[0]["id"]).stdout.startswith("CANCELLED")
