"""Files of the kernel under some root: what is not there, or cannot be read, is empty. Nothing here raises."""

import os
import re
from pathlib import Path

MAX_FILE = 1 << 20
_NUMBER = re.compile(r"\d+")


class Tree:
    """`/proc`, `/sys` and `/etc` below `root`."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    @property
    def is_machine(self) -> bool:
        """Whether it is this machine's own: only then may anything but files be asked."""
        return str(self.root) == "/"

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def bytes(self, name: str) -> bytes:
        try:
            with open(self.path(name), "rb") as file:
                return file.read(MAX_FILE)
        except OSError:
            return b""

    def text(self, name: str) -> str:
        return self.bytes(name).decode(errors="replace").replace("\0", "").strip()

    def number(self, name: str, default: int = 0) -> int:
        """A number in decimal, or in hexadecimal with 0x."""
        try:
            return int(self.text(name), 0)
        except ValueError:
            return default

    def names(self, folder: str) -> list[str]:
        """What lies in the folder, `node2` before `node10`."""
        try:
            return sorted(os.listdir(self.path(folder)), key=_natural)
        except OSError:
            return []

    def exists(self, name: str) -> bool:
        try:
            return self.path(name).exists()
        except OSError:
            return False

    def target(self, name: str) -> str:
        """The last part of what a link leads to."""
        try:
            return os.path.basename(os.readlink(self.path(name)))
        except OSError:
            return ""

    def whole_target(self, name: str) -> str:
        """Where the name leads in the end."""
        return os.path.realpath(self.path(name))


def _natural(name: str) -> tuple[str, int, str]:
    found = _NUMBER.search(name)
    return (name[: found.start()], int(found.group()), name) if found else (name, -1, name)


def cpu_list(text: str, most: int = 1 << 16) -> tuple[int, ...]:
    """`0-3,8` as numbers; empty when it is no such list."""
    numbers: list[int] = []
    for part in filter(None, text.replace(" ", "").split(",")):
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            return ()
        end = int(last or first)
        if end - int(first) + len(numbers) >= most:
            return ()
        numbers += range(int(first), end + 1)
    return tuple(numbers)


def numa_node(text: str) -> int | None:
    """The kernel says -1 where it does not know."""
    return int(text) if text.isdigit() else None
