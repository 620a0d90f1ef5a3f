"""Which ranks of a step are on which node, in the words that MPI libraries and people read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lattice.agent.shim.pmi.requests import MAX_VALUE


def process_mapping(node_ranks: Sequence[Sequence[int]]) -> str:
    """PMI_process_mapping: `(vector,(first node, nodes, ranks on each),...)`, repeated until all ranks have a node.

    Empty when it does not fit into a value; libraries then compare host names.
    """
    node_of: dict[int, int] = {rank: node for node, ranks in enumerate(node_ranks) for rank in ranks}
    runs: list[list[int]] = []  # [node, consecutive ranks there]
    for rank in range(len(node_of)):
        if runs and runs[-1][0] == node_of[rank]:
            runs[-1][1] += 1
        else:
            runs.append([node_of[rank], 1])
    blocks: list[list[int]] = []
    for node, count in _once(runs):
        if blocks and blocks[-1][2] == count and blocks[-1][0] + blocks[-1][1] == node:
            blocks[-1][1] += 1
        else:
            blocks.append([node, 1, count])
    text = "(vector," + ",".join(f"({first},{nodes},{count})" for first, nodes, count in blocks) + ")"
    return text if len(text) <= MAX_VALUE else ""


def _once(runs: list[list[int]]) -> list[list[int]]:
    """The part of a sequence that repeats itself to its end; all of it where there is none. Only one that begins with the first
    node again can be a period, so few lengths are tried."""
    for length in [place for place, run in enumerate(runs) if place and run == runs[0]][:8]:
        if len(runs) % length == 0 and runs == runs[:length] * (len(runs) // length):
            return runs[:length]
    return runs


def spans(ranks: Iterable[int]) -> list[tuple[int, int]]:
    """First and last of each run of consecutive ranks."""
    found: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if found and found[-1][1] == rank - 1:
            found[-1] = (found[-1][0], rank)
        else:
            found.append((rank, rank))
    return found


def ranks_text(ranks: Iterable[int]) -> str:
    """`rank 3`, or `ranks 4-7,9`."""
    pairs = spans(ranks)
    word = "rank" if len(pairs) == 1 and pairs[0][0] == pairs[0][1] else "ranks"
    return f"{word} " + ",".join(str(first) if first == last else f"{first}-{last}" for first, last in pairs)
