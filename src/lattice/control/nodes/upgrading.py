"""Leads a rolling upgrade: drains nodes, tells a program of the site which to replace, and watches the figures. Leader only.

The program gets one JSON document, `{"order": "upgrade", "release": "0.3.0", "nodes": [{"node", "address", "release", "former"}]}`. It
replaces the software and restarts the agents; the next batch starts after they have registered with the new release. In an upgrade of
the servers it gets `"servers": [{"server", "address", "release", "former"}]`, never the leader. The record of the upgrade is in the
log, so a new leader continues it; it calls the program again for nodes and servers that have not returned.
"""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from lattice.control.loop import Alarm, keep_turning
from lattice.control.other_servers import OtherServers
from lattice.core.machine.commands import Envelope, TurnUpgrade
from lattice.core.machine.events import AnyEvent, NodeMoved, PartChanged, UpgradeChanged
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.nodes.observations import Observations
from lattice.core.model.site.upgrades import (
    FiguresBefore,
    NodeStep,
    Upgrade,
    UpgradeKind,
    UpgradePhase,
    UpgradeTrigger,
)
from lattice.core.model.work.allocations import Cause, Part, PartPhase
from lattice.core.server_upgrades import ServersSeen, next_server_steps, unwell
from lattice.core.upgrade_criteria import Buckets, Readings, judge, shares
from lattice.core.upgrades import Seen, next_steps, turn_for
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.site_program import ProgramFailed, SiteProgram

ACTOR = "upgrade"
LOOK_EVERY_S = 0.5
REST_S = 3600.0
_BY_NODE = frozenset({Cause.NODE, Cause.LAUNCH})
_WATCHED = frozenset({UpgradePhase.CANARY, UpgradePhase.ROLLING})
_HEALTHY = frozenset({NodeState.READY, NodeState.DRAINING, NodeState.DRAINED})
_LATENESS_S = (0.5, 1.0, 2.0, 5.0, 10.0, 30.0, float("inf"))

_log = logging.getLogger(__name__)


class NodeToUpgrade(Struct, frozen=True, kw_only=True):
    node: str
    address: str
    release: str
    former: str


class ServerToUpgrade(Struct, frozen=True, kw_only=True):
    server: str
    address: str
    release: str
    former: str


class UpgradeDocument(Struct, frozen=True, kw_only=True):
    release: str
    nodes: list[NodeToUpgrade] = []
    servers: list[ServerToUpgrade] = []
    order: str = "upgrade"


class UpgradingSettings(Struct, frozen=True, kw_only=True):
    return_within_s: int = 600
    heartbeat_interval_s: float = 10.0


