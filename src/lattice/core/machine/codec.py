"""Commands and state as bytes, with the level they need, so that a server that cannot read something stops instead of guessing.

Batches: a header with the level at which they were written and the lowest that a reader must support, then the envelopes.
State: named chunks, the first with the same two numbers. docs/architecture/upgrades.md.

Rules that keep old bytes readable. Names of chunks and tags of records never change, also where the code calls them otherwise by
now ("stories" are histories). Records gain fields with defaults and lose none. Whatever a release of the oldest level could not
read is written only at a level that it does not support; `levels.py` knows which that is.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import assert_never, cast

import msgspec
from msgspec import Struct

from lattice.core.machine.commands import Envelope
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.parts.folded_tasks import FoldedChunk
from lattice.core.machine.parts.node_history import NodeHistory
from lattice.core.machine.state import FrozenView, Recent, SnapshotPointer, State
from lattice.core.model.data.copies import Copy
from lattice.core.model.nodes.admission import Admission, Enrolment
from lattice.core.model.nodes.drift import AcceptedFingerprint, Baseline, Drift
from lattice.core.model.nodes.nodes import Node
from lattice.core.model.services.rollouts import ServiceRevision
from lattice.core.model.site.audit import AuditHead, AuditKey, AuditSeal, ChainedEntry
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import Project, Tenant, Vcluster
from lattice.core.model.site.upgrades import Upgrade
from lattice.core.model.work.allocations import Allocation, AllocationState, TaskGroup
from lattice.core.model.work.dags import Dag
from lattice.core.model.work.evictions import Eviction
from lattice.core.model.work.ledger import Ledger
from lattice.core.model.work.notifications import BudgetNote, Notification, NotifyDefault

RECORDS_PER_CHUNK = 5_000
HISTORIES_PER_CHUNK = 200
REVISIONS_PER_CHUNK = 50  # each has its program
PAYLOAD_BYTES_PER_CHUNK = 1 << 20


class UnreadableBatch(Exception):
    """An entry or snapshot that this version does not understand, or that is damaged."""


class LevelTooHigh(UnreadableBatch):
    """An entry or snapshot of a cluster whose level this release does not support."""


def _too_high(what: str, level: int) -> LevelTooHigh:
    return LevelTooHigh(
        f"{what} needs level {level}, and this release supports levels {OLDEST} to {NEWEST}: a newer release raised the "
        "cluster's level, and there is no way back from that; upgrade this server, or restore a backup from before"
    )


class Batch(Struct, frozen=True):
    """One entry of the log. The id tells a writer whose answer got lost whether the entry at an index is its own."""

    batch_id: str
    envelopes: tuple[Envelope, ...]


class _Header(Struct, frozen=True, array_like=True):
    """Decoded first, with the commands left as they are: a reader must know that it may not read them before it tries."""

    format: int
    oldest_reader: int
    batch_id: str
    envelopes: msgspec.Raw


_encoder = msgspec.msgpack.Encoder()
_header_decoder = msgspec.msgpack.Decoder(_Header)
_envelopes_decoder = msgspec.msgpack.Decoder(tuple[Envelope, ...])


def encode_batch(batch_id: str, envelopes: Sequence[Envelope], level: int = OLDEST) -> bytes:
    """One log entry, for readers that support this level."""
    return _encoder.encode((level, level, batch_id, envelopes))


def decode_batch(payload: bytes) -> Batch:
    """The commands of a log entry; UnreadableBatch when a newer version wrote it or it is damaged."""
    try:
        header = _header_decoder.decode(payload)
        if header.oldest_reader > NEWEST:
            raise _too_high("the log entry", header.oldest_reader)
        return Batch(header.batch_id, _envelopes_decoder.decode(header.envelopes))
    except msgspec.MsgspecError as problem:
        raise UnreadableBatch(f"the log entry cannot be decoded: {problem}") from problem


class _Meta(Struct, frozen=True, kw_only=True):
    """Everything that exists once. It comes first, so that a snapshot of a later level is refused before anything is loaded."""

    format: int
    oldest_reader: int
    next_number: int
    last_at: int
    snapshot: SnapshotPointer
    finished: dict[AllocationState, int]
    settings: dict[str, str]
    tenants: tuple[Tenant, ...]
    projects: tuple[Project, ...]
    vclusters: tuple[Vcluster, ...]
    reservations: tuple[AdvanceReservation, ...] = ()
    next_notification: int = 1
    audit: AuditHead = AuditHead()
    digest: str


# The digest is a sum over records, so the order of chunks does not matter to it. What is derived from records of two kinds is made
# when all are loaded (`_count_nodes`), for the same reason.
def encode_state_chunks(view: FrozenView) -> Iterator[tuple[str, bytes]]:
    """The state as named chunks of bounded size; lazily, so that the writer can pause in between."""
    meta = _Meta(
        format=view.level,
        oldest_reader=view.level,
        next_number=view.next_number,
        last_at=view.last_at,
        snapshot=view.snapshot,
        finished=view.finished,
        settings=view.settings,
        tenants=tuple(view.tenants.values()),
        projects=tuple(view.projects.values()),
        vclusters=tuple(view.vclusters.values()),
        reservations=tuple(view.reservations.values()),
        next_notification=view.next_notification,
        audit=view.audit_head,
        digest=view.digest,
    )
    yield "meta", _encoder.encode(meta)
    yield from _chunks("nodes", view.nodes.values(), RECORDS_PER_CHUNK)
    yield from _chunks("allocations", view.allocations.values(), RECORDS_PER_CHUNK)
    yield from _chunks("groups", view.groups.values(), RECORDS_PER_CHUNK)
    yield from _chunks("folded", (chunk for rows in view.folded.values() for chunk in rows.chunks()), 1)
    yield from _payload_chunks(view.payloads)
    yield from _chunks("ledger", view.ledger.values(), RECORDS_PER_CHUNK)
    yield from _chunks("notifications", view.notifications.values(), RECORDS_PER_CHUNK)
    yield from _chunks("notify_defaults", view.notify_defaults.values(), RECORDS_PER_CHUNK)
    yield from _chunks("budget_notes", view.budget_notes, RECORDS_PER_CHUNK)
    yield from _chunks("dags", view.dags.values(), RECORDS_PER_CHUNK)
    yield from _chunks("audit_keys", view.audit_keys, RECORDS_PER_CHUNK)
    yield from _chunks("audit_seals", view.audit_seals, RECORDS_PER_CHUNK)
    yield from _chunks("audit", view.audit, RECORDS_PER_CHUNK)
    yield from _chunks("drifts", view.drifts, RECORDS_PER_CHUNK)
    yield from _chunks("baselines", view.baselines, RECORDS_PER_CHUNK)
    yield from _chunks("accepted", view.accepted, RECORDS_PER_CHUNK)
    yield from _chunks("admissions", view.admissions, RECORDS_PER_CHUNK)
    yield from _chunks("enrolments", view.enrolments, RECORDS_PER_CHUNK)
    yield from _chunks("evictions", view.evictions, RECORDS_PER_CHUNK)
    yield from _chunks("copies", view.copies, RECORDS_PER_CHUNK)
    yield from _chunks("revisions", view.revisions, REVISIONS_PER_CHUNK)
    yield from _chunks("upgrades", view.upgrades, RECORDS_PER_CHUNK)
    histories = (NodeHistory(node=node, entries=entries) for node, entries in view.histories.items())
    yield from _chunks("stories", histories, HISTORIES_PER_CHUNK)
    yield from _chunks("recent", view.recent, RECORDS_PER_CHUNK)


def _chunks(name: str, records: Iterable[object], size: int) -> Iterator[tuple[str, bytes]]:
    """Numbered pieces of one kind, in the order of the state's own dicts; a kind without records has no chunk."""
    iterator = iter(records)
    count = 0
    while chunk := tuple(islice(iterator, size)):
        yield f"{name}-{count:06d}", _encoder.encode(chunk)
        count += 1


