"""The directories of checkpoints: made for a user below a root that belongs to the site, and never through a link.

`ROOT/TENANT/PROJECT/ID/checkpoints/N`: everything down to `checkpoints` is the agent's, so no user can put a link in the place of a
directory; `N` is the user's own. The root itself must be there: where it is missing, its file system is not mounted.
"""

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from lattice.agent.removal import remove_tree

DONE = ".done"
FAILED = ".failed"
MANIFEST = "MANIFEST"
MAX_TEXT = 400
PROBE_BYTES = 8 << 20
MAX_FILES = 1_000_000
_PASSABLE = 0o711
_LISTED = 0o750
_OWN = 0o700
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_DRAFT = ".MANIFEST.new"
_LEVELS = 4  # TENANT/PROJECT/ID/checkpoints


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the file MANIFEST says; its presence says that the checkpoint is complete."""

    allocation: str
    n: int
    run: int
    nodes: tuple[str, ...]
    bytes: int = 0
    completed_at: int = 0  # seconds since 1970


def make_base(root: str, directory: str, gid: int) -> None:
    """The directory in which the numbered ones will lie. Raises OSError; FileNotFoundError when the root is not there."""
    with _opened(root, _below(root, directory)) as fd:
        if os.geteuid() == 0:
            os.fchown(fd, 0, gid)
        os.fchmod(fd, _LISTED)


def make_checkpoint(root: str, path: str, owner: tuple[int, int], node: str = "") -> str:
    """The directory of one checkpoint, or the node's own one in it; where it lies. Raises OSError."""
    names = _below(root, path)
    with _opened(root, names[:-1]) as above:
        _make_own(above, names[-1], owner)
        if not node:
            return path
        fd = os.open(names[-1], _FLAGS | os.O_NOFOLLOW, dir_fd=above)
        try:
            _make_own(fd, node, owner)
        finally:
            os.close(fd)
    return f"{path}/{node}"


def _make_own(above: int, name: str, owner: tuple[int, int]) -> None:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, _OWN, dir_fd=above)
    if os.geteuid() == 0:
        os.chown(name, *owner, dir_fd=above, follow_symlinks=False)


@contextlib.contextmanager
def _opened(root: str, names: tuple[str, ...]) -> Iterator[int]:
    """A descriptor of the directory below the root, which is made as far as it is missing."""
    fd = os.open(root, _FLAGS)
    try:
        for name in names:
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, _PASSABLE, dir_fd=fd)
                os.chmod(name, _PASSABLE, dir_fd=fd)
            inner = os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


def _below(root: str, path: str) -> tuple[str, ...]:
    """Raises OSError for a path that does not lie below the root."""
    try:
        parts = PurePosixPath(path).relative_to(PurePosixPath(root)).parts
    except ValueError:
        parts = ()
    if not root.startswith("/") or not parts or ".." in parts:
        raise OSError(f"{path} does not lie below {root}")
    return parts


def answer_in(directory: str) -> tuple[str, str]:
    """`done`, or `failed` with the text of the work; both empty while there is no answer. Raises OSError when it cannot be read."""
    fd = os.open(directory, _FLAGS | os.O_NOFOLLOW)
    try:
        if _is_file(DONE, fd):
            return "done", ""
        return ("failed", failure_text(fd)) if _is_file(FAILED, fd) else ("", "")
    finally:
        os.close(fd)


def failure_text(fd: int) -> str:
    """What the work wrote into `.failed`, as far as it is short, plain text."""
    try:
        inner = os.open(FAILED, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        return ""
    try:
        text = os.read(inner, MAX_TEXT).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(inner)
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def _is_file(name: str, fd: int) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def size_of(directory: str) -> int:
    """Bytes of the files below, links not followed; of the first million files."""
    total, count, waiting = 0, 0, [directory]
    while waiting and count < MAX_FILES:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    count += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        total += entry.stat(follow_symlinks=False).st_size
        except OSError:
            continue
    return total


def seal(root: str, path: str, owner: tuple[int, int], manifest: Manifest) -> None:
    """Puts the MANIFEST in place, durably and in one step. Raises OSError."""
    names = _below(root, path)
    with _opened(root, names) as fd:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_DRAFT, dir_fd=fd)
        draft = os.open(_DRAFT, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=fd)
        try:
            os.write(draft, msgspec.json.encode(manifest) + b"\n")
            if os.geteuid() == 0:
                os.fchown(draft, *owner)
            os.fsync(draft)
        finally:
            os.close(draft)
        os.rename(_DRAFT, MANIFEST, src_dir_fd=fd, dst_dir_fd=fd)
        os.fsync(fd)


