"""The directory of programs with the names of Slurm's: written once per installation.

Each is a small script with the interpreter it needs. If there is a C compiler, a compiled forwarder in front of them handles the
usual case without an interpreter and starts the script for all others.
"""

import os
import shutil
import subprocess
import sys
import tempfile
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
    "sreport",
    "seff",
    "sbcast",
    "scrontab",
    "sattach",
)
# These do more on the client than print an answer.
MODULES = {
    "srun": "lattice.cli.slurm.srun",
    "salloc": "lattice.cli.slurm.salloc",
    "sbcast": "lattice.cli.slurm.sbcast",
    "sattach": "lattice.cli.slurm.sattach",
}
SENT_AHEAD = ("srun",)  # the forwarder sends its request while the interpreter starts
ALIASES = "aliases.sh"
FORWARDER = ".forward"
SOURCE = "forward.c"
BUILD_S = 60.0
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
    """The directory beside the interpreter's own programs."""
    return Path(sys.prefix) / "libexec" / "slurm"


def install(folder: Path) -> Path:
    """Writes what is missing or differs; returns the shell file that puts the folder on PATH."""
    (folder / "python").mkdir(parents=True, exist_ok=True)
    is_quick = build(Path(__file__).with_name(SOURCE), folder / FORWARDER)
    for program in PROGRAMS:
        write_program(folder / "python" / program, program_text(program), 0o755)
        if is_quick and (program in SENT_AHEAD or program not in MODULES):
            link_program(folder / program, FORWARDER)
        else:
            write_program(folder / program, program_text(program), 0o755)
    aliases = folder / ALIASES
    write_program(aliases, _SHELL.format(folder=folder), 0o644)
    return aliases


def find_installed(folder: Path) -> Path | None:
    """The shell file of a directory that another user installed completely."""
    whole = all((folder / name).exists() for name in (*PROGRAMS, ALIASES))
    return folder / ALIASES if whole else None


def program_text(program: str) -> str:
    module = MODULES.get(program, "lattice.cli.slurm.program")
    return _TEXT.format(python=sys.executable, path=_path(), module=module, program=program)


def _path() -> list[str]:
    """Import paths of Lattice and its dependencies: the interpreter is started without site packages."""
    own = [str(Path(module.__file__ or "").parents[1]) for module in (lattice, lattice_sdk)]
    return list(dict.fromkeys([*own, *(entry for entry in sys.path if entry.endswith("-packages"))]))


def build(source: Path, program: Path, *defines: str) -> bool:
    """Whether there is a compiled program; builds it again if its source or a definition has changed."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    stamp = program.with_name(f"{program.name}.c")
    wanted = "".join(f"// {each}\n" for each in defines) + _content(source)
    if program.exists() and _content(stamp) == wanted != "":
        return True
    if compiler is None or not source.exists():
        program.unlink(missing_ok=True)
        return False
    with tempfile.TemporaryDirectory(dir=program.parent, prefix=".build-") as place:
        made = Path(place, "forward")
        words = [compiler, "-O2", "-std=gnu11", *defines, "-o", str(made), str(source)]
        try:
            subprocess.run(words, check=True, capture_output=True, timeout=BUILD_S)
        except (OSError, subprocess.SubprocessError):
            return False
        made.chmod(0o755)
        made.replace(program)
    write_program(stamp, wanted, 0o644)
    return True


def link_program(path: Path, target: str) -> None:
    """Makes a symbolic link unless it is there already."""
    if path.is_symlink() and os.readlink(path) == target:
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(path)


def _content(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def write_program(path: Path, text: str, mode: int) -> None:
    """Writes the file unless it is the same already."""
    if not path.is_symlink() and _content(path) == text and path.stat().st_mode & 0o777 == mode:
        return
    # Replaced atomically: it may be running.
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(mode)
    fresh.replace(path)
