"""Where the bytes of an image come from: a file of the site, or a file of the user, read with the user's rights.

The agent may be root. It never opens a path that a user named: a program of the system does, as that user, and hands the bytes over.
"""

import os
import select
import subprocess
from collections.abc import Callable, Iterator
from typing import IO, cast

import msgspec

from lattice.ports.nodes.images import ImageOrder

CAT = "/bin/cat"
SHELL = "/bin/sh"
# Opens the file as the user and says which file it is, so that it need not be read again while it is the same.
# What is no file (a FIFO, a device) is not opened: that could take for ever.
_IDENTIFY = """[ ! -e "$1" ] || [ -f "$1" ] || { echo "$1: not a regular file" >&2; exit 1; }
exec 3<"$1" && exec stat -L -c "%d:%i:%s:%y:%z" /proc/self/fd/3"""
MAX_SAID = 400
CHUNK = 1 << 20
LOOK_EVERY_MS = 500
IDENTIFY_WITHIN_S = 60.0


class SourceFailed(Exception):
    """The file cannot be read; the text is for the user."""


class FetchStopped(Exception):
    """The run that wanted the image does not want it any more."""


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Whose rights count."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @property
    def rights(self) -> dict[str, object]:
        """Arguments for a new process that is to have these rights; none where the agent has no others."""
        if os.geteuid() != 0 or self.uid == 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": list(self.groups)}


def identify(path: str, reader: Reader) -> str:
    """Which file the reader gets to read there: device, inode, size and times. Raises SourceFailed."""
    try:
        done = subprocess.run(  # type: ignore[call-overload]
            [SHELL, "-c", _IDENTIFY, SHELL, path],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=IDENTIFY_WITHIN_S,
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
            cwd="/",
            check=False,
            **reader.rights,
        )
    except subprocess.TimeoutExpired:
        raise SourceFailed(f"cannot open {path}: its file system does not answer") from None
    if done.returncode:
        raise SourceFailed(_unreadable(path, done.stderr, reader))
    return str(done.stdout.decode("ascii", "replace")).strip()


def read_pieces(image: ImageOrder, reader: Reader, is_stopped: Callable[[], bool]) -> Iterator[bytes]:
    """The bytes of the file. Raises SourceFailed, also at the end when they were not all there, and FetchStopped."""
    if not image.by_user:
        try:
            with open(image.source, "rb") as file:
                while piece := file.read(CHUNK):
                    if is_stopped():
                        raise FetchStopped
                    yield piece
        except OSError as error:
            raise SourceFailed(f"cannot read {image.source}: {error.strerror}") from error
        return
    process: subprocess.Popen[bytes] = subprocess.Popen(  # type: ignore[call-overload]
        [CAT, "--", image.source],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        cwd="/",
        **reader.rights,
    )
    out, err = cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
    try:
        while piece := _next_piece(out.fileno(), is_stopped):
            yield piece
        said = err.read(MAX_SAID)
        if process.wait():
            raise SourceFailed(_unreadable(image.source, said, reader))
    finally:
        process.kill()
        process.wait()
        out.close()
        err.close()


def _next_piece(fd: int, is_stopped: Callable[[], bool]) -> bytes:
    """Waits for the user's file system no longer than somebody wants the image: it may never answer."""
    waiter = select.poll()
    waiter.register(fd, select.POLLIN)
    while not waiter.poll(LOOK_EVERY_MS):
        if is_stopped():
            raise FetchStopped
    if is_stopped():
        raise FetchStopped
    return os.read(fd, CHUNK)


def _unreadable(path: str, said: bytes, reader: Reader) -> str:
    why = said.decode("utf-8", "replace").strip().rsplit(": ", 1)[-1] or "it cannot be read"
    return f"cannot read {path} as {reader.name} on this node: {why}"
