"""Our own commands inside a container whose image has no Python, and maybe another C library: the node's interpreter with what it is
linked with, mounted below `/.lattice/node` and started by the node's own loader.

The commands lie where those of the node lie, so that PATH and programs that start one beside themselves need not know.
"""

import logging
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

NODE = "/.lattice/node"
FOLDER = "container-bin"
COMMAND = "lattice"
WITHIN_S = 30.0
# What the commands load when they talk to a server, and the files behind it.
_ASK = (
    "import ctypes, json, os, socket, ssl, sys, zlib; print(json.dumps([os.__file__, open('/proc/self/maps').read()]))"
)
_LOADER = re.compile(r"ld-(linux|musl)[^/]*\.so\.\d+$")
_PATH_LINE = re.compile(r"^sys\.path\[:0\] = .*$", re.MULTILINE)
_BODY = "import sys\nsys.path[:0] = {path!r}\nfrom lattice.cli.main import main\nmain()\n"
_TEXT = """#!/bin/sh
exec {loader} --library-path {libraries} {python} -IS -c {body} "$@"
"""

_log = logging.getLogger(__name__)


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """`folder` lies at `target` inside, and each of `places` below NODE, where it lies on the node."""

    folder: str = ""
    target: str = ""
    places: tuple[str, ...] = ()


NO_COMMANDS = Commands()


class _Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    program: str
    loader: str
    libraries: tuple[str, ...]
    path: tuple[str, ...]

    @property
    def places(self) -> tuple[str, ...]:
        """Directories and files, none of them below another."""
        found: list[str] = []
        for each in sorted({self.program, self.loader, *self.libraries, *self.path}):
            if not any(each.startswith(f"{above}/") for above in found):
                found.append(each)
        return tuple(found)


def make_commands(state_dir: Path, programs: str) -> Commands:
    """Writes the commands for containers, once in an agent's life; nothing where the node has none. May take a moment."""
    if not programs:
        return NO_COMMANDS
    folder = state_dir / FOLDER
    try:
        interpreter = _look(_ask())
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        texts = dict(_texts(Path(programs), interpreter))
        for name, text in texts.items():
            _write(folder / name, text)
        for old in set(os.listdir(folder)) - texts.keys():
            (folder / old).unlink()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        _log.warning("containers will not find `%s`: %s", COMMAND, error)
        return NO_COMMANDS
    return Commands(folder=str(folder), target=programs, places=interpreter.places)


def _ask() -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, "-IS", "-c", _ASK],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=tuple[str, str])


def _look(said: tuple[str, str]) -> _Interpreter:
    """Raises ValueError for a program that no loader started."""
    library, maps = said
    files = {line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count("/") and len(line.split()) > 5}
    real = sorted(os.path.realpath(each) for each in files if ".so" in os.path.basename(each) and os.path.exists(each))
    loader = next((each for each in real if _LOADER.search(each)), "")
    if not loader:
        raise ValueError("the interpreter is not linked with a library of the node")
    standard = os.path.dirname(os.path.realpath(library))
    modules = [os.path.realpath(each) for each in sys.path if each and os.path.isdir(each)]
    folders = {os.path.dirname(each) for each in real} - {standard, *modules}
    return _Interpreter(
        program=os.path.realpath(sys.executable),
        loader=loader,
        libraries=tuple(sorted(each for each in folders if not each.startswith(f"{standard}/"))),
        path=tuple(dict.fromkeys((standard, *modules))),
    )


def _texts(programs: Path, interpreter: _Interpreter) -> Iterable[tuple[str, str]]:
    own = [each for each in interpreter.path if each != interpreter.path[0]]
    path = [_inside(each) for each in own if not each.startswith(f"{interpreter.path[0]}/")]
    for each in sorted(programs.iterdir()):
        if each.name == COMMAND:
            yield each.name, _text(interpreter, _BODY.format(path=path))
        elif each.is_symlink():  # to one of the Slurm commands, beside which its form in Python lies
            script = each.resolve().parent / "python" / each.name
            line = f"sys.path[:0] = {path!r}"
            if script.exists():
                _, _, body = script.read_text().partition("\n")
                yield each.name, _text(interpreter, _PATH_LINE.sub(line.replace("\\", r"\\"), body))
        elif not each.name.startswith("."):
            yield each.name, each.read_text()


def _text(interpreter: _Interpreter, body: str) -> str:
    values: Mapping[str, str] = {
        "loader": _inside(interpreter.loader),
        "libraries": ":".join(map(_inside, interpreter.libraries)),
        "python": _inside(interpreter.program),
        "body": body,
    }
    return _TEXT.format(**{name: shlex.quote(value) for name, value in values.items()})


def _inside(path: str) -> str:
    return f"{NODE}{path}"


def _write(path: Path, text: str) -> None:
    """Replaced as a whole, because it may be running."""
    if path.exists() and path.read_text() == text:
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.chmod(0o755)
    fresh.replace(path)
