"""Has nodes rebooted that an operator ordered to be: tells a program of the site which. Leader only.

The program gets one JSON document, `{"order": "reboot", "nodes": [{"node", "address", "reason", "by"}]}`, with all that were ordered
meanwhile. When it fails, the boots of these nodes have failed. Without a program the nodes wait to be rebooted by hand. Orders
of the last minute are repeated by a new leader: the previous one may not have executed them.
"""

import asyncio
import logging

import msgspec
from msgspec import Struct

from lattice.control.loop import Alarm, Guard, keep_turning
from lattice.core.machine.commands import Envelope, FailBoot
from lattice.core.machine.events import AnyEvent, NodeMoved
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.site_program import ProgramFailed, SiteProgram

ACTOR = "rebooting"
MAX_BATCH = 1_000
MERGE_S = 0.05  # a set of nodes comes in several entries of the log
REPEATED_MS = 60_000

_log = logging.getLogger(__name__)


class NodeToReboot(Struct, frozen=True, kw_only=True):
    node: str
    address: str
    reason: str
    by: str


class RebootDocument(Struct, frozen=True, kw_only=True):
    nodes: list[NodeToReboot]
    order: str = "reboot"


class Rebooting:
    def __init__(self, replica: Replica, clock: Clock, program: SiteProgram | None) -> None:
        self._replica = replica
        self._clock = clock
        self._program = program
        self._ordered: dict[str, NodeToReboot] = {}
        self._alarm = Alarm()
        self._guard = Guard(ACTOR)
        replica.subscribe(self._note, of=(NodeMoved,))

    def reset(self) -> None:
        """Takes up what was ordered a moment ago; for a server that takes over."""
        self._ordered.clear()
        since = self._clock.now_ms() - REPEATED_MS
        for name, node in self._replica.state.nodes.items():
            with self._guard.item(name):
                self._take_up(name, node, since)

    def _take_up(self, name: str, node: Node, since: int) -> None:
        # Never one that is back from its reboot already, or that may have work again.
        is_waiting = node.awaits_reboot or (node.state is NodeState.BOOTING and not node.boot_id)
        history = self._replica.state.node_history(name) if is_waiting else ()
        for entry in history:
            if entry.trigger == NodeTrigger.REBOOT and entry.at >= since:
                self._order(name, entry.why, entry.by)

    async def run(self) -> None:
        self.reset()
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        await self._alarm.wait(None)
        await asyncio.sleep(MERGE_S)
        await self.perform()

    async def perform(self) -> None:
        """Tells the program of everything ordered so far."""
        while self._ordered and self._program is not None:
            names = list(self._ordered)[:MAX_BATCH]
            document = RebootDocument(nodes=[self._ordered.pop(name) for name in names])
            try:
                await self._program.tell(msgspec.json.encode(document))
            except ProgramFailed as error:
                _log.error("%d nodes were not rebooted: %s", len(names), error)
                commands = [FailBoot(node=name, reason=f"it was not rebooted: {error}") for name in names]
                await self._replica.propose_many(commands, ACTOR)
            except Exception:
                # Told again with the next turn: a reboot that is ordered twice is one.
                self._ordered = {order.node: order for order in document.nodes} | self._ordered
                self._alarm.ring()
                raise

    def _order(self, name: str, reason: str, by: str) -> None:
        if self._program is None:
            return
        address = self._replica.state.nodes[name].address
        self._ordered[name] = NodeToReboot(node=name, address=address, reason=reason, by=by)
        self._alarm.ring()

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, NodeMoved) and event.trigger is NodeTrigger.REBOOT:
                self._order(event.node, event.note, event.actor)
