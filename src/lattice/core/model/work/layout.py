"""Decides which ranks of a step run on which nodes of its allocation (docs/architecture/steps.md).

Counts first: tasks are dealt out one by one over the chosen nodes until each has what it may have, so that they differ by
one at most where nodes are alike. Then ranks: `block` gives each node consecutive ranks, `cyclic` deals them round.
"""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from lattice.core.model.work.steps import MAX_TASKS


class Distribution(StrEnum):
    BLOCK = "block"
    CYCLIC = "cyclic"


class TaskRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a step asks for; 0 = not said."""

    tasks: int = 0
    nodes: int = 0
    tasks_per_node: int = 0
    cpus_per_task: int = 1
    node_list: tuple[str, ...] = ()
    distribution: Distribution = Distribution.BLOCK
    overcommit: bool = False  # more tasks than CPUs


class Layout(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many tasks each node has, and by which rule they are numbered."""

    nodes: tuple[str, ...]
    counts: tuple[int, ...]
    distribution: Distribution = Distribution.BLOCK

    @property
    def size(self) -> int:
        return sum(self.counts)

    def ranks(self) -> tuple[tuple[int, ...], ...]:
        """The ranks of each node, rising."""
        if self.distribution is Distribution.BLOCK:
            dealt, first = [], 0
            for count in self.counts:
                dealt.append(tuple(range(first, first + count)))
                first += count
            return tuple(dealt)
        hands: list[list[int]] = [[] for _ in self.counts]
        rank = 0
        open_hands = [each for each in zip(hands, self.counts, strict=True) if each[1] > 0]
        while open_hands:
            for hand, _ in open_hands:
                hand.append(rank)
                rank += 1
            # A node that has enough is not asked again: the work is that of the ranks, however unlike the counts are.
            open_hands = [(hand, count) for hand, count in open_hands if len(hand) < count]
        return tuple(map(tuple, hands))


class Misfit(Struct, frozen=True, kw_only=True):
    """Why there is no layout."""

    message: str
    requested: str = ""
    limit: str = ""
    hint: str = ""


def lay_out(task_request: TaskRequest, cpus: Sequence[tuple[str, int]]) -> Layout | Misfit:
    """The layout on nodes with the given CPUs each, in the allocation's order; a Misfit says why the request does not fit.

    Nodes that were asked for, by number, by name or because each node of the allocation gets its tasks, all get at least one
    task. A step that only says how many tasks it has runs on whichever nodes have room.
    """
    named = _named(task_request, cpus)
    if isinstance(named, Misfit):
        return named
    wanted = task_request.nodes or (len(named) if task_request.node_list or not task_request.tasks else 0)
    tasks = task_request.tasks or (task_request.tasks_per_node or 1) * wanted
    if tasks > MAX_TASKS:
        return Misfit(message="too many tasks", requested=f"{tasks:,} tasks", limit=f"{MAX_TASKS:,} tasks")
    if tasks < wanted:
        return Misfit(
            message="fewer tasks than nodes",
            requested=f"{tasks} tasks on {wanted} nodes",
            hint="ask for fewer nodes or more tasks",
        )
    roomy = [(node, count, most) for node, count in named if (most := _room(task_request, count))]
    chosen = _chosen(roomy, wanted, tasks)
    room = [most for _, _, most in chosen]
    if len(chosen) < wanted or tasks > sum(room):
        return _too_many(
            task_request, tasks, wanted, [(node, count) for node, count, _ in chosen] or named[:wanted], sum(room)
        )
    counts = _dealt(tasks, room)
    used = [(node, count) for (node, _, _), count in zip(chosen, counts, strict=True) if count]
    return Layout(
        nodes=tuple(node for node, _ in used),
        counts=tuple(count for _, count in used),
        distribution=task_request.distribution,
    )


def _named(task_request: TaskRequest, cpus: Sequence[tuple[str, int]]) -> list[tuple[str, int]] | Misfit:
    """The nodes that the step may use."""
    known = dict(cpus)
    for node in task_request.node_list:
        if node not in known:
            return Misfit(
                message=f'node "{node[:64]}" is not part of the allocation', hint=f"its nodes: {_names(known)}"
            )
    named = [(node, known[node]) for node in dict.fromkeys(task_request.node_list)] or list(cpus)
    if task_request.nodes > len(named):
        return Misfit(
            message="more nodes than the allocation has"
            if not task_request.node_list
            else "more nodes than were named",
            requested=f"{task_request.nodes} nodes",
            limit=f"{len(named)} nodes",
        )
    return named


def _chosen(roomy: list[tuple[str, int, int]], wanted: int, tasks: int) -> list[tuple[str, int, int]]:
    """As many nodes as the step wants, the first that have room; where those cannot hold all tasks, the roomiest."""
    chosen = roomy[: wanted or tasks]
    if not wanted or sum(most for _, _, most in chosen) >= tasks:
        return chosen
    widest = {node for node, _, _ in sorted(roomy, key=lambda each: -each[2])[:wanted]}
    return [each for each in roomy if each[0] in widest]


def _names(known: dict[str, int]) -> str:
    names = list(known)
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def _room(task_request: TaskRequest, cpus: int) -> int:
    """Number of tasks that may run on a node with this many CPUs."""
    by_cpus = MAX_TASKS if task_request.overcommit else cpus // max(1, task_request.cpus_per_task)
    return min(by_cpus, task_request.tasks_per_node) if task_request.tasks_per_node else by_cpus


def _too_many(task_request: TaskRequest, tasks: int, wanted: int, chosen: list[tuple[str, int]], room: int) -> Misfit:
    total = sum(count for _, count in chosen)
    each = f" of {task_request.cpus_per_task} CPUs" if task_request.cpus_per_task > 1 else ""
    narrow = f", {task_request.tasks_per_node} tasks per node" if task_request.tasks_per_node else ""
    return Misfit(
        message="more tasks than fit into the allocation",
        requested=f"{tasks} tasks{each}{narrow}{f' on {wanted} nodes' if wanted else ''}",
        limit=f"{room} tasks on {len(chosen)} nodes with {total} CPUs",
        hint="ask for fewer tasks, or --overcommit to let tasks share CPUs",
    )


def _dealt(tasks: int, room: list[int]) -> list[int]:
    """How many of the tasks each node gets: as even as its room allows, earlier nodes first."""
    counts = [0] * len(room)
    left = tasks
    while left:
        open_places = [place for place, most in enumerate(room) if counts[place] < most]
        share = max(1, left // len(open_places))
        for place in open_places:
            more = min(share, room[place] - counts[place], left)
            counts[place] += more
            left -= more
    return counts
