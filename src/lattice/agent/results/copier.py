"""Copies results out of a scratch directory, with the rights of the user whose work left them there.

A program of its own: `python copier.py`, one JSON object on standard input, lines of JSON on standard output. It ends when its
standard input does, so none outlives the agent that started it. A file appears at its target under its name when it is whole; one
that an earlier try brought there is not copied again. Standard library only: it starts in milliseconds and needs nothing of the user.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import stat
import struct
import subprocess
import sys
import threading
import time
from typing import Any

PIECE = 16 << 20
TELL_EVERY_S = 1.0
UNMOUNTED_WITHIN_S = 30.0
CLONE_NEWNS = 0x20000
LOOP_GET_STATUS64, LOOP_INFO_BYTES = 0x4C05, 232
MAX_LEVELS = 8192  # of calls; longer paths than have 2048 levels are refused by the kernel
MAX_NAMED = 5
MAX_SHOWN = 300  # characters of a path
# Another try cannot help.
FINAL = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP)

_libc = ctypes.CDLL(None, use_errno=True)


class Copier:
    """What was copied, and what was not."""

    def __init__(self) -> None:
        self.files = self.bytes = 0
        self.failed: list[str] = []
        self.failures = 0
        self.is_final = False
        self.missing: list[str] = []
        self._told_s = 0.0
        self._synced: dict[int, str] = {}  # devices that hold something new, and a directory on each

    def copy(self, source: str, target: str) -> None:
        """A directory's contents go into the target; a file becomes the target, or goes into it where that is a directory."""
        try:
            info = os.lstat(source)
        except OSError as error:
            if error.errno == errno.ENOENT:
                self.missing.append(source)
            else:
                self._note(source, error)
            return
        if stat.S_ISDIR(info.st_mode):
            self._folder(source, target, info, is_top=True)
            return
        folder = target if os.path.isdir(target) else os.path.dirname(target)
        name = os.path.basename(source) if folder == target else os.path.basename(target)
        if self._make(folder):
            self._entry(source, os.path.join(folder, name), info)

    def _folder(self, source: str, target: str, info: os.stat_result, *, is_top: bool = False) -> None:
        try:
            names = sorted(os.listdir(source))
        except OSError as error:
            self._note(source, error)
            return
        if not self._make(target, 0o777 if is_top else stat.S_IMODE(info.st_mode) | 0o700):
            return
        for name in names:
            path = os.path.join(source, name)
            try:
                inner = os.lstat(path)
            except OSError as error:
                self._note(path, error)
                continue
            if stat.S_ISDIR(inner.st_mode):
                self._folder(path, os.path.join(target, name), inner)
            else:
                self._entry(path, os.path.join(target, name), inner)

    def _make(self, folder: str, mode: int = 0o777) -> bool:
        try:
            os.makedirs(folder, mode, exist_ok=True)
        except OSError as error:
            self._note(folder, error)
            return False
        return True

    def _entry(self, source: str, target: str, info: os.stat_result) -> None:
        try:
            if stat.S_ISREG(info.st_mode):
                self._file(source, target, info)
            elif stat.S_ISLNK(info.st_mode):
                self._link(source, target)
            # Sockets, pipes and devices mean nothing elsewhere.
        except OSError as error:
            self._note(source, error)

    def _link(self, source: str, target: str) -> None:
        draft = _draft(target)
        os.symlink(os.readlink(source), draft)
        os.replace(draft, target)
        self.files += 1

    def _file(self, source: str, target: str, info: os.stat_result) -> None:
        if _is_same(target, info):
            self.files += 1
            self.bytes += info.st_size
            return
        draft = _draft(target)
        # Its own file: where others may write to the directory, one of theirs must not get the bytes.
        into = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            # Without waiting: what was a file a moment ago may be a pipe now.
            out = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                if not stat.S_ISREG(os.fstat(out).st_mode):
                    raise OSError(errno.EAGAIN, "it is no file any more")
                self._bytes(out, into, info.st_size)
            finally:
                os.close(out)
            os.fchmod(into, stat.S_IMODE(info.st_mode) & 0o777)
            os.utime(into, ns=(info.st_atime_ns, info.st_mtime_ns))
            self._synced.setdefault(os.fstat(into).st_dev, os.path.dirname(target))
        except BaseException:
            os.close(into)
            os.unlink(draft)
            raise
        os.close(into)
        os.replace(draft, target)
        self.files += 1

    def _bytes(self, out: int, into: int, size: int) -> None:
        """Holes stay holes; what lies between them is copied in the kernel."""
        os.ftruncate(into, size)
        place = 0
        while place < size:
            try:
                start = os.lseek(out, place, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:
                    break  # nothing but a hole
                start = place
            try:
                stop = os.lseek(out, start, os.SEEK_HOLE)
            except OSError:
                stop = size
            self.bytes += start - place
            self._data(out, into, start, min(stop, size))
            place = stop
        self.bytes += max(0, size - place)

    def _data(self, out: int, into: int, start: int, stop: int) -> None:
        os.lseek(into, start, os.SEEK_SET)
        while start < stop:
            count = os.sendfile(into, out, start, min(PIECE, stop - start))
            if not count:
                raise OSError(errno.EIO, "it became shorter while it was copied")
            start += count
            self.bytes += count
            self.tell()

    def finish(self) -> None:
        """On the disk before anybody hears of it. Raises OSError."""
        for folder in self._synced.values():
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                if _libc.syncfs(fd):
                    raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            finally:
                os.close(fd)

    def _note(self, path: str, error: OSError) -> None:
        self.failures += 1
        self.is_final = self.is_final or error.errno in FINAL
        if len(self.failed) < MAX_NAMED:
            text = os.fsencode(path).decode("utf-8", "replace")
            # Its end tells more; all of them together must leave room for where the results are kept.
            text = text if len(text) <= MAX_SHOWN else f"...{text[-MAX_SHOWN:]}"
            self.failed.append(f"{text}: {error.strerror or error}")

    def tell(self, *, is_last: bool = False) -> None:
        now_s = time.monotonic()
        if not is_last and now_s - self._told_s < TELL_EVERY_S:
            return
        self._told_s = now_s
        said: dict[str, Any] = {"bytes": self.bytes, "files": self.files}
        if is_last:
            more = {"failed": self.failed, "failures": self.failures, "is_final": self.is_final}
            said |= {**more, "missing": self.missing, "done": True}
        os.write(1, json.dumps(said).encode() + b"\n")


def _draft(target: str) -> str:
    folder, name = os.path.split(target)
    short = os.fsdecode(os.fsencode(name)[:200])  # bytes are what a file system counts
    draft = os.path.join(folder, f".{short}.lattice-part")
    if os.path.lexists(draft):
        os.unlink(draft)
    return draft


def _is_same(target: str, info: os.stat_result) -> bool:
    """Its time is set last, before it gets its name."""
    try:
        found = os.lstat(target)
    except OSError:
        return False
    same = (found.st_size, found.st_mtime_ns) == (info.st_size, info.st_mtime_ns)
    return same and stat.S_ISREG(found.st_mode)


def mount_image(image: str, folder: str) -> None:
    """The file system of a run that has ended, where only this process sees it. Raises OSError."""
    until_s = time.monotonic() + UNMOUNTED_WITHIN_S
    while _is_attached(image):  # the run's own mount goes a moment after its last process
        if time.monotonic() > until_s:
            raise OSError(errno.EBUSY, f"{image} is still mounted")
        time.sleep(0.05)
    if _libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "cannot make a mount namespace")
    for words in (["--make-rprivate", "/"], ["-t", "ext4", "-o", "ro,loop,nosuid,nodev", image, folder]):
        done = subprocess.run(
            ["mount", *words], capture_output=True, check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        )
        if done.returncode:
            raise OSError(errno.EIO, f"cannot mount {image}: {done.stderr.decode(errors='replace').strip()[-200:]}")


