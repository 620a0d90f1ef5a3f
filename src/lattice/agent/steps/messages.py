"""What the agent says of steps."""

from math import ceil

from lattice.agent.machine.step_status import StepStatus, usage_of
from lattice.ports.nodes.agents import EndCause, StepReport, TaskEnd
from lattice.wire.agents.messages import STEP_REPORT
from lattice.wire.pb import agent_pb2 as pb


def step_report(status: StepStatus, launch_id: str) -> pb.AgentMessage:
    by_pmi = status.cause == "pmi"
    kind = "out of memory" if status.cause == EndCause.OOM.value else "ended"
    reason = {"walltime": "its time is over"}.get(status.cause, f"{kind}: {status.why}" if status.why else "")
    report = StepReport(
        key=status.key,
        launch_id=launch_id,
        ended=status.has_ended,
        tasks=tuple(
            TaskEnd(
                rank=task.rank,
                exit_code=task.exit_code,
                signal=task.signal,
                message=task.oom or task.error,
                cause=EndCause.NODE if task.lost else EndCause.OOM if task.oom else None,
            )
            for task in status.tasks
        ),
        cpu_s=status.cpu_s,
        peak_memory_mb=ceil(status.peak_memory_mb),  # what ran has used some
        elapsed_s=status.elapsed_s,
        message=status.error or (status.why if by_pmi else reason),
        usage=usage_of(status),
        cause=EndCause.OOM if status.cause == EndCause.OOM.value else None,
        pmi=status.pmi,
        was_ended=by_pmi,
    )
    return pb.AgentMessage(step_report=STEP_REPORT.write(report))


def input_taken(ticket: int, upto: int, error: str) -> pb.AgentMessage:
    return pb.AgentMessage(step_input_taken=pb.StepInputTaken(ticket=ticket, upto=upto, error=error))
