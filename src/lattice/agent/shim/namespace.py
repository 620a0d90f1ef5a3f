"""A view of the file system that belongs to one run: made before its first process, entered by every process of it.

Here as root; `rootless/` has the way of a shim that is not.

The namespace is made by a child that mounts and ends. A descriptor keeps it alive, so nothing is mounted on the host and nothing has
to be unmounted: when the descriptor is closed and the last process is gone, the mounts are gone. A child that hangs (on a file server
that does not answer) is killed and the run is refused. Standard library only: the shim lives on this.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal
import stat
import struct

from lattice.agent.shim.loop import keep_only

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND = 1, 2, 4, 32, 4096
MS_REC, MS_SLAVE = 16384, 1 << 19
MAX_MOUNTS = 64
MAX_SIZE_MB = 1 << 30
MAKE_WITHIN_S = 5.0
NS_GET_USERNS = 0xB701
BIND, TMPFS, SQUASHFS, NAMESPACE, DISK = "bind", "tmpfs", "squashfs", "namespace", "disk"
SQUASHFUSE = "squashfuse"  # for a shim that is not root
READ_ONLY, EMPTY = "read_only", "empty"
KINDS = (BIND, TMPFS, SQUASHFS, NAMESPACE, DISK, READ_ONLY, EMPTY)
LOOP_CONTROL = "/dev/loop-control"
LOOP_CTL_GET_FREE, LOOP_CONFIGURE = 0x4C82, 0x4C0A
LO_READ_ONLY, LO_AUTOCLEAR = 1, 4
LOOP_TRIES = 64  # others take free devices too

_libc = ctypes.CDLL(None, use_errno=True)


class Mount:
    """`bind`: the folder `source` appears at `target`. `tmpfs`: an empty folder in memory, which counts as the run's own, of at
    most `size_mb` (0 = half of the machine's memory, as the kernel has it). `squashfs`: the files in the image `source`, read-only.
    `disk`: the ext4 file system in the file `source`, which only root can write.
    `read_only`: as `bind`, without what is mounted below `source`, and no process can write there.
    With `rights` (uid, gid, groups) the source of a bind is opened as that user: the run sees nothing that these do not show.
    `empty`: a folder that only holds the targets of later mounts, which are made in it.
    `squashfuse`: as `squashfs`, served by `program`, where this shim is not root.
    `namespace`: alone in its list; all of it was made by others and can be opened at `source`."""

    __slots__ = ("kind", "program", "rights", "size_mb", "source", "target")

    def __init__(self, request: object) -> None:
        if not isinstance(request, dict):
            raise ValueError("a mount is not an object")
        self.kind = request.get("kind")
        self.source = _path(request.get("source") or "/", "source")
        self.target = _path(request.get("target"), "target")
        size = request.get("size_mb") or 0
        self.program = _path(request.get("program"), "program") if self.kind == SQUASHFUSE else b""
        if self.kind not in (*KINDS, SQUASHFUSE):
            raise ValueError(f"unknown kind of mount: {self.kind!r}")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_SIZE_MB:
            raise ValueError(f"size_mb is not a number of megabytes: {size!r}")
        self.size_mb = size
        self.rights = _rights(request.get("rights"))

    def make(self) -> None:
        """In the namespace. Raises OSError."""
        if self.rights is None:
            self._make(self.source)
            return
        fd = _open_as(self.source, self.rights)
        try:
            self._make(b"/proc/self/fd/%d" % fd)
        finally:
            os.close(fd)

    def _make(self, source: bytes) -> None:
        if self.kind == BIND:
            mount_at(source, self.target, None, MS_BIND | MS_REC, None)
            mount_at(None, self.target, None, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV, None)
        elif self.kind == READ_ONLY:
            mount_at(source, self.target, None, MS_BIND, None)
            mount_at(None, self.target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, None)
        elif self.kind == EMPTY:
            mount_at(b"lattice", self.target, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0755,size=1m")
        elif self.kind in (SQUASHFS, DISK):
            is_disk = self.kind == DISK
            device, number = _attach(self.source, writable=is_disk)
            try:
                name = f"/dev/loop{number}".encode()
                kind, flags = (b"ext4", 0) if is_disk else (b"squashfs", MS_RDONLY)
                mount_at(name, self.target, kind, flags | MS_NOSUID | MS_NODEV, None)
            finally:
                os.close(device)
        else:
            size = f",size={self.size_mb}m" if self.size_mb else ""
            mount_at(b"lattice", self.target, b"tmpfs", MS_NOSUID | MS_NODEV, f"mode=1777{size}".encode())


class View:
    """What the processes of a group see of the file system: a descriptor of it, -1 = the host's. With a `keeper` (or -1) its files are
    served by processes, which end when that descriptor is closed; `pid` is the one above them."""

    __slots__ = ("keeper", "namespace", "pid")

    def __init__(self, namespace: int = -1, keeper: int = -1, pid: int = 0) -> None:
        self.namespace, self.keeper, self.pid = namespace, keeper, pid

    def close(self) -> None:
        """Harmless when repeated. Processes inside keep it, but files that have to be served are gone."""
        for fd in (self.namespace, self.keeper):
            if fd >= 0:
                os.close(fd)
        self.namespace = self.keeper = -1


def mounts_of(request: dict[str, object]) -> list[Mount]:
    """What the request asks to be mounted, in order. Raises ValueError."""
    asked = request.get("mounts") or []
    if not isinstance(asked, list) or len(asked) > MAX_MOUNTS:
        raise ValueError(f"mounts is not a list of at most {MAX_MOUNTS}")
    return [Mount(each) for each in asked]


def make_namespace(mounts: list[Mount], within_s: float = MAKE_WITHIN_S) -> int:
    """A descriptor of a new namespace with these mounts. Raises OSError, which names the one that failed."""
    if mounts[0].kind == NAMESPACE:
        return _open_namespace(mounts[0].source)
    report, report_w = os.pipe()
    done, done_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        _make_all(mounts, report_w, done)
    os.close(report_w)
    os.close(done)
    try:
        said = b""
        if select.select([report], [], [], within_s)[0]:
            said = os.read(report, 64)
        if said != b"ready":
            raise _failure(mounts, said, within_s)
        return os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(pid, signal.SIGKILL)  # not reaped yet: its number cannot be somebody else's
        os.close(report)
        os.close(done_w)
        os.waitpid(pid, 0)


def open_namespace(source: object) -> int:
    """A descriptor of one that others made. Raises OSError and ValueError."""
    return _open_namespace(_path(source, "source"))


def _open_namespace(source: bytes) -> int:
    try:
        return os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise OSError(error.errno, f"the container is gone: {os.strerror(error.errno or 0)}") from None


def enter_namespace(fd: int) -> None:
    """For a process that was just forked and still is who the shim is; without root by way of the user namespace that owns this one.
    Raises OSError."""
    if os.geteuid() != 0:
        owner = fcntl.ioctl(fd, NS_GET_USERNS)
        try:
            _enter(owner)
        finally:
            os.close(owner)
    _enter(fd)


def _enter(fd: int) -> None:
    if _libc.setns(fd, 0):
        raise OSError(ctypes.get_errno(), "cannot enter the run's file system")


def _make_all(mounts: list[Mount], report: int, done: int) -> None:
    """In the child. Never returns, not even to a shim that was killed meanwhile: it would be a second one, which no agent could tell
    from the first, and what is mounted here would never go. A mount may hang: it must not hold the agent's connection then."""
    place, said = -1, b""
    try:
        keep_only({report, done})
        if _libc.unshare(CLONE_NEWNS):
            raise OSError(ctypes.get_errno(), "unshare")
        # What the host mounts later appears here as well; what is mounted here stays here.
        mount_at(None, b"/", None, MS_REC | MS_SLAVE, None)
        empty: list[bytes] = []
        for place, mount in enumerate(mounts):  # noqa: B007 - read where one fails
            if any(mount.target.startswith(folder + b"/") for folder in empty):
                _make_target(mount)
            mount.make()
            empty += [mount.target] if mount.kind == EMPTY else []
        said = b"ready"
    except OSError as error:
        said = f"{place} {error.errno or 0}".encode()
    finally:
        try:
            os.write(report, said)
            os.read(done, 1)  # stays until the parent has opened the namespace, or is gone
        finally:
            os._exit(0)


def _make_target(mount: Mount) -> None:
    """In a folder of the namespace's own, which no one else can change. Raises OSError."""
    if mount.kind == EMPTY or _is_folder(mount):
        os.makedirs(mount.target, 0o755, exist_ok=True)
        return
    os.makedirs(os.path.dirname(mount.target), 0o755, exist_ok=True)
    os.close(os.open(mount.target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _is_folder(mount: Mount) -> bool:
    if mount.rights is None:
        return os.path.isdir(mount.source)
    fd = _open_as(mount.source, mount.rights)
    try:
        return stat.S_ISDIR(os.fstat(fd).st_mode)
    finally:
        os.close(fd)


def _open_as(path: bytes, rights: tuple[int, int, list[int]]) -> int:
    """In the child that makes the namespace, which has one thread. Raises OSError."""
    uid, gid, groups = rights
    own = os.getgroups()
    os.setgroups(groups)
    os.setegid(gid)
    os.seteuid(uid)
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(own)


def _failure(mounts: list[Mount], said: bytes, within_s: float) -> OSError:
    if not said:
        return OSError(errno.ETIMEDOUT, f"cannot mount the run's file system within {within_s:g} s")
    place, _, number = said.decode("ascii", "replace").partition(" ")
    code = int(number) if number.isdigit() else errno.EIO
    what = mounts[int(place)].target.decode("utf-8", "replace") if place.isdigit() else "the run's file system"
    return OSError(code, f"cannot mount {what}: {os.strerror(code)}")


def mount_at(source: bytes | None, target: bytes, kind: bytes | None, flags: int, data: bytes | None) -> None:
    if _libc.mount(source, target, kind, ctypes.c_ulong(flags), data):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _attach(image: bytes, *, writable: bool = False) -> tuple[int, int]:
    """A loop device over the image, open, and its number. The kernel frees it with the last mount and descriptor of it, so nothing is
    left behind when the agent, the shim or the run dies. Raises OSError."""
    mode, flags = (os.O_RDWR, LO_AUTOCLEAR) if writable else (os.O_RDONLY, LO_READ_ONLY | LO_AUTOCLEAR)
    source = os.open(image, mode | os.O_CLOEXEC | os.O_NOFOLLOW)
    control = -1
    try:
        control = os.open(LOOP_CONTROL, os.O_RDWR | os.O_CLOEXEC)
        # struct loop_config: the descriptor, the block size (the kernel's choice), and loop_info64, of which only the flags matter.
        wanted = struct.pack("<II52xI", source, 0, flags).ljust(304, b"\0")
        for _ in range(LOOP_TRIES):
            number = fcntl.ioctl(control, LOOP_CTL_GET_FREE)
            device = os.open(f"/dev/loop{number}", mode | os.O_CLOEXEC)
            try:
                fcntl.ioctl(device, LOOP_CONFIGURE, wanted)
            except OSError as error:
                os.close(device)
                if error.errno != errno.EBUSY:
                    raise
            else:
                return device, number
        raise OSError(errno.EBUSY, "no loop device is free")
    finally:
        os.close(source)
        if control >= 0:
            os.close(control)


def _rights(value: object) -> tuple[int, int, list[int]] | None:
    if value is None:
        return None
    given = [value.get("uid"), value.get("gid"), *(value.get("groups") or [])] if isinstance(value, dict) else [None]
    numbers = [number for number in given if isinstance(number, int) and not isinstance(number, bool) and number >= 0]
    if len(numbers) != len(given):
        raise ValueError(f"rights of a mount are not numbers: {value!r}")
    return numbers[0], numbers[1], numbers[2:]


def _path(value: object, name: str) -> bytes:
    if not isinstance(value, str) or not value.startswith("/") or "\0" in value:
        raise ValueError(f"{name} of a mount is not an absolute path: {value!r}")
    return os.fsencode(value)
