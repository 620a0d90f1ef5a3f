"""Messages about steps in the words of the ports, and orders in the words of the wire."""

from typing import assert_never

from lattice.api.grpc.agents import values
from lattice.ports.nodes.agents import KnownStep, RunKey, StartOrder, StepReport, TaskEnd
from lattice.ports.nodes.steps import AckOrder, AnyStepOrder, EndOrder, LaunchOrder, ResizeOrder, SignalOrder, StepOrder
from lattice.wire.pb import agent_pb2 as pb


def known_step(message: pb.KnownStep) -> KnownStep:
    return KnownStep(
        key=RunKey(message.key.run.number, message.key.run.run),
        step=message.key.step,
        launch_id=message.launch_id[: values.MAX_TEXT],
        plan=message.plan,
        has_ended=message.ended,
    )


def step_report_of(message: pb.StepReport) -> StepReport:
    return StepReport(
        key=RunKey(message.key.run.number, message.key.run.run),
        step=message.key.step,
        launch_id=message.launch_id,
        has_ended=message.ended,
        tasks=tuple(
            TaskEnd(
                rank=task.rank,
                exit_code=task.exit_code,
                signal=task.signal,
                message=values.line(task.message),
                is_lost=task.cause == pb.END_CAUSE_NODE,
            )
            for task in message.tasks
        ),
        cpu_s=values.seconds(message.cpu_s),
        peak_memory_mb=values.memory_mb(message.peak_memory_mb),
        elapsed_s=values.seconds(message.elapsed_s),
        message=values.line(message.message),
    )


def step_key(order: StepOrder) -> pb.StepKey:
    return pb.StepKey(run=pb.RunKey(number=order.number, run=order.run), step=order.step)


def step_message(order: AnyStepOrder) -> pb.ServerMessage:
    match order:
        case LaunchOrder():
            return pb.ServerMessage(launch_step=_launch_step(order))
        case SignalOrder():
            return pb.ServerMessage(signal_step=pb.SignalStep(key=step_key(order), signal=order.signal))
        case EndOrder():
            end = pb.EndStep(key=step_key(order), grace_s=order.grace_s, why=order.why)
            return pb.ServerMessage(end_step=end)
        case ResizeOrder():
            size = pb.ResizeStep(key=step_key(order), rows=order.rows, columns=order.columns)
            return pb.ServerMessage(resize_step=size)
        case AckOrder():
            return pb.ServerMessage(step_ack=pb.StepAck(key=step_key(order)))
        case _:
            assert_never(order)


def _launch_step(order: LaunchOrder) -> pb.LaunchStep:
    return pb.LaunchStep(
        base=start_run(pb.RunKey(number=order.base.number, run=order.base.run), order.base),
        step=order.step,
        launch_id=order.launch_id,
        plan=order.plan,
        tasks=[
            pb.StepTask(
                rank=task.rank,
                local_rank=task.local_rank,
                argv=task.argv,
                has_input=task.has_input,
                stdin=task.stdin,
                stdout=task.stdout,
                stderr=task.stderr,
                truncate=task.truncate,
                pty=task.pty,
            )
            for task in order.tasks
        ],
        size=order.size,
        nodes=order.nodes,
        node_index=order.node_index,
        cpus_per_task=order.cpus_per_task,
        time_s=order.time_s,
        rows=order.rows,
        columns=order.columns,
    )


def start_run(key: pb.RunKey, order: StartOrder) -> pb.StartRun:
    return pb.StartRun(
        key=key,
        allocation_id=order.allocation_id,
        name=order.name,
        user=order.account,
        cwd=order.cwd,
        argv=order.argv,
        script=order.script,
        script_args=order.script_args,
        env=order.env,
        nodes=order.nodes,
        walltime_s=order.walltime_s,
        grace_s=order.grace_s,
        cpus=order.cpus,
        memory_mb=order.memory_mb,
        gpus=order.gpus,
        task_index=order.task_index,
        task_group_id=order.task_group_id,
        submit_dir=order.submit_dir,
        token=order.token,
        api_url=order.api_url,
        fence=order.is_fenced,
        tasks=order.tasks,
        summary=order.has_summary,
        files=_files(order),
        early_signal=_early(order),
        umask=order.umask,
        submission=order.submission,
    )


def _files(order: StartOrder) -> pb.RunFiles | None:
    files = order.files
    if files is None:
        return None
    return pb.RunFiles(stdout=files.stdout, stderr=files.stderr, stdin=files.stdin, append=files.appends)


def _early(order: StartOrder) -> pb.EarlySignal | None:
    early = order.early
    return None if early is None else pb.EarlySignal(signal=early.signal, before_s=early.before_s, to=early.to)
