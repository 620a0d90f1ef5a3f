"""What a running allocation uses at this moment, as its nodes measure it when they are asked."""

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.find.lookup import find
from lattice.api.running.measuring import measured
from lattice.api.running.step_launch import single
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.efficiency import finite
from lattice.ports.nodes.measures import GroupUse


class LiveUsageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str


class GroupUseView(Struct, frozen=True, kw_only=True, gc=False):
    """What a run or a step uses on one node; `step` is null for the whole run, steps included. 0 also where it is not measured."""

    node: str
    step: int | None
    cpu_s: float
    throttled_s: float  # waited because its share of the CPUs was used up
    memory_mb: float
    peak_memory_mb: float
    read_bytes: int  # from storage
    written_bytes: int
    pids: int  # processes and threads
    peak_pids: int
    cpus: tuple[int, ...]  # empty = not bound to single CPUs
    gpus: tuple[int, ...]


class LiveUsageView(Struct, frozen=True, kw_only=True):
    """By node and step; nothing of an allocation that does not run. `unreachable` are nodes that did not answer."""

    id: str
    items: tuple[GroupUseView, ...]
    unreachable: tuple[str, ...]


async def live_usage(context: Context, request: LiveUsageQuery) -> LiveUsageView:
    """Get what a running allocation and its steps use at this moment, node by node."""
    found = single(await find(context, request.id))
    items, unreachable = await measured(context.services, found)
    return LiveUsageView(
        id=allocation_id(found.number),
        items=tuple(_view(node, use) for node, use in items),
        unreachable=tuple(unreachable),
    )


def _view(node: str, use: GroupUse) -> GroupUseView:
    return GroupUseView(
        node=node,
        step=use.step,
        cpu_s=round(finite(use.cpu_s), 3),
        throttled_s=round(finite(use.throttled_s), 3),
        memory_mb=round(finite(use.memory_mb), 1),
        peak_memory_mb=round(finite(use.peak_memory_mb), 1),
        read_bytes=use.read_bytes,
        written_bytes=use.written_bytes,
        pids=use.pids,
        peak_pids=use.peak_pids,
        cpus=use.cpus,
        gpus=use.gpus,
    )
