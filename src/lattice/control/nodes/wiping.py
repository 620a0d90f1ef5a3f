"""Has nodes wiped that owe it: asks the site's wiper, and records what came of it. Leader only.

A wipe that another leader began is begun again; its time-out counts, across leaders, from when it could be performed: a node that
still worked, or was Down, when it was asked for has all its time afterwards. Without a wiper a node is quarantined, until an operator answers
for having wiped it by hand.
"""

import asyncio
import logging

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.control.settings import seconds_setting
from lattice.core.machine.commands import Envelope, FinishWipe
from lattice.core.machine.events import AnyEvent, NodeMoved
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.nodes import Node, NodeState, Wipe
from lattice.ports.clock import Clock
from lattice.ports.nodes.wiper import WipeFailed, WipeOrder, Wiper
from lattice.ports.quorum.replica import Replica

_log = logging.getLogger(__name__)

ACTOR = "wiping"
TIMEOUT = "sensitive.wipe_timeout_s"
RETRY_S = 5.0  # an outcome that could not be recorded is tried again


class Wiping:
    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        wiper: Wiper | None,
        *,
        timeout_s: float = 1800.0,
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._wiper = wiper
        self._timeout_s = timeout_s
        self._alarm = Alarm()
        self._guard = Guard(ACTOR)
        self._owing: dict[str, None] = {}
        self._under_way: dict[str, tuple[int, asyncio.Task[None]]] = {}  # node to the wipe and what performs it
        replica.subscribe(self._note, of=(NodeMoved,))
        self.reset()

    def reset(self) -> None:
        """Looks for nodes that owe a wipe; for a server that takes over."""
        self._owing = {node.id: None for node in self._replica.state.nodes.values() if _due(node) is not None}
        self._alarm.ring()

    async def run(self) -> None:
        self.reset()
        try:
            await keep_turning(ACTOR, self._turn)
        finally:
            await self._stop()

    async def _turn(self) -> None:
        await self._alarm.wait(RETRY_S if self._owing else None)
        await self.look()

    async def look(self) -> None:
        """Begins what is owed and not under way."""
        for name in list(self._owing):
            with self._guard.item(name):
                self._begin(name)

    def _begin(self, name: str) -> None:
        node = self._replica.state.nodes.get(name)
        wipe = _due(node) if node is not None else None
        if node is None or wipe is None:
            del self._owing[name]
        elif self._is_idle(name, wipe):
            task = asyncio.create_task(self._perform(node, wipe))
            self._under_way[name] = (wipe.since, task)

    def _is_idle(self, name: str, wipe: Wipe) -> bool:
        since, task = self._under_way.get(name, (0, None))
        if task is None or task.done():
            return True
        if since != wipe.since:
            task.cancel()  # an operator wants another one
        return False

    async def _perform(self, node: Node, wipe: Wipe) -> None:
        try:
            said = await self._wiped(node, wipe)
            outcome = FinishWipe(node=node.id, since=wipe.since, is_wiped=True, reason=said)
        except WipeFailed as error:
            _log.error("the wipe failed: %s", error, extra={"node_id": node.id})
            outcome = FinishWipe(node=node.id, since=wipe.since, is_wiped=False, reason=str(error))
        except Exception as error:  # noqa: BLE001 - the edge of the task; the node still owes it and is looked at again
            self._guard.failed(error, f"the wipe of {node.id}")
            return
        self._guard.passed(f"the wipe of {node.id}")
        try:
            await self._replica.propose(outcome, actor=ACTOR)
        except Exception as error:  # noqa: BLE001 - the edge of the task; the node still owes it and is looked at again
            _log.warning("the outcome of a wipe was not recorded: %s", error, extra={"node_id": node.id})

    async def _wiped(self, node: Node, wipe: Wipe) -> str:
        if self._wiper is None:
            if wipe.is_forced:
                return f"wiped by hand, says {wipe.by}"
            raise WipeFailed(
                f"no wiper is configured: wipe it by hand, then `lattice admin node wipe {node.id} --force`"
            )
        limit_s = seconds_setting(self._replica.state, TIMEOUT, self._timeout_s)
        began = max(wipe.since, node.changed_at)
        left_s = limit_s - max(0, self._clock.now_ms() - began) / 1000
        if left_s <= 0:
            raise WipeFailed(f"not confirmed within {limit_s:g} s")
        order = WipeOrder(node=node.id, address=node.address, why=wipe.why, since=wipe.since, tries=wipe.tries)
        return await self._wiper.wipe(order, left_s)

    async def _stop(self) -> None:
        tasks = [task for _, task in self._under_way.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._under_way.clear()

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, NodeMoved) and event.state is NodeState.DRAINED and event.wipe is not None:
                self._owing[event.node] = None
                self._alarm.ring()
            elif isinstance(event, NodeMoved) and event.trigger in (NodeTrigger.WIPED, NodeTrigger.WIPE_FAILED):
                self._owing.pop(event.node, None)


def _due(node: Node) -> Wipe | None:
    """The wipe that can be performed now."""
    return node.wipe if node.state is NodeState.DRAINED else None
