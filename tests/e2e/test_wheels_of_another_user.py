"""The wheels in an empty environment of somebody else: a cluster, the README's program, every program and every Slurm command that we ship."""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.cli.slurm.install import PROGRAMS as SLURM_COMMANDS
from lattice.testing import eventually
from tests.architecture.tree import ROOT
from tests.conftest import missing, require_root
from tests.e2e.open_programs import NOBODY, interpreter
from tests.e2e.test_readme import blocks

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.root, pytest.mark.timeout(1200)]

# What each is typed as, and a line of what it then says. {done} is the number of a job that has ended, {runs} that of one
# with a running step, {waits} that of one on hold.
TYPED = {
    "sbatch": (
        "sbatch --parsable -W -o wrapped.out --wrap 'srun -n2 echo stepped' >/dev/null; cat wrapped.out",
        "stepped",
    ),
    "srun": ("srun -n2 -l echo direct | sort", "1: direct"),
    "salloc": ("salloc -Q -n1 srun echo granted", "granted"),
    "sbcast": ("salloc -Q -n1 sh -c 'sbcast -f source copied && cat copied'", "what is copied"),
    "squeue": ("squeue -h -j {runs} -o 'it is %T'", "it is RUNNING"),
    "sacct": ("sacct -nXP -j {done} -o jobid,state", "{done}|COMPLETED"),
    "sstat": ("sstat -nP -j {runs}.0 -o jobid", "{runs}.0"),
    "sattach": ("sattach --layout {runs}.0", "Job step layout:"),
    "scontrol": ("scontrol show job {runs} | grep -o JobState=.*", "JobState=RUNNING Reason=None Dependency=(null)"),
    "seff": ("seff {done}", "State: COMPLETED (exit code 0)"),
    "sinfo": ("sinfo -h -o '%D nodes'", "2 nodes"),
    "sprio": ("sprio -h -o '%i %u'", "{waits} nobody"),
    "sshare": ("sshare -nP -o Account | sort -u", "default"),
    "sdiag": ("sdiag | grep -o '^Jobs submitted'", "Jobs submitted"),
    "sacctmgr": ("sacctmgr -nP list account format=account", "default"),
    "sreport": ("sreport cluster utilization | grep -o '^Cluster Utilization'", "Cluster Utilization"),
    "scancel": ("scancel {runs}; until squeue -h -t R -j {runs} | grep -c . | grep -x 0; do sleep 0.1; done", "0"),
    # It is refused by name: cron is where this is done.
    "scrontab": ("scrontab -l 2>&1 | grep -o 'crontab -e' | head -n 1", "crontab -e"),
}


class Place:
    """A home, an environment in it that pip filled from the wheels, and nothing of this checkout or of root."""

    def __init__(self, home: Path) -> None:
        self.home, self.programs = home, home / "environment" / "bin"
        self.cluster = home / "cluster"
        self._told = {
            "PATH": f"{self.programs}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(home),
            "LATTICE_DIR": str(self.cluster),
            "LC_ALL": "C.UTF-8",
        }

    def run(self, *words: str | Path) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            words, env=self._told, cwd=self.home, user=NOBODY, group=NOBODY, extra_groups=[],
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def said(self, *words: str | Path) -> str:
        done = self.run(*words)
        assert done.returncode == 0, (words, done.stdout[-3000:], done.stderr[-3000:])
        return done.stdout

    def install(self, wheels: Path) -> None:
        self.said(interpreter(), "-m", "venv", self.programs.parent)
        ours = sorted(wheels.glob("lattice_hpc*.whl"))
        wanted = [f"{wheel}[server,agent]" if wheel.name.startswith("lattice_hpc-") else str(wheel) for wheel in ours]
        pip = (self.programs / "python", "-I", "-m", "pip", "install", "-q", "--disable-pip-version-check")
        self.said(*pip, "--no-index", "--find-links", wheels, *wanted)
        assert str(self.home) in self.said("python", "-I", "-c", "import lattice; print(lattice.__file__)")


@pytest.fixture(scope="module")
def wheels() -> Iterator[Path]:
    """Ours and those of what they need, where everybody may read them."""
    if not (ROOT / "src/lattice/web/vendor/.complete").exists():
        missing("the libraries of the web page (make web)")
    folder = Path(tempfile.mkdtemp(prefix="lattice-wheels-"))
    folder.chmod(0o755)
    try:
        subprocess.run([sys.executable, ROOT / "tools" / "dist.py"], check=True, stdout=subprocess.DEVNULL)
        ours = [shutil.copy(path, folder) for path in (ROOT / "dist").glob("lattice_hpc*.whl")]
        wanted = [f"{path}[server,agent]" if "lattice_hpc-" in str(path) else str(path) for path in ours]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "-d", str(folder)]
        subprocess.run([*pip, *wanted], check=True)
        for path in folder.iterdir():
            path.chmod(0o644)
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def place(wheels: Path) -> Iterator[Place]:
    """With a cluster of two nodes in it, which is taken down at the end."""
    require_root()
    home = Path(tempfile.mkdtemp(prefix="lattice-home-"))
    os.chown(home, NOBODY, NOBODY)
    found = Place(home)
    try:
        found.install(wheels)
        ports = ("--rest-port", "0", "--grpc-port", "0")
        found.said("lattice", "up", "--dir", found.cluster, "--nodes", "2", *ports, "--detach")
        try:
            yield found
        finally:
            found.said("lattice", "down", "--dir", found.cluster)
    finally:
        shutil.rmtree(home)


def test_a_job_and_the_program_of_the_readme_run(place: Place) -> None:
    assert place.said("lattice", "run", "--", "id", "-u").strip() == str(NOBODY)
    (program,) = blocks("python")
    (place.home / "example.py").write_text(program)
    assert place.said("python", "-I", "example.py").split() == ["Completed", "42"]


def test_every_program_answers_and_has_its_page(place: Place) -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"lattice", "lattice-server", "lattice-agent", "rm-replay"} <= set(declared)
    pages = place.programs.parent / "share" / "man"
    for program in declared:
        assert (place.programs / program).exists()
        assert "usage" in place.said(program, "--help").lower()
        assert (pages / "man1" / f"{program}.1").exists(), program
    told = (pages / "man7" / "lattice-slurm.7").read_text()
    for command in SLURM_COMMANDS:
        assert command in told
    for file in ("lattice-server.yaml", "lattice-agent.yaml", "lattice-config"):
        assert (pages / "man5" / f"{file}.5").exists(), file


def test_every_slurm_command_does_its_work(place: Place) -> None:
    assert set(TYPED) == set(SLURM_COMMANDS)
    aliases = place.said("lattice", "compat-aliases").strip()
    assert aliases.startswith(str(place.home))

    def typed(line: str) -> str:
        return place.said("sh", "-c", f'. "{aliases}"; {line}')

    for command in SLURM_COMMANDS:
        assert typed(f"{command} --version").startswith("slurm ")
        assert typed(f"command -v {command}").startswith(str(place.home))
    (place.home / "source").write_text("what is copied\n")
    submit = "sbatch --parsable -N1 -o /dev/null"
    known = {
        "done": typed(f"{submit} -W --wrap true").strip(),
        "runs": typed(f"{submit} --wrap 'srun sleep 300'").strip(),
        "waits": typed(f"{submit} -H --wrap true").strip(),
    }
    eventually(lambda: f"{known['runs']}.0" in typed("squeue -h -s -o %i").split(), "a step runs", within_s=60)
    for command in TYPED:
        line, wanted = (text.format(**known) for text in TYPED[command])
        assert wanted in [each.strip() for each in typed(line).splitlines()], command
