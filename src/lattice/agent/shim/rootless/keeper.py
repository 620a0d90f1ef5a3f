"""The keeper: a child of a shim that is not root, which makes what one run sees of the file system and keeps squashfuse serving it.

    shim ── keeper (a fork, in the run's user and mount namespaces) ── squashfuse, one for each image

The keeper lives as long as the shim holds the other end of a pipe. The kernel kills it with the shim, and each squashfuse with the
keeper, so that the death of any of them leaves nothing: no process, and with the last one no mount. The image is locked (flock, shared) by
the process that serves it, which tells the cache that it is in use. squashfuse gets a file system that is mounted already, as a descriptor
(`/dev/fd/N`, libfuse 3.3), and needs no rights for that: exec takes away those that the keeper has.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import signal

from lattice.agent.shim.loop import keep_only
from lattice.agent.shim.namespace import SQUASHFUSE, Mount, View
from lattice.agent.shim.rootless.userns import KEEPER, Refused, enter_shared, explain, make_root, mount_fuse
from lattice.agent.shim.spawn import block_signals, unblock_signals
from lattice.agent.shim.tree import MARKER

PR_SET_PDEATHSIG, PR_SET_NAME = 1, 15
KEPT_WITHIN_S = 5.0
MAX_SAID = 300
READY = b"ready"

_libc = ctypes.CDLL(None, use_errno=True)


def keep_view(mounts: list[Mount], mark: str, within_s: float = KEPT_WITHIN_S) -> View:
    """What the mounts make of the file system, with a keeper. `mark` is the folder of the run. Raises OSError, which says why."""
    report, report_w = os.pipe()
    held, held_w = os.pipe()
    try:
        pid = _fork(mounts, mark, report_w, held)
    except OSError:
        os.close(report)
        os.close(held_w)
        raise
    finally:
        os.close(report_w)
        os.close(held)
    try:
        said = os.read(report, 4096) if select.select([report], [], [], within_s)[0] else None
        if said != READY:
            raise _failure(mounts, said, within_s)
        return View(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC), held_w, pid)
    except OSError:
        os.kill(pid, signal.SIGKILL)  # not reaped yet: its number cannot be somebody else's
        os.close(held_w)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(report)


def _fork(mounts: list[Mount], mark: str, report: int, held: int) -> int:
    shim = os.getpid()
    block_signals()
    try:
        pid = os.fork()
        if pid == 0:
            _keep(mounts, mark, shim, report, held)
        return pid
    finally:
        unblock_signals()


def _keep(mounts: list[Mount], mark: str, shim: int, report: int, held: int) -> None:
    """In the child, all signals blocked. Never returns, not even to a shim that was killed meanwhile."""
    servers: list[_Server] = []
    try:
        _die_with(shim)
        signal.set_wakeup_fd(-1)  # the shim's own, whose number may soon mean something else
        _libc.prctl(PR_SET_NAME, KEEPER, 0, 0, 0)
        keep_only({report, held})
        said = _make(mounts, mark, servers)
        os.write(report, said)
        os.close(report)
        if said == READY:
            _wait(held, servers)
        for server in servers:
            server.end()
    finally:
        os._exit(0)


def _make(mounts: list[Mount], mark: str, servers: list[_Server]) -> bytes:
    """`ready`, or which mount failed and why, in words if there are any."""
    place, server = -1, None
    try:
        enter_shared()
        if missing := [each.target for each in mounts if not os.path.isdir(each.target)]:
            make_root(missing)
        for place, mount in enumerate(mounts):  # noqa: B007 - read where one fails
            server = None
            if mount.kind != SQUASHFUSE:
                raise OSError(errno.EPERM, "not root")
            server = _Server(mount, mark)
            servers.append(server)
            os.statvfs(mount.target)  # waits for the first answer of who serves it, or for its end
    except OSError as error:
        words = explain(error.stage, error.errno or 0) if isinstance(error, Refused) else ""
        if server is not None:
            words = server.last_words()
        return f"{place} {error.errno or 0} {words}".encode("utf-8", "replace")
    return READY


def _wait(held: int, servers: list[_Server]) -> None:
    """Until the shim lets go, or a server is gone: the run then reads errors, and no file that is half there."""
    poll = select.poll()
    for fd in (held, *(server.said for server in servers)):
        poll.register(fd, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == held or not os.read(fd, 4096):
                return


class _Server:
    """One squashfuse. `said` is what it writes; it ends with the process."""

    def __init__(self, mount: Mount, mark: str) -> None:
        keeper = os.getpid()
        image = os.open(mount.source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            fcntl.flock(image, fcntl.LOCK_SH)
        except OSError as error:
            if error.errno != errno.ENOLCK:  # a file system without locks
                raise
        device = mount_fuse(mount.target, SQUASHFUSE.encode())
        self.said, said_w = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _serve(mount, mark, keeper, image, device, said_w)
        # Only who serves has these: with it the mount and the lock end.
        for fd in (image, device, said_w):
            os.close(fd)

    def last_words(self) -> str:
        """What it wrote before it gave up; one that did not is ended."""
        os.kill(self.pid, signal.SIGKILL)
        said = b""
        while len(said) < MAX_SAID and (piece := os.read(self.said, MAX_SAID)):
            said += piece
        return " ".join(said.decode("utf-8", "replace").split())[:MAX_SAID]

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)  # not reaped, so the pid is still its own
        os.waitpid(self.pid, 0)


def _serve(mount: Mount, mark: str, keeper: int, image: int, device: int, said: int) -> None:
    """In the server's child. Never returns."""
    try:
        _die_with(keeper)
        for fd in (1, 2):
            os.dup2(said, fd)
        for fd in (image, device):
            os.set_inheritable(fd, True)
        unblock_signals()
        words = [mount.program, b"-f", mount.source, b"/dev/fd/%d" % device]
        environment = {b"PATH": b"/usr/bin:/bin", MARKER.encode(): os.fsencode(mark)}
        os.execve(mount.program, words, environment)  # noqa: S606 - a path that the agent found
    except OSError as error:
        os.write(2, f"{os.fsdecode(mount.program)}: {error.strerror}".encode())
    finally:
        os._exit(127)


def _die_with(parent: int) -> None:
    """The kernel kills this process when the parent dies; at once if that has happened."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def _failure(mounts: list[Mount], said: bytes | None, within_s: float) -> OSError:
    if said is None:
        return OSError(errno.ETIMEDOUT, f"cannot mount the run's file system within {within_s:g} s")
    if not said:
        return OSError(errno.EIO, "cannot mount the run's file system: the process that mounts it was killed")
    place, number, words = (*said.decode("utf-8", "replace").split(" ", 2), "", "")[:3]
    code = int(number) if number.isdigit() else errno.EIO
    what = mounts[int(place)].target.decode("utf-8", "replace") if place.isdigit() else "the run's file system"
    return OSError(code, f"cannot mount {what}: {words or os.strerror(code)}")