def _payload_chunks(payloads: dict[int, bytes]) -> Iterator[tuple[str, bytes]]:
    """Payloads differ much in size, so their chunks are bounded by bytes, not by number."""
    count = size = 0
    chunk: list[tuple[int, bytes]] = []
    for item in payloads.items():
        chunk.append(item)
        size += len(item[1])
        if size >= PAYLOAD_BYTES_PER_CHUNK or len(chunk) >= RECORDS_PER_CHUNK:
            yield f"payloads-{count:06d}", _encoder.encode(chunk)
            chunk, size, count = [], 0, count + 1
    if chunk:
        yield f"payloads-{count:06d}", _encoder.encode(chunk)


_meta_decoder = msgspec.msgpack.Decoder(_Meta)
_chunk_decoders: dict[str, msgspec.msgpack.Decoder[tuple[object, ...]]] = {
    "nodes": msgspec.msgpack.Decoder(tuple[Node, ...]),
    "allocations": msgspec.msgpack.Decoder(tuple[Allocation, ...]),
    "groups": msgspec.msgpack.Decoder(tuple[TaskGroup, ...]),
    "folded": msgspec.msgpack.Decoder(tuple[FoldedChunk, ...]),
    "payloads": msgspec.msgpack.Decoder(tuple[tuple[int, bytes], ...]),
    "ledger": msgspec.msgpack.Decoder(tuple[Ledger, ...]),
    "notifications": msgspec.msgpack.Decoder(tuple[Notification, ...]),
    "notify_defaults": msgspec.msgpack.Decoder(tuple[NotifyDefault, ...]),
    "budget_notes": msgspec.msgpack.Decoder(tuple[BudgetNote, ...]),
    "dags": msgspec.msgpack.Decoder(tuple[Dag, ...]),
    "audit_keys": msgspec.msgpack.Decoder(tuple[AuditKey, ...]),
    "audit_seals": msgspec.msgpack.Decoder(tuple[AuditSeal, ...]),
    "audit": msgspec.msgpack.Decoder(tuple[ChainedEntry, ...]),
    "drifts": msgspec.msgpack.Decoder(tuple[Drift, ...]),
    "baselines": msgspec.msgpack.Decoder(tuple[Baseline, ...]),
    "accepted": msgspec.msgpack.Decoder(tuple[AcceptedFingerprint, ...]),
    "admissions": msgspec.msgpack.Decoder(tuple[Admission, ...]),
    "enrolments": msgspec.msgpack.Decoder(tuple[Enrolment, ...]),
    "evictions": msgspec.msgpack.Decoder(tuple[Eviction, ...]),
    "copies": msgspec.msgpack.Decoder(tuple[Copy, ...]),
    "revisions": msgspec.msgpack.Decoder(tuple[ServiceRevision, ...]),
    "upgrades": msgspec.msgpack.Decoder(tuple[Upgrade, ...]),
    "stories": msgspec.msgpack.Decoder(tuple[NodeHistory, ...]),
    "recent": msgspec.msgpack.Decoder(tuple[Recent, ...]),
}


