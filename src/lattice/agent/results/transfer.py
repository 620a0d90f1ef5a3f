"""Copies a checkpoint to the object store or back, with the rights of its user.

A program of its own, as `results/uploader.py`, whose requests it sends: one JSON object on standard input, then an answer for each request
that it wants signed; lines of JSON on standard output. The files are objects below `files/`; `contents.json` names them, with all that an
object cannot be: directories, links, rights and times. It is stored last, so a copy without it is none. Standard library only.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import ssl
import stat
import sys
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from lattice.agent.results.copier import become
from lattice.agent.results.uploader import (
    MAX_TEXT,
    PAUSE_S,
    PIECE,
    TOGETHER,
    TRIES,
    WORTH_ANOTHER,
    Again,
    Refused,
    Uploader,
    connect,
    is_object_name,
    listen,
    read_lines,
)

CONTENTS = "contents.json"
FILES = "files/"
GONE = 404
_RIGHTS = 0o777


class Absent(Exception):
    """There is no such object."""


class Transfer(Uploader):
    """What was copied. For several threads."""

    def __init__(self) -> None:
        super().__init__()
        self.absent = False

    def outcome(self) -> dict[str, Any]:
        return super().outcome() | {"absent": self.absent}

    def download(self, name: str, fd: int) -> None:
        """The object's bytes into the file, from its beginning. Raises Absent, Again, Refused and OSError."""
        said = self.signed(0, name, "GET", "")
        address = urlsplit(said["url"])
        connection = connect(address.scheme, address.hostname or "", address.port, said.get("authorities") or "")
        try:
            connection.request("GET", f"{address.path}?{address.query}")
            with connection.getresponse() as answer:
                if answer.status == GONE:
                    raise Absent(name)
                if answer.status != http.client.OK:
                    text = answer.read(MAX_TEXT).decode("utf-8", "replace")
                    what = f"the store answered with status {answer.status}: {text}"
                    raise Again(what) if answer.status in WORTH_ANOTHER else Refused(what)
                while piece := answer.read(PIECE):
                    os.write(fd, piece)
                    self.tell(len(piece))
        except (http.client.HTTPException, ConnectionError, TimeoutError, ssl.SSLError) as error:
            raise Again(f"cannot reach the store: {str(error) or type(error).__name__}") from None
        finally:
            connection.close()


def put(transfer: Transfer, folder: str) -> None:
    """All of the directory, and then what it is made of."""
    files: list[dict[str, Any]] = []
    contents: dict[str, Any] = {"files": files, "folders": [], "links": []}
    for path, info in _walk(transfer, folder):
        name = os.path.relpath(path, folder)
        row = {"name": name, "mode": stat.S_IMODE(info.st_mode) & _RIGHTS, "mtime_ns": info.st_mtime_ns}
        if not is_object_name(name):
            transfer.note(path, "its name cannot be that of an object", is_final=True)
        elif stat.S_ISDIR(info.st_mode):
            contents["folders"].append(row)
        elif stat.S_ISLNK(info.st_mode):
            contents["links"].append({"name": name, "target": os.readlink(path)})
        elif stat.S_ISREG(info.st_mode):
            files.append(row | {"size": info.st_size})
    _together(lambda row: transfer.upload((0, f"{FILES}{row['name']}", os.path.join(folder, row["name"]))), files)
    if not transfer.failures:
        _tried(transfer, CONTENTS, lambda: _put_contents(transfer, contents))


def _put_contents(transfer: Transfer, contents: dict[str, Any]) -> None:
    transfer.request(0, CONTENTS, body=json.dumps(contents).encode())


def _walk(transfer: Transfer, folder: str) -> list[tuple[str, os.stat_result]]:
    found = []

    def failed(error: OSError) -> None:
        transfer.note(str(error.filename), error.strerror or str(error), is_final=True)

    for above, folders, names in os.walk(folder, onerror=failed):
        for name in sorted([*folders, *names]):
            path = os.path.join(above, name)
            try:
                found.append((path, os.lstat(path)))
            except OSError as error:
                failed(error)
    return found


