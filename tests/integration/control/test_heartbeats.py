"""Heartbeats over real gRPC: which are believed, and what a flood of them costs others."""

import asyncio

import grpc

from lattice.core.model.nodes.nodes import NodeState as N
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.control.rig import FakeAgent, Rig, agent_token, served


def count(rig: Rig, what: str) -> int:
    return rig.sessions.counts[what]


def test_a_beat_that_was_recorded_and_is_sent_again_is_refused_and_counted() -> None:
    async def test(rig: Rig) -> None:
        agent = FakeAgent("n1", rig.endpoint)
        async with agent.connected():
            recorded = pb.Heartbeat(seq=5, session=agent.welcomes[-1].session)
            await agent.send(heartbeat=recorded)
            await agent.until(lambda: count(rig, "heartbeats") == 1)
            await agent.send(heartbeat=recorded)
            await agent.until(lambda: count(rig, "stale_heartbeats") == 1)
        again = FakeAgent("n1", rig.endpoint)
        async with again.connected():
            await again.send(heartbeat=recorded)
            await again.until(lambda: count(rig, "forged_heartbeats") == 1)
            assert count(rig, "heartbeats") == 1

    served(test)


def test_nobody_beats_for_another_node() -> None:
    async def test(rig: Rig) -> None:
        agent = FakeAgent("n1", rig.endpoint, token=agent_token(node="n2"))
        async with agent.connected(confirm=False):
            await asyncio.wait_for(agent.closed.wait(), 60)
        assert agent.error is not None
        assert agent.error.code() is grpc.StatusCode.PERMISSION_DENIED
        assert rig.service.refusals == 1

    served(test)


def test_a_flood_of_one_node_is_dropped_and_disturbs_no_other() -> None:
    async def test(rig: Rig) -> None:
        flooding, calm = FakeAgent("n1", rig.endpoint), FakeAgent("n2", rig.endpoint)
        async with flooding.connected(), calm.connected():
            await rig.until(
                lambda state: len(state.nodes) == 2 and all(n.state is N.READY for n in state.nodes.values())
            )

            async def flood() -> None:
                for seq in range(1, 100_000):
                    await flooding.beat(seq=seq)

            task = asyncio.create_task(flood())
            await calm.until(lambda: count(rig, "surplus_heartbeats") >= 2)
            before = count(rig, "surplus_heartbeats")
            await calm.beat()
            heard = rig.observations.get
            await calm.until(lambda: (seen := heard("n2")) is not None and seen.seq == 1)
            # Ten messages a second are read from it, however many it sends.
            assert count(rig, "surplus_heartbeats") - before < 100
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    served(test)


def test_agents_that_come_together_are_all_taken_in() -> None:
    async def test(rig: Rig) -> None:
        rig.service.admission = asyncio.Semaphore(1)

        async def live(name: str) -> None:
            async with FakeAgent(name, rig.endpoint).connected():
                await rig.until(lambda state: len(state.nodes) == 8)

        await asyncio.gather(*(live(f"n{number}") for number in range(8)))
        async with FakeAgent("n1", rig.endpoint, token=agent_token(node="n1")).connected():
            await rig.until(lambda state: state.nodes["n1"].state is N.READY)

    served(test)
