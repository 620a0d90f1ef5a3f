"""What a group uses while it lives. Standard library only, and no module that is slow to import: the shim lives on this."""

from __future__ import annotations

from lattice.agent.shim.confinement.usage import Usage, storage_of
from lattice.agent.shim.hierarchies import read_bytes, read_figure

PAGE_MB = 4096 / (1 << 20)
TICKS_PER_S = 100


def figures_of_group(usage: Usage, pids: list[int], path: str, twins: dict[str, str]) -> dict[str, object]:
    """As a record has them, and besides these what the group uses at this moment: `memory_mb`, `pids`."""
    twin = twins.get("memory")
    memory = read_figure(f"{path}/memory.current" if twin is None else f"{twin}/memory.usage_in_bytes")
    count = read_figure(f"{twins.get('pids', path)}/pids.current")
    return _figures(usage, pids, memory / (1 << 20), count)


def figures_of_processes(usage: Usage, pids: list[int]) -> dict[str, object]:
    """The same where processes are not in a group of the kernel's."""
    memory_mb, cpu_s = _sum_processes(pids)
    usage.cpu_s = (usage.cpu_s or 0.0) + cpu_s
    return _figures(usage, pids, memory_mb, 0)


def _figures(usage: Usage, pids: list[int], memory_mb: float, count: int) -> dict[str, object]:
    usage.add_storage(*storage_of(pids))
    return {
        "cpu_s": round(usage.cpu_s or 0.0, 6),
        "peak_memory_mb": round(usage.peak_memory_mb or 0.0, 3),
        **usage.figures(),
        "memory_mb": round(memory_mb, 3),
        "pids": count or len(pids),
    }


def _sum_processes(pids: list[int]) -> tuple[float, float]:
    """Memory and CPU time of living processes; pages that they share count for each."""
    memory_mb = cpu_s = 0.0
    for pid in pids:
        try:
            memory_mb += int(read_bytes(f"/proc/{pid}/statm").split()[1]) * PAGE_MB
            fields = read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
        except OSError:
            continue
        cpu_s += (int(fields[11]) + int(fields[12])) / TICKS_PER_S
    return memory_mb, cpu_s
