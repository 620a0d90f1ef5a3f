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
        while rank < self.size:
            for hand, count in zip(hands, self.counts, strict=True):
                if len(hand) < count:
                    hand.append(rank)
                    rank += 1
        return tuple(map(tuple, hands))


class Misfit(Struct, frozen=True, kw_only=True):
    """Why there is no layout."""

    message: str
    requested: str = ""
    limit: str = ""
    hint: str = ""


def lay_out(task_request: TaskRequest, cpus: Sequence[tuple[str, int]]) -> Layout | Misfit:
    """The layout on nodes with so many CPUs each, in the allocation's order; a Misfit says what is wrong with the request."""
    chosen = _chosen(task_request, cpus)
    if isinstance(chosen, Misfit):
        return chosen
    tasks = task_request.tasks or (task_request.tasks_per_node or 1) * len(chosen)
    if tasks > MAX_TASKS:
        return Misfit(message="too many tasks", requested=f"{tasks:,} tasks", limit=f"{MAX_TASKS:,} tasks")
    room = [_room(task_request, count) for _, count in chosen]
    if tasks > sum(room):
        return _too_many(task_request, tasks, chosen, sum(room))
    if tasks < len(chosen) and not task_request.nodes and not task_request.node_list:
        roomy = [place for place, most in enumerate(room) if most][:tasks]
        chosen, room = [chosen[place] for place in roomy], [room[place] for place in roomy]
    elif tasks < len(chosen):
        return Misfit(
            message="fewer tasks than nodes",
            requested=f"{tasks} tasks on {len(chosen)} nodes",
            hint="ask for fewer nodes or more tasks",
        )
    counts = _dealt(tasks, room)
    used = [(node, count) for (node, _), count in zip(chosen, counts, strict=True) if count]
    return Layout(
        nodes=tuple(node for node, _ in used),
        counts=tuple(count for _, count in used),
        distribution=task_request.distribution,
    )


def _chosen(task_request: TaskRequest, cpus: Sequence[tuple[str, int]]) -> list[tuple[str, int]] | Misfit:
    known = dict(cpus)
    for node in task_request.node_list:
        if node not in known:
            return Misfit(
                message=f'node "{node[:64]}" is not part of the allocation', hint=f"its nodes: {_names(known)}"
            )
    chosen = [(node, known[node]) for node in dict.fromkeys(task_request.node_list)] or list(cpus)
    if task_request.nodes > len(chosen):
        return Misfit(
            message="more nodes than the allocation has"
            if not task_request.node_list
            else "more nodes than were named",
            requested=f"{task_request.nodes} nodes",
            limit=f"{len(chosen)} nodes",
        )
    return chosen[: task_request.nodes] if task_request.nodes else chosen


def _names(known: dict[str, int]) -> str:
    names = list(known)
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def _room(task_request: TaskRequest, cpus: int) -> int:
    """Tasks that may run on a node with so many CPUs."""
    by_cpus = MAX_TASKS if task_request.overcommit else cpus // max(1, task_request.cpus_per_task)
    return min(by_cpus, task_request.tasks_per_node) if task_request.tasks_per_node else by_cpus


def _too_many(task_request: TaskRequest, tasks: int, chosen: list[tuple[str, int]], room: int) -> Misfit:
    total = sum(count for _, count in chosen)
    each = f" of {task_request.cpus_per_task} CPUs" if task_request.cpus_per_task > 1 else ""
    narrow = f", {task_request.tasks_per_node} tasks per node" if task_request.tasks_per_node else ""
    return Misfit(
        message="more tasks than fit into the allocation",
        requested=f"{tasks} tasks{each}{narrow}",
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