def decode_state_chunks(chunks: Iterable[tuple[str, bytes]]) -> State:
    """The state from its chunks, after recomputing and comparing its digest; UnreadableBatch on any mismatch."""
    state = State.empty()
    expected: str | None = None
    for name, data in chunks:
        try:
            if name == "meta":
                expected = _load_meta(state, _meta_decoder.decode(data))
            else:
                _load_chunk(state, name.rpartition("-")[0], data)
        except (msgspec.MsgspecError, KeyError, ValueError) as problem:
            raise UnreadableBatch(f"snapshot chunk {name} cannot be decoded: {problem}") from problem
    if expected != state.digest():
        raise UnreadableBatch(f"the snapshot's digest is {state.digest()}, expected {expected}")
    _count_nodes(state)
    return state


def _load_meta(state: State, meta: _Meta) -> str:
    if meta.oldest_reader > NEWEST:
        raise _too_high("the snapshot", meta.oldest_reader)
    state.level = meta.oldest_reader
    state.next_number = meta.next_number
    state.last_at = meta.last_at
    state.snapshot = meta.snapshot
    state.finished = dict(meta.finished)
    state.notifications.next_number = meta.next_notification
    state.audit.head = meta.audit
    for key, value in meta.settings.items():
        state.put_setting(key, value)
    for tenant in meta.tenants:
        state.put_tenant(tenant)
    for project in meta.projects:
        state.put_project(project)
    for vcluster in meta.vclusters:
        state.put_vcluster(vcluster)
    for reservation in meta.reservations:
        state.put_reservation(reservation)
    return meta.digest


