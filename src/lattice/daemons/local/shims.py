"""Shims in cluster.json. Agents start them and they outlive the agents, so they are only watched."""

import asyncio

from lattice.agent.runs.process_end import ended
from lattice.daemons.local.layout import Layout
from lattice.daemons.local.processes import is_alive, shim_of
from lattice.daemons.local.record import Record

LOOK_EVERY_S = 0.1


async def watch_shim(layout: Layout, node: str, record: Record) -> None:
    """Looks for a shim only while there is none; the kernel reports its end."""
    address = f"unix:{layout.state_of(node) / 'shim.sock'}"
    while True:
        shim = shim_of(layout, node)
        if shim is not None:
            record.put("shim", node, shim.pid, (address,))
            # A pid that was just reused must not be waited for.
            if is_alive(shim):
                await ended(shim.pid)
            record.drop("shim", node)
        await asyncio.sleep(LOOK_EVERY_S)
