"""A cluster of somebody who is not root: no cgroups, own work only, and still nothing left behind."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lattice
import lattice_sdk
from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running
from tests.conftest import missing

pytestmark = [pytest.mark.e2e, pytest.mark.root]

NOBODY = 65534
PROGRAMS = ("lattice", "lattice-server", "lattice-agent", "lattice-supervisor")


def interpreter_for_everybody() -> str:
    """A Python of our version that a stranger may execute: the one that runs us may lie in a private home."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        probe = [candidate, "-c", "import sys; print(sys.version_info[:2])"]
        try:
            told = subprocess.run(probe, user=NOBODY, cwd="/", capture_output=True, text=True, check=False)
        except OSError:
            continue
        if told.stdout.strip() == str(sys.version_info[:2]):
            return candidate
    missing("a Python that other users may run")


def readable_by_everybody(folder: str, copy: Path) -> str:
    """The folder itself, or a copy (by hard links where they can be made) when a stranger may not look into it."""
    if subprocess.run(["ls", folder], user=NOBODY, capture_output=True, check=False).returncode == 0:
        return folder
    if subprocess.run(["cp", "-al", folder, copy], capture_output=True, check=False).returncode != 0:
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-a", folder, copy], check=True)
    return str(copy)


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    """An environment with the installed packages of this one, for that interpreter."""
    home = Path(tempfile.mkdtemp(prefix="lattice-venv-"))
    home.chmod(0o755)
    try:
        subprocess.run([interpreter_for_everybody(), "-m", "venv", "--without-pip", home], check=True)
        sources = [Path(module.__path__[0]).parent for module in (lattice, lattice_sdk)]
        folders = dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *map(str, sources)])
        lines = [readable_by_everybody(folder, home / f"copy{place}") for place, folder in enumerate(folders)]
        (found,) = home.glob("lib/python*/site-packages")
        (found / "lattice.pth").write_text("\n".join(lines) + "\n")
        for name in PROGRAMS:
            text = Path(sys.executable).with_name(name).read_text().splitlines()
            program = home / "bin" / name
            program.write_text("\n".join([f"#!{home}/bin/python", *text[1:]]) + "\n")
            program.chmod(0o755)
        probe = subprocess.run([home / "bin" / "lattice", "version"], user=NOBODY, cwd="/", check=False)
        assert probe.returncode == 0
        yield home / "bin"
    finally:
        shutil.rmtree(home)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that the other user can reach; those of pytest are its owner's alone."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-scratch-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(programs: Path) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1, program=programs / "lattice", user=NOBODY) as cluster:
        yield cluster


def test_work_runs_as_the_user_and_its_output_comes_back(cluster: LocalCluster) -> None:
    done = cluster.run(["id", "-u"])
    assert (done["state"], cluster.logs(done["id"]).strip()) == ("Completed", str(NOBODY))
    assert cluster.get("/whoami")["user"] == "nobody"


def test_cancel_reaches_processes_in_other_sessions(cluster: LocalCluster, scratch: Path) -> None:
    submitted = cluster.submit(f"trap '' TERM; setsid sleep 300 & echo $! > {scratch}/pid; wait; sleep 300")
    eventually(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text(), "the work began")
    cluster.delete(f"/allocations/{submitted['id']}")
    assert cluster.wait_end(submitted["id"])["state"] == "Cancelled"
    assert not is_running(int((scratch / "pid").read_text()))


def test_down_ends_work_whose_shim_was_killed(programs: Path, scratch: Path) -> None:
    cluster = LocalCluster(nodes=1, program=programs / "lattice", user=NOBODY)
    try:
        cluster.start()
        cluster.submit(f"setsid sleep 300 & echo $! > {scratch}/pid; sleep 300")
        eventually(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text(), "the work began")
        for role in ("supervisor", "agent", "shim"):
            cluster.kill(role)
        cluster.stop()
        assert not is_running(int((scratch / "pid").read_text()))
    finally:
        cluster.remove()


def test_a_stranger_cannot_read_the_cluster(cluster: LocalCluster) -> None:
    stranger = 65533
    for name in ("secret", "token", "agent-token", "cluster.json"):
        outcome = subprocess.run(["cat", cluster.directory / name], user=stranger, capture_output=True, check=False)
        assert outcome.returncode != 0
    assert os.stat(cluster.directory / "token").st_uid == NOBODY
