"""An agent with good credentials that lies about foreign work, over a real stream."""

from lattice.control.steps.plan import StepPlan, encode_plan
from lattice.core.model.work.allocations import AllocationState
from lattice.core.model.work.layout import Layout, TaskRequest
from lattice.ports.nodes.steps import LaunchRequest
from lattice.wire.pb import agent_pb2 as pb
from tests.integration.control.rig import FakeAgent, Rig, served


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
