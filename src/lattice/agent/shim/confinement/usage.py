"""What the processes of a group have used, as the kernel counts it.

Everything that the kernel counts for the group is read there. Bytes of storage are an exception where the group has no counter of
its own (v1 `blkio`, which would cost every start a move): then those count that the processes' parents waited for.
Standard library only, and no module that is slow to import: the shim lives on this.
"""

from __future__ import annotations

import resource

from lattice.agent.shim.hierarchies import read_bytes, read_figure, read_key

BLOCK_BYTES = 512  # of the kernel's counters of a process


class Usage:
    """None where it was not measured. `throttled_s` is how long the group had to wait for its share of the CPUs."""

    __slots__ = (
        "cpu_s",
        "oom_kills",
        "peak_memory_mb",
        "peak_pids",
        "read_bytes",
        "refused_forks",
        "throttled_s",
        "written_bytes",
    )

    def __init__(self, cpu_s: float | None = None, peak_memory_mb: float | None = None, oom_kills: int = 0) -> None:
        self.cpu_s = cpu_s
        self.peak_memory_mb = peak_memory_mb
        self.oom_kills = oom_kills
        self.throttled_s: float | None = None
        self.peak_pids: int | None = None
        self.refused_forks = 0
        self.read_bytes: int | None = None
        self.written_bytes: int | None = None

    def add_storage(self, read_bytes: int, written_bytes: int) -> None:
        """What the processes themselves count, unless their group does."""
        if self.read_bytes is None:
            self.read_bytes, self.written_bytes = read_bytes, written_bytes

    def figures(self) -> dict[str, object]:
        """What was measured, in the words of a record."""
        figures: dict[str, object] = {}
        if self.throttled_s is not None:
            figures["throttled_s"] = round(self.throttled_s, 6)
        if self.refused_forks:
            figures["refused_forks"] = self.refused_forks
        for name in ("peak_pids", "read_bytes", "written_bytes"):
            value = getattr(self, name)
            if value is not None:
                figures[name] = value
        return figures


def read_usage(path: str, twins: dict[str, str], held: tuple[str, ...], max_pids: int = 0) -> Usage:
    """Of the group at `path` in the v2 hierarchy, whose folders in v1 hierarchies are `twins`; `held` are the controllers it has.

    Every run waits for this at its end: what cannot have happened is not read. `max_pids` is the limit of its processes, 0 = not known.
    """
    cpu_us = read_key(f"{path}/cpu.stat", b"usage_usec")
    usage = Usage(cpu_us / 1e6 if cpu_us else None)
    if "memory" in held:
        _read_memory(usage, path, twins.get("memory"))
    if "cpu" in held:
        if "cpu" in twins:
            usage.throttled_s = read_key(f"{twins['cpu']}/cpu.stat", b"throttled_time") / 1e9
        else:
            usage.throttled_s = read_key(f"{path}/cpu.stat", b"throttled_usec") / 1e6
    if "pids" in held:
        folder = twins.get("pids", path)
        usage.peak_pids = read_figure(f"{folder}/pids.peak") or None
        if usage.peak_pids is None or usage.peak_pids >= max_pids:
            usage.refused_forks = read_key(f"{folder}/pids.events", b"max")
    if "io" in held and "io" not in twins:  # in v1 what goes through the cache of the kernel is not counted
        usage.read_bytes, usage.written_bytes = _read_io(f"{path}/io.stat")
    return usage


def _read_memory(usage: Usage, path: str, twin: str | None) -> None:
    if twin is not None:
        peak = read_figure(f"{twin}/memory.max_usage_in_bytes")
        usage.oom_kills = read_key(f"{twin}/memory.oom_control", b"oom_kill")
    else:
        peak = read_figure(f"{path}/memory.peak")
        usage.oom_kills = read_key(f"{path}/memory.events", b"oom_kill")
    usage.peak_memory_mb = peak / (1 << 20) if peak else None


def _read_io(path: str) -> tuple[int, int]:
    """Bytes read and written, on all devices."""
    sums = {b"rbytes": 0, b"wbytes": 0}
    try:
        words = read_bytes(path).split()
    except OSError:
        return 0, 0
    for word in words:
        name, _, figure = word.partition(b"=")
        if name in sums and figure.isdigit():
            sums[name] += int(figure)
    return sums[b"rbytes"], sums[b"wbytes"]


def storage_of(pids: list[int]) -> tuple[int, int]:
    """Bytes that living processes, and children they waited for, have read from and written to storage."""
    read = written = 0
    for pid in pids:
        read += read_key(f"/proc/{pid}/io", b"read_bytes:")
        written += read_key(f"/proc/{pid}/io", b"write_bytes:")
    return read, written


def waited_storage(used: resource.struct_rusage | None) -> tuple[int, int]:
    """The same of a process that has ended."""
    return (0, 0) if used is None else (used.ru_inblock * BLOCK_BYTES, used.ru_oublock * BLOCK_BYTES)