def _is_attached(image: str) -> bool:
    info = os.stat(image)
    for name in os.listdir("/sys/block"):
        if name.startswith("loop") and os.path.isdir(f"/sys/block/{name}/loop"):
            try:
                device = os.open(f"/dev/{name}", os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                # Device and number of the file; its path may be that of another view of the file system.
                about = fcntl.ioctl(device, LOOP_GET_STATUS64, bytes(LOOP_INFO_BYTES))
                if struct.unpack_from("QQ", about) == (info.st_dev, info.st_ino):
                    return True
            except OSError:
                continue
            finally:
                os.close(device)
    return False


def become(uid: int, gid: int, groups: list[int]) -> None:
    if os.geteuid() == 0:
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    os.umask(0o022)
    os.chdir("/")


def _watch_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(3)


def main() -> int:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            return 2
        line += piece
    asked = json.loads(line)
    sys.setrecursionlimit(MAX_LEVELS)
    threading.Thread(target=_watch_parent, daemon=True).start()
    copier = Copier()
    try:
        if asked.get("image"):
            mount_image(asked["image"], asked["folder"])
        # A directory of the user's whose parents are closed to them: they may use it, not find it.
        inner = os.open(asked["enter"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if asked.get("enter") else -1
        become(asked["uid"], asked["gid"], asked["groups"])
        if inner >= 0:
            os.fchdir(inner)
        for source, target in asked["orders"]:
            copier.copy(os.path.normpath(os.path.join(asked["folder"], source)), target)
        copier.finish()
    except OSError as error:
        copier._note(asked["folder"], error)
    copier.tell(is_last=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