def get(transfer: Transfer, folder: str) -> None:
    """All of it into the empty directory; `absent` where the store has no whole copy."""
    draft = os.path.join(folder, ".contents")
    try:
        _fetched(transfer, CONTENTS, draft)
    except Absent:
        transfer.absent = True
        return
    with open(draft, "rb") as file:
        contents = json.load(file)
    os.unlink(draft)
    folders = sorted(contents["folders"], key=lambda row: str(row["name"]))
    for row in folders:
        os.mkdir(_inside(folder, row["name"]), 0o700)
    _together(lambda row: _get_file(transfer, folder, row), contents["files"])
    for row in contents["links"]:
        os.symlink(row["target"], _inside(folder, row["name"]))
    for row in reversed(folders):
        _settle(_inside(folder, row["name"]), row)
    _sync(folder)


def _get_file(transfer: Transfer, folder: str, row: dict[str, Any]) -> None:
    path = _inside(folder, row["name"])
    try:
        _fetched(transfer, f"{FILES}{row['name']}", path)
        if os.lstat(path).st_size != row["size"]:
            raise Again("its size is not what it was")
        _settle(path, row)
    except Absent:
        transfer.note(path, "the store does not have it", is_final=True)
    except (Again, Refused) as error:
        transfer.note(path, str(error), is_final=isinstance(error, Refused))
    except OSError as error:
        transfer.note(path, error.strerror or str(error))
    else:
        transfer.files += 1


def _fetched(transfer: Transfer, name: str, path: str) -> None:
    """Raises Absent, Again after the last try, Refused and OSError."""
    for left in range(TRIES - 1, -1, -1):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            transfer.download(name, fd)
            return
        except Again:
            if not left:
                raise
            time.sleep(PAUSE_S * (TRIES - left))
        finally:
            os.close(fd)


def _tried(transfer: Transfer, path: str, work: Callable[[], None]) -> None:
    for left in range(TRIES - 1, -1, -1):
        try:
            work()
            return
        except (Again, Refused, OSError) as error:
            if not left or isinstance(error, Refused):
                transfer.note(path, str(error))
                return
        time.sleep(PAUSE_S * (TRIES - left))


def _inside(folder: str, name: str) -> str:
    """Raises OSError for a name that leads out."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts):
        raise OSError(f"{name!r} leads out of the checkpoint")
    return os.path.join(folder, *parts)


def _settle(path: str, row: dict[str, Any]) -> None:
    os.chmod(path, row["mode"] & _RIGHTS)
    os.utime(path, ns=(row["mtime_ns"], row["mtime_ns"]))


def _sync(folder: str) -> None:
    """Nothing says that it is complete before it is on the disk."""
    for above, _, names in os.walk(folder, topdown=False):
        for name in [*names, "."]:
            path = os.path.join(above, name)
            if not os.path.islink(path):
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    os.fsync(fd)
                finally:
                    os.close(fd)


def _together(work: Callable[[dict[str, Any]], None], rows: list[dict[str, Any]]) -> None:
    waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    for each in [*rows, *[None] * TOGETHER]:
        waiting.put(each)

    def serve() -> None:
        while (row := waiting.get()) is not None:
            work(row)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(TOGETHER, len(rows)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> int:
    lines = read_lines()
    asked = json.loads(next(lines))
    transfer = Transfer()
    threading.Thread(target=listen, args=(transfer, lines), daemon=True).start()
    try:
        become(asked["uid"], asked["gid"], asked["groups"])
        (put if asked["put"] else get)(transfer, asked["folder"])
    except (Again, Refused) as error:
        transfer.note(asked["folder"], str(error), is_final=isinstance(error, Refused))
    except (OSError, ValueError, KeyError, TypeError) as error:
        transfer.note(asked["folder"], str(error) or type(error).__name__)
    transfer.tell(is_last=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
