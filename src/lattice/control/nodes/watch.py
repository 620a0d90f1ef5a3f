"""Turns silence into node states: Ready becomes Degraded after the time-out, and Down after the grace period. A node that boots has
the boot time-out instead, whether its agent is silent or waits for its checks.

No node is blamed for what the server missed: all nodes get a fresh time-out when it starts, when it takes over, when it
finds that it was itself held up, and as long as it cannot record anything (agents cannot register then either). A node that changes
hands between operator and agent (down, enabled again) is made to register again, so that what still runs there is compared first.
"""

import asyncio
import heapq
import logging
import math
from collections.abc import Callable

from lattice.control.loop import Guard, keep_turning
from lattice.control.nodes.timers import KEYS, NodeTimers
from lattice.core.machine.commands import DegradeNode, DownNode, Envelope, FailBoot
from lattice.core.machine.events import AnyEvent, NodeMoved, SettingSet
from lattice.core.machine.transitions import NodeTrigger
from lattice.core.model.nodes.nodes import DownCause, Node, NodeState
from lattice.core.model.nodes.observations import Observations
from lattice.ports.clock import Clock
from lattice.ports.nodes.agents import AgentLinks
from lattice.ports.quorum.log import LogError
from lattice.ports.quorum.replica import Replica

_log = logging.getLogger(__name__)

ACTOR = "node_watch"
RETRY_S = 1.0  # a node that could not be judged is looked at again
# As long as a crowd of agents may keep the server from judging silence.
MAX_CROWD_S = 300.0
_WATCHED = frozenset({NodeState.READY, NodeState.DEGRADED, NodeState.BOOTING, NodeState.DRAINING})

_Verdict = DegradeNode | DownNode | FailBoot