def _load_chunk(state: State, kind: str, data: bytes) -> None:
    """By `put_*`, like folding: so every derived count and the digest are made by the code that keeps them, never read."""
    for record in _chunk_decoders[kind].decode(data):
        match record:
            case Allocation():
                state.put_allocation(record)
            case Node():
                state.put_node(record)
            case TaskGroup():
                state.put_group(record)
            case FoldedChunk():
                state.load_rows(record)
            case Ledger():
                state.put_ledger(record)
            case Recent():
                state.put_recent(record)
            case NodeHistory():
                state.histories.load(record)
            case Dag():
                state.dependencies.put_dag(record)
            case Copy() | ServiceRevision() | Upgrade() | BudgetNote():
                _load_later(state, record)
            case (
                Notification()
                | NotifyDefault()
                | AuditKey()
                | AuditSeal()
                | ChainedEntry()
                | Drift()
                | Baseline()
                | AcceptedFingerprint()
                | Admission()
                | Enrolment()
                | Eviction()
            ):
                _load_registry_record(state, record)
            case _:  # A typed decoder gives one of the above, or a payload.
                number, payload = cast("tuple[int, bytes]", record)
                state.put_payload(number, payload)


def _load_later(state: State, record: Copy | ServiceRevision | Upgrade | BudgetNote) -> None:
    """Records that level 2 added."""
    match record:
        case Copy():
            state.staging.put(record)
        case ServiceRevision():
            state.revisions.put(record)
        case Upgrade():
            state.upgrades.put(record)
        case BudgetNote():
            state.notifications.put_budget(record)
        case _:
            assert_never(record)


_RegistryRecord = (
    Notification
    | NotifyDefault
    | AuditKey
    | AuditSeal
    | ChainedEntry
    | Drift
    | Baseline
    | AcceptedFingerprint
    | Admission
    | Enrolment
    | Eviction
)


def _load_registry_record(state: State, record: _RegistryRecord) -> None:
    match record:
        case Notification():
            state.notifications.put(record)
        case NotifyDefault():
            state.notifications.put_default(record)
        case AuditKey():
            state.audit.put_key(record)
        case AuditSeal():
            state.audit.load_seal(record)
        case ChainedEntry():
            state.audit.load(record)
        case Drift():
            state.drift.put(record)
        case Baseline():
            state.drift.put_baseline(record)
        case AcceptedFingerprint():
            state.drift.put_accepted(record)
        case Admission():
            state.admission.put(record)
        case Enrolment():
            state.admission.put_enrolment(record)
        case Eviction():
            state.evictions.put(record)
        case _:
            assert_never(record)


def _count_nodes(state: State) -> None:
    """Node counts per tenant follow from the holders of the nodes."""
    for node in state.nodes.values():
        tenants = {tenure.tenant for tenure in node.tenures}
        if node.holder:
            tenants = {state.allocations[node.holder].tenant}
        for tenant in sorted(tenants):
            state.count_tenant(tenant, nodes=1)