class Upgrading:
    """`step_due` does the work of one turn; `read` takes the server's figures, `unfit` says why a node fails its checks."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        observations: Observations,
        program: SiteProgram | None,
        settings: UpgradingSettings,
        read: Callable[[], Readings] = Readings,
        unfit: Callable[[str], str] = lambda node: "",
        servers: OtherServers | None = None,
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._observations = observations
        self._program = program
        self._settings = settings
        self._read = read
        self._unfit = unfit
        self._servers = servers
        self._unwell_since: float | None = None  # on the monotonic clock
        self._told: set[tuple[str, str]] = set()
        self._was_paused = False
        self._done: frozenset[str] = frozenset()  # nodes that run the new release
        self._runs: Counter[str] = Counter()  # that ended or failed, on all nodes and on those
        self._late: Counter[float] = Counter()  # heartbeats of upgraded nodes, by bucket
        self._since, self._window = read(), (0, UpgradePhase.CANARY, -1)
        self._term_began = self._since
        self._alarm = Alarm()
        replica.subscribe(self._note, of=(UpgradeChanged, NodeMoved, PartChanged))

    @property
    def has_program(self) -> bool:
        return self._program is not None

    def before(self) -> FiguresBefore:
        """The shares since this server leads."""
        now = self._read()._replace(ended=self._runs["ended"], failed=self._runs["failed"])
        return shares(now, self._term_began)

    async def run(self) -> None:
        await keep_turning(ACTOR, self._turn)

    async def _turn(self) -> None:
        await self.step_due()
        await self._alarm.wait(LOOK_EVERY_S if self._open() is not None else REST_S)

    def _open(self) -> Upgrade | None:
        upgrade = self._replica.state.upgrades.newest
        return upgrade if upgrade is not None and upgrade.is_open else None

    async def step_due(self) -> None:
        """Proposes and tells whatever is due."""
        upgrade = self._open()
        if upgrade is None:
            self._told.clear()
            return
        if self._was_paused and upgrade.phase is not UpgradePhase.PAUSED:
            self._told.clear()  # a node that did not return is tried again
        self._was_paused = upgrade.phase is UpgradePhase.PAUSED
        turn = self._judged(upgrade)
        if turn is not None:
            await self._take(turn)
            return
        if upgrade.kind is UpgradeKind.SERVERS:
            await self._step_servers(upgrade)
        else:
            await self._step_nodes(upgrade)

    async def _step_nodes(self, upgrade: Upgrade) -> None:
        seen = Seen(
            now=self._clock.now_ms(),
            heard=frozenset(node for node in self._observations.connected() if not self._unfit(node)),
            told=frozenset(self._told),
            in_window=self._is_in_window(upgrade),
            return_within_s=self._settings.return_within_s,
        )
        due = next_steps(upgrade, self._replica.state.nodes, seen)
        turns = [command for command in due.commands if isinstance(command, TurnUpgrade)]
        if turns:
            await self._take(turns[0])
        elif due.commands:
            await self._replica.propose_many(list(due.commands), ACTOR)
            self._alarm.ring()
        if due.tell and not turns:
            await self._tell(upgrade, due.tell)

    async def _take(self, turn: TurnUpgrade) -> None:
        if turn.trigger in (UpgradeTrigger.PAUSE, UpgradeTrigger.ROLL_BACK, UpgradeTrigger.FAIL):
            _log.error("upgrade: %s: %s", turn.trigger, turn.reason)
        await self._replica.propose(turn, actor=ACTOR)
        self._alarm.ring()

    async def _step_servers(self, upgrade: Upgrade) -> None:
        others = self._servers
        if others is None:
            turn = turn_for(upgrade, "this server is the only one")
            await self._take(turn or TurnUpgrade(trigger=UpgradeTrigger.PAUSE))
            return
        seen = ServersSeen(
            now=self._clock.now_ms(),
            leader=others.name,
            servers=await others.look(),
            told=frozenset(self._told),
            in_window=self._is_in_window(upgrade),
            return_within_s=self._settings.return_within_s,
        )
        due = next_server_steps(upgrade, seen._replace(unwell_s=self._unwell_for_s(unwell(upgrade, seen))))
        if isinstance(due.command, TurnUpgrade):
            await self._take(due.command)
        elif due.command is not None:
            await self._replica.propose(due.command, actor=ACTOR)
            self._alarm.ring()
        elif due.tell is not None:
            await self._tell_server(upgrade, *due.tell)
        elif due.successor:
            _log.warning("upgrade: this server hands leadership to %s, and is replaced next", due.successor)
            await others.hand_over(due.successor)

    def _unwell_for_s(self, problem: str) -> float:
        if not problem:
            self._unwell_since = None
            return 0.0
        now = self._clock.monotonic_s()
        if self._unwell_since is None:
            self._unwell_since = now
        return now - self._unwell_since

    async def _tell_server(self, upgrade: Upgrade, name: str, release: str) -> None:
        former = next(each.former for each in upgrade.nodes if each.node == name)
        address = "" if self._servers is None else self._servers.addresses.get(name, "")
        order = ServerToUpgrade(server=name, address=address, release=release, former=former)
        await self._tell_of(upgrade, {(name, release)}, UpgradeDocument(release=release, servers=[order]))

    async def _tell(self, upgrade: Upgrade, tell: Sequence[tuple[str, str]]) -> None:
        formers = {each.node: each.former for each in upgrade.nodes}
        for release in sorted({release for _, release in tell}):
            names = [node for node, wanted in tell if wanted == release and node in self._replica.state.nodes]
            document = UpgradeDocument(release=release, nodes=[self._order(name, release, formers) for name in names])
            if not await self._tell_of(upgrade, {(name, release) for name in names}, document):
                return

    async def _tell_of(self, upgrade: Upgrade, told: set[tuple[str, str]], document: UpgradeDocument) -> bool:
        """Whether the program did it."""
        self._told |= told
        failure = await self._call(document)
        if failure:
            self._told -= told
            turn = turn_for(upgrade, failure)
            if turn is not None:
                await self._take(turn)
        return not failure

    def _order(self, name: str, release: str, formers: dict[str, str]) -> NodeToUpgrade:
        node = self._replica.state.nodes[name]
        former = node.agent_version or formers[name]
        return NodeToUpgrade(node=name, address=node.address, release=release, former=former)

    async def _call(self, document: UpgradeDocument) -> str:
        """Why the program did not do it; empty if it did."""
        if self._program is None:
            return "no program replaces the software: set upgrade.program in the configuration of every server"
        try:
            await self._program.tell(msgspec.json.encode(document))
        except ProgramFailed as error:
            names = [each.node for each in document.nodes[:5]] + [f"server {each.server}" for each in document.servers]
            return f"upgrade.program failed for {', '.join(names)}: {error}"
        return ""

    def _is_in_window(self, upgrade: Upgrade) -> bool:
        if not upgrade.within:
            return True
        reservation = self._replica.state.reservations.get(upgrade.within)
        now = self._clock.now_ms()
        window = None if reservation is None else reservation.occurrence(now)
        return window is not None and window[0] <= now < window[1]

    # The criteria.

    def _judged(self, upgrade: Upgrade) -> TurnUpgrade | None:
        if upgrade.phase not in _WATCHED:
            return None
        is_of_nodes = upgrade.kind is UpgradeKind.AGENTS
        done = [each.node for each in upgrade.nodes if is_of_nodes and each.is_replaced and each.step is NodeStep.DONE]
        self._done = frozenset(done)
        self._note_lateness(done)
        begun = max((each.batch for each in upgrade.nodes if each.step is not NodeStep.WAITING), default=-1)
        readings, window = self._readings(upgrade.kind), (upgrade.began_at, upgrade.phase, begun)
        if window != self._window:
            self._window, self._since = window, readings
        sick = next((text for node in done if (text := self._sickness(node))), "")
        if sick:
            return turn_for(upgrade, sick)
        finding = judge(readings, self._since, upgrade.before)
        if finding is None:
            return None
        if finding.is_critical:
            return turn_for(upgrade, f"critical: {finding.text}")
        return TurnUpgrade(trigger=UpgradeTrigger.PAUSE, reason=f"warning: {finding.text}")

    def _sickness(self, name: str) -> str:
        """Why an upgraded node is not healthy; empty if it is, or was removed."""
        node = self._replica.state.nodes.get(name)
        if node is None:
            return ""
        if node.state not in _HEALTHY:
            return f"node {name} is {node.state} after its upgrade"
        unfit = self._unfit(name)
        return f"node {name} fails its checks after its upgrade: {unfit}" if unfit else ""

    def _note_lateness(self, done: Sequence[str]) -> None:
        now_s = self._clock.monotonic_s()
        for name in done:
            heard = self._observations.get(name)
            if heard is not None:
                late_s = now_s - heard.last_heard - self._settings.heartbeat_interval_s
                self._late[next(bound for bound in _LATENESS_S if late_s <= bound)] += 1

    def _readings(self, kind: UpgradeKind) -> Readings:
        """The server's figures, with those of the upgraded nodes; in an upgrade of the servers, of all nodes."""
        total, beats = 0, []
        for bound in _LATENESS_S:
            total += self._late[bound]
            beats.append((bound, float(total)))
        heartbeats: Buckets = tuple(beats)
        runs, there = self._runs, " there" if kind is UpgradeKind.AGENTS else ""
        return self._read()._replace(heartbeats=heartbeats, ended=runs[f"ended{there}"], failed=runs[f"failed{there}"])

    def _note(self, index: int, envelope: Envelope, events: tuple[AnyEvent, ...]) -> None:
        for event in events:
            if isinstance(event, PartChanged):
                if event.part.phase is PartPhase.ENDED:
                    self._count(event.part)
            elif isinstance(event, UpgradeChanged) or (isinstance(event, NodeMoved) and self._open() is not None):
                self._alarm.ring()

    def _count(self, part: Part) -> None:
        words = ("ended", "failed") if part.cause in _BY_NODE else ("ended",)
        self._runs.update(words)
        if part.node in self._done:
            self._runs.update(f"{word} there" for word in words)
