"""Where this machine keeps its control groups: the v2 hierarchy, and the v1 hierarchy of each controller that has one.

A controller belongs to exactly one hierarchy of a kernel. On pure v2 all of them are in the unified one; on a hybrid machine
most have a v1 hierarchy of their own, and the unified one serves tracking and kill.
Standard library only, and no module that is slow to import: the shim lives on this.
"""

from __future__ import annotations

import os

MOUNTINFO = "/proc/self/mountinfo"
READ_BYTES = 1 << 16
# A file of the kernel's that gave less than this at once has no more: it fills at least most of a page before it stops.
WHOLE_BYTES = 2048
CONTROLLERS = ("memory", "cpu", "pids", "cpuset", "devices", "io")
IN_V1 = {"blkio": "io"}  # controllers that v1 calls otherwise


class Hierarchies:
    """Mount points. `unified` is None where there is no v2 hierarchy; `v1` holds the controllers that are not in it."""

    __slots__ = ("unified", "v1")

    def __init__(self, unified: str | None, v1: dict[str, str] | None = None) -> None:
        self.unified = unified
        self.v1 = v1 or {}


def parse_mountinfo(text: str) -> Hierarchies:
    unified: str | None = None
    v1: dict[str, str] = {}
    for line in text.splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(), source.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        point = fields[4].encode().decode("unicode_escape")
        if kind[0] == "cgroup2" and unified is None:
            unified = point
        elif kind[0] == "cgroup":
            for name in kind[2].split(","):
                controller = IN_V1.get(name, name)
                if controller in CONTROLLERS:
                    v1.setdefault(controller, point)
    return Hierarchies(unified, v1)


def find_hierarchies() -> Hierarchies:
    with open(MOUNTINFO, encoding="utf-8", errors="replace") as file:
        return parse_mountinfo(file.read())


def read_bytes(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        text = part = os.read(fd, READ_BYTES)
        while len(part) >= WHOLE_BYTES:
            part = os.read(fd, READ_BYTES)
            text += part
        return text
    finally:
        os.close(fd)


def write_text(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_key(path: str, key: bytes) -> int:
    """The figure behind `key` in a file of "key value" lines; 0 where file or key is missing."""
    try:
        words = read_bytes(path).split()
    except OSError:
        return 0
    try:
        return int(words[words.index(key) + 1])
    except (ValueError, IndexError):
        return 0


def read_figure(path: str) -> int:
    try:
        return int(read_bytes(path))
    except (OSError, ValueError):
        return 0
