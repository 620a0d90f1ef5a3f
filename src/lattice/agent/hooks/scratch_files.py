"""What scratch directories are made of: a plain directory, a file system of a size in a file beside it, or one in memory over it.

A file system in a file works on whatever the directory lies on, as long as that keeps files; its space is taken at once where that can
be done, so that no other work can fill the disk below it. One in memory counts as memory of the group whose processes write, and is
mounted on the node itself, since results are copied out of it after the last process. All that it held is removed before it is
unmounted: a view of the file system that another run was given meanwhile may hold it for longer.
"""

import ctypes
import errno
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lattice.agent.hooks.protocol import HookFailed
from lattice.agent.removal import remove_tree
from lattice.agent.shim.namespace import MS_NODEV, MS_NOSUID, Mount, make_namespace

DISK = "disk"  # the shim's word for a file system in a file
MAKE_FS = "mke2fs"
SEARCHED = "/usr/sbin:/sbin:/usr/bin:/bin"
MAKE_WITHIN_S = 120.0
PROBE = ".probe"
PROBE_MB = 16
UNMOUNT = 2 | 8  # MNT_DETACH | UMOUNT_NOFOLLOW
MOUNTINFO = Path("/proc/self/mountinfo")
# Where a file system cannot take space ahead, or takes it by writing all of it.
NOT_AHEAD = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)

_libc = ctypes.CDLL(None, use_errno=True)


def image_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.img")


def make_disk(folder: Path, owner: tuple[int, int], size_mb: int) -> None:
    """A file with a file system that holds what the folder holds. Raises HookFailed."""
    image, size = image_of(folder), size_mb << 20
    free = shutil.disk_usage(folder).free
    if size > free:
        raise _no_room(size_mb, free)
    program = shutil.which(MAKE_FS, path=SEARCHED)
    if program is None:
        raise HookFailed(f"scratch: {MAKE_FS} is not installed")
    options = f"root_owner={owner[0]}:{owner[1]},lazy_itable_init=1,nodiscard"
    words = [program, "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-E", options, "-d", str(folder)]
    try:
        with open(image, "xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.truncate(size)
            _take(file.fileno(), size)
        made = subprocess.run(
            [*words, str(image)], stdin=subprocess.DEVNULL, capture_output=True, timeout=MAKE_WITHIN_S, check=False
        )
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _no_room(size_mb, free) from error
        raise HookFailed(f"scratch: cannot make a file system of {size_mb:,} MB: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise HookFailed(f"scratch: {MAKE_FS} took longer than {MAKE_WITHIN_S:g} s") from error
    if made.returncode:
        said = made.stderr.decode(errors="replace").strip()[-400:]
        raise HookFailed(f"scratch: cannot make a file system of {size_mb:,} MB: {said}")


def _no_room(size_mb: int, free: int) -> HookFailed:
    return HookFailed(f"scratch: {size_mb:,} MB were asked for, {free >> 20:,} MB are free on this node")


def _take(fd: int, size: int) -> None:
    """Takes the space of a file that is all hole, as far as its file system can. Raises OSError."""
    while _libc.fallocate(fd, 0, ctypes.c_int64(0), ctypes.c_int64(size)):
        code = ctypes.get_errno()
        if code in NOT_AHEAD:
            return
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


def mount_memory(folder: Path, size_mb: int) -> None:
    """Hides the folder below an empty one of root, in memory; 0 = half of the memory of the machine. Raises OSError."""
    size = f",size={size_mb}m" if size_mb else ""
    flags, options = ctypes.c_ulong(MS_NOSUID | MS_NODEV), f"mode=0700{size}".encode()
    _checked(_libc.mount(b"lattice", os.fsencode(folder), b"tmpfs", flags, options))


def clear(folder: Path) -> None:
    """Removes all that was made for the folder, of this agent or of one before it. Raises OSError."""
    image_of(folder).unlink(missing_ok=True)
    if folder.is_symlink():
        folder.unlink()
        return
    while os.path.ismount(folder):
        _empty(folder)
        _checked(_libc.umount2(os.fsencode(folder), UNMOUNT))
    if folder.exists():
        remove_tree(folder)


def _checked(result: int) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _empty(folder: Path) -> None:
    with os.scandir(folder) as entries:
        found = list(entries)
    for entry in found:
        if entry.is_dir(follow_symlinks=False):
            remove_tree(entry.path)
        else:
            os.unlink(entry.path)


def lies_in_memory(folder: Path) -> bool:
    place = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    number = os.stat(place).st_dev
    found = f"{os.major(number)}:{os.minor(number)}"
    lines = (line.partition(" - ") for line in MOUNTINFO.read_text(errors="replace").splitlines())
    return any(mounted.split()[2] == found and kind.split()[0] == "tmpfs" for mounted, _, kind in lines)


def why_no_sizes(root: Path) -> str:
    """Why scratch below `root` cannot have a size, by making one; empty where it can. For a process with one thread, as root."""
    folder = root / PROBE
    request: Mapping[str, object] = {"kind": DISK, "target": str(folder), "source": str(image_of(folder))}
    try:
        clear(folder)
        folder.mkdir(0o700)
        make_disk(folder, (0, 0), PROBE_MB)
        os.close(make_namespace([Mount(request)]))
    except HookFailed as failure:
        return str(failure).removeprefix("scratch: ")
    except OSError as error:
        return f"this node cannot mount a file system in a file of {root}: {os.strerror(error.errno or errno.EIO)}"
    finally:
        _forget(folder)
    return ""


def why_no_memory(root: Path) -> str:
    """As `why_no_sizes`, of scratch in memory."""
    folder = root / PROBE
    try:
        clear(folder)
        folder.mkdir(0o700)
        mount_memory(folder, PROBE_MB)
    except OSError as error:
        return f"cannot mount memory below {root}: {error.strerror}"
    finally:
        _forget(folder)
    return ""


def _forget(folder: Path) -> None:
    try:
        clear(folder)
    except OSError:
        return  # the next start tries again
