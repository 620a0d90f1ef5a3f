"""What a release consists of, built twice: the bytes depend on the sources alone."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.conftest import missing

ROOT = Path(__file__).resolve().parents[2]
SLURM_COMMANDS = (
    *("sbatch", "squeue", "scancel", "salloc", "srun", "sinfo", "sacct", "scontrol", "sstat"),
    *("sprio", "sshare", "sdiag", "sacctmgr", "sreport", "seff", "sbcast", "scrontab", "sattach"),
)
PARTS = ("pyproject.toml", "constraints.txt", "LICENSE", "README.md", "src", "sdk", "share", "deploy", "tools")


def built(folder: Path, umask: int) -> dict[str, bytes]:
    """The files of a release from a copy of the sources."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "dist", "build"))
        elif source.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / part)
    for path in folder.rglob("*.py"):
        path.chmod(0o666 & ~umask)
        os.utime(path, (umask, umask))
    subprocess.run([sys.executable, "tools/dist.py"], cwd=folder, check=True, capture_output=True, umask=umask)
    return {path.name: path.read_bytes() for path in (folder / "dist").iterdir()}


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """The wheel contains what `make web` fetches."""
    if not (ROOT / "src/lattice/web/vendor/.complete").exists():
        missing("the libraries of the web page (make web)")


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return built(tmp_path_factory.mktemp("one") / "here", 0o022)


def test_another_folder_umask_and_time_give_the_same_bytes(release: dict[str, bytes], tmp_path: Path) -> None:
    assert built(tmp_path / "else" / "where", 0o077) == release


def test_the_wheel_has_all_that_is_installed(release: dict[str, bytes], tmp_path: Path) -> None:
    (name,) = (name for name in release if name.startswith("lattice_hpc-"))
    (tmp_path / name).write_bytes(release[name])
    names = set(zipfile.ZipFile(tmp_path / name).namelist())
    data = f"{name.removesuffix('-py3-none-any.whl')}.data/data/share"
    for path in (ROOT / "share" / "man").rglob("*.?"):
        assert f"{data}/man/{path.parent.name}/{path.name}" in names
    completions = ("bash-completion/completions/lattice", "zsh/site-functions/_lattice")
    for place in (*completions, "fish/vendor_completions.d/lattice.fish"):
        assert f"{data}/{place}" in names
    for path in (ROOT / "deploy" / "systemd").iterdir():
        assert f"{data}/lattice/systemd/{path.name}" in names
    assert {
        "lattice/web/page/index.html",
        "lattice/agent/telemetry/bpf/lattice.bpf.o",
        "lattice/web/vendor/preact.mjs",
        "lattice/web/vendor/preact.LICENSE.txt",
    } <= names
    assert {"lattice/agent/pmix/host.c", "lattice/cli/slurm/forward.c", "lattice/py.typed"} <= names
    assert not [each for each in names if each.startswith(("tests/", "bench/", "tools/"))]


def test_components_are_those_that_are_pinned(release: dict[str, bytes]) -> None:
    (name,) = (name for name in release if name.endswith(".cdx.json"))
    listed = json.loads(release[name])["components"]
    components = {each["name"]: each["version"] for each in listed if each["purl"].startswith("pkg:pypi/")}
    assert {each["name"] for each in listed if each["purl"].startswith("pkg:npm/")} >= {"preact", "@xterm/xterm"}
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / "constraints.txt").read_text(), re.MULTILINE))
    assert components.keys() >= {"msgspec", "grpcio", "starlette", "uvloop", "nvidia-ml-py", "obstore"}
    assert components.items() <= pinned.items()
    assert "pytest" not in components
    # Two components want markdown-it-py, one of them with extras.
    assert "markdown-it-py" not in components or "linkify-it-py" in components


def test_the_sums_are_of_every_file(release: dict[str, bytes]) -> None:
    named = [line.split("  ")[1] for line in release["SHA256SUMS"].decode().splitlines()]
    assert sorted([*named, "SHA256SUMS"]) == sorted(release)


@pytest.mark.soak
def test_an_installation_from_wheels_runs_a_cluster(release: dict[str, bytes], tmp_path: Path) -> None:
    """Commands, Slurm commands and the SDK in an environment that has nothing else."""
    for name, data in release.items():
        (tmp_path / name).write_bytes(data)
    wheels = [str(path) for path in sorted(tmp_path.glob("*.whl"))]
    programs = tmp_path / "environment" / "bin"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    wanted = [f"{wheel}[server,agent]" if "lattice_hpc-" in wheel else wheel for wheel in wheels]
    # -I below: the environment alone, not this checkout.
    subprocess.run([programs / "python", "-I", "-m", "pip", "install", "-q", *wanted], check=True)
    folder = tmp_path / "cluster"
    told = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "LATTICE_DIR": str(folder)}

    def said(*words: str) -> str:
        done = subprocess.run(words, env=told, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    ports = ("--rest-port", "0", "--grpc-port", "0")
    said("lattice", "up", "--dir", str(folder), "--nodes", "2", *ports, "--detach")
    try:
        assert said("lattice", "run", "--", "echo", "from a wheel") == "from a wheel\n"
        aliases = said("lattice", "compat-aliases").strip()
        for command in SLURM_COMMANDS:
            assert said("sh", "-c", f'. "{aliases}"; {command} --version').startswith("slurm ")
        assert "COMPLETED" in said(
            "sh", "-c", f'. "{aliases}"; sbatch --wait -o /dev/null --wrap true; sacct -X -n -o state'
        )
        assert "Completed" in said(
            "python",
            "-c",
            "from lattice_sdk import Client, Submission\n"
            "with Client.from_environment() as client:\n"
            "    print(client.wait(client.submit(Submission(entrypoint=['true'])).id).state)",
        )
    finally:
        said("lattice", "down", "--dir", str(folder))
