"""The wire's messages in the words of `lattice.agent.machine.state`, and back."""

from collections.abc import Mapping, Sequence

import msgspec

from lattice.agent.machine.state import (
    DEFAULT_UMASK,
    Acknowledged,
    Cause,
    EarlySignal,
    FinishAsked,
    PauseAsked,
    Phase,
    RunFiles,
    RunKey,
    RunOrder,
    SendReport,
    SignalAsked,
    StartAsked,
    Stimulus,
    StopAsked,
    UpdateAsked,
    Welcomed,
)
from lattice.core.model.nodes.specifications import NO_FIGURES, Figures
from lattice.wire.agents.protocols import agent_protocol
from lattice.wire.pb import agent_pb2 as pb

AGENT_VERSION = "0.1.0"

_PHASES = {
    Phase.STARTING: pb.PHASE_STARTING,
    Phase.RUNNING: pb.PHASE_RUNNING,
    Phase.STOPPING: pb.PHASE_STOPPING,
    Phase.ENDED: pb.PHASE_ENDED,
}
_CAUSES = {
    Cause.EXIT: pb.END_CAUSE_EXIT,
    Cause.SIGNAL: pb.END_CAUSE_SIGNAL,
    Cause.OOM: pb.END_CAUSE_OOM,
    Cause.WALLTIME: pb.END_CAUSE_WALLTIME,
    Cause.LAUNCH: pb.END_CAUSE_LAUNCH,
    Cause.NODE: pb.END_CAUSE_NODE,
    Cause.STOPPED: pb.END_CAUSE_STOPPED,
    Cause.PROLOGUE: pb.END_CAUSE_PROLOGUE,
}


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says of itself when it registers."""

    node_id: str
    address: str
    boot_id: str
    cpus: int
    memory_mb: int
    gpus: int
    gpu_type: str
    group: str
    features: tuple[str, ...]
    unified_memory: bool = False
    cxl_memory_mb: int = 0
    power_w: int = 0
    figures: Figures = NO_FIGURES
    runs_as_root: bool
    agent_user: str
    collector_address: str = ""


def key_of(key: pb.RunKey) -> RunKey:
    return RunKey(key.number, key.run)


def _wire_key(key: RunKey) -> pb.RunKey:
    return pb.RunKey(number=key.number, run=key.run)


def stimulus_of(message: pb.ServerMessage) -> Stimulus | None:
    """What the message asks of the agent's state; None for those about output and for unknown ones."""
    match message.WhichOneof("body"):
        case "welcome":
            welcome = message.welcome
            return Welcomed(
                valid=frozenset(key_of(key) for key in welcome.valid_runs),
                session=welcome.session,
                heartbeat_interval_s=welcome.heartbeat_interval_s,
                down_after_s=welcome.down_after_s,
                epoch=welcome.epoch,
            )
        case "start_run":
            return StartAsked(order=order_of(message.start_run))
        case "stop_run":
            stop = message.stop_run
            return StopAsked(key=key_of(stop.key), grace_s=stop.grace_s, why=stop.why, submission=stop.submission)
        case "update_run":
            update = message.update_run
            return UpdateAsked(key=key_of(update.key), walltime_s=update.walltime_s, token=update.token)
        case "signal_run":
            asked = message.signal_run
            return SignalAsked(key=key_of(asked.key), signal=asked.signal, to=asked.to)
        case "finish_run":
            return FinishAsked(key=key_of(message.finish_run.key), exit_code=message.finish_run.exit_code)
        case "pause_run":
            return PauseAsked(key=key_of(message.pause_run.key), is_paused=message.pause_run.paused)
        case "report_ack":
            return Acknowledged(key=key_of(message.report_ack.key), seq=message.report_ack.seq)
        case _:
            return None


