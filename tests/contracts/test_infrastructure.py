"""OpenCHAMI's client against a small server that speaks the interface of its State Management Daemon."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from lattice.control.nodes.remediation import Remediation, RemediationSettings
from lattice.core.machine.commands import (
    ApproveNode,
    ClearDrift,
    ConfirmNode,
    DegradeNode,
    DisableNode,
    DownNode,
    EnableNode,
    EscalateDrift,
    NoteDrift,
    RegisterNode,
    SetVcluster,
)
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.integrations.openchami.client import OpenChami
from lattice.ports.nodes.infrastructure import Flag, InfrastructureUnavailable, UnknownComponent
from tests.state_manager import StateManager, serving
from tests.unit.control.world import HARDWARE, World

RIGHT, WRONG = "a" * 64, "b" * 64


@pytest.fixture
def manager() -> Iterator[StateManager]:
    with serving(StateManager("x1000c0s0b0n0", "n1", "n2")) as server:
        yield server


def test_a_flag_and_its_message_are_set(manager: StateManager) -> None:
    client = OpenChami(manager.url, token=lambda: "secret", xnames={"nid1": "x1000c0s0b0n0"})
    asyncio.run(client.flag("nid1", Flag.WARNING, "conformance_drift: expected=a, actual=b"))
    assert manager.components["x1000c0s0b0n0"] == {
        "Flag": "Warning",
        "FlagMsg": "conformance_drift: expected=a, actual=b",
    }
    assert manager.tokens == ["Bearer secret"]


def test_without_a_token_none_is_sent(manager: StateManager) -> None:
    asyncio.run(OpenChami(manager.url + "/").flag("n1", Flag.OK, ""))
    assert manager.tokens == [None]


def test_a_component_that_is_not_known_is_told_apart(manager: StateManager) -> None:
    with pytest.raises(UnknownComponent, match="knows no component n9"):
        asyncio.run(OpenChami(manager.url).flag("n9", Flag.WARNING, "x"))


@pytest.mark.parametrize("status", [302, 401, 500])
def test_a_refusal_or_a_redirect_is_a_failure(manager: StateManager, status: int) -> None:
    manager.status = status
    with pytest.raises(InfrastructureUnavailable, match=f"status {status}"):
        asyncio.run(OpenChami(manager.url, token=lambda: "secret").flag("n1", Flag.WARNING, "x"))


def test_a_server_that_is_not_there_is_a_failure() -> None:
    with pytest.raises(InfrastructureUnavailable, match="cannot be reached"):
        asyncio.run(OpenChami("http://127.0.0.1:9").flag("n1", Flag.WARNING, "x"))


def drifted(node: str) -> NoteDrift:
    return NoteDrift(node=node, vcluster="default", expected=RIGHT, actual=WRONG)


async def prepared(manager: StateManager) -> tuple[World, Remediation]:
    world = World()
    await world.prepare("n1", "n2")
    settings = RemediationSettings(retry_s=2.0)
    return world, Remediation(world.replica, world.clock, OpenChami(manager.url), settings)


def flags(manager: StateManager) -> list[str]:
    return [manager.components[node]["Flag"] for node in ("n1", "n2")]


def run(scenario: Callable[[], object]) -> None:
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_drift_is_flagged_and_its_end_as_well(manager: StateManager) -> None:
    async def scenario() -> None:
        world, remediation = await prepared(manager)
        await world.do(drifted("n1"))
        await remediation.tell()
        assert manager.components["n1"]["FlagMsg"] == f"conformance_drift: expected={RIGHT}, actual={WRONG}"
        world.clock.pass_s(24 * 3600)
        await world.do(EscalateDrift(node="n1"))
        await remediation.tell()
        assert flags(manager) == ["Alert", "OK"]
        await world.do(ClearDrift(node="n1"))
        await remediation.tell()
        assert (flags(manager), manager.components["n1"]["FlagMsg"]) == (["OK", "OK"], "conformance restored")

    run(scenario)


def test_what_could_not_be_told_is_told_later_and_later_and_only_the_newest_word(manager: StateManager) -> None:
    async def scenario() -> None:
        world, remediation = await prepared(manager)
        manager.status = 503
        await world.do(drifted("n1"))
        await remediation.tell()
        await remediation.tell()
        assert remediation.counts["failed"] == 1
        world.clock.pass_s(2)
        await remediation.tell()
        assert remediation.counts["failed"] == 2
        manager.status = 0
        world.clock.pass_s(3)
        await remediation.tell()
        assert flags(manager) == ["OK", "OK"]
        world.clock.pass_s(1)
        await remediation.tell()
        assert (flags(manager), remediation.counts["told"]) == (["Warning", "OK"], 1)

    run(scenario)


def test_a_drift_that_outlasts_a_reboot_is_an_alert(manager: StateManager) -> None:
    async def scenario() -> None:
        world, remediation = await prepared(manager)
        for boot in ("b1", "b2"):
            await world.do(RegisterNode(node="n1", hardware=HARDWARE, boot_id=boot))
            await world.do(drifted("n1"))
        await remediation.tell()
        assert manager.components["n1"]["FlagMsg"] == f"conformance_drift_persists: expected={RIGHT}, actual={WRONG}"
        assert flags(manager) == ["Alert", "OK"]

    run(scenario)


def test_what_a_leader_could_not_tell_any_more_the_next_one_tells(manager: StateManager) -> None:
    async def scenario() -> None:
        world, remediation = await prepared(manager)
        await world.do(drifted("n1"))
        await remediation.tell()
        await world.do(ClearDrift(node="n1"))
        await Remediation(world.replica, world.clock, OpenChami(manager.url)).tell()
        assert (flags(manager), manager.components["n1"]["FlagMsg"]) == (["OK", "OK"], "conformance restored")

    run(scenario)


def test_a_new_leader_tells_everything_again_but_not_what_has_been_right_for_long(manager: StateManager) -> None:
    async def scenario() -> None:
        world, _ = await prepared(manager)
        vcluster = Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n2",))
        await world.do(SetVcluster(vcluster=vcluster, create=True))
        await world.do(drifted("n1"))
        await world.do(drifted("n2"))
        await world.do(ClearDrift(node="n2"))
        world.clock.pass_s(3600)
        again = Remediation(world.replica, world.clock, OpenChami(manager.url))
        await again.tell()
        assert (flags(manager), again.counts["told"]) == (["Warning", "OK"], 1)
        await world.do(ApproveNode(node="n2", is_heard=True))
        await again.tell()
        assert manager.components["n2"]["FlagMsg"] == "conformance restored"

    run(scenario)


def test_a_lost_node_is_flagged_and_so_is_its_return(manager: StateManager) -> None:
    async def scenario() -> None:
        world, remediation = await prepared(manager)
        await world.do(DegradeNode(node="n1"))
        await world.do(DownNode(node="n1", reason="no heartbeat for 90 s"))
        await remediation.tell()
        assert manager.components["n1"]["FlagMsg"] == "node_down: no heartbeat for 90 s"
        again = Remediation(world.replica, world.clock, OpenChami(manager.url))
        await again.tell()
        assert (flags(manager), again.counts["told"]) == (["Alert", "OK"], 1)
        for node in ("n1", "n2"):
            await world.do(RegisterNode(node=node, hardware=HARDWARE, boot_id="b2"))
            await world.do(ConfirmNode(node=node))
        await again.tell()
        assert (manager.components["n1"]["FlagMsg"], again.counts["told"]) == ("node is back", 2)
        await world.do(DisableNode(node="n1"))
        await world.do(EnableNode(node="n1"))
        await world.do(ConfirmNode(node="n1"))
        await again.tell()
        assert again.counts["told"] == 2

    run(scenario)


def test_the_loop_tells_as_soon_as_there_is_something(manager: StateManager) -> None:
    async def scenario() -> None:
        world, remediation = await prepared(manager)
        task = asyncio.create_task(remediation.run())
        await asyncio.sleep(0)
        await world.do(drifted("n1"))
        assert await asyncio.to_thread(manager.patched.wait, 60)
        assert flags(manager) == ["Warning", "OK"]
        task.cancel()

    run(scenario)


def test_a_node_that_drifted_and_was_lost_has_drifted_still_when_it_is_back(manager: StateManager) -> None:
    async def scenario() -> None:
        world, remediation = await prepared(manager)
        await world.do(drifted("n1"))
        await world.do(DegradeNode(node="n1"))
        await world.do(DownNode(node="n1", reason="silent"))
        await remediation.tell()
        assert flags(manager) == ["Alert", "OK"]
        await world.do(RegisterNode(node="n1", hardware=HARDWARE))
        await world.do(ConfirmNode(node="n1"))
        await remediation.tell()
        assert flags(manager) == ["Warning", "OK"]

    run(scenario)
