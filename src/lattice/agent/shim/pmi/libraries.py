"""Whether processes of a step have loaded an MPI library, for the warning that they ran as programs of one rank each.

A process is looked at a few times while no rank has used the step's service: a step that ends soon, or uses it, costs nothing.
"""

from __future__ import annotations

import os

LOOK_AFTER_S = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
MAX_PROCESSES = 8
MAX_MAPS_BYTES = 4 << 20
_PREFIX = b"/libmpi"
_NAMES = (b"libmpi.so", b"libmpich.so", b"libmpi_cray.so", b"libmpi_gnu", b"libmpi_intel")


def loaded_library(folder: str) -> str:
    """The MPI library of a process in the cgroup; empty where none is seen."""
    try:
        with open(f"{folder}/cgroup.procs", "rb") as file:
            pids = [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        return ""
    own = os.getpid()
    for pid in [pid for pid in pids if pid != own][:MAX_PROCESSES]:
        try:
            with open(f"/proc/{pid}/maps", "rb") as file:
                name = library_in(file.read(MAX_MAPS_BYTES))
        except OSError:
            continue
        if name:
            return name
    return ""


def library_in(maps: bytes) -> str:
    """The name of the MPI library among the mapped files."""
    if _PREFIX not in maps:
        return ""
    for line in maps.split(b"\n"):
        name = line.rpartition(b"/")[2]
        if name.startswith(_NAMES):
            return name[:64].decode("ascii", "replace")
    return ""
