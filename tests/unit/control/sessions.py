"""The sessions of agents at a leader, without any agents."""

from typing import cast

from lattice.api.grpc.agents.links import AgentLinkTable
from lattice.control.collectors.tree import CollectorSettings, CollectorTree
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.inventories import Inventories
from lattice.control.nodes.session_table import SessionTable
from lattice.control.nodes.sessions import AgentSessions, SessionSettings
from lattice.control.nodes.timers import NodeTimers, TimerSettings
from lattice.control.steps.registry import StepRegistry, StepSettings
from lattice.control.steps.wireup import WireUp
from lattice.core.model.nodes.observations import Observations
from lattice.ports.nodes.agents import EndCause, Greeting, KnownRun, Phase, Registration, Report, RunKey
from tests.unit.control.world import HARDWARE, World


class Desk:
    def __init__(self, world: World) -> None:
        self.world = world
        self.opened: list[str] = []
        self.progressed: list[RunKey] = []
        self.observations = Observations()
        replica, clock = world.replica, world.clock
        links = cast("AgentLinkTable", world.links)
        self.health = HealthRegistry(replica, links, clock)
        self.inventories = Inventories(links, clock)
        self.table = SessionTable(replica, self.observations, self.inventories, clock, 10.0)
        self.sessions = AgentSessions(
            replica=replica,
            links=links,
            observations=self.observations,
            clock=clock,
            settings=SessionSettings(server_name="s1"),
            timers=NodeTimers(replica, TimerSettings()),
            table=self.table,
            steps=StepRegistry(
                replica,
                links,
                clock,
                StepSettings(),
                lambda allocation: "token",
                lambda node: None,
                WireUp(lambda launch_id: bytes(32), lambda node: ""),
            ),
            collectors=CollectorTree(replica, links, self.observations, clock, CollectorSettings(), self.table.hear),
            health=self.health,
            inventories=self.inventories,
            on_opened=self.opened.append,
            on_progress=self.progressed.append,
        )

    async def register(self, node: str, *runs: RunKey) -> Greeting:
        registration = Registration(
            node_id=node, hardware=HARDWARE, boot_id="b", runs=tuple(KnownRun(key=key) for key in runs)
        )
        return await self.sessions.register(registration)

    async def connect(self, node: str, *runs: RunKey) -> Greeting:
        greeting = await self.register(node, *runs)
        assert await self.sessions.confirm(node, greeting.session)
        self.world.links.open.add(node)
        self.sessions.opened(node, greeting.session)
        return greeting


def report(number: int, run: int, phase: Phase, seq: int, cause: EndCause | None = None) -> Report:
    return Report(key=RunKey(number, run), phase=phase, seq=seq, cause=cause)