def is_complete(path: str) -> bool:
    """Whether the directory holds a complete checkpoint."""
    try:
        fd = os.open(path, _FLAGS | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        return _is_file(MANIFEST, fd)
    finally:
        os.close(fd)


def write_probe(root: str) -> float:
    """Seconds until a file of PROBE_BYTES is on the disk; it is gone afterwards. Raises OSError."""
    fd = os.open(root, _FLAGS)
    name = f".probe.{secrets.token_hex(8)}"
    data = os.urandom(PROBE_BYTES)  # a file system that compresses would say too much of zeros
    try:
        began_s = time.monotonic()
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=fd)
        try:
            place = 0
            while place < PROBE_BYTES:
                place += os.write(file, data[place:])
            os.fsync(file)
        finally:
            os.close(file)
            os.unlink(name, dir_fd=fd)
        return time.monotonic() - began_s
    finally:
        os.close(fd)


def parts_elsewhere(path: str) -> list[str]:
    """Of a complete checkpoint whose nodes wrote into directories of their own: nodes whose directory is not here. Raises OSError."""
    fd = os.open(path, _FLAGS | os.O_NOFOLLOW)
    try:
        inner = os.open(MANIFEST, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=fd)
        with os.fdopen(inner, "rb") as file:
            nodes = msgspec.json.decode(file.read(), type=Manifest).nodes
        return [node for node in nodes if not os.path.lexists(f"{path}/{node}")]
    except msgspec.MsgspecError as error:
        raise OSError(f"the MANIFEST in {path} is damaged: {error}") from None
    finally:
        os.close(fd)


def make_draft(root: str, path: str, owner: tuple[int, int]) -> str:
    """An empty directory of the user's beside the place of the checkpoint; where it lies. Raises OSError."""
    names = _below(root, path)
    draft = f".{names[-1]}.{secrets.token_hex(8)}"
    with _opened(root, names[:-1]) as fd:
        if os.geteuid() == 0:
            os.fchown(fd, 0, owner[1])
        os.fchmod(fd, _LISTED)
        _make_own(fd, draft, owner)
    return f"{path.rpartition('/')[0]}/{draft}"


def place_draft(root: str, path: str, draft: str) -> None:
    """The directory becomes the checkpoint, unless another node has put it there meanwhile. Raises OSError."""
    names = _below(root, path)
    with _opened(root, names[:-1]) as fd:
        if is_complete(path):
            return
        with contextlib.suppress(FileNotFoundError):
            remove_tree(names[-1], dir_fd=fd)
        os.rename(draft.rpartition("/")[2], names[-1], src_dir_fd=fd, dst_dir_fd=fd)
        os.fsync(fd)


def remove_draft(root: str, path: str, draft: str) -> None:
    """What is left of it, if anything."""
    with contextlib.suppress(OSError), _opened(root, _below(root, path)[:-1]) as fd:
        remove_tree(draft.rpartition("/")[2], dir_fd=fd)


def remove_others(root: str, path: str, keep: set[int]) -> list[int]:
    """Removes the checkpoints before this one that are not kept; which those were. What cannot be removed stays."""
    names, removed = _below(root, path), []
    n = int(names[-1])
    with _opened(root, names[:-1]) as fd:
        for name in os.listdir(fd):
            if name.isascii() and name.isdigit() and int(name) < n and int(name) not in keep:
                with contextlib.suppress(OSError):
                    remove_tree(name, dir_fd=fd)
                removed.append(int(name))
    return removed


def remove_all(root: str, directory: str) -> None:
    """Removes the directory of all checkpoints of an allocation, `ROOT/.../ID/checkpoints`, and what is left empty above it.

    Raises OSError; where the root is not there, its file system is not mounted and nothing is said to be gone.
    """
    names = _below(root, directory)
    if names[-1] != "checkpoints" or len(names) != _LEVELS:
        raise OSError(errno.EINVAL, f"{directory} is not where an allocation has its checkpoints")
    fd = os.open(root, _FLAGS)
    above = [fd]
    try:
        for name in names[:-1]:
            try:
                above.append(os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=above[-1]))
            except FileNotFoundError:
                return
        with contextlib.suppress(FileNotFoundError):
            remove_tree(names[-1], dir_fd=above[-1])
        for place in range(len(names) - 2, -1, -1):
            try:
                os.rmdir(names[place], dir_fd=above[place])
            except OSError:
                return  # of others
    finally:
        for each in above:
            os.close(each)
