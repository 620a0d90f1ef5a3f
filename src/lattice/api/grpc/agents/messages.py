"""Agents' messages in the words of the ports, and orders in the words of the wire."""

import re
from typing import assert_never

from lattice.api.grpc.agents import values
from lattice.api.grpc.agents.steps import known_step, start_run
from lattice.api.grpc.agents.values import MAX_MEMORY_MB, BadMessage
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.nodes.specifications import Figures
from lattice.core.model.site.protocols import Agreed, NoCommonVersion
from lattice.core.model.work.allocations import Cause, PartPhase
from lattice.ports.nodes.agents import (
    FinishOrder,
    Greeting,
    Order,
    PauseOrder,
    Registration,
    Report,
    RunKey,
    SignalRunOrder,
    StartOrder,
    StopOrder,
    UpdateOrder,
)
from lattice.wire.agents.protocols import agent_protocol, agree
from lattice.wire.pb import agent_pb2 as pb

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MAX_COUNT = 1 << 20
# More runs and steps than any node has.
_MAX_KNOWN = 200_000
_MAX_POWER_W = 10_000_000
_MAX_SPEED = 1e9
_MAX_DISK_MB = 1 << 50
_PHASES = {pb.PHASE_RUNNING: PartPhase.RUNNING, pb.PHASE_ENDED: PartPhase.ENDED}
_CAUSES = {
    pb.END_CAUSE_EXIT: Cause.EXIT,
    pb.END_CAUSE_SIGNAL: Cause.SIGNAL,
    pb.END_CAUSE_OOM: Cause.OOM,
    pb.END_CAUSE_WALLTIME: Cause.WALLTIME,
    pb.END_CAUSE_LAUNCH: Cause.LAUNCH,
    pb.END_CAUSE_NODE: Cause.NODE,
    pb.END_CAUSE_PROLOGUE: Cause.LAUNCH,
}


def registration_of(message: pb.Register) -> Registration:
    """The checked registration; raises BadMessage."""
    if not _NODE_ID.fullmatch(message.node_id):
        raise BadMessage(
            f'"{message.node_id[:80]}" cannot be the name of a node: up to 63 letters, digits, dots, dashes and underscores'
        )
    hardware = message.hardware
    if not hardware.cpus or not hardware.memory_mb:
        raise BadMessage(f"node {message.node_id} declares no CPUs or no memory")
    counts, sizes = (hardware.cpus, hardware.gpus), (hardware.memory_mb, hardware.cxl_memory_mb)
    if max(counts) > _MAX_COUNT or max(sizes) > MAX_MEMORY_MB or hardware.power_w > _MAX_POWER_W:
        raise BadMessage(f"node {message.node_id} declares more than any node has")
    if max(len(message.runs), len(message.steps)) > _MAX_KNOWN:
        raise BadMessage(f"node {message.node_id} names more runs or steps than any node has")
    return Registration(
        node=message.node_id,
        hardware=Hardware(
            cpus=hardware.cpus,
            memory_mb=hardware.memory_mb,
            gpus=hardware.gpus,
            gpu_type=values.checked_line(hardware.gpu_type, "the type of GPU"),
            group=values.checked_line(hardware.group, "the group"),
            features=values.features(hardware.features),
            unified_memory=hardware.unified_memory,
            cxl_memory_mb=hardware.cxl_memory_mb,
            power_w=hardware.power_w,
        ),
        address=values.checked_line(message.address, "the address"),
        boot_id=values.checked_line(message.boot_id, "the boot id"),
        agent_version=values.checked_line(message.agent_version, "the version"),
        runs=tuple(RunKey(known.key.number, known.key.run) for known in message.runs),
        steps=tuple(map(known_step, message.steps)),
        epoch=message.epoch,
        run_epochs={RunKey(known.key.number, known.key.run): known.epoch for known in message.runs if known.epoch},
        takes_batches=message.takes_batches,
        process=message.process,
        collector_address=values.checked_line(message.collector_address, "the collector's address"),
        figures=_figures_of(hardware),
        protocol=_protocol_of(message),
    )


def _protocol_of(message: pb.Register) -> Agreed:
    try:
        return agree(message.protocol, us="this server", them=f"the agent of node {message.node_id}")
    except NoCommonVersion as error:
        raise BadMessage(str(error)) from error


def _figures_of(hardware: pb.Hardware) -> Figures | None:
    if not (hardware.os or hardware.cpu_speed or hardware.virtual_memory_mb or hardware.tmp_disk_mb):
        return None
    speed = hardware.cpu_speed if 0 <= hardware.cpu_speed <= _MAX_SPEED else 0.0  # not a number is not in between
    return Figures(
        os=values.line(hardware.os),
        speed=round(speed, 3),
        virtual_memory_mb=min(hardware.virtual_memory_mb, MAX_MEMORY_MB),
        tmp_disk_mb=min(hardware.tmp_disk_mb, _MAX_DISK_MB),
    )


def report_of(message: pb.RunReport) -> Report | None:
    """The report; None for a phase that the state does not keep."""
    phase = _PHASES.get(message.phase)
    if phase is None:
        return None
    has_ended = phase is PartPhase.ENDED
    return Report(
        key=RunKey(message.key.number, message.key.run),
        phase=phase,
        seq=message.seq,
        cause=_CAUSES.get(message.cause) if has_ended else None,
        is_stopped=has_ended and message.cause == pb.END_CAUSE_STOPPED,
        is_prologue=has_ended and message.cause == pb.END_CAUSE_PROLOGUE,
        is_unstarted=has_ended and message.never_ran and message.cause == pb.END_CAUSE_NODE,
        submission=values.line(message.submission),
        exit_code=message.exit_code,
        signal=message.signal,
        message=values.line(message.message),
        cpu_s=values.seconds(message.cpu_s),
        peak_memory_mb=values.memory_mb(message.peak_memory_mb),
        elapsed_s=values.seconds(message.elapsed_s),
    )


def welcome(greeting: Greeting) -> pb.ServerMessage:
    return pb.ServerMessage(
        welcome=pb.Welcome(
            valid_runs=[pb.RunKey(number=key.number, run=key.run) for key in greeting.wanted],
            heartbeat_interval_s=greeting.heartbeat_interval_s,
            down_after_s=greeting.down_after_s,
            server_name=greeting.server_name,
            session=greeting.session,
            held_by=[pb.RunKey(number=key.number, run=key.run) for key in greeting.held_by],
            epoch=greeting.epoch,
            takes_batches=True,
            protocol=agent_protocol(),
        )
    )


def order_message(order: Order) -> pb.ServerMessage:
    key = pb.RunKey(number=order.number, run=order.run)
    match order:
        case StartOrder():
            return pb.ServerMessage(start_run=start_run(key, order))
        case StopOrder():
            return pb.ServerMessage(
                stop_run=pb.StopRun(key=key, grace_s=order.grace_s, why=order.why, submission=order.submission)
            )
        case UpdateOrder():
            update = pb.UpdateRun(key=key, walltime_s=order.walltime_s, token=order.token)
            return pb.ServerMessage(update_run=update)
        case SignalRunOrder():
            return pb.ServerMessage(signal_run=pb.SignalRun(key=key, signal=order.signal, to=order.to))
        case FinishOrder():
            return pb.ServerMessage(finish_run=pb.FinishRun(key=key, exit_code=order.exit_code))
        case PauseOrder():
            return pb.ServerMessage(pause_run=pb.PauseRun(key=key, paused=order.is_paused))
        case _:
            assert_never(order)
