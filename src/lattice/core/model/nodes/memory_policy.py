"""Where the memory of a run's processes comes from: the words that users write, and what they mean for a node.

`local` is the memory of the CPU that a process runs on, `interleave` all NUMA nodes in turn, `preferred` one of them first, `bind`
these and no others. Without a number the last two mean the NUMA nodes of the run's own CPUs. See docs/architecture/nodes.md.
"""

from typing import NamedTuple

LOCAL, INTERLEAVE, PREFERRED, BIND = "local", "interleave", "preferred", "bind"
KINDS = (LOCAL, INTERLEAVE, PREFERRED, BIND)
NUMBERED = (PREFERRED, BIND)
PREFER_LOCAL = "prefer_local"  # a wish: where it means nothing, nothing is done
FEATURE = "memory_policy"  # of a node whose kernel knows policies
MAX_NUMA_NODE = 1023


class MemoryPolicy(NamedTuple):
    kind: str
    numa_nodes: tuple[int, ...] = ()  # as they were named


def read_policy(text: str) -> MemoryPolicy:
    """`bind:0-1,3` in its parts. Raises ValueError with the reason."""
    kind, colon, numbers = text.partition(":")
    if kind not in KINDS:
        raise ValueError(f'"{kind[:40]}" is not a memory policy')
    if not colon:
        return MemoryPolicy(kind)
    if kind not in NUMBERED:
        raise ValueError(f"{kind} takes no NUMA nodes")
    named = sorted({number for part in numbers.split(",") for number in _span(part)})
    if kind == PREFERRED and len(named) > 1:
        raise ValueError("preferred takes one NUMA node")
    return MemoryPolicy(kind, tuple(named))


def _span(part: str) -> range:
    first, dash, last = part.partition("-")
    last = last if dash else first
    digits = all(each.isascii() and each.isdigit() and len(each) < 6 for each in (first, last))
    if not digits or not int(first) <= int(last) <= MAX_NUMA_NODE:
        raise ValueError(f'"{part[:40]}" is not a NUMA node from 0 to {MAX_NUMA_NODE}, nor a range of them')
    return range(int(first), int(last) + 1)


def chosen_nodes(policy: MemoryPolicy, own: tuple[int, ...], present: tuple[int, ...]) -> tuple[int, ...]:
    """The NUMA nodes that the policy means, of those that are `present`; `own` are those of the run's CPUs. Raises ValueError."""
    strange = [number for number in policy.numa_nodes if number not in present]
    if strange:
        there = ", ".join(map(str, present))
        raise ValueError(f"there is no NUMA node {strange[0]} on this node, only {there}")
    if policy.kind == LOCAL:
        return ()
    if policy.kind == INTERLEAVE:
        return present
    nodes = policy.numa_nodes or own or present
    return nodes[:1] if policy.kind == PREFERRED else nodes
