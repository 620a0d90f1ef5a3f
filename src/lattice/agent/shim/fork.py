"""Fork straight into a cgroup.

A process that moves itself by writing to cgroup.procs takes a lock that stops every fork and exit of
the machine for an RCU grace period: some 10 ms when moves are rare. A child that is born in its
cgroup (clone3 with CLONE_INTO_CGROUP, Linux 5.7) costs nothing of the kind. Where clone3 is missing
or forbidden, fork as usual and let the child move.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct

CLONE_INTO_CGROUP = 0x2_0000_0000
SYS_CLONE3 = 435
UNAVAILABLE = {errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG, errno.EOPNOTSUPP}

# PyDLL keeps the interpreter's lock: the child must come back holding it.
_libc = ctypes.PyDLL(None, use_errno=True)
_python = ctypes.pythonapi
_NO_SIGNALS = bytes(128)  # a sigset_t


def unblock_signals() -> None:
    """Let every signal through. `signal.pthread_sigmask` also says which ones were blocked, and handles an exception for each
    that has no name: that costs as much as the fork itself."""
    _libc.pthread_sigmask(signal.SIG_SETMASK, _NO_SIGNALS, None)


def fork_into(folder: str) -> int | None:
    """Like os.fork, the child being a member of the cgroup v2 `folder`; None (in the parent, with
    no child) where the kernel cannot do that. For a process with one thread."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # struct clone_args: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size,
        # tls, set_tid, set_tid_size, cgroup.
        request = struct.pack("@11Q", CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, *[0] * 5, fd)
        _python.PyOS_BeforeFork()
        pid = int(_libc.syscall(SYS_CLONE3, request, len(request)))
        if pid == 0:
            _python.PyOS_AfterFork_Child()
            return 0
        code = ctypes.get_errno()
        _python.PyOS_AfterFork_Parent()
    finally:
        os.close(fd)
    if pid > 0:
        return pid
    if code in UNAVAILABLE:
        return None
    raise OSError(code, f"cannot fork: {os.strerror(code)}")
