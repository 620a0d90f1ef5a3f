"""The collector tree: which nodes report to which collector, and which collector is above which.

Shares stay balanced within one node as nodes come and go, and no node changes its collector unless balance requires it: a node that
moves has to stop with one collector before it begins with another, and every move is a moment in which it may be missed.
See docs/architecture/nodes.md.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

DIRECTLY = ""  # in the place of a collector: the server itself


def shares(collectors: Sequence[str], nodes: Sequence[str], previous: Mapping[str, str]) -> dict[str, str]:
    """Each node's collector, all shares alike within one; without collectors every node reports directly.

    As few nodes as possible leave the collector that `previous` names. The same arguments give the same shares.
    """
    if not collectors:
        return dict.fromkeys(nodes, DIRECTLY)
    held: dict[str, list[str]] = {collector: [] for collector in collectors}
    loose: list[str] = []
    for node in nodes:
        held.get(previous.get(node, DIRECTLY), loose).append(node)
    least, larger = divmod(len(nodes), len(collectors))
    # One more for those who have most already: that moves the fewest.
    by_size = sorted(collectors, key=lambda collector: -len(held[collector]))
    room = {collector: least + (place < larger) for place, collector in enumerate(by_size)}
    for collector in collectors:
        loose += held[collector][room[collector] :]
        del held[collector][room[collector] :]
    waiting = iter(loose)
    for collector in collectors:
        held[collector] += islice(waiting, room[collector] - len(held[collector]))
    return {node: collector for collector, members in held.items() for node in members}


def levels(collectors: Sequence[str], fan_out: int, previous: Mapping[str, str]) -> dict[str, str]:
    """Each collector's own collector: the server for the first `fan_out` of them, one of the level above for the others.

    No collector has more than `fan_out` collectors below it, and as many as possible stay at the level they have in `previous`.
    """
    fan_out = max(1, fan_out)
    places = {name: place for place, name in enumerate(collectors)}
    were = {name: depth_of(name, previous) if name in previous else len(places) for name in collectors}
    above: dict[str, str] = {}
    parents: list[str] = []
    rest = list(collectors)
    depth, width = 0, fan_out
    while rest:
        rest.sort(key=lambda name: (abs(were[name] - depth), places[name]))
        level, rest = rest[:width], rest[width:]
        above |= shares(parents, level, previous)
        parents = level
        depth, width = depth + 1, len(level) * fan_out
    return above


def depth_of(name: str, above: Mapping[str, str]) -> int:
    """How many collectors stand above this one; 0 for one that reports to the server itself."""
    depth = 0
    while (name := above.get(name, DIRECTLY)) and depth <= len(above):
        depth += 1
    return depth


def may_bring(carrier: str, collector: str, above: Mapping[str, str]) -> bool:
    """Whether what the collector gathered may come through the carrier: the collector itself, or one above it."""
    for _ in range(len(above) + 1):
        if collector == carrier:
            return True
        collector = above.get(collector, DIRECTLY)
        if not collector:
            return False
    return False
