"""The hot tier as a mover sees it: a folder that only root can enter, with one folder or file for every generation of a copy.

KEY.GENERATION           a whole copy; it appears under this name at once, when its last byte is there
partial/KEY.GENERATION   one that is being made; another mover continues it
versions/KEY.GENERATION  which version of the source it has, for a mover that finds one that was not reported
failed/KEY.GENERATION    why one could not be made, for nodes that wait for it
gone/...                 being removed
"""

import os
import re
import secrets
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from lattice.ports.data.sources import ACL, Entry, Listing, Source, SourceChanged

PARTIAL, VERSIONS, FAILED, GONE = "partial", "versions", "failed", "gone"
_NAME = re.compile(r"[0-9a-f]{32}\.[0-9]{1,9}")


class BadCopyName(Exception):
    """A server named a copy that cannot be one."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy was made from."""

    version: str
    size: int
    files: int


class HotTier:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def prepare(self) -> None:
        """Raises OSError."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(self.folder, 0o700)
        for name in (PARTIAL, VERSIONS, FAILED, GONE):
            (self.folder / name).mkdir(mode=0o700, exist_ok=True)
        for left in (self.folder / GONE).iterdir():
            _remove(left)

    def space(self) -> tuple[int, int]:
        """Bytes of the file system, and those that are free."""
        found = os.statvfs(self.folder)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def has(self, name: str) -> bool:
        return os.path.lexists(self.folder / _checked(name))

    def version_of(self, name: str) -> Made | None:
        """Of a whole copy; None when there is none."""
        if not self.has(name):
            return None
        try:
            return msgspec.json.decode((self.folder / VERSIONS / name).read_bytes(), type=Made)
        except (OSError, msgspec.MsgspecError):
            return None

    def remove(self, name: str) -> None:
        """Out of sight first: no node finds half of it. Raises OSError."""
        for place in (self.folder / _checked(name), self.folder / PARTIAL / name):
            if os.path.lexists(place):
                gone = self.folder / GONE / f"{name}.{secrets.token_hex(4)}"
                os.rename(place, gone)
                _remove(gone)
        for folder in (FAILED, VERSIONS):
            (self.folder / folder / name).unlink(missing_ok=True)

    def note_failure(self, name: str, tries: int, reason: str) -> None:
        text = msgspec.json.encode({"tries": tries, "reason": reason})
        (self.folder / FAILED / _checked(name)).write_bytes(text)

    def fill(self, name: str, source: Source, listing: Listing, on_bytes: Callable[[int], None]) -> None:
        """Makes the copy and gives it its name. What an earlier mover left is used where it is the same.

        Raises SourceError and OSError; what was copied stays for the next try.
        """
        place = self.folder / PARTIAL / _checked(name)
        (self.folder / FAILED / name).unlink(missing_ok=True)
        if place.is_symlink() or (place.is_dir() != (listing.entries[0].kind == "folder") and os.path.lexists(place)):
            _remove(place)
        wanted = {entry.path for entry in listing.entries}
        if place.is_dir():
            _drop_others(place, wanted)
        for entry in listing.entries:
            _make(place / entry.path if entry.path else place, entry, source, on_bytes)
        for entry in reversed(listing.entries):
            if entry.kind == "folder":
                _settle(place / entry.path if entry.path else place, entry)
        if source.listing().version != listing.version:
            raise SourceChanged("the source changed while it was copied")
        made = Made(version=listing.version, size=listing.size, files=listing.files)
        (self.folder / VERSIONS / name).write_bytes(msgspec.json.encode(made))
        _sync(place)
        os.rename(place, self.folder / name)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadCopyName(f"not the name of a copy: {name!r}")
    return name


def _drop_others(place: Path, wanted: set[str]) -> None:
    for folder, folders, files in os.walk(place):
        for name in (*folders, *files):
            path = os.path.join(folder, name)
            if os.path.relpath(path, place) not in wanted:
                _remove(Path(path))


def _make(path: Path, entry: Entry, source: Source, on_bytes: Callable[[int], None]) -> None:
    if entry.kind == "folder":
        if path.is_symlink() or path.is_file():
            path.unlink()
        path.mkdir(mode=0o700, exist_ok=True)
        return
    if entry.kind == "link":
        with suppress(FileNotFoundError):
            path.unlink()
        os.symlink(entry.link, path)
        if os.geteuid() == 0:
            os.lchown(path, entry.uid, entry.gid)
        return
    with suppress(OSError):
        found = os.lstat(path)
        if (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns):
            on_bytes(entry.size)
            return
        _remove(path)
    fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        source.copy(entry, fd, on_bytes)
        _give(fd, entry)
        # Last: a file with the time of its source is whole.
        os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
    finally:
        os.close(fd)


def _settle(path: Path, entry: Entry) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _give(fd, entry)
    finally:
        os.close(fd)


def _give(fd: int, entry: Entry) -> None:
    """To whom the source belongs, readable for whom that is; writable for none, since several use it."""
    if os.geteuid() == 0:
        os.fchown(fd, entry.uid, entry.gid)
    os.fchmod(fd, entry.mode & 0o555)
    if entry.acl:
        try:
            os.setxattr(fd, ACL, entry.acl)
        except OSError:
            # The bits for the group are a mask beside an access list: alone they could mean more than they did.
            os.fchmod(fd, entry.mode & 0o500)


def _sync(place: Path) -> None:
    """On the disk before it has its name: a power cut must not leave half a copy that looks whole."""
    import ctypes

    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syncfs(fd):
            raise OSError(ctypes.get_errno(), "cannot write the copy to the disk")
    finally:
        os.close(fd)


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for folder, _, _ in os.walk(path):
        os.chmod(folder, 0o700)  # not root: a folder that cannot be written cannot be emptied
    shutil.rmtree(path)
