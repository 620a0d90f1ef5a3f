"""What the kernel says about files that are opened, read, written and closed: fanotify, of whole file systems.

A file system is watched through any of its mounts, and for every process of the machine, whatever that one sees of it.
"""

import ctypes
import os
import struct
from collections.abc import Iterator
from typing import NamedTuple

_CLOEXEC, _NONBLOCK = 0x1, 0x2
_ADD, _FILESYSTEM = 0x1, 0x100
_ACCESS, _MODIFY, _CLOSE_WRITE, _CLOSE_NOWRITE, _OPEN, _OPEN_EXEC = 0x1, 0x2, 0x8, 0x10, 0x20, 0x1000
_OVERFLOW = 0x4000
_MASK = _ACCESS | _MODIFY | _CLOSE_WRITE | _CLOSE_NOWRITE | _OPEN | _OPEN_EXEC
_NAMES = (
    ("open", _OPEN),
    ("execute", _OPEN_EXEC),
    ("read", _ACCESS),
    ("write", _MODIFY),
    ("close", _CLOSE_WRITE | _CLOSE_NOWRITE),
)
_EVENT = struct.Struct("=IBBHQii")
_READ_BYTES = 64 * 1024
# These hold no data of anybody: the kernel makes up what they say.
MADE_UP = frozenset(
    [
        "autofs",
        "binder",
        "binfmt_misc",
        "bpf",
        "cgroup",
        "cgroup2",
        "configfs",
        "debugfs",
        "devpts",
        "devtmpfs",
        "efivarfs",
        "fusectl",
        "hugetlbfs",
        "mqueue",
        "nsfs",
        "proc",
        "pstore",
        "rpc_pipefs",
        "securityfs",
        "selinuxfs",
        "sysfs",
        "tracefs",
    ]
)


class Touched(NamedTuple):
    """One event, perhaps of several of the same process on the same file; `fd` is the caller's to close, negative where events were lost."""

    pid: int
    mask: int
    fd: int


class Mount(NamedTuple):
    device: str
    point: str
    kind: str


def names_of(mask: int) -> list[str]:
    return [name for name, bits in _NAMES if mask & bits]


def read_mounts(path: str = "/proc/self/mountinfo") -> list[Mount]:
    """Those that hold data; none of a process that is gone."""
    try:
        with open(path, "rb") as file:
            lines = file.read().decode("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        words = line.split(" ")
        if len(words) < 8 or "-" not in words[6:]:
            continue
        kind = words[words.index("-", 6) + 1]
        if kind not in MADE_UP:
            found.append(Mount(words[2], _unescaped(words[4]), kind))
    return found


def _unescaped(text: str) -> str:
    """As the kernel writes spaces, tabs, newlines and backslashes."""
    if "\\" not in text:
        return text
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


class FileWatch:
    """`add` says what is watched; `read` what happened. Raises OSError where the kernel or the rights do not allow it."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.fanotify_mark.argtypes = (
            ctypes.c_int,
            ctypes.c_uint,
            ctypes.c_uint64,
            ctypes.c_int,
            ctypes.c_char_p,
        )
        flags = os.O_RDONLY | getattr(os, "O_LARGEFILE", 0) | os.O_CLOEXEC | os.O_NONBLOCK
        self.fd = self._library.fanotify_init(_CLOEXEC | _NONBLOCK, flags)
        if self.fd < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    def add(self, point: str) -> None:
        """The file system that is mounted there. Raises OSError."""
        path = os.fsencode(point)
        if self._library.fanotify_mark(self.fd, _ADD | _FILESYSTEM, _MASK, -1, path) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), point)

    def read(self) -> Iterator[Touched]:
        """What waits."""
        try:
            data = os.read(self.fd, _READ_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at + _EVENT.size <= len(data):
            length, _, _, _, mask, fd, pid = _EVENT.unpack_from(data, at)
            at += max(length, _EVENT.size)
            yield Touched(pid, mask, -1 if mask & _OVERFLOW else fd)

    def close(self) -> None:
        os.close(self.fd)


def why_not() -> str:
    """Why files cannot be watched here; empty where they can."""
    try:
        FileWatch().close()
    except (OSError, AttributeError) as error:
        return f"fanotify: {error.strerror or error}" if isinstance(error, OSError) else "fanotify: not in this libc"
    return ""
