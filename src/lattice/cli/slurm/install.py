"""The folder of programs called as Slurm's are: written once per installation, each with the interpreter it needs."""

import os
import sys
from pathlib import Path

import lattice
import lattice_sdk

PROGRAMS = (
    "sbatch",
    "squeue",
    "scancel",
    "salloc",
    "srun",
    "sinfo",
    "sacct",
    "scontrol",
    "sstat",
    "sprio",
    "sshare",
    "sdiag",
    "sacctmgr",
)
# These do more where they run than print an answer.
MODULES = {"srun": "lattice.cli.slurm.srun", "salloc": "lattice.cli.slurm.salloc"}
ALIASES = "aliases.sh"
_TEXT = """#!{python} -IS
import sys
sys.path[:0] = {path!r}
from {module} import main
main({program!r})
"""
_SHELL = """# Puts the Slurm commands of Lattice first on PATH.
case ":$PATH:" in
    *":{folder}:"*) ;;
    *) PATH="{folder}:$PATH"; export PATH ;;
esac
"""


def default_folder() -> Path:
    """Beside the interpreter's own programs."""
    return Path(sys.prefix) / "libexec" / "slurm"


def install(folder: Path) -> Path:
    """Writes what is missing or differs; returns the shell file that puts the folder on PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        _write(folder / program, program_text(program), 0o755)
    aliases = folder / ALIASES
    _write(aliases, _SHELL.format(folder=folder), 0o644)
    return aliases


def find_installed(folder: Path) -> Path | None:
    """The shell file of a folder that somebody else has written completely."""
    whole = all((folder / name).exists() for name in (*PROGRAMS, ALIASES))
    return folder / ALIASES if whole else None


def program_text(program: str) -> str:
    module = MODULES.get(program, "lattice.cli.slurm.program")
    return _TEXT.format(python=sys.executable, path=_path(), module=module, program=program)


def _path() -> list[str]:
    """Where the interpreter finds Lattice and what it needs, as it is started without any paths of the site."""
    own = [str(Path(module.__file__ or "").parents[1]) for module in (lattice, lattice_sdk)]
    return list(dict.fromkeys([*own, *(entry for entry in sys.path if entry.endswith("-packages"))]))


def _write(path: Path, text: str, mode: int) -> None:
    try:
        if path.read_text() == text and path.stat().st_mode & 0o777 == mode:
            return
    except (OSError, UnicodeDecodeError):
        pass
    # Replaced as a whole: somebody may be running it.
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.replace(path)
