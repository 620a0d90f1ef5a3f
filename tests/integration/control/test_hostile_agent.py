"""An agent with good credentials that lies about foreign work, over a real stream."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from lattice.api.auth.node_certificates import NodeAuthority, NodeNames
from lattice.api.auth.tokens import TokenVerifier, sign_token
from lattice.api.grpc.agents.certificates import CertificateIssuer
from lattice.control.nodes.admission import NodeAdmissions
from lattice.control.steps.plan import StepPlan, encode_plan
from lattice.core.machine.commands import AdmitNode, RevokeNode, SetSetting
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import AllocationState
from lattice.core.model.work.layout import Layout, TaskRequest
from lattice.ports.clock import SystemClock
from lattice.ports.nodes.steps import LaunchRequest
from lattice.wire.pb import agent_pb2 as pb
from lattice.wire.pb import certificates_pb2
from tests.integration.control.rig import SECRET, FakeAgent, Rig, agent_token, served
from tests.unit.api.test_node_certificates import request


async def begun(rig: Rig, agent: FakeAgent) -> int:
    """An allocation that runs on the agent's node."""
    number = await rig.submit()
    start = (await agent.order()).start_run
    await agent.report(number, start.key.run, pb.PHASE_RUNNING, 1)
    await rig.until(lambda state: state.allocations[number].state is AllocationState.RUNNING)
    return number


def forged(number: int, layout: Layout, step: int = 7) -> pb.KnownStep:
    plan = StepPlan(number=number, run=1, step=step, launch_id="x", name="FORGED", layout=layout, started_at=1)
    key = pb.StepKey(run=pb.RunKey(number=number, run=1), step=step)
    return pb.KnownStep(key=key, launch_id="x", plan=encode_plan(plan))


class Liar(FakeAgent):
    steps: tuple[pb.KnownStep, ...] = ()

    def registration(self) -> pb.Register:
        said = super().registration()
        said.steps.extend(self.steps)
        return said


def test_an_agent_ends_no_step_of_another_node_and_makes_none_up() -> None:
    async def scenario(rig: Rig) -> None:
        async with FakeAgent("good", rig.endpoint).connected() as good:
            number = await begun(rig, good)
            allocation = rig.state.allocations[number]
            registry = rig.sessions.steps
            step = await registry.launch(
                allocation, LaunchRequest(launch_id="mine", argv=("work",), task_request=TaskRequest())
            )
            liar = Liar("evil", rig.endpoint)
            liar.steps = (
                forged(number, Layout(nodes=("evil",), counts=(1,))),
                forged(number, Layout(nodes=("evil",), counts=(20_000_000,)), step=8),
                forged(number, Layout(nodes=("good",), counts=(1,)), step=(1 << 32) - 1),
            )
            async with liar.connected():
                key = pb.StepKey(run=pb.RunKey(number=number, run=1), step=step.step)
                lie = pb.StepReport(key=key, launch_id="mine", ended=True, tasks=[pb.TaskEnd(rank=0, exit_code=1)])
                await liar.send(step_report=lie)
                await liar.until(lambda: registry.counts["foreign_steps"] == 4)
                assert [(view.step, view.has_ended) for view in registry.live(number)] == [(step.step, False)]
                request = LaunchRequest(
                    launch_id="next", argv=("work",), task_request=TaskRequest(tasks=1), overlap=True
                )
                assert (await registry.launch(allocation, request)).step == step.step + 1

    served(scenario)


def test_a_revoked_agent_is_cut_off_and_its_credentials_are_refused() -> None:
    async def scenario(rig: Rig) -> None:
        token = agent_token()
        async with FakeAgent("n1", rig.endpoint, token=token).connected() as agent:
            number = await begun(rig, agent)
            await rig.do(RevokeNode(node="n1", reason="key was copied"))
            await agent.until(agent.closed.is_set)
            assert "revoked" in agent.goodbye
        assert rig.state.allocations[number].state is AllocationState.PENDING
        async with FakeAgent("n1", rig.endpoint, token=token).connected(confirm=False) as again:
            await again.until(again.closed.is_set)
            assert again.error is not None
            assert "revoked" in str(again.error.details())
        await rig.do(AdmitNode(node="n1"))
        async with FakeAgent("n1", rig.endpoint, token=token).connected(confirm=False) as again:
            await again.until(again.closed.is_set)
            assert again.error is not None
            assert "issued before it was revoked" in str(again.error.details())
        fresh = agent_token(issued_in_s=2)
        async with FakeAgent("n1", rig.endpoint, token=fresh).connected():
            await rig.until(lambda state: state.nodes["n1"].state is NodeState.READY)

    served(scenario)


