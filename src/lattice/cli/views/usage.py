"""What work uses while it runs, as it is shown."""

from collections.abc import Sequence

from lattice.cli.times import clock_text
from lattice.cli.views.allocations import NAMED_NODES, bytes_text
from lattice_sdk.models.runs import GroupUse, LiveUsage


def ranges_text(numbers: Sequence[int]) -> str:
    """0,1,2,5 as 0-2,5."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def live_pairs(usage: LiveUsage) -> list[tuple[str, str]]:
    """The whole run, and each of its steps on a line; nothing where no node measured anything."""
    whole = usage.of_step()
    pairs = [("Uses now", uses_text(whole))] if whole else []
    pairs += [("Storage", _storage_text(whole))] if whole else []
    for step in sorted({use.step for use in usage.items if use.step is not None}):
        pairs.append((f"Step {usage.id}.{step}", uses_text(usage.of_step(step))))
    for use in whole[:NAMED_NODES]:
        held = [
            f"CPUs {ranges_text(use.cpus)}" if use.cpus else "",
            f"GPUs {ranges_text(use.gpus)}" if use.gpus else "",
        ]
        pairs.append((f"Has on {use.node}", ", ".join(filter(None, held))))
    if usage.unreachable:
        pairs.append(("No answer", ",".join(usage.unreachable)))
    return [(name, text) for name, text in pairs if text]


def uses_text(uses: Sequence[GroupUse]) -> str:
    """Amounts are those of all nodes together."""
    throttled_s = sum(use.throttled_s for use in uses)
    memory_mb, peak_mb = sum(use.memory_mb for use in uses), sum(use.peak_memory_mb for use in uses)
    parts = [f"CPU time {clock_text(sum(use.cpu_s for use in uses))}"]
    parts += [f"throttled {throttled_s:.1f} s"] if throttled_s else []
    parts += [f"memory {memory_mb:.0f} MB (peak {peak_mb:.0f} MB)"] if memory_mb or peak_mb else []
    pids, most = sum(use.pids for use in uses), sum(use.peak_pids for use in uses)
    parts += [f"{pids} {'process' if pids == 1 else 'processes'}" + (f" (most {most})" if most else "")] if pids else []
    return ", ".join(parts)


def _storage_text(uses: Sequence[GroupUse]) -> str:
    read, written = sum(use.read_bytes for use in uses), sum(use.written_bytes for use in uses)
    return f"{bytes_text(read)} read, {bytes_text(written)} written" if read or written else ""
