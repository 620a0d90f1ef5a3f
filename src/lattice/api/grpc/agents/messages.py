"""What agents say, made sensible or refused before it reaches the loops."""

import re

from msgspec.structs import replace

from lattice.api.grpc.agents import values
from lattice.api.grpc.agents.values import MAX_MEMORY_MB, BadMessage
from lattice.core.model.nodes import at_hand
from lattice.core.model.nodes.specifications import Figures
from lattice.core.model.site.protocols import Agreed, NoCommonVersion
from lattice.ports.nodes.agents import Phase, Registration, Report
from lattice.ports.nodes.checkpoints import PROBED, REMOVED, STORAGE_AWAY, STORED, UNSTORED, CheckpointReport
from lattice.ports.nodes.collecting import Share
from lattice.ports.nodes.images import NodeImagesTold
from lattice.ports.nodes.measures import NodeUse
from lattice.wire.agents.messages import (
    AT_HAND,
    CACHED_IMAGE,
    CHECKPOINT_REPORT,
    COMING_IMAGE,
    FIGURES,
    GATHERED,
    GPU_SET,
    GROUP_USE,
    HARDWARE,
    IMAGES_TOLD,
    KNOWN_STEP,
    MISSING_FEATURE,
    MOUNTED_IMAGE,
    PMI_USE,
    REGISTER,
    RUN_REPORT,
    STEP_REPORT,
    TASK_END,
    USAGE,
    VARIABLE_CHANGE,
)
from lattice.wire.agents.protocols import agree
from lattice.wire.pb import agent_pb2 as pb

_NODE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_MAX_COUNT = 1 << 20
# More runs and steps than any node has.
_MAX_KNOWN = 200_000
_MAX_POWER_W = 10_000_000
_MAX_SPEED = 1e9
_MAX_DISK_MB = 1 << 50
MAX_SHARES = 4096
MAX_GROUPS = 4096
MAX_IMAGES = 4096
_REPORTED = (Phase.RUNNING, Phase.RESTARTING, Phase.ENDED)

_hardware_of = HARDWARE.reader(gpu_type=values.checked("the type of GPU"), group=values.checked("the group"))
_figures_of = FIGURES.reader(
    texts=values.line,
    speed=lambda speed: round(speed, 3) if 0 <= speed <= _MAX_SPEED else 0.0,  # not a number is not in between
    virtual_memory_mb=values.memory_mb,
    tmp_disk_mb=lambda size: min(size, _MAX_DISK_MB),
)
_registration_of = REGISTER.reader(
    texts=values.line,
    hardware=_hardware_of,
    address=values.checked("the address"),
    boot_id=values.checked("the boot id"),
    agent_version=values.checked("the version"),
    collector_address=values.checked("the collector's address"),
    metrics_address=values.checked("the address of its metrics"),
    steps=KNOWN_STEP.reader(texts=values.line),
)
_usage_of = USAGE.reader(
    seconds=values.seconds,
    read_bytes=values.amount,
    written_bytes=values.amount,
    peak_pids=values.amount,
    energy_j=values.joules,
)
_report_of = RUN_REPORT.reader(
    texts=values.line,
    seconds=values.seconds,
    peak_memory_mb=values.memory_mb,
    usage=_usage_of,
    exit_code=values.exit_code,
    signal=values.signal,
)
step_report_of = STEP_REPORT.reader(
    texts=values.line,
    seconds=values.seconds,
    peak_memory_mb=values.memory_mb,
    usage=_usage_of,
    tasks=TASK_END.reader(texts=values.line, exit_code=values.exit_code, signal=values.signal),
    pmi=PMI_USE.reader(texts=values.line, seconds=values.seconds),
)


_checkpoint_of = CHECKPOINT_REPORT.reader(texts=values.line, seconds=values.seconds, bytes=values.amount)
_CHECKPOINT_PHASES = ("done", "nothing", "failed", "sealed", REMOVED, STORAGE_AWAY, STORED, UNSTORED, PROBED)


def checkpoint_of(message: pb.CheckpointReport) -> CheckpointReport:
    """Raises BadMessage for a phase that is none."""
    report = _checkpoint_of(message)
    if report.phase not in _CHECKPOINT_PHASES:
        raise BadMessage(f'"{report.phase[:40]}" is no phase of a checkpoint')
    return report


_group_of = GROUP_USE.reader(
    seconds=values.seconds,
    memory_mb=values.megabytes,
    peak_memory_mb=values.megabytes,
    read_bytes=values.amount,
    written_bytes=values.amount,
    pids=values.amount,
    peak_pids=values.amount,
)


_images_of = IMAGES_TOLD.reader(
    texts=values.line,
    capacity=values.amount,
    used=values.amount,
    free=values.amount,
    images=CACHED_IMAGE.reader(texts=values.line, seconds=values.seconds, size=values.amount),
    coming=COMING_IMAGE.reader(texts=values.line, done=values.amount, total=values.amount),
    mounted=MOUNTED_IMAGE.reader(texts=values.line, size=values.amount),
    changes=VARIABLE_CHANGE.reader(texts=values.line),
)


_missing_of = MISSING_FEATURE.reader(texts=values.line)


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
    features = values.features(hardware.features)
    registration = _registration_of(message)
    return replace(
        registration,
        hardware=replace(registration.hardware, features=features),
        figures=_figures(hardware),
        protocol=_protocol_of(message),
    )


def _protocol_of(message: pb.Register) -> Agreed:
    try:
        return agree(message.protocol, us="this server", them=f"the agent of node {message.node_id}")
    except NoCommonVersion as error:
        raise BadMessage(str(error)) from error


def _figures(hardware: pb.Hardware) -> Figures | None:
    if not (hardware.os or hardware.cpu_speed or hardware.virtual_memory_mb or hardware.tmp_disk_mb):
        return None
    return _figures_of(hardware)


def report_of(message: pb.RunReport) -> Report | None:
    """The report; None for a phase that the state does not keep."""
    report = _report_of(message)
    return report if report.phase in _REPORTED else None


def use_of(message: pb.Measured) -> NodeUse:
    """What runs use now, and what the node lacks; what is beyond any node's is left out."""
    return NodeUse(
        groups=tuple(_group_of(group) for group in message.groups[:MAX_GROUPS]),
        missing=tuple(_missing_of(each) for each in message.missing[: values.MAX_FEATURES]),
    )


def images_of(message: pb.ImagesTold) -> NodeImagesTold:
    """What a node says of its images; what is beyond any node's is left out."""
    for several in (message.images, message.coming, message.mounted, message.changes):
        del several[MAX_IMAGES:]
    return _images_of(message)


_at_hand_of = AT_HAND.reader(gpu_sets=GPU_SET.reader(seconds=values.seconds))


def at_hand_of(message: pb.AtHand) -> at_hand.AtHand:
    """What a node has at hand; what is beyond any node's is left out."""
    del message.images[at_hand.MAX_IMAGES :]
    del message.gpu_sets[at_hand.MAX_GPU_SETS :]
    return _at_hand_of(message)


def shares_of(message: pb.CollectedBeats) -> list[Share]:
    """What a collector brings; raises BadMessage when its columns are not alike."""
    if len(message.shares) > MAX_SHARES:
        raise BadMessage(f"{len(message.shares):,} shares in one message; the limit is {MAX_SHARES:,}")
    for share in message.shares:
        if not len(share.members) == len(share.ages_ms) == len(share.beats):
            raise BadMessage("columns of different lengths")
    return [GATHERED.read(share) for share in message.shares]
