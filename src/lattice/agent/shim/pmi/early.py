"""Between fork and exec of a task: a program of Open MPI asks for the PMIx server before it starts, and waits until that is ready.

Its ranks would wait inside MPI_Init otherwise, all of them at once and on CPUs that the server needs. What is not recognised here, a
Python program for instance, starts the server when it connects.
"""

from __future__ import annotations

import os
import select

from lattice.agent.shim.launch import Launch

# What a task says on its PMI socket, and what the service answers when all ranks of the node are registered.
REQUEST = b"cmd=lattice_pmix\n"
READY = b"\n"
# A task that got no answer starts all the same, and connects as any other.
WAIT_S = 2.0
# Names of the libraries that a program needs stand near its beginning.
HEAD_BYTES = 16384
ELF = b"\x7fELF"
OPEN_MPI = (b"libmpi.so.40\0", b"libmpi_mpifh.so.40\0")
MARK = b"PMIX_RANK"  # among the variables of a task whose step offers PMIx


def ask_for_pmix(end: int, launch: Launch) -> None:
    """`end` is the task's of its PMI socket; the first candidate of `launch` that exists will be executed. As the user, who may
    have made the file a pipe: nothing here fails."""
    if MARK not in launch.env or not _is_open_mpi(launch.candidates):
        return
    try:
        os.write(end, REQUEST)
        # Not by select(): on a node with many ranks the number is above what that takes.
        answer = select.poll()
        answer.register(end, select.POLLIN)
        if answer.poll(WAIT_S * 1000):
            os.read(end, len(READY))
    except OSError:
        return


def _is_open_mpi(candidates: list[bytes]) -> bool:
    for path in candidates:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            head = os.read(fd, HEAD_BYTES)
        except OSError:
            return False
        finally:
            os.close(fd)
        return head.startswith(ELF) and any(name in head for name in OPEN_MPI)
    return False
