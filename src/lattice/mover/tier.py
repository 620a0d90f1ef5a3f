"""The hot tier as a mover sees it: a folder that only root can enter, with one folder or file for every generation of a copy.

KEY.GENERATION           a whole copy; it appears under this name at once, when its last byte is there
partial/KEY.GENERATION   one that is being made; another mover continues it
versions/KEY.GENERATION  which version of the source it has, for a mover that finds one that was not reported
failed/KEY.GENERATION    why one could not be made, for nodes that wait for it
gone/...                 being removed
"""

import ctypes
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
WRITTEN_EARLY = 1 << 20  # bytes of a file that the disk begins to write before the copy is synced as a whole
SYNC_FILE_RANGE_WRITE = 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
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
        is_continued = os.path.lexists(place)
        if is_continued and place.is_dir():
            _drop_others(place, {entry.path for entry in listing.entries})
        _Filling(str(place), source, on_bytes, is_continued=is_continued).fill(listing.entries)
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


class _Filling:
    """Folders first, then files, some at a time, then the rights of the folders."""

    def __init__(self, place: str, source: Source, on_bytes: Callable[[int], None], *, is_continued: bool) -> None:
        self._place, self._source, self._on_bytes = place, source, on_bytes
        self._is_continued = is_continued
        self._is_root, self._own = os.geteuid() == 0, (os.geteuid(), os.getegid())

    def fill(self, entries: list[Entry]) -> None:
        files = []
        for entry in entries:
            if entry.kind == "folder":
                self._make_folder(self._path(entry))
            elif entry.kind == "link":
                self._make_link(self._path(entry), entry)
            else:
                files.append(entry)
        for entry in files:
            self._make_file(self._path(entry), entry)
        for entry in reversed(entries):
            if entry.kind == "folder":
                self._settle(self._path(entry), entry)

    def _path(self, entry: Entry) -> str:
        return f"{self._place}/{entry.path}" if entry.path else self._place

    def _make_folder(self, path: str) -> None:
        if self._is_continued and os.path.lexists(path) and not _is_folder(path):
            os.unlink(path)
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)

    def _make_link(self, path: str, entry: Entry) -> None:
        with suppress(FileNotFoundError):
            os.unlink(path)
        os.symlink(entry.link, path)
        if self._is_root:
            os.lchown(path, entry.uid, entry.gid)

    def _make_file(self, path: str, entry: Entry) -> None:
        if self._is_continued:
            with suppress(OSError):
                found = os.lstat(path)
                if (found.st_size, found.st_mtime_ns) == (entry.size, entry.mtime_ns):
                    self._on_bytes(entry.size)
                    return
                _remove(Path(path))
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            self._source.copy(entry, fd, self._on_bytes)
            if entry.size >= WRITTEN_EARLY:
                _libc.sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE)
            self._give(fd, entry)
            # Last: a file with the time of its source is whole.
            os.utime(fd, ns=(entry.mtime_ns, entry.mtime_ns))
        finally:
            os.close(fd)

    def _settle(self, path: str, entry: Entry) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._give(fd, entry)
        finally:
            os.close(fd)

    def _give(self, fd: int, entry: Entry) -> None:
        if self._is_root and (entry.uid, entry.gid) != self._own:
            os.fchown(fd, entry.uid, entry.gid)
        _let_read(fd, entry)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _let_read(fd: int, entry: Entry) -> None:
    """Readable for whom the source is; writable for none, since several use it."""
    os.fchmod(fd, entry.mode & 0o555)
    if entry.acl:
        try:
            os.setxattr(fd, ACL, entry.acl)
        except OSError:
            # The bits for the group are a mask beside an access list: alone they could mean more than they did.
            os.fchmod(fd, entry.mode & 0o500)


def _sync(place: Path) -> None:
    """On the disk before it has its name: a power cut must not leave half a copy that looks whole."""
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd):
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
