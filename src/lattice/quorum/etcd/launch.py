"""Asks the kernel to be killed with its parent, then executes the given program.

Run by path, in a separate interpreter: `python -I -S etcd_launch.py PARENT PROGRAM ARGUMENT...`. A function between fork and
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
        sys.exit(f"{program}: cannot set the parent death signal: {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the request.
    if os.getppid() != parent:
        sys.exit(f"{program}: its server is gone")
    # The program must not inherit the signals that the server ignores or blocks.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.execvp(program, sys.argv[2:])  # noqa: S606 - an argument vector, no shell


if __name__ == "__main__":
    main()
