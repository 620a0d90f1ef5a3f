"""What a submission says of a service: when its instances are started again, how they are probed, how they are stopped."""

from collections.abc import Sequence
from enum import Enum
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from lattice.core.model.nodes.readiness import ReadinessBoard
from lattice.core.model.services.scaling import ScaleStanding
from lattice.core.model.units import BadUnit, parse_duration_s
from lattice.core.model.work.allocations import (
    Allocation,
    Cause,
    Lifecycle,
    Part,
    PartPhase,
    Restart,
)
from lattice.core.model.work.exposure import Exposed
from lattice.core.model.work.readiness import is_ready, standing_of
from lattice.ports.nodes.probes import ProbeKind, ProbeOrder, ProbeType
from lattice.wire.bounds import Argument, Short
from lattice.wire.services.scaling import ScalingView, scaling_view
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339

MAX_PORT = 65_535
MAX_PROBE_S = 3600
MAX_THRESHOLD = 1000
MAX_PATH = 2048
MAX_PROBE_WORDS = 64  # of a command
MAX_PROBE_BYTES = 4096
MAX_DRAIN_S = 3600
DEFAULT_DRAIN_S = 30
NO_DRAIN_S = 0.0  # of work that is no service
DEFAULT_DELAY_S = 10  # of readiness none: asking early does no harm
SERVICES = (Lifecycle.UNBOUNDED, Lifecycle.REACTIVE)


class RestartPolicy(Enum):
    """When an instance that ended is started again on its node."""

    ALWAYS = "always"  # after exit code 0 too
    ON_FAILURE = "on_failure"
    NEVER = "never"


class ProbeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the node asks an instance for its health."""

    probe_type: Short
    port: int = 0
    path: Argument = ""  # of http; empty = /
    period_secs: int = 30
    initial_delay_secs: int | None = None  # None = 10, of readiness 0
    failure_threshold: int = 3
    success_threshold: int = 1
    timeout_secs: int = 5
    command: Annotated[tuple[Argument, ...], Meta(max_length=MAX_PROBE_WORDS)] = ()  # of exec: program and arguments
    port_name: Short = ""  # instead of port: of one that the service exposes


class InstanceView(Struct, frozen=True, kw_only=True):
    """One instance of a service, as its node told it last."""

    node: str
    phase: str  # assigned, running, restarting, leaving
    revision: int  # of what it runs
    ready: bool
    restarts: int  # by its node
    running_since: str | None
    reason: str  # why it is not ready
    last_cause: str | None  # how the attempt before ended
    last_exit_code: int | None
    last_signal: int | None
    last_message: str


class ServiceView(Struct, frozen=True, kw_only=True):
    """What keeps an allocation alive, and how its instances stand."""

    restart: str  # always, on_failure, never
    wanted: int  # instances that it should have
    ready: int  # of them those that take requests
    restarts: int  # by nodes, in the present run
    reason: str  # why fewer are ready than wanted
    instances: tuple[InstanceView, ...]
    revision: int  # of what instances are started with
    scaling: ScalingView | UnsetType = UNSET  # of one that follows its load


class ProbeView(Struct, frozen=True, kw_only=True):
    kind: str
    type: str
    port: int
    path: str
    period_s: float
    initial_delay_s: float
    timeout_s: float
    failure_threshold: int
    success_threshold: int
    command: tuple[str, ...] = ()
    port_name: str = ""  # of a port that each node chooses


def service_view(record: Allocation, board: ReadinessBoard, scaled: ScaleStanding | None = None) -> ServiceView:
    """How a service stands; of one that does not run, only what was asked for."""
    parts = record.parts if record.is_holding else ()
    instances = tuple(_instance(record, part, board) for part in parts)
    wanted = max(record.request.nodes if record.per_node else 1, record.wanted if parts else 0)
    ready = sum(each.ready for each in instances)
    return ServiceView(
        restart=record.restart.value,
        wanted=wanted,
        ready=ready,
        restarts=record.restarts,
        reason=_why_fewer(record, instances) if parts and ready < wanted else "",
        instances=instances,
        revision=record.revision + 1,
        scaling=UNSET if record.scaling is None else scaling_view(record, record.scaling, scaled),
    )


def ready_reason(service: ServiceView | UnsetType) -> str:
    """Why a service that runs has fewer ready instances than it wants; empty when it has them all."""
    if service is UNSET or not service.reason:
        return ""
    return f"ready {service.ready}/{service.wanted}: {service.reason}"


def _instance(record: Allocation, part: Part, board: ReadinessBoard) -> InstanceView:
    ready = is_ready(board, record, part)
    told = standing_of(board, record, part)
    has_ended = part.cause is not None
    return InstanceView(
        node=part.node,
        phase=part.phase.value,
        revision=record.revision_of(part.node) + 1,
        ready=ready,
        restarts=part.restarts,
        running_since=rfc3339(part.running_since),
        reason="" if ready else _why_not(part, told.text if told is not None else ""),
        last_cause=part.cause.value if part.cause is not None else None,
        last_exit_code=part.exit_code if part.cause is Cause.EXIT else None,
        last_signal=part.signal or None,
        last_message=part.message if has_ended else "",
    )


_PHASES = {  # partial: a running instance is not ready for what its probes say
    PartPhase.ASSIGNED: "is being started",
    PartPhase.RESTARTING: "is started again",
    PartPhase.LEAVING: "is being stopped",
    PartPhase.ENDED: "has ended",
}


def _why_not(part: Part, told: str) -> str:
    if part.phase is PartPhase.RUNNING:
        return told or "its probes have not passed yet"
    ended = part.message or (f"signal {part.signal}" if part.signal else f"exit code {part.exit_code}")
    how = f" after {ended}" if part.phase is PartPhase.RESTARTING else ""
    return f"{_PHASES[part.phase]}{how}"


def _why_fewer(record: Allocation, instances: tuple[InstanceView, ...]) -> str:
    """The first reason that a user can do something about, or wait for."""
    if record.missing:
        count = f"{record.missing} instances wait" if record.missing > 1 else "an instance waits"
        return f"{count} for a node: {record.message}" if record.message else f"{count} for a node"
    first = next((each for each in instances if not each.ready), None)
    return f"{first.node}: {first.reason}" if first is not None else record.message


def probe_views(probes: Sequence[ProbeOrder]) -> tuple[ProbeView, ...]:
    return tuple(
        ProbeView(
            kind=each.kind.value,
            type=each.type.value,
            port=each.port,
            path=each.path,
            period_s=each.period_s,
            initial_delay_s=each.initial_delay_s,
            timeout_s=each.timeout_s,
            failure_threshold=each.failure_threshold,
            success_threshold=each.success_threshold,
            command=each.command,
            port_name=each.port_name,
        )
        for each in probes
    )


def restart_of(asked: RestartPolicy | None, lifecycle: Lifecycle) -> Restart:
    """The policy that was asked for; NONE leaves it to the cluster. Raises BadField for work that ends."""
    if asked is None:
        return Restart.NONE
    if lifecycle not in SERVICES:
        raise BadField("lifecycle.restart", "is for services", hint="submit it as a service: lifecycle.type unbounded")
    return Restart(asked.value)


def drain_s(asked: str | int | None, lifecycle: Lifecycle) -> float:
    """How long a stop waits for requests in flight. Raises BadField."""
    if lifecycle not in SERVICES:
        if asked is not None:
            raise BadField("drain", "is for services", hint="submit it as a service: lifecycle.type unbounded")
        return NO_DRAIN_S
    if asked is None:
        return DEFAULT_DRAIN_S
    try:
        seconds = parse_duration_s(str(asked))
    except BadUnit as error:
        raise BadField("drain", str(error)) from None
    if seconds > MAX_DRAIN_S:
        raise BadField("drain", f"{seconds} s is too long", limit=f"{MAX_DRAIN_S} s")
    return float(seconds)


def probes_of(
    asked: Sequence[tuple[ProbeKind, ProbeRequest | None]], lifecycle: Lifecycle, exposes: Sequence[Exposed] = ()
) -> tuple[ProbeOrder, ...]:
    """The probes of a service that exposes these ports, in order. Raises BadField."""
    found = []
    for kind, probe in asked:
        if probe is None:
            continue
        field = f"{kind.value}_probe"
        if lifecycle not in SERVICES:
            raise BadField(field, "is for services", hint="submit it as a service: lifecycle.type unbounded")
        found.append(_probe(kind, _addressed(probe, exposes, field), field))
    return tuple(found)


def _probe(kind: ProbeKind, asked: ProbeRequest, field: str) -> ProbeOrder:
    try:
        how = ProbeType(asked.probe_type)
    except ValueError:
        known = ", ".join(each.value for each in ProbeType)
        raise BadField(
            f"{field}.probe_type", f'"{asked.probe_type[:40]}" is no kind of probe', hint=f"one of {known}"
        ) from None
    _check_address(asked, how, field)
    default_delay_s = 0 if kind is ProbeKind.READINESS else DEFAULT_DELAY_S
    delay_s = default_delay_s if asked.initial_delay_secs is None else asked.initial_delay_secs
    return ProbeOrder(
        kind=kind,
        type=how,
        port=asked.port,
        path=(asked.path or "/") if how is ProbeType.HTTP else "",
        period_s=_between(asked.period_secs, f"{field}.period_secs", 1, MAX_PROBE_S),
        initial_delay_s=_between(delay_s, f"{field}.initial_delay_secs", 0, MAX_PROBE_S),
        timeout_s=_between(asked.timeout_secs, f"{field}.timeout_secs", 1, MAX_PROBE_S),
        failure_threshold=_between(asked.failure_threshold, f"{field}.failure_threshold", 1, MAX_THRESHOLD),
        success_threshold=_between(asked.success_threshold, f"{field}.success_threshold", 1, MAX_THRESHOLD),
        command=asked.command,
        port_name=asked.port_name,
    )


def _addressed(asked: ProbeRequest, exposes: Sequence[Exposed], field: str) -> ProbeRequest:
    """With the number of the port it names, unless each node chooses that."""
    if not asked.port_name:
        return asked
    if asked.port:
        raise BadField(f"{field}.port_name", "port and port_name exclude each other", hint="give one of the two")
    named = next((each for each in exposes if each.name == asked.port_name), None)
    if named is None:
        known = ", ".join(each.name for each in exposes)
        hint = f"its names: {known}" if known else "name it with --expose NAME:PORT, or give a number"
        raise BadField(f"{field}.port_name", f'the service exposes no port "{asked.port_name[:60]}"', hint=hint)
    return replace(asked, port=named.port, port_name="") if named.port else asked


def _check_address(asked: ProbeRequest, how: ProbeType, field: str) -> None:
    if how is ProbeType.EXEC:
        _check_command(asked, field)
        return
    if asked.command:
        raise BadField(f"{field}.command", f"a {how.value} probe has no command", hint="leave it out, or use exec")
    if not asked.port_name and not 1 <= asked.port <= MAX_PORT:
        message = f"a {how.value} probe needs a port" if not asked.port else f"{asked.port} is no port"
        raise BadField(f"{field}.port", message, limit=f"from 1 to {MAX_PORT:,}")
    if how is ProbeType.TCP and asked.path:
        raise BadField(f"{field}.path", "a tcp probe has no path", hint="leave it out, or use http")
    is_path = asked.path.startswith("/") and asked.path.isascii() and asked.path.isprintable() and " " not in asked.path
    if asked.path and (not is_path or len(asked.path) > MAX_PATH):
        raise BadField(f"{field}.path", "is no path of a URL", hint="it begins with / and has no spaces")


def _check_command(asked: ProbeRequest, field: str) -> None:
    given = next((name for name in ("port", "port_name", "path") if getattr(asked, name)), "")
    if given:
        raise BadField(
            f"{field}.{given}",
            "an exec probe has none",
            hint="leave it out, or use tcp or http",
        )
    if not asked.command or not asked.command[0]:
        raise BadField(f"{field}.command", "an exec probe needs a command", hint='for example ["test", "-f", "ready"]')
    if any("\0" in word for word in asked.command):
        raise BadField(f"{field}.command", "a word of a command has no NUL characters")
    if sum(len(word.encode()) for word in asked.command) > MAX_PROBE_BYTES:
        raise BadField(f"{field}.command", "the command is too long", limit=f"{MAX_PROBE_BYTES:,} bytes")


def _between(value: int, field: str, low: int, high: int) -> int:
    if not low <= value <= high:
        raise BadField(field, f"{value} is not possible", limit=f"from {low:,} to {high:,}")
    return value
