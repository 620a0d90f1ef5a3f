"""A user namespace with a mount namespace inside, for a shim that is not root, and whether this machine lets it have one.

Users keep their own uid and gid inside: both are mapped to themselves, and nothing else is. Who enters has every right over the mounts
in there until the next exec, which takes all of them away, because the uid is not 0.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import socket
import time

from lattice.agent.shim.hierarchies import read_bytes
from lattice.agent.shim.loop import keep_only
from lattice.agent.shim.namespace import (
    CLONE_NEWNS,
    MS_BIND,
    MS_NODEV,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    mount_at,
)

CLONE_NEWUSER = 0x10000000
MNT_DETACH = 2
FUSE = "/dev/fuse"
# Any folder that every machine has: a new root lies over it for a moment.
BASE = b"/tmp"
HOST = b"/.lattice-host"
KEEPER = b"lattice-keeper"  # what keepers call themselves
LOCKED_WITHIN_S, LOCK_AGAIN_S = 0.5, 0.002
TRIED_WITHIN_S = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(OSError):
    """`stage` is what this machine does not let an ordinary user do."""

    def __init__(self, stage: str, code: int) -> None:
        super().__init__(code, os.strerror(code))
        self.stage = stage


def enter_own() -> None:
    """In a child with one thread: new namespaces, in which what the host mounts later appears, and nothing leads back. Raises Refused."""
    _make_user_namespace()
    _make_mount_namespace()


def enter_shared() -> None:
    """The same in the user namespace of another keeper of this user, if there is one: processes in two of them may neither look at each
    other nor share memory as ranks of MPI do, and the nodes of a local cluster are one machine. Raises Refused."""
    lock = _lock_keepers()
    try:
        if not any(_join(pid) for pid in _keepers()):
            _make_user_namespace()
    finally:
        lock.close()
    _make_mount_namespace()


def _make_user_namespace() -> None:
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(CLONE_NEWUSER):
        raise Refused("namespace", ctypes.get_errno())
    try:
        # Without this the kernel takes no map of groups from a user. Access by further groups stays, though they have no number inside.
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    except OSError as error:
        raise Refused("map", error.errno or 0) from None


def _make_mount_namespace() -> None:
    if _libc.unshare(CLONE_NEWNS):
        raise Refused("rights", ctypes.get_errno())
    try:
        mount_at(None, b"/", None, MS_REC | MS_SLAVE, None)
    except OSError as error:
        raise Refused("rights", error.errno or 0) from None


def _lock_keepers() -> socket.socket:
    """One keeper of this user at a time looks for others, so that two that start together find each other. The name is free again when
    its holder dies. Another user could take it for ever: then each keeper has a namespace of its own after a while."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    until = time.monotonic() + LOCKED_WITHIN_S
    while time.monotonic() < until:
        try:
            held.bind(f"\0lattice-keepers-{os.geteuid()}".encode())
        except OSError:
            time.sleep(LOCK_AGAIN_S)
        else:
            break
    return held


def _keepers() -> list[int]:
    """Those of this user that have a user namespace with the same map, oldest first."""
    own = os.geteuid()
    wanted = [[b"%d" % number, b"%d" % number, b"1"] for number in (own, os.getegid())]
    found = []
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() and _is_keeper(entry, own) and _maps(entry.name) == wanted:
                found.append(int(entry.name))
    return sorted(found)


def _is_keeper(entry: os.DirEntry[str], own: int) -> bool:
    try:
        return entry.stat().st_uid == own and read_bytes(f"{entry.path}/comm") == KEEPER + b"\n"
    except OSError:
        return False


def _maps(pid: str) -> list[list[bytes]]:
    try:
        return [read_bytes(f"/proc/{pid}/{name}").split() for name in ("uid_map", "gid_map")]
    except OSError:
        return []


def _join(pid: int) -> bool:
    try:
        fd = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False  # it has ended
    try:
        return bool(_libc.setns(fd, CLONE_NEWUSER) == 0)
    finally:
        os.close(fd)


def mount_fuse(target: bytes, kind: bytes) -> int:
    """A FUSE file system that no process serves yet, read-only; the descriptor to serve it by. Raises Refused."""
    try:
        device = os.open(FUSE, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise Refused("device", error.errno or 0) from None
    said = f"fd={device},rootmode=40000,user_id={os.geteuid()},group_id={os.getegid()},allow_other,default_permissions"
    try:
        mount_at(kind, target, b"fuse." + kind, MS_RDONLY | MS_NOSUID | MS_NODEV, said.encode())
    except OSError as error:
        os.close(device)
        raise Refused("fuse", error.errno or 0) from None
    return device


def make_root(missing: list[bytes]) -> None:
    """The host's tree again, with folders at its top that the host lacks: a new root into which everything is bound. Raises OSError."""
    mount_at(b"lattice", BASE, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0755,size=1m")
    os.mkdir(BASE + HOST, 0o700)
    if _libc.pivot_root(BASE, BASE + HOST):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.chdir("/")
    with os.scandir(HOST) as entries:
        for entry in entries:
            _repeat(entry)
    for folder in missing:
        if os.path.dirname(folder) != b"/":
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))  # below, this would be the host's
        os.mkdir(folder, 0o755)
    if _libc.umount2(HOST, MNT_DETACH):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.rmdir(HOST)
    mount_at(None, b"/", None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, None)


def _repeat(entry: os.DirEntry[bytes]) -> None:
    """No question about what the entry is reaches a file server: the folder itself says it."""
    place = b"/" + entry.name
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), place)
        return
    if entry.is_dir(follow_symlinks=False):
        os.mkdir(place, 0o755)
    elif entry.is_file(follow_symlinks=False):
        os.close(os.open(place, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))
    else:
        return
    mount_at(entry.path, place, None, MS_BIND | MS_REC, None)


def why_not() -> str:
    """Why no image can be mounted here for this user; empty when it can. Tried by a child, with which all of it goes."""
    report, report_w = os.pipe()
    pid = os.fork()
    if pid == 0:
        _try(report_w)
    os.close(report_w)
    try:
        said = os.read(report, 64) if select.select([report], [], [], TRIED_WITHIN_S)[0] else b""
    finally:
        os.kill(pid, signal.SIGKILL)  # not reaped yet: its number cannot be somebody else's
        os.close(report)
        os.waitpid(pid, 0)
    stage, _, number = said.decode("ascii", "replace").partition(" ")
    return "" if said == b"ready" else explain(stage, int(number) if number.isdigit() else errno.EIO)


def _try(report: int) -> None:
    """In the child. Never returns."""
    said = b""
    try:
        keep_only({report})
        enter_own()
        os.close(mount_fuse(BASE, b"lattice"))
        said = b"ready"
    except Refused as refusal:
        said = f"{refusal.stage} {refusal.errno or 0}".encode()
    finally:
        try:
            os.write(report, said)
        finally:
            os._exit(0)


def explain(stage: str, code: int) -> str:
    """A sentence for operators and users."""
    why = os.strerror(code)
    if stage == "namespace":
        return (
            f"users may not make user namespaces here ({why}): user.max_user_namespaces, or a rule of the distribution"
        )
    if stage in ("map", "rights"):
        return (
            f"user namespaces give ordinary users no rights here ({why}): a security module such as AppArmor forbids it"
        )
    if stage == "device":
        return f"{FUSE} cannot be opened by this user ({why})"
    if stage == "fuse":
        return f"the kernel mounts no FUSE file system in a user namespace ({why}); Linux does since 4.18"
    return "it could not be found out whether users may mount images here"


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
