"""Messages about steps in the words of the agent, and back."""

from lattice.agent.machine.step_status import StepKey, StepStatus
from lattice.agent.messages import order_of
from lattice.agent.steps.launch import StepLaunch, TaskPlan
from lattice.wire.pb import agent_pb2 as pb


def step_key(key: pb.StepKey) -> StepKey:
    return StepKey(key.run.number, key.run.run, key.step)


def _wire_key(key: StepKey) -> pb.StepKey:
    return pb.StepKey(run=pb.RunKey(number=key.number, run=key.run), step=key.step)


def launch_of(message: pb.LaunchStep) -> StepLaunch:
    order = order_of(message.base)
    return StepLaunch(
        key=StepKey(order.key.number, order.key.run, message.step),
        order=order,
        launch_id=message.launch_id,
        plan=message.plan,
        tasks=tuple(
            TaskPlan(
                rank=task.rank,
                local_rank=task.local_rank,
                argv=tuple(task.argv),
                has_input=task.has_input,
                stdin=task.stdin,
                stdout=task.stdout,
                stderr=task.stderr,
                truncate=task.truncate,
                pty=task.pty,
            )
            for task in message.tasks
        ),
        size=message.size,
        nodes=tuple(message.nodes),
        node_index=message.node_index,
        cpus_per_task=message.cpus_per_task or 1,
        time_s=message.time_s,
        rows=message.rows,
        columns=message.columns,
    )


def known_step(key: StepKey, launch_id: str, plan: bytes, *, has_ended: bool) -> pb.KnownStep:
    return pb.KnownStep(key=_wire_key(key), launch_id=launch_id, plan=plan, ended=has_ended)


def step_report(status: StepStatus, launch_id: str) -> pb.AgentMessage:
    reason = {"walltime": "its time is over"}.get(status.cause, f"ended: {status.why}" if status.why else "")
    report = pb.StepReport(
        key=_wire_key(status.key),
        launch_id=launch_id,
        ended=status.has_ended,
        tasks=[
            pb.TaskEnd(
                rank=task.rank,
                exit_code=task.exit_code,
                signal=task.signal,
                message=task.error,
                cause=pb.END_CAUSE_NODE if task.lost else pb.END_CAUSE_UNSPECIFIED,
            )
            for task in status.tasks
        ],
        cpu_s=status.cpu_s,
        peak_memory_mb=round(status.peak_memory_mb),
        elapsed_s=status.elapsed_s,
        message=status.error or reason,
    )
    return pb.AgentMessage(step_report=report)


def input_taken(ticket: int, upto: int, error: str) -> pb.AgentMessage:
    return pb.AgentMessage(step_input_taken=pb.StepInputTaken(ticket=ticket, upto=upto, error=error))
