"""Becomes the given program, after it has asked the kernel to be killed with its parent.

Run by path, in an interpreter of its own: `python -I -S etcd_launch.py PARENT PROGRAM ARGUMENT...`. A function between fork and
exec of the server would run among the threads of gRPC, which do not survive a fork.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, program = int(sys.argv[1]), sys.argv[2]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"{program}: cannot be tied to its server: {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the kernel was asked.
    if os.getppid() != parent:
        sys.exit(f"{program}: its server is gone")
    # Signals that the server ignores or blocks are none of the program's business.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvp(program, sys.argv[2:])  # noqa: S606 - an argument vector, no shell


if __name__ == "__main__":
    main()
