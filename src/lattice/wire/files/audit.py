"""The audit chain as lines of JSON: in the archive, in exports, and as records of the API.

    {"seq": ...}           an entry: its canonical bytes
    {"seal": {...}}        over the entries since the seal before it
    {"audit": {...}}       the first line of an export: what it holds, and the public keys
    {"end": {...}}         the last line of an export: a signature over everything before it

Names of archived segments say what is in them: first and last entry, their times, and the beginnings of the links before and at the end.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Struct

from lattice.core.model.ids import allocation_id
from lattice.core.model.site.audit import AuditEntry, AuditKey, AuditSeal, ChainedEntry, canonical
from lattice.wire.text.times import rfc3339

ARCHIVE = "audit/"
END_PREFIX = b"lattice audit export 1\n"
_LINK_PART = 16
_encode = msgspec.json.Encoder().encode


class AuditView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    seq: int
    at: str
    type: str
    actor: str
    outcome: str
    subject: str = ""
    user: str = ""
    tenant: str = ""
    allocation: str = ""
    nodes: tuple[str, ...] = ()
    detail: str = ""
    count: int = 1


class AuditKeyView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`public` is an Ed25519 key in hex; `id` begins its SHA-256."""

    id: str
    public: str
    server: str
    added_at: str
    retired_at: str = ""


class ExportHead(Struct, frozen=True, kw_only=True):
    """`complete`: every entry from `first` to `last` with the seals; otherwise a selection, which only the last line signs.

    Version 2: seals may carry the epoch.
    """

    version: int = 1
    exported_at: int
    exported_by: str
    complete: bool
    first: int
    last: int
    previous: str
    entries: int
    keys: tuple[AuditKey, ...]
    selection: dict[str, str]


class ExportEnd(Struct, frozen=True, kw_only=True):
    lines: int
    sha256: str
    key: str
    signature: str


class _SealLine(Struct, frozen=True):
    seal: AuditSeal


class _HeadLine(Struct, frozen=True):
    audit: ExportHead


class _EndLine(Struct, frozen=True):
    end: ExportEnd


_entry_decoder = msgspec.json.Decoder(AuditEntry)
_seal_decoder = msgspec.json.Decoder(_SealLine)


class SegmentName(NamedTuple):
    """What the name of an archived segment says."""

    first: int
    last: int
    first_at: int
    last_at: int
    previous: str
    head: str

    def text(self) -> str:
        return (
            f"{ARCHIVE}{self.first:012d}-{self.last:012d}-{self.first_at}-{self.last_at}"
            f"-{self.previous[:_LINK_PART]}-{self.head[:_LINK_PART]}.jsonl"
        )


def parse_segment(name: str) -> SegmentName | None:
    """None for what is no segment."""
    parts = name.removeprefix(ARCHIVE).removesuffix(".jsonl").split("-")
    if len(parts) != 6 or not all(part.isdigit() for part in parts[:4]):
        return None
    first, last, first_at, last_at = (int(part) for part in parts[:4])
    return SegmentName(first, last, first_at, last_at, parts[4], parts[5])


def in_order(names: Iterable[str], last: int, link: str) -> list[tuple[SegmentName, str]]:
    """The segments that follow one another without a break up to the entry `last` with this link.

    Segments of a history that was given up by restoring a backup are not among them.
    """
    by_end: dict[tuple[int, str], tuple[SegmentName, str]] = {}
    for name in names:
        parsed = parse_segment(name)
        if parsed is not None:
            by_end[parsed.last, parsed.head] = (parsed, name)
    chain: list[tuple[SegmentName, str]] = []
    place = (last, link[:_LINK_PART])
    while place in by_end:
        segment = by_end[place]
        chain.append(segment)
        place = (segment[0].first - 1, segment[0].previous)
    return chain[::-1]


def seal_line(seal: AuditSeal) -> bytes:
    return _encode(_SealLine(seal))


def head_line(head: ExportHead) -> bytes:
    return _encode(_HeadLine(head))


def end_line(end: ExportEnd) -> bytes:
    return _encode(_EndLine(end))


def end_message(lines: int, sha256: str) -> bytes:
    """What the last line of an export signs."""
    return END_PREFIX + f"{lines} {sha256}".encode()


def chain_lines(entries: Iterable[ChainedEntry], seals: Mapping[int, AuditSeal]) -> Iterator[bytes]:
    """Entries in their order, each seal behind the last entry that it seals."""
    for each in entries:
        yield canonical(each.entry)
        seal = seals.get(each.entry.seq)
        if seal is not None:
            yield seal_line(seal)


def read_lines(data: bytes) -> Iterator[AuditEntry | AuditSeal]:
    """The records of an archived segment; raises ValueError for what is none."""
    for line in data.splitlines():
        if line.startswith(b'{"seal"'):
            yield _seal_decoder.decode(line).seal
        else:
            yield _entry_decoder.decode(line)


def audit_view(entry: AuditEntry) -> AuditView:
    return AuditView(
        seq=entry.seq,
        at=rfc3339(entry.at) or "",
        type=entry.kind,
        actor=entry.actor,
        outcome=str(entry.outcome),
        subject=entry.subject,
        user=entry.user,
        tenant=entry.tenant,
        allocation=allocation_id(entry.allocation) if entry.allocation else "",
        nodes=entry.nodes,
        detail=entry.detail,
        count=entry.count,
    )


def audit_key_view(key: AuditKey) -> AuditKeyView:
    return AuditKeyView(
        id=key.id,
        public=key.public,
        server=key.server,
        added_at=rfc3339(key.added_at) or "",
        retired_at=(rfc3339(key.retired_at) or "") if key.retired_at else "",
    )
