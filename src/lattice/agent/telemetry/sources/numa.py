"""Memory by NUMA node: of runs from their groups, of the node from /sys. A machine with one NUMA node has none of these figures."""

import os

from lattice.agent.shim.hierarchies import read_bytes
from lattice.core.model.telemetry.rates import Reading

MAX_NODES = 64
_PAGE = os.sysconf("SC_PAGE_SIZE")


def add_of_group(reading: Reading, folder: str, *, is_old: bool) -> None:
    """Anonymous memory of a group; v1 counts pages, and of the groups below it in lines of their own."""
    wanted = b"hierarchical_anon=" if is_old else b"anon "
    for line in _lines(f"{folder}/memory.numa_stat"):
        if line.startswith(wanted):
            found = [word.partition(b"=") for word in line.split() if word.startswith(b"N")]
            if len(found) > 1:
                for name, _, value in found[:MAX_NODES]:
                    if value.isdigit():
                        used = int(value) * (_PAGE if is_old else 1)
                        reading.gauges["numa_memory", name[1:].decode()] = float(used)


def add_of_node(reading: Reading, root: str) -> None:
    place = f"{root}/sys/devices/system/node"
    try:
        names = sorted(name for name in os.listdir(place) if name.startswith("node") and name[4:].isdigit())
    except OSError:
        return
    if len(names) < 2:
        return
    for name in names[:MAX_NODES]:
        for line in _lines(f"{place}/{name}/meminfo"):
            words = line.split()
            if len(words) >= 4 and words[2] == b"MemUsed:" and words[3].isdigit():
                reading.gauges["numa_memory", name[4:]] = float(int(words[3]) * 1024)
        for line in _lines(f"{place}/{name}/numastat"):
            words = line.split()
            if len(words) == 2 and words[0] == b"numa_miss" and words[1].isdigit():
                reading.counters["numa_misses", name[4:]] = float(int(words[1]))


def _lines(path: str) -> list[bytes]:
    try:
        return read_bytes(path).splitlines()
    except OSError:
        return []