def order_of(start: pb.StartRun) -> RunOrder:
    return RunOrder(
        key=key_of(start.key),
        submission=start.submission,
        allocation_id=start.allocation_id,
        name=start.name,
        user=start.user,
        cwd=start.cwd,
        argv=tuple(start.argv),
        script=start.script,
        script_args=tuple(start.script_args),
        env=dict(start.env),
        nodes=tuple(start.nodes),
        walltime_s=start.walltime_s,
        grace_s=start.grace_s,
        cpus=start.cpus,
        memory_mb=start.memory_mb,
        gpus=start.gpus,
        task_index=start.task_index if start.HasField("task_index") else None,
        task_group_id=start.task_group_id,
        submit_dir=start.submit_dir,
        token=start.token,
        api_url=start.api_url,
        fence=start.fence,
        tasks=start.tasks,
        summary=start.summary,
        files=_files_of(start),
        early=_early_of(start),
        umask=start.umask if start.HasField("umask") else DEFAULT_UMASK,
    )


def _files_of(start: pb.StartRun) -> RunFiles | None:
    if not start.HasField("files"):
        return None
    files = start.files
    return RunFiles(stdout=files.stdout, stderr=files.stderr, stdin=files.stdin, append=files.append)


def _early_of(start: pb.StartRun) -> EarlySignal | None:
    if not start.HasField("early_signal"):
        return None
    early = start.early_signal
    return EarlySignal(signal=early.signal, before_s=early.before_s, to=early.to)


def register(
    facts: NodeFacts,
    runs: tuple[tuple[RunKey, Phase], ...],
    steps: Sequence[pb.KnownStep] = (),
    epoch: int = 0,
    run_epochs: Mapping[RunKey, int] | None = None,
    process: int = 0,
) -> pb.AgentMessage:
    began = run_epochs or {}
    return pb.AgentMessage(
        register=pb.Register(
            node_id=facts.node_id,
            hardware=pb.Hardware(
                cpus=facts.cpus,
                memory_mb=facts.memory_mb,
                gpus=facts.gpus,
                gpu_type=facts.gpu_type,
                group=facts.group,
                features=facts.features,
                unified_memory=facts.unified_memory,
                cxl_memory_mb=facts.cxl_memory_mb,
                power_w=facts.power_w,
                os=facts.figures.os,
                cpu_speed=facts.figures.speed,
                virtual_memory_mb=facts.figures.virtual_memory_mb,
                tmp_disk_mb=facts.figures.tmp_disk_mb,
            ),
            address=facts.address,
            boot_id=facts.boot_id,
            agent_version=AGENT_VERSION,
            runs=[
                pb.KnownRun(key=_wire_key(key), phase=_PHASES[phase], epoch=began.get(key, 0)) for key, phase in runs
            ],
            epoch=epoch,
            takes_batches=True,
            process=process,
            collector_address=facts.collector_address,
            runs_as_root=facts.runs_as_root,
            agent_user=facts.agent_user,
            steps=steps,
            protocol=agent_protocol(),
        )
    )


def confirmed(session: int) -> pb.AgentMessage:
    return pb.AgentMessage(confirmed=pb.Confirmed(session=session))


def report(told: SendReport, now_boot_s: float) -> pb.AgentMessage:
    message = pb.RunReport(key=_wire_key(told.key), phase=_PHASES[told.phase], seq=told.seq, submission=told.submission)
    if told.started_boot_s:
        message.elapsed_s = max(0.0, now_boot_s - told.started_boot_s)
    if told.end is not None:
        message.cause = _CAUSES[told.end.cause]
        message.exit_code = told.end.exit_code
        message.signal = told.end.signal
        message.message = told.end.message
        message.cpu_s = told.end.cpu_s
        message.peak_memory_mb = told.end.peak_memory_mb
        message.elapsed_s = told.end.elapsed_s
        message.never_ran = told.end.never_ran
    return pb.AgentMessage(run_report=message)


def heartbeat(
    seq: int, running: int, load1: float, memory_used_mb: int, session: int = 0, fingerprint: bytes = b""
) -> pb.Heartbeat:
    return pb.Heartbeat(
        seq=seq,
        running=running,
        load1=load1,
        memory_used_mb=memory_used_mb,
        session=session,
        fingerprint=fingerprint,
    )


def output_chunk(reader: int, offset: int, data: bytes = b"", *, eof: bool = False, error: str = "") -> pb.AgentMessage:
    chunk = pb.OutputChunk(reader=reader, offset=offset, data=data, eof=eof, error=error)
    return pb.AgentMessage(output_chunk=chunk)
