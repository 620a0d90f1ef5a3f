"""The site's script for node events: what it is told, how often, and what happens when it fails."""

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from lattice.control.nodes import hooks as node_hooks
from lattice.control.nodes.hooks import HookSettings, NodeHooks
from lattice.core.machine.commands import DownNode, DrainNode, ImportNodes, UndrainNode
from lattice.core.model.nodes.nodes import DownCause
from lattice.core.model.nodes.specifications import Specification
from lattice.ports.site.site_program import ProgramFailed
from lattice.testing import scenario
from tests.unit.control.world import World


class FakeProgram:
    def __init__(self) -> None:
        self.documents: list[dict[str, Any]] = []
        self.fails = False
        self.heard = asyncio.Event()

    async def tell(self, document: bytes) -> None:
        self.documents.append(msgspec.json.decode(document))
        self.heard.set()
        if self.fails:
            raise ProgramFailed("no mail today")

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for document in self.documents for event in document["events"]]


async def watched(world: World, **settings: Any) -> tuple[NodeHooks, FakeProgram]:  # noqa: ANN401 - of a record
    await world.prepare("n1", "n2")
    program = FakeProgram()
    return NodeHooks(world.replica, world.clock, program, HookSettings(**settings)), program


@scenario
async def test_a_move_is_told_with_where_from_why_and_by_whom() -> None:
    world = World()
    hooks, program = await watched(world)
    await world.do(DrainNode(node="n1", reason="fan"))
    await hooks.tell()
    assert [(event["node"], event["previous"], event["state"]) for event in program.events] == [
        ("n1", "Ready", "Draining"),
        ("n1", "Draining", "Drained"),
    ]
    assert program.events[1]["reason"] == "fan"
    assert hooks.counts == {"done": 1, "told": 2}


@scenario
async def test_the_way_back_is_told_with_why_and_by_whom_too() -> None:
    world = World()
    hooks, program = await watched(world)
    await world.do(DrainNode(node="n1", reason="fan"))
    await world.do(UndrainNode(node="n1", is_heard=True, reason="new fan"), "ada")
    specifications = ImportNodes(specifications=(Specification(cpus=64),), nodes=(("n1", 0),))
    await world.do(specifications, "bob")
    await hooks.tell()
    assert [(event["trigger"], event["by"], event["reason"]) for event in program.events[2:]] == [
        ("undrain", "ada", "new fan"),
        ("unfit", "bob", "CPUs 4 below the specified 64"),
    ]


@scenario
async def test_a_shortfall_is_told_and_logged_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    hooks, program = await watched(world)
    for cpus in (64, 64, 128, 1):
        await world.do(ImportNodes(specifications=(Specification(cpus=cpus),), nodes=(("n1", 0),)))
    await hooks.tell()
    assert [(event["trigger"], event["reason"]) for event in program.events] == [
        ("unfit", "CPUs 4 below the specified 64"),
        ("fit", ""),
    ]
    assert "node is not configured for work: CPUs 4 below the specified 64" in caplog.text


@scenario
async def test_only_what_the_site_asked_for_is_told() -> None:
    world = World()
    hooks, program = await watched(world, states=frozenset({"Down", "unfit"}))
    await world.do(DrainNode(node="n1"))
    await world.do(DownNode(node="n2", cause=DownCause.HARDWARE, reason="fan"))
    await hooks.tell()
    assert [(event["node"], event["state"], event["cause"]) for event in program.events] == [("n2", "Down", "hardware")]
    assert program.events[0]["severity"] == "critical"
    assert program.events[0]["alert"].startswith("Node n2 is down, its hardware failed: fan.")


@scenario
async def test_it_runs_so_often_per_minute_and_what_came_meanwhile_goes_together() -> None:
    world = World()
    hooks, program = await watched(world, per_minute=2)
    running = asyncio.create_task(hooks.run())
    for order in (DrainNode(node="n1"), UndrainNode(node="n1", is_heard=True)):
        program.heard.clear()
        await world.do(order)
        await program.heard.wait()
    assert hooks.pause_s() == 60.0
    for order in (DrainNode(node="n1"), DrainNode(node="n2")):
        await world.do(order)
    world.clock.s += 61.0
    program.heard.clear()
    await program.heard.wait()
    running.cancel()
    assert [len(document["events"]) for document in program.documents] == [2, 1, 4]


@scenario
async def test_a_failure_is_counted_and_nothing_is_told_twice() -> None:
    world = World()
    hooks, program = await watched(world)
    program.fails = True
    await world.do(DrainNode(node="n1"))
    await hooks.tell()
    program.fails = False
    await world.do(DrainNode(node="n2"))
    await hooks.tell()
    assert (hooks.counts["failed"], hooks.counts["done"]) == (1, 1)
    assert [event["node"] for event in program.documents[1]["events"]] == ["n2", "n2"]


@scenario
async def test_what_there_is_no_room_for_is_counted_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_hooks, "MAX_WAITING", 2)
    world = World()
    hooks, program = await watched(world)
    await world.do(DrainNode(node="n1"))
    await world.do(DrainNode(node="n2"))
    await hooks.tell()
    assert (program.documents[0]["lost"], [event["node"] for event in program.events]) == (2, ["n2", "n2"])


@scenario
async def test_without_a_script_nothing_waits() -> None:
    world = World()
    await world.prepare("n1")
    hooks = NodeHooks(world.replica, world.clock, None, HookSettings())
    await world.do(DrainNode(node="n1"))
    await hooks.tell()
    assert hooks.counts == {}


@scenario
async def test_moves_are_in_the_log_and_those_that_raise_an_alert_as_such(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=node_hooks.__name__)
    world = World()
    await watched(world)
    await world.do(DrainNode(node="n1", reason="fan"), "ada")
    await world.do(DownNode(node="n2", cause=DownCause.HARDWARE, reason="PSU"), "bmc")
    assert [(record.levelname, record.message, record.__dict__["node_id"]) for record in caplog.records] == [
        ("INFO", "Ready -> Draining, drain: fan (by ada)", "n1"),
        ("INFO", "Draining -> Drained, emptied: fan (by ada)", "n1"),
        (
            "ERROR",
            "Node n2 is down, its hardware failed: PSU. After the repair, run `lattice node enable n2`.",
            "n2",
        ),
    ]
