"""What the kernel counts of a control group: v2, v1, or both where a machine is hybrid.

A run has its group in the v2 hierarchy and, where its limits are in v1, folders there too. Each figure is read where the kernel has it;
one that no file has is not there. Nothing here raises: a group may go at any moment.
"""

import os
import time
from collections.abc import Mapping

from msgspec import Struct

from lattice.agent.shim.hierarchies import read_bytes
from lattice.agent.telemetry.sources.numa import add_of_group
from lattice.agent.telemetry.sources.processes import ProcessSums, read_processes
from lattice.core.model.telemetry.rates import Reading

_MICRO = 1e-6
_MAX_FOLDERS = 256
# Share of time in percent, from a counter in microseconds: 1e-6 s/us * 100.
_PERCENT_OF_US = 1e-4
_PRESSURES = (("cpu_pressure", "cpu.pressure"), ("memory_pressure", "memory.pressure"), ("io_pressure", "io.pressure"))


class GroupPlace(Struct, frozen=True, kw_only=True):
    """Where a run's group lies: its folder in v2, empty without cgroups, and those in v1 by controller."""

    path: str = ""
    twins: Mapping[str, str] = {}


def read_group(place: GroupPlace) -> Reading:
    """What the group used up to now, and what it uses at this moment."""
    reading = Reading(at_s=time.monotonic(), counters={}, gauges={})
    _add_cpu(reading, place)
    _add_memory(reading, place)
    for metric, file in _PRESSURES:
        waited_us = pressure_us(f"{place.path}/{file}")
        if waited_us is not None:
            reading.counters[metric, ""] = waited_us * _PERCENT_OF_US
    io = _io(f"{place.path}/io.stat")
    if io is not None:
        reading.counters["io_read_bytes", ""], reading.counters["io_write_bytes", ""] = io
    count = _figure(f"{place.twins.get('pids', place.path)}/pids.current")
    if count is not None:
        reading.gauges["processes", ""] = float(count)
    add_processes(reading, read_processes(group_pids(place.path)), has_storage=io is not None)
    return reading


def add_processes(reading: Reading, sums: ProcessSums, *, has_storage: bool = False) -> None:
    """What only the processes know, and what their group does not count."""
    for name, value in sums.counters(has_storage=has_storage).items():
        reading.counters.setdefault(name, value)
    for name, value in sums.gauges().items():
        reading.gauges.setdefault(name, value)


def _add_cpu(reading: Reading, place: GroupPlace) -> None:
    stat = keyed(f"{place.path}/cpu.stat")
    if stat is not None and b"usage_usec" in stat:
        reading.counters["cpus_used", ""] = stat[b"usage_usec"] * _MICRO
    twin = place.twins.get("cpu")
    limits = keyed(f"{twin}/cpu.stat") if twin is not None else stat
    if limits is None:
        return
    # v1 counts nanoseconds, v2 microseconds; a group without a limit is never throttled and has no such line.
    if b"throttled_time" in limits:
        reading.counters["cpu_throttled", ""] = limits[b"throttled_time"] * 1e-7
    elif b"throttled_usec" in limits:
        reading.counters["cpu_throttled", ""] = limits[b"throttled_usec"] * _PERCENT_OF_US


def _add_memory(reading: Reading, place: GroupPlace) -> None:
    twin = place.twins.get("memory")
    stat = keyed(f"{twin or place.path}/memory.stat")
    if stat is None:
        return
    is_old = twin is not None
    own = stat.get(b"total_rss" if is_old else b"anon")
    shared = stat.get(b"total_shmem" if is_old else b"shmem", 0)
    if own is not None:
        reading.gauges["memory_used", ""] = float(own + shared)
    cache = stat.get(b"total_cache" if is_old else b"file")
    if cache is not None:
        reading.gauges["memory_cache", ""] = float(max(0, cache - shared))
    add_of_group(reading, twin or place.path, is_old=is_old)
    faults = stat.get(b"total_pgfault" if is_old else b"pgfault")
    if faults is not None:
        reading.counters["page_faults", ""] = float(faults)


def group_pids(path: str) -> list[int]:
    """The processes of a group and of those below it."""
    found: list[int] = []
    folders = [path]
    for folder in folders:
        try:
            found.extend(map(int, read_bytes(f"{folder}/cgroup.procs").split()))
            with os.scandir(folder) as entries:
                folders.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue
        if len(folders) > _MAX_FOLDERS:
            break
    return found


def keyed(path: str) -> dict[bytes, int] | None:
    """A file of "key value" lines; None where there is none."""
    try:
        lines = read_bytes(path).splitlines()
    except OSError:
        return None
    pairs = (line.split() for line in lines)
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def pressure_us(path: str) -> int | None:
    """How long some task waited, of a file of the kernel's pressure information."""
    try:
        text = read_bytes(path)
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(b"some"):
            total = line.rpartition(b"total=")[2]
            return int(total) if total.isdigit() else None
    return None


def _io(path: str) -> tuple[float, float] | None:
    """Bytes read and written on all devices; None where the group has no counter."""
    try:
        words = read_bytes(path).split()
    except OSError:
        return None
    sums = {b"rbytes": 0, b"wbytes": 0}
    for word in words:
        name, _, figure = word.partition(b"=")
        if name in sums and figure.isdigit():
            sums[name] += int(figure)
    return float(sums[b"rbytes"]), float(sums[b"wbytes"])


def _figure(path: str) -> int | None:
    try:
        return int(read_bytes(path))
    except (OSError, ValueError):
        return None