def test_an_unknown_agent_gets_no_work_before_it_is_admitted() -> None:
    async def scenario(rig: Rig) -> None:
        await rig.do(SetSetting(key="node.admission", value="approve"))
        async with FakeAgent("stranger", rig.endpoint).connected() as agent:
            await rig.submit()
            assert rig.state.nodes["stranger"].state is NodeState.QUARANTINE
            await rig.do(AdmitNode(node="stranger"))
            await agent.until(agent.closed.is_set)
            assert agent.orders.empty()
        async with FakeAgent("stranger", rig.endpoint).connected() as agent:
            assert (await agent.order()).HasField("start_run")

    served(scenario)


def test_two_tokens_are_none() -> None:
    async def scenario(rig: Rig) -> None:
        token = ("authorization", f"Bearer {agent_token()}")
        async with grpc.aio.insecure_channel(rig.endpoint) as channel:
            connect: Any = channel.stream_stream("/lattice.v1.AgentService/Connect")  # type: ignore[call-arg]
            assert await connect(metadata=(token, token)).code() is grpc.StatusCode.UNAUTHENTICATED

    served(scenario)


def test_a_message_of_very_many_small_ones_ends_the_session() -> None:
    async def scenario(rig: Rig) -> None:
        async with FakeAgent("n1", rig.endpoint).connected() as agent:
            await agent.send(run_reports=pb.RunReports(reports=[pb.RunReport()] * 70_000))
            await agent.until(agent.closed.is_set)
            assert agent.error is not None
            assert agent.error.code() is grpc.StatusCode.INVALID_ARGUMENT

    served(scenario)


@asynccontextmanager
async def issuing(rig: Rig) -> AsyncIterator[Any]:
    """The method that signs certificates for nodes."""
    clock = SystemClock()
    authority = NodeAuthority(SECRET, NodeNames("", ""), 3600)
    server = grpc.aio.server()
    CertificateIssuer(authority, clock, NodeAdmissions(rig.replica), verifier=TokenVerifier(SECRET, clock)).add_to(
        server
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel.stream_unary("/lattice.v1.CertificateService/SignNodeCertificate")  # type: ignore[call-arg]
    finally:
        await server.stop(0)


def test_a_certificate_is_asked_for_by_name_before_the_request_is_read() -> None:
    """Nothing is sent but the metadata: an answer can only come from somebody who does not wait for more."""

    async def scenario(rig: Rig) -> None:
        async with issuing(rig) as sign:
            assert await sign().code() is grpc.StatusCode.UNAUTHENTICATED

    served(scenario)


def test_an_enrolment_token_is_used_up_in_whatever_form_it_is_written() -> None:
    token = sign_token(SECRET, user="e1", issued_at_s=int(time.time()), lifetime_s=600, kind="agent", node="e1")

    async def asked(sign: Any, token: str) -> grpc.StatusCode:  # noqa: ANN401 - a method of gRPC
        message = certificates_pb2.SignNodeRequest(node_id="e1", signing_request=request("e1")).SerializeToString()
        call = sign([message], metadata=(("authorization", f"Bearer {token}"),))
        return await call.code()  # type: ignore[no-any-return]

    async def scenario(rig: Rig) -> None:
        async with issuing(rig) as sign:
            assert await asked(sign, token) is grpc.StatusCode.OK
            for same in (token, f"{token}=", f"{token}=="):
                assert await asked(sign, same) is not grpc.StatusCode.OK, same[-4:]

    served(scenario)
