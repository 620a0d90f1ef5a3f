"""Agents of other releases: those of the one before do their work, those that are too far away are told so."""

import asyncio

import grpc
import pytest

from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.protocols import OURS, Border
from lattice.core.model.work.allocations import AllocationState
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.control.rig import FakeAgent, Rig, served
from tests.upgrades.test_recorded_wire import RELEASES, message_of

NEWEST = OURS[Border.AGENT].newest


@pytest.mark.parametrize("release", RELEASES)
def test_an_agent_of_an_earlier_release_registers_and_runs_work(release: str) -> None:
    register: pb.Register = message_of(release, "AgentMessage", "register")

    async def test(rig: Rig) -> None:
        agent = FakeAgent(register.node_id, rig.endpoint, register=register)
        async with agent.connected():
            await rig.until(lambda state: state.nodes[register.node_id].state is NodeState.READY)
            number = await rig.submit("true")
            order = await agent.order()
            start = order.batch.messages[0].start_run if order.HasField("batch") else order.start_run
            assert (start.key.number, list(start.argv)) == (number, ["true"])
            await agent.report(number, 1, pb.PHASE_RUNNING, 1)
            await agent.report(number, 1, pb.PHASE_ENDED, 2, cause=pb.END_CAUSE_EXIT)
            await rig.until(lambda state: state.allocations[number].state is AllocationState.COMPLETED)

    served(test)


def test_the_highest_common_version_is_used_and_noted() -> None:
    async def test(rig: Rig) -> None:
        old = FakeAgent("n1", rig.endpoint)
        new = FakeAgent("n2", rig.endpoint, protocol=pb.Protocol(oldest=1, newest=NEWEST + 1))
        async with old.connected(), new.connected():
            await rig.until(lambda state: len(state.nodes) == 2)
            assert rig.observations.protocols == {"n1": 1, "n2": NEWEST}
            said = new.welcomes[0].protocol
            assert (said.oldest, said.newest) == (1, NEWEST)

    served(test)


@pytest.mark.parametrize(
    ("oldest", "newest", "text"),
    [
        (8, 9, "the agent of node n1 speaks protocol versions 8 to 9, this server versions 1 to 2"),
        (3, 1, "protocol versions 3 to 1 make no sense"),
    ],
)
def test_an_agent_without_a_common_version_is_refused_with_both_versions(oldest: int, newest: int, text: str) -> None:
    async def test(rig: Rig) -> None:
        agent = FakeAgent("n1", rig.endpoint, protocol=pb.Protocol(oldest=oldest, newest=newest))
        async with agent.connected(confirm=False):
            await asyncio.wait_for(agent.closed.wait(), 10)
        assert agent.error is not None
        assert agent.error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert text in (agent.error.details() or "")
        assert rig.state.nodes == {}

    served(test)
