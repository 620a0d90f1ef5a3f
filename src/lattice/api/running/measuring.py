"""What running work uses: the nodes are asked."""

import asyncio

from lattice.api.services import Services
from lattice.core.model.work.allocations import Allocation
from lattice.ports.nodes.agents import AgentUnreachable, RunKey
from lattice.ports.nodes.measures import GroupUse

CONCURRENCY = 64  # nodes that are asked at the same time


async def measured(services: Services, found: Allocation) -> tuple[list[tuple[str, GroupUse]], list[str]]:
    """What its nodes say, each with its node, and the nodes that did not answer."""
    nodes = found.nodes if found.is_holding else ()
    key = RunKey(found.number, found.run)
    gate = asyncio.Semaphore(CONCURRENCY)

    async def ask(node: str) -> tuple[GroupUse, ...] | None:
        async with gate:
            try:
                return await services.links.measure(node, key)
            except AgentUnreachable:
                return None

    answers = await asyncio.gather(*(ask(node) for node in nodes))
    items = [(node, use) for node, uses in zip(nodes, answers, strict=True) for use in uses or () if use.key == key]
    return items, [node for node, uses in zip(nodes, answers, strict=True) if uses is None]
