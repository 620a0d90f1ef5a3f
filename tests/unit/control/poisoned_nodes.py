"""Loops over nodes, each with one bad and one good item; the table is in test_poisoned.py."""

import asyncio
from pathlib import Path
from typing import Any, cast

from lattice.control.nodes.conformance import Conformance
from lattice.control.nodes.health import HealthRegistry
from lattice.control.nodes.hooks import NodeHooks
from lattice.control.nodes.probing import Probing
from lattice.control.nodes.rebooting import Rebooting
from lattice.control.nodes.remediation import Remediation
from lattice.control.nodes.watch import NodeWatch
from lattice.control.nodes.wiping import Wiping
from lattice.core.machine.commands import DownNode, DrainNode, NoteDrift, RebootNode, SetSetting, SetVcluster
from lattice.core.model.nodes.health import CheckStanding, Consequence, HealthReport, Verdict
from lattice.core.model.nodes.nodes import DownCause, NodeState
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.ports.nodes.infrastructure import Flag
from lattice.ports.nodes.wiper import WipeOrder
from lattice.wire.agents.collecting import Alive
from tests.unit.control.poison import Patch, Poison, poison
from tests.unit.control.test_collectors import Site
from tests.unit.control.test_conformance import NEW, Watched
from tests.unit.control.test_health import Book as Checked
from tests.unit.control.test_node_hooks import watched
from tests.unit.control.test_node_watch import Watch
from tests.unit.control.world import World


async def node_watch(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    watch = Watch(world)
    poison(patch, NodeWatch, "_verdict", lambda self, node, now: node.id == "n1")
    await watch.pass_s(35)
    assert (world.node("n1").state, world.node("n2").state) == (NodeState.READY, NodeState.DEGRADED)
    patch.undo()
    await watch.pass_s(3)
    assert world.node("n1").state is NodeState.DEGRADED  # it was not forgotten


async def wiping(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.do(SetVcluster(vcluster=Vcluster(name="default", scheduler=SENSITIVE, default_walltime_s=60)))
    await world.do(SetSetting(key="sensitive.require_wipe", value="true"))
    for node in ("n1", "n2"):
        await world.ended(await world.running(node), node)

    class Wiper:
        async def wipe(self, order: WipeOrder, timeout_s: float) -> str:
            if order.node == "n1":
                raise Poison
            return "wiped"

    made = Wiping(world.replica, world.clock, Wiper())
    await made.look()
    await asyncio.gather(*(task for _, task in made._under_way.values()))
    assert (world.node("n1").state, world.node("n2").state) == (NodeState.DRAINED, NodeState.BOOTING)


async def probing(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    for node in ("n1", "n2"):
        await world.do(DownNode(node=node, cause=DownCause.HARDWARE, reason="test"))

    async def ask(address: str, within_s: float) -> Alive | None:
        if address == "n1":
            raise Poison
        return Alive(address, False)

    assert await Probing(world.replica, {"n1": "n1", "n2": "n2"}, ask).probe() == {"n2"}


async def remediation(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    told: list[str] = []

    class Manager:
        async def flag(self, node: str, flag: Flag, message: str) -> None:
            if node == "n1":
                raise Poison
            told.append(node)

    made = Remediation(world.replica, world.clock, Manager())
    for node in ("n1", "n2"):
        await world.do(NoteDrift(node=node, vcluster="default", expected="a" * 64, actual="b" * 64))
    await made.tell()
    assert (told, made.counts) == (["n2"], {"told": 1, "failed": 1})


async def conformance(patch: Patch, folder: Path) -> None:
    names = ("n1", "n2", "n3", "n4", "n5")
    seen = await Watched(*names).begin()
    poison(patch, Conformance, "_noted", lambda self, node, verdict, actual: node == "n1")
    for node in ("n1", "n2"):
        seen.reports.say(node, NEW)
    await seen.loop.look()
    assert seen.drifted == ["n2"]


async def health(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    checked = Checked(world)
    poison(patch, HealthRegistry, "_decide", lambda self, node, known: node.id == "n1")
    failed = CheckStanding(name="disk", verdict=Verdict.FAILED, consequence=Consequence.DEGRADE)
    for node in ("n1", "n2"):
        checked.registry.take(node, HealthReport(checks=(failed,)))
    await checked.registry.settle()
    assert (world.node("n1").state, world.node("n2").state) == (NodeState.READY, NodeState.DEGRADED)
    patch.undo()
    await checked.registry.settle()
    assert world.node("n1").state is NodeState.DEGRADED  # it was not forgotten


async def node_hooks(patch: Patch, folder: Path) -> None:
    world = World()
    hooks, program = await watched(world)
    moves = [event for node in ("n1", "n2") for event in (await world.do(DrainNode(node=node))).events]
    hooks._waiting.clear()
    poison(patch, NodeHooks, "_moved", lambda self, event, at: event.node == "n1")
    hooks._note(1, cast("Any", type("Envelope", (), {"at": 1})), moves)
    await hooks.tell()
    assert {event["node"] for event in program.events} == {"n2"}


async def rebooting(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    for node in ("n1", "n2"):
        await world.do(DrainNode(node=node))
        await world.do(RebootNode(node=node))
    documents: list[bytes] = []

    class Program:
        async def tell(self, document: bytes) -> None:
            documents.append(document)

    made = Rebooting(world.replica, world.clock, Program())
    poison(patch, Rebooting, "_take_up", lambda self, name, node, since: name == "n1")
    made.reset()
    await made.perform()
    assert [(b"n1" in document, b"n2" in document) for document in documents] == [(False, True)]


async def collectors(patch: Patch, folder: Path) -> None:
    site = Site("c1", "c1")
    poison(patch, type(site.links), "order_collecting", lambda self, node, order: node == "n1")
    site.open("n1", "n2")
    site.tree.plan()
    assert site.told("n2").collector == "c1"
    assert all(node != "n1" for node, _ in site.links.sent)
    patch.undo()
    site.tree.plan()
    assert site.told("n1").collector == "c1"  # it was not forgotten
