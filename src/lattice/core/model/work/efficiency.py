"""How much of what an allocation held it used, in percent. None where there is nothing to compare with.

See docs/architecture/core.md.
"""

from collections.abc import Mapping, Sequence
from math import isfinite

from lattice.core.model.nodes.nodes import Node, Share


def held_amounts(shares: Sequence[Share], nodes: Mapping[str, Node]) -> tuple[int, int]:
    """CPUs on all nodes together, and memory on the first, where its usage is measured."""
    cpus = sum(nodes[share.node].hardware.cpus if share.whole else share.cpus for share in shares)
    if not shares:
        return 0, 0
    first = shares[0]
    return cpus, nodes[first.node].hardware.memory_mb if first.whole else first.memory_mb


def finite(figure: float) -> float:
    """0 for what is no number: releases before 0.2 took figures of nodes as they came, and records of theirs still hold them."""
    return figure if isfinite(figure) else 0.0


def use_sentence(cpus: int, cpu_s: float, elapsed_s: float, memory_mb: int, peak_memory_mb: int) -> str:
    """What was asked for and what was used of it; empty where that was not measured."""
    if cpus <= 0 or elapsed_s <= 0 or not isfinite(cpu_s) or cpu_s <= 0:
        return ""
    text = f"asked for {cpus} CPU{'s' if cpus > 1 else ''}, used {cpu_s / elapsed_s:.1f}"
    if memory_mb > 0 and peak_memory_mb > 0:
        text += f"; asked for {memory_mb} MB, used {peak_memory_mb} MB"
    return text


def used_percent(used: float, held: float) -> float | None:
    return round(100 * used / held, 1) if held > 0 and isfinite(used) else None
