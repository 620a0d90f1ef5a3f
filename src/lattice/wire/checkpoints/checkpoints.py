"""Checkpoints on the wire: what a submission says of them, and what people read of them."""

from msgspec import Struct

from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.checkpoints import (
    SIGUSR1,
    Checkpoint,
    CheckpointPhase,
    CheckpointProtocol,
    CheckpointStrategy,
    CheckpointWay,
    OpenCheckpoint,
)
from lattice.slurm.text.signals import LAST, parse_signal, signal_name
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField
from lattice.wire.text.times import rfc3339

FEATURE = "checkpoint"  # of a node that asks its work for checkpoints
NONE = "none"
LAST_PORT = 65_535
NOT_YET = {
    "dmtcp": "unsupported: no node of this cluster has DMTCP",
}
WRITING, COMPLETE, FAILED = "writing", "complete", "failed"


class CheckpointFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the work is asked for checkpoints. A protocol alone means auto, a strategy alone the protocol signal."""

    strategy: Short = ""  # auto, manual or none
    protocol: Short = ""  # signal, shmem or grpc
    signal: Short = ""  # of the protocol signal; empty = USR1
    port: int = 0  # of the protocol grpc: the work listens there; 0 = it registers with the agent of its node


class CheckpointView(Struct, frozen=True, kw_only=True):
    """One checkpoint; `state` is writing, complete or failed."""

    n: int
    state: str
    run: int
    path: str
    reason: str
    requested_at: str | None
    completed_at: str | None
    bytes: int
    seconds: float
    nodes: int  # that wrote it
    message: str
    stored: bool = False  # the object store has a copy


class CheckpointStanding(Struct, frozen=True, kw_only=True):
    """How an allocation stands with checkpoints; `resume_from` is where its next run begins, or the present one began."""

    strategy: str
    protocol: str
    complete: int  # that are kept
    last_completed_at: str | None
    writing: int  # number of the one that is being written, 0 = none
    failures: int  # since the last complete one
    message: str  # why the last one failed
    resume_from: str
    signal: str = ""  # of the protocol signal
    port: int = 0  # of the protocol grpc, where the work listens


def read_way(fields: CheckpointFields | None, *, in_container: bool = False) -> CheckpointWay | None:
    """What the record of the work has; None for work that writes none. Raises BadField."""
    if fields is None:
        return None
    strategy = _strategy(fields)
    if strategy is None:
        return None
    word = fields.protocol.lower() or CheckpointProtocol.SIGNAL.value
    if word in NOT_YET:
        raise BadField("checkpoint.protocol", NOT_YET[word], hint="use signal, shmem or grpc")
    try:
        protocol = CheckpointProtocol(word)
    except ValueError:
        raise BadField(
            "checkpoint.protocol", f'"{fields.protocol[:40]}" is no protocol', hint="use signal, shmem or grpc"
        ) from None
    if protocol is CheckpointProtocol.SHMEM and in_container:
        raise BadField("checkpoint.protocol", "shmem is not possible inside a container", hint="use signal")
    if protocol is not CheckpointProtocol.SIGNAL and fields.signal:
        raise BadField("checkpoint.signal", f"work that is asked by {protocol} gets no signal", hint="leave it out")
    if fields.port and (protocol is not CheckpointProtocol.GRPC or not 1 <= fields.port <= LAST_PORT):
        raise BadField(
            "checkpoint.port", f"{fields.port} is not possible", hint=f"1 to {LAST_PORT}, with protocol grpc"
        )
    return CheckpointWay(strategy=strategy, protocol=protocol, signal=_signal(fields.signal), port=fields.port)


def _strategy(fields: CheckpointFields) -> CheckpointStrategy | None:
    word = fields.strategy.lower()
    if word == NONE:
        if fields.protocol or fields.signal or fields.port:
            raise BadField(
                "checkpoint", "strategy none has neither a protocol nor a signal nor a port", hint="leave them out"
            )
        return None
    if not word and not fields.protocol and not fields.signal and not fields.port:
        raise BadField("checkpoint", "says nothing", hint='give a strategy or a protocol, as in {"protocol": "signal"}')
    try:
        return CheckpointStrategy(word or CheckpointStrategy.AUTO.value)
    except ValueError:
        raise BadField(
            "checkpoint.strategy", f'"{fields.strategy[:40]}" is no strategy', hint="use auto, manual or none"
        ) from None


def _signal(text: str) -> int:
    if not text:
        return SIGUSR1
    number = parse_signal(text)
    if number is None or number in (9, 19):
        raise BadField(
            "checkpoint.signal", f'"{text[:40]}" is no signal that work can catch', hint=f"such as USR1, or 1 to {LAST}"
        )
    return number


def open_view(checkpoint: OpenCheckpoint) -> CheckpointView:
    wrote = [each for each in checkpoint.nodes if each.phase in (CheckpointPhase.DONE, CheckpointPhase.SEALED)]
    return CheckpointView(
        n=checkpoint.n,
        state=WRITING,
        run=checkpoint.run,
        path=checkpoint.path,
        reason=checkpoint.reason.value,
        requested_at=rfc3339(checkpoint.asked_at),
        completed_at=None,
        bytes=sum(each.bytes for each in wrote),
        seconds=0.0,
        nodes=len(wrote),
        message="",
    )


def ended_view(checkpoint: Checkpoint) -> CheckpointView:
    return CheckpointView(
        n=checkpoint.n,
        state=COMPLETE if checkpoint.is_complete else FAILED,
        run=checkpoint.run,
        path=checkpoint.path,
        reason=checkpoint.reason.value,
        requested_at=rfc3339(checkpoint.asked_at),
        completed_at=rfc3339(checkpoint.ended_at) if checkpoint.is_complete else None,
        bytes=checkpoint.bytes,
        seconds=round(checkpoint.elapsed_s, 3),
        nodes=checkpoint.nodes,
        message=checkpoint.message,
        stored=checkpoint.is_stored,
    )


def checkpoint_views(record: Allocation) -> list[CheckpointView]:
    """Those that are kept, the newest that failed, and the one that is being written, by number."""
    known = record.checkpoints
    views = [ended_view(each) for each in known.kept]
    views += [ended_view(known.failed)] if known.failed is not None else []
    views += [open_view(known.open)] if known.open is not None else []
    return sorted(views, key=lambda view: view.n)


def standing_of(record: Allocation) -> CheckpointStanding | None:
    """None for work that has nothing to do with checkpoints."""
    known = record.checkpoints
    if known.way is None and not known.resume_path:
        return None
    newest, way = known.newest, known.way
    return CheckpointStanding(
        strategy=NONE if way is None else way.strategy.value,
        protocol="" if way is None else way.protocol.value,
        complete=len(known.kept),
        last_completed_at=None if newest is None else rfc3339(newest.ended_at),
        writing=0 if known.open is None else known.open.n,
        failures=known.failures,
        message=known.unheard or (known.failed.message if known.failed is not None and known.failures else ""),
        resume_from=known.resume_path,
        signal=signal_name(way.signal) if way is not None and way.protocol is CheckpointProtocol.SIGNAL else "",
        port=0 if way is None else way.port,
    )