class NodeWatch:
    """Looks at a node only when its time may be over: a heap of the earliest moments.

    `moving_s` is the time that agents may need to find this server, on top of their first time-out; `why_not_ready` says what keeps a
    node from being confirmed, as far as it is known; `is_crowded` whether agents stand in line to register.
    """

    def __init__(
        self,
        replica: Replica,
        links: AgentLinks,
        observations: Observations,
        clock: Clock,
        timers: NodeTimers,
        *,
        moving_s: float = 0.0,
        why_not_ready: Callable[[str], str] = lambda node: "",
        is_crowded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._replica = replica
        self._links = links
        self._observations = observations
        self._clock = clock
        self._timers = timers
        self._moving_s = moving_s
        self._why_not_ready = why_not_ready
        self._is_crowded = is_crowded
        self._guard = Guard(ACTOR)
        self._crowded_since: float | None = None
        self._last_crowd = 0.0
        self._fresh_since = 0.0
        self._booting: dict[str, float] = {}  # since when
        self._due: list[tuple[float, str]] = []
        self._queued: dict[str, float] = {}  # node to its moment in the heap
        self._last_look = 0.0
        replica.subscribe(self._note, of=(NodeMoved, SettingSet))
        self.reset()

    def reset(self) -> None:
        """Gives every node a fresh time-out."""
        self._last_look = self._clock.monotonic_s()
        self._fresh_since = self._last_look + self._moving_s
        self._booting.clear()
        self._watch_all()

    def _watch_all(self) -> None:
        for node in self._replica.state.nodes.values():
            self._watch(node)

    @property
    def _tick_s(self) -> float:
        return min(0.25, self._timers.shortest_s / 10)

    async def run(self) -> None:
        self.reset()
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        await asyncio.sleep(self._tick_s)
        await self.look()

    async def look(self) -> None:
        """Proposes what silence has come to by now."""
        now = self._clock.monotonic_s()
        held_up_s = now - self._last_look - self._tick_s
        self._last_look = now
        if held_up_s > max(1.0, self._timers.current.timeout_s / 4):
            # Heartbeats that came meanwhile are still unread; a pause of this process is not a node's silence.
            _log.warning("the server was held up for %.1f s; nodes get a fresh time-out", held_up_s)
            self._fresh_since = max(self._fresh_since, now)
        self._bear_with_crowds(now)
        commands = self._overdue(now)
        if not commands:
            return
        try:
            await self._replica.propose_many(commands, ACTOR)
        except LogError:
            self._fresh_since = max(self._fresh_since, self._clock.monotonic_s())
            raise
        finally:
            for command in commands:
                node = self._replica.state.nodes.get(command.node)
                if node is not None:
                    self._watch(node)

    def _bear_with_crowds(self, now: float) -> None:
        """While agents queue to register, none is blamed for the delay, up to a limit: some may never come, and others keep coming."""
        if not self._is_crowded():
            if now - self._last_crowd >= self._timers.current.timeout_s:
                self._crowded_since = None
            return
        self._last_crowd = now
        if self._crowded_since is None:
            self._crowded_since = now
        if now - self._crowded_since <= MAX_CROWD_S:
            self._fresh_since = max(self._fresh_since, now)

    def _overdue(self, now: float) -> list[_Verdict]:
        commands: list[_Verdict] = []
        while self._due and self._due[0][0] <= now:
            moment, name = heapq.heappop(self._due)
            if self._queued.get(name) != moment:
                continue
            del self._queued[name]
            with self._guard.item(name):
                verdict = self._judge(name, now)
                if verdict is not None:
                    commands.append(verdict)
                continue
            self._queue(name, now + RETRY_S)
        return commands

    def _judge(self, name: str, now: float) -> _Verdict | None:
        node = self._replica.state.nodes.get(name)
        if node is None or node.state not in _WATCHED:
            return None
        if self._deadline(node) > now:
            self._watch(node)
            return None
        verdict = self._verdict(node, now)
        _log.debug("its time as %s is over: %s", node.state, verdict.reason, extra={"node_id": name})
        return verdict

    def _verdict(self, node: Node, now: float) -> _Verdict:
        reason = f"no heartbeat for {now - self._heard(node.id):.0f} s"
        if node.state is NodeState.BOOTING:
            return FailBoot(node=node.id, reason=self._boot_trouble(node))
        if node.state is NodeState.READY:
            return DegradeNode(node=node.id, reason=reason)
        return DownNode(node=node.id, cause=DownCause.SILENCE, reason=reason)

    def _heard(self, node: str) -> float:
        observation = self._observations.get(node)
        heard = self._fresh_since if observation is None else observation.last_heard
        return max(heard, self._fresh_since)

    def _boot_trouble(self, node: Node) -> str:
        limit = f"within {self._timers.current.boot_timeout_s:g} s"
        observation = self._observations.get(node.id)
        why = self._why_not_ready(node.id)
        if node.awaits_reboot:
            return f"it was not rebooted {limit}"
        if why:
            return f"not ready {limit}: {why}"
        is_there = observation is not None and observation.connected
        return f"its agent confirmed nothing {limit}" if is_there else f"its agent was not there {limit}"

    def _deadline(self, node: Node) -> float:
        if node.state is NodeState.BOOTING:
            since = self._booting.setdefault(node.id, self._clock.monotonic_s())
            return max(since, self._fresh_since) + self._timers.current.boot_timeout_s
        return self._heard(node.id) + self._timers.wait_s(node)

    def _watch(self, node: Node) -> None:
        if node.state not in _WATCHED:
            return
        now = self._clock.monotonic_s()
        with self._guard.item(node.id):
            # Whose node it is, and with that its timer, may change while it waits.
            again = now + self._timers.current.timeout_s + self._timers.current.grace_s
            self._queue(node.id, min(self._deadline(node), again))
            return
        self._queue(node.id, now + RETRY_S)

    def _queue(self, node: str, moment: float) -> None:
        if moment < self._queued.get(node, math.inf):
            self._queued[node] = moment
            heapq.heappush(self._due, (moment, node))

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, SettingSet) and event.key in KEYS.values():
                self._watch_all()
            if not isinstance(event, NodeMoved):
                continue
            self._booting.pop(event.node, None)
            self._watch(self._replica.state.nodes[event.node])
            if event.state is NodeState.DOWN:
                self._links.close(event.node, f"the node is Down: {event.reason or event.trigger}")
            elif event.state is NodeState.BOOTING and event.trigger is not NodeTrigger.REGISTERED:
                self._links.close(event.node, "the node is wanted again; register")
