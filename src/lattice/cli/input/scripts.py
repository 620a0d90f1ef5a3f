"""Batch scripts: read whole, checked for what no node could run."""

import os

from lattice.cli.context import Process
from lattice.cli.errors import NOT_FOUND, CommandError, UsageError

MAX_BYTES = 1 << 20
STDIN = "-"


def load_script(path: str, process: Process) -> str:
    """The text of a script; UsageError says why it cannot be one."""
    title = "the script on stdin" if path == STDIN else f'script "{path}"'
    data = _read(path, title, process)
    if len(data) > MAX_BYTES:
        raise UsageError(
            f"{title} is larger than 1 MiB",
            hint="keep programs and data in files and let the script call them",
        )
    if not data.strip():
        raise UsageError(f"{title} is empty")
    return _checked(_decoded(data, title), title)


def _read(path: str, title: str, process: Process) -> bytes:
    if path == STDIN:
        return process.streams.stdin.read(MAX_BYTES + 1)
    try:
        with open(os.path.join(process.directory(), path), "rb") as file:
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        hint = f"to run a command, write: lattice submit -- {path}"
        raise CommandError(f"{title} does not exist", hint=hint, exit_code=NOT_FOUND) from None
    except IsADirectoryError:
        raise UsageError(f"{title} is a directory") from None
    except OSError as error:
        raise CommandError(f"{title} cannot be read: {error.strerror}") from None


def _decoded(data: bytes, title: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(
            f"{title} is not UTF-8: byte {error.start} (line {line}) is 0x{data[error.start]:02x}",
            hint="to run a program, write: lattice submit -- PROGRAM ...",
        ) from None


def _checked(text: str, title: str) -> str:
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise UsageError(f"{title} has a NUL byte in line {line}")
    first = text.split("\n", 1)[0]
    if first.startswith("#!") and first.endswith("\r"):
        raise UsageError(f"{title} has DOS line ends", hint="convert it, for example with dos2unix")
    return text
