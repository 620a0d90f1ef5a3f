"""The layers of an image laid over each other: which file of which layer is seen in the end.

Nothing is unpacked to find out. Paths are only names here: a link cannot lead out of the image, since no file system follows it.
`.wh.NAME` of a layer removes NAME of the layers below, `.wh..wh..opq` all that they have in its directory.
"""

import posixpath
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lattice.images.squashfs import BadImage

DIRECTORY, FILE, SYMLINK, HARDLINK = "directory", "file", "symlink", "hardlink"
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
MAX_MEMBERS = 1_000_000  # of all layers together
MAX_NAMES = 256 << 20  # characters of all their paths and links
MAX_PATH = 4096
MAX_COMPONENT = 255  # bytes of one name, as the kernel has it
MAX_HOPS = 40


class Member(NamedTuple):
    """One entry of a layer. `place` counts the entries of its layer; `target` is what a link says."""

    path: str
    kind: str
    layer: int
    place: int
    target: str = ""


class Tree:
    """The image so far; layers are added from the lowest to the highest."""

    def __init__(self) -> None:
        self._members: dict[str, Member | None] = {"": None}  # None: a directory that no layer describes
        self._names: dict[str, set[str]] = {"": set()}

    def add_layer(self, members: Iterable[Member]) -> None:
        """Raises BadImage for entries that cannot be part of an image."""
        kept: list[Member] = []
        for member in members:
            parent, name = posixpath.split(member.path)
            if name == OPAQUE:
                self._clear(self._real(parent))
            elif name.startswith(WHITEOUT):
                self._remove(posixpath.join(self._real(parent), name.removeprefix(WHITEOUT)))
            else:
                kept.append(member)
        for member in kept:
            self._add(member)
        if len(self._members) > MAX_MEMBERS:
            raise BadImage(f"it has more than {MAX_MEMBERS:,} files")

    def shown(self) -> Iterator[tuple[str, Member]]:
        """Every path that is seen in the end, with the entry behind it; directories before what lies in them."""
        for path in sorted(self._members):
            member = self._members[path]
            if member is not None:
                yield path, member

    def _add(self, member: Member) -> None:
        parent, name = posixpath.split(member.path)
        if not name:
            return  # the root itself
        parent = self._real(parent)
        self._make_directory(parent)
        path = posixpath.join(parent, name)
        if member.kind == DIRECTORY:
            if path not in self._names:
                self._remove(path)
                self._names[path] = set()
        else:
            self._remove(path)
        self._members[path] = member
        self._names[parent].add(name)

    def _make_directory(self, path: str) -> None:
        missing = []
        while path not in self._names:
            missing.append(path)
            path = posixpath.dirname(path)
        for each in reversed(missing):
            if each in self._members:
                raise BadImage(f"{each[:80]} is both a file and a directory")
            if len(each) > MAX_PATH:
                raise BadImage("it has a path that is too long")
            parent, name = posixpath.split(each)
            self._members[each], self._names[each] = None, set()
            self._names[parent].add(name)

    def _real(self, path: str) -> str:
        """The path without links on its way, as seen from the image's own root."""
        done, waiting, hops = "", path.split("/"), 0
        while waiting:
            name = waiting.pop(0)
            if name in ("", "."):
                continue
            if name == "..":
                done = posixpath.dirname(done)
                continue
            at = posixpath.join(done, name)
            found = self._members.get(at)
            if found is None or found.kind != SYMLINK:
                done = at
                continue
            hops += 1
            if hops > MAX_HOPS:
                raise BadImage(f"links go round in circles at {at[:80]}")
            if found.target.startswith("/"):
                done = ""
            waiting = found.target.split("/") + waiting
        return done

    def _remove(self, path: str) -> None:
        if path not in self._members or not path:
            return
        self._clear(path)
        self._names.pop(path, None)
        del self._members[path]
        parent, name = posixpath.split(path)
        self._names[parent].discard(name)

    def _clear(self, path: str) -> None:
        """Whatever lies below, however deep a hostile layer made it."""
        waiting = [posixpath.join(path, name) for name in self._names.get(path, ())]
        while waiting:
            each = waiting.pop()
            waiting += [posixpath.join(each, name) for name in self._names.pop(each, ())]
            del self._members[each]
        if path in self._names:
            self._names[path].clear()


def plain_path(name: str) -> str:
    """The name of an entry as a path without leading slash. Raises BadImage for one that leads out of the image."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise BadImage(f'"{name[:80]}" leads out of the image')
    path = "/".join(parts)
    if len(path) > MAX_PATH or "\0" in path:
        raise BadImage("it has a path that is too long")
    if any(len(part) > MAX_COMPONENT or len(_bytes(part)) > MAX_COMPONENT for part in parts):
        raise BadImage(f'"{name[:80]}" has a name that is too long')
    return path


def checked_link(path: str, target: str) -> str:
    """What a symbolic link says. Raises BadImage for what no file system can hold."""
    if not target or "\0" in target or len(_bytes(target)) >= MAX_PATH:
        raise BadImage(f"the link {path[:80]} leads nowhere, or is too long")
    return target


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
