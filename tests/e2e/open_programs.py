"""Our programs where every user of the machine can run them: the interpreter of a test run may lie in a private home."""

import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path

import lattice
import lattice_sdk
from tests.conftest import missing

NOBODY = 65534
PROGRAMS = ("lattice", "lattice-server", "lattice-agent", "lattice-supervisor")


def interpreter() -> str:
    """A Python of our version that a stranger may execute."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        probe = [candidate, "-c", "import sys; print(sys.version_info[:2])"]
        try:
            told = subprocess.run(probe, user=NOBODY, cwd="/", capture_output=True, text=True, check=False)
        except OSError:
            continue
        if told.stdout.strip() == str(sys.version_info[:2]):
            return candidate
    missing("a Python that other users may run")


def _readable(folder: str, copy: Path) -> str:
    """The folder itself, or a copy (by hard links where they can be made) when a stranger may not look into it."""
    if subprocess.run(["ls", folder], user=NOBODY, capture_output=True, check=False).returncode == 0:
        return folder
    if subprocess.run(["cp", "-al", folder, copy], capture_output=True, check=False).returncode != 0:
        shutil.rmtree(copy, ignore_errors=True)
        subprocess.run(["cp", "-a", folder, copy], check=True)
    return str(copy)


@contextmanager
def open_programs() -> Iterator[Path]:
    """The folder of the programs, in an environment with the installed packages of this one."""
    home = Path(tempfile.mkdtemp(prefix="lattice-venv-"))
    home.chmod(0o755)
    try:
        subprocess.run([interpreter(), "-m", "venv", "--without-pip", home], check=True)
        lines = [_readable(folder, home / f"copy{place}") for place, folder in enumerate(package_folders())]
        (found,) = home.glob("lib/python*/site-packages")
        (found / "lattice.pth").write_text("\n".join(lines) + "\n")
        # Not copies of the programs: the command may be a compiled one that speaks to an interpreter of its own user.
        targets = {entry.name: entry for entry in distribution("lattice-hpc").entry_points}
        for name in PROGRAMS:
            module, function = targets[name].module, targets[name].attr
            program = home / "bin" / name
            program.write_text(
                f"#!{home}/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
            )
            program.chmod(0o755)
        probe = subprocess.run([home / "bin" / "lattice", "version"], user=NOBODY, cwd="/", check=False)
        assert probe.returncode == 0
        yield home / "bin"
    finally:
        shutil.rmtree(home)


def package_folders() -> list[str]:
    sources = [Path(module.__path__[0]).parent for module in (lattice, lattice_sdk)]
    return list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *map(str, sources)]))
