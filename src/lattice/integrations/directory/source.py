"""A directory or file of the site as a source of data.

The way to it is opened part by part and no part may be a symbolic link, so that no user can make a mover, which is root, follow one.
Links inside are copied as links. Devices, sockets and FIFOs are left out.
"""

import hashlib
import os
import pwd
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from lattice.ports.data.sources import ACL, Entry, Listing, SourceChanged, SourceError, SourceGone

MAX_ENTRIES = 5_000_000
PIECE = 8 << 20
CHECK_WITHIN_S = 60.0
COMES_BACK = 75  # exit code of a site's program: not all is there yet, ask again (EX_TEMPFAIL)
MAX_SAID = 300
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# With the rights of the account: the way to it, and the thing itself.
_CHECK = """exec 3<"$1" && { [ ! -d "$1" ] || cd "$1"; }"""


class DirectorySource:
    """`path` lies below `root`, which the site trusts. `recall`: the site's program that brings what an archive has back."""

    def __init__(self, root: str, path: str, recall: Sequence[str] = ()) -> None:
        self._root, self._path, self._recall = root, path, tuple(recall)
        self._fd = -1
        self._folder = ("", -1)  # the one opened last: names come folder by folder

    def readable_by(self, accounts: Sequence[str]) -> dict[str, str]:
        return {account: self._why_not(account) for account in accounts}

    def _why_not(self, account: str) -> str:
        try:
            entry = pwd.getpwnam(account)
        except KeyError:
            return f"there is no account {account} where data is moved"
        own = os.geteuid()
        if own != 0 and entry.pw_uid != own:
            return "the mover is not root and copies only for its own user"
        rights: dict[str, object] = {}
        if entry.pw_uid != own:
            groups = os.getgrouplist(account, entry.pw_gid)
            rights = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": groups}
        try:
            done = subprocess.run(  # type: ignore[call-overload]
                ["/bin/sh", "-c", _CHECK, "/bin/sh", self._path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_WITHIN_S,
                env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
                cwd="/",
                check=False,
                **rights,
            )
        except subprocess.TimeoutExpired:
            raise SourceError(f"{self._path}: its file system does not answer") from None
        if not done.returncode:
            return ""
        if b"No such file" in done.stderr:
            raise SourceGone(f"{self._path} does not exist")
        return f"{account} may not read {self._path}"

    def listing(self) -> Listing:
        entries: list[Entry] = []
        with _failures(self._path):
            if self._fd < 0:
                self._fd = _open_below(self._root, self._path)
            top = os.fstat(self._fd)
            if stat.S_ISDIR(top.st_mode):
                entries.append(_entry("", top, "folder", acl=_acl(f"/proc/self/fd/{self._fd}")))
                self._walk(self._fd, "", entries)
            else:
                entries.append(_entry("", top, "file", acl=_acl(f"/proc/self/fd/{self._fd}")))
        digest = hashlib.sha256()
        for each in entries:
            row = f"{each.path}\0{each.kind}\0{each.size}\0{each.mtime_ns}\0{each.mode}\0{each.uid}\0{each.gid}\0{each.link}\0{each.acl.hex()}\n"
            digest.update(row.encode("utf-8", "surrogateescape"))
        return Listing(entries=entries, version=digest.hexdigest()[:32])

    def _walk(self, fd: int, prefix: str, entries: list[Entry]) -> None:
        """Depth by depth with descriptors; names in order, so that the version is the same each time."""
        with os.scandir(fd) as found:
            names = sorted((each.name for each in found), key=os.fsencode)
        for name in names:
            if len(entries) >= MAX_ENTRIES:
                raise SourceError(f"{self._path} has more than {MAX_ENTRIES:,} files")
            path = f"{prefix}{name}"
            try:
                info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(info.st_mode):
                entries.append(_entry(path, info, "folder", acl=_acl(f"/proc/self/fd/{fd}/{name}")))
                inner = os.open(name, _FOLDER, dir_fd=fd)
                try:
                    self._walk(inner, f"{path}/", entries)
                finally:
                    os.close(inner)
            elif stat.S_ISLNK(info.st_mode):
                entries.append(_entry(path, info, "link", os.readlink(name, dir_fd=fd)))
            elif stat.S_ISREG(info.st_mode):
                entries.append(_entry(path, info, "file", acl=_acl(f"/proc/self/fd/{fd}/{name}")))

    def restoring(self, listing: Listing) -> str:
        if not self._recall:
            return ""
        try:
            done = subprocess.run(
                [*self._recall, self._path],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=CHECK_WITHIN_S,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
                cwd="/",
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SourceError(f"{self._recall[0]} cannot bring {self._path} back: {error}") from None
        said = " ".join((done.stdout or done.stderr).decode(errors="replace").split())[:MAX_SAID]
        if done.returncode == COMES_BACK:
            return f"it is being restored from the archive{f': {said}' if said else ''}"
        if done.returncode:
            raise SourceError(f"{self._recall[0]} cannot bring {self._path} back: {said or done.returncode}")
        return ""

    def copy(self, entry: Entry, fd: int, on_bytes: Callable[[int], None]) -> None:
        with _failures(f"{self._path}/{entry.path}" if entry.path else self._path):
            source = self._open_entry(entry)
            try:
                done = _copy_bytes(source, fd, entry.size, on_bytes)
                after = os.fstat(source)
            finally:
                os.close(source)
        if (done, after.st_size, after.st_mtime_ns) != (entry.size, entry.size, entry.mtime_ns):
            raise SourceChanged(f"{self._path}/{entry.path} changed while it was copied")

    def _open_entry(self, entry: Entry) -> int:
        if not entry.path:
            return _open_below(self._root, self._path)
        folder, _, name = entry.path.rpartition("/")
        if not folder:
            return os.open(name, _FILE, dir_fd=self._fd)
        if self._folder[0] != folder:
            self._forget_folder()
            fd = os.dup(self._fd)
            for part in folder.split("/"):
                try:
                    inner = os.open(part, _FOLDER, dir_fd=fd)
                finally:
                    os.close(fd)
                fd = inner
            self._folder = (folder, fd)
        return os.open(name, _FILE, dir_fd=self._folder[1])

    def _forget_folder(self) -> None:
        if self._folder[1] >= 0:
            os.close(self._folder[1])
        self._folder = ("", -1)

    def close(self) -> None:
        self._forget_folder()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _copy_bytes(source: int, target: int, size: int, on_bytes: Callable[[int], None]) -> int:
    """In the kernel where the file systems can; no more than `size`, so that the end costs no further call."""
    done = 0
    by_kernel = True
    while done < size:
        if by_kernel:
            try:
                count = os.sendfile(target, source, None, PIECE)
            except OSError:
                if done:
                    raise
                by_kernel = False
                continue
        else:
            piece = os.read(source, PIECE)
            count = len(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(target, view) :]
        if not count:
            break
        done += count
        on_bytes(count)
    return done


def _open_below(root: str, path: str) -> int:
    """A descriptor of the path, of which no part below the root is a link."""
    if path != root and not path.startswith(root.rstrip("/") + "/"):
        raise SourceError(f"{path} is not below {root}")
    parts = [part for part in path[len(root) :].split("/") if part]
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for place, part in enumerate(parts):
            flags = _FILE if place == len(parts) - 1 else _FOLDER
            inner = os.open(part, flags, dir_fd=fd)
            os.close(fd)
            fd = inner
        if not stat.S_ISDIR(os.fstat(fd).st_mode) and not stat.S_ISREG(os.fstat(fd).st_mode):
            raise SourceError(f"{path} is neither a directory nor a file")
    except BaseException:
        os.close(fd)
        raise
    return fd


def _acl(path: str) -> bytes:
    try:
        return os.getxattr(path, ACL)
    except OSError:
        return b""


def _entry(path: str, info: os.stat_result, kind: str, link: str = "", acl: bytes = b"") -> Entry:
    return Entry(
        path=path,
        size=info.st_size if kind == "file" else 0,
        mtime_ns=info.st_mtime_ns,
        kind=kind,
        mode=stat.S_IMODE(info.st_mode) & 0o777,
        uid=info.st_uid,
        gid=info.st_gid,
        link=link,
        acl=acl,
    )


@contextmanager
def _failures(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise SourceGone(f"{path} does not exist") from None
    except OSError as error:
        if error.errno in (40, 20):  # ELOOP, and ENOTDIR of a link where a folder has to be
            raise SourceError(f"{path} leads through a symbolic link; name the directory itself") from None
        raise SourceError(f"cannot read {path}: {error.strerror}") from None
