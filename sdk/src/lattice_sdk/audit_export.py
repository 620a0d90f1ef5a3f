"""Verifies an export of the audit chain without a server. Needs the package `cryptography` (`lattice-hpc-sdk[audit]`).

An export is lines of JSON: a head, entries with seals between them, an end. Of a complete one every line counts: each entry is bound to
all before it by SHA-256, each seal signs the link of its last entry, and the end signs every byte before it. A selection is signed by
its end alone. Any change, removal or addition of a byte is detected, unless its author has the key.

Restoring a backup takes a chain back to an earlier entry. The first entry of the restored history says so, and seals carry the epoch,
which rises with every restore: an epoch that rises without such an entry, or falls, is refused. `after` demands that the chain continues
from an entry that is known from elsewhere.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import Struct

from lattice_sdk.errors import LatticeError

VERSIONS = (1, 2)  # 2: seals may carry an epoch
RESTORED = "backup.restored"
SEAL_PREFIX = b"lattice audit seal 1\n"
END_PREFIX = b"lattice audit export 1\n"
T = TypeVar("T", bound=Struct)
_encode = msgspec.json.Encoder().encode


class AuditBroken(LatticeError):
    """The export is not what was exported; the text says where."""


class ChainHead(Struct, frozen=True):
    """An entry of the chain and its link: what a later export has to continue from."""

    seq: int
    link: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.link}"


class Verdict(Struct, frozen=True, kw_only=True):
    """What was verified. `keys` are the ids of the keys that signed; `trusted` says whether the caller had named them.

    `link` is that of the last entry, empty for a selection; `restores` are the entries that say that a backup was restored.
    """

    entries: int
    first: int
    last: int
    seals: int
    complete: bool
    exported_at: int
    exported_by: str
    keys: list[str]
    trusted: bool
    link: str = ""
    epoch: int = 0
    restores: list[int] = []


class _Key(Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    public: str
    server: str = ""
    added_at: int = 0
    retired_at: int = 0


class _Head(Struct, frozen=True, kw_only=True):
    version: int
    exported_at: int
    exported_by: str
    complete: bool
    first: int
    last: int
    previous: str
    entries: int
    keys: tuple[_Key, ...]
    selection: dict[str, str]


class _Seal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    first: int
    last: int
    previous: str
    head: str
    key: str
    sealed_at: int
    signature: str
    epoch: int = 0


class _End(Struct, frozen=True, kw_only=True):
    lines: int
    sha256: str
    key: str
    signature: str


class _HeadLine(Struct, frozen=True, forbid_unknown_fields=True):
    audit: _Head


class _SealLine(Struct, frozen=True, forbid_unknown_fields=True):
    seal: _Seal


class _EndLine(Struct, frozen=True, forbid_unknown_fields=True):
    end: _End


class _Place(Struct, frozen=True):
    seq: int
    kind: str = ""
    actor: str = ""
    detail: str = ""


def verify_export(
    lines: Iterable[bytes], trusted: Mapping[str, str] | None = None, after: ChainHead | None = None
) -> Verdict:
    """Verifies the lines of an export, each with its line break; raises AuditBroken.

    `trusted` are public keys in hex by their id; without them the keys in the export itself are taken, which shows damage but not a
    forgery that brings its own key. With `after` the export has to continue the chain from that entry.
    """
    check = _Check(trusted, after)
    for line in lines:
        check.take(line)
    return check.verdict()


class _Check:
    def __init__(self, trusted: Mapping[str, str] | None, after: ChainHead | None) -> None:
        self._trusted = trusted
        self._continuation = None if after is None else _Continuation(after)
        self._restores: list[_Place] = []
        self._epoch = 0
        self._digest = sha256()
        self._lines = 0
        self._head: _Head | None = None
        self._keys: dict[str, str] = {}
        self._used: dict[str, None] = {}
        self._entries = self._seals = self._seq = self._sealed = 0
        self._link = self._sealed_link = ""
        self._end: _End | None = None

    def take(self, line: bytes) -> None:
        if self._end is not None:
            raise self._broken("there are lines after the end")
        if not line.endswith(b"\n"):
            raise self._broken("the line is cut off")
        text = line[:-1]
        if self._head is None:
            self._take_head(text)
        elif text.startswith(b'{"end"'):
            self._take_end(text)
            return
        elif text.startswith(b'{"seal"'):
            self._take_seal(text)
        else:
            self._take_entry(text)
        self._digest.update(line)
        self._lines += 1

    def verdict(self) -> Verdict:
        head = self._head
        if head is None or self._end is None:
            raise self._broken("the export has no end: it was cut off")
        if head.complete:
            if self._sealed != self._seq:
                raise self._broken("the last entries are not sealed")
            if (head.first + self._entries - 1, head.last) != (self._seq, self._seq):
                raise self._broken("the head names other entries than there are")
        if head.entries != self._entries:
            raise self._broken(f"there are {self._entries} entries, the head says {head.entries}")
        if self._continuation is not None:
            self._continuation.finish(head, self._restores)
        return Verdict(
            entries=self._entries,
            first=head.first,
            last=head.last,
            seals=self._seals,
            complete=head.complete,
            exported_at=head.exported_at,
            exported_by=head.exported_by,
            keys=list(self._used),
            trusted=self._trusted is not None,
            link=self._link if head.complete else "",
            epoch=self._epoch,
            restores=[entry.seq for entry in self._restores],
        )

    def _take_head(self, text: bytes) -> None:
        head = self._read(text, _HeadLine).audit
        if head.version not in VERSIONS:
            raise self._broken(f"version {head.version} is not known here")
        self._head = head
        for key in head.keys:
            if _fingerprint(key.public) != key.id:
                raise self._broken(f"key {key.id} is not what its id says")
            self._keys[key.id] = key.public
        self._link = self._sealed_link = head.previous
        self._seq = self._sealed = head.first - 1
        if self._continuation is not None and head.complete:
            self._continuation.reach(self._seq, self._link, self._restores)

    def _take_entry(self, text: bytes) -> None:
        try:
            entry = msgspec.json.decode(text, type=_Place)
        except (msgspec.MsgspecError, ValueError):
            raise self._broken("the line is no entry") from None
        seq, head = entry.seq, self._head
        if head is not None and head.complete:
            if seq != self._seq + 1:
                raise self._broken(f"entry {seq} follows entry {self._seq}")
            self._link = _next_link(self._link, text)
        elif self._entries and seq <= self._seq:
            raise self._broken(f"entry {seq} follows entry {self._seq}")
        self._seq = seq
        self._entries += 1
        if entry.kind == RESTORED:
            self._restores.append(entry)
        if self._continuation is not None and head is not None and head.complete:
            self._continuation.reach(seq, self._link, self._restores)

    def _take_seal(self, text: bytes) -> None:
        seal = self._read(text, _SealLine).seal
        if (seal.first, seal.previous) != (self._sealed + 1, self._sealed_link):
            raise self._broken("the seal does not follow the one before it")
        if (seal.last, seal.head) != (self._seq, self._link):
            raise self._broken(f"the entries {seal.first} to {seal.last} are not those that were sealed")
        bare = msgspec.structs.replace(seal, signature="")
        self._verify(seal.key, SEAL_PREFIX + _encode(bare), seal.signature)
        self._take_epoch(seal)
        self._sealed, self._sealed_link = seal.last, seal.head
        self._seals += 1

    def _take_epoch(self, seal: _Seal) -> None:
        if self._epoch and seal.epoch < self._epoch:
            raise self._broken(f"the seal is of epoch {seal.epoch}, the one before it of the later epoch {self._epoch}")
        is_told = any(seal.first <= entry.seq <= seal.last for entry in self._restores)
        if self._epoch and seal.epoch > self._epoch and not is_told:
            raise self._broken(
                f"a backup was restored between the entries {seal.first} and {seal.last}, and no entry says so"
            )
        self._epoch = seal.epoch

    def _take_end(self, text: bytes) -> None:
        end = self._read(text, _EndLine).end
        if (end.lines, end.sha256) != (self._lines, self._digest.hexdigest()):
            raise self._broken("the lines before the end are not those that were signed")
        self._verify(end.key, END_PREFIX + f"{end.lines} {end.sha256}".encode(), end.signature)
        self._end = end

    def _read(self, text: bytes, kind: type[T]) -> T:
        try:
            read = msgspec.json.decode(text, type=kind)
        except (msgspec.MsgspecError, ValueError) as error:  # the latter for what is no UTF-8
            raise self._broken(f"the line cannot be read: {error}") from None
        # One way of writing only: what means the same but reads otherwise was changed.
        if _encode(read) != text:
            raise self._broken("the line is not written as it was exported")
        return read

    def _verify(self, key: str, message: bytes, signature: str) -> None:
        known = self._keys if self._trusted is None else self._trusted
        public = known.get(key)
        if public is None:
            raise self._broken(f"key {key} is not among those that are trusted")
        # Hex has two ways of writing the same bytes; only one of them was exported.
        if signature != signature.lower() or not _is_signed(public, message, signature):
            raise self._broken(f"the signature by key {key} is wrong")
        self._used[key] = None

    def _broken(self, what: str) -> AuditBroken:
        return AuditBroken(f"line {self._lines + 1}: {what}")


class _Continuation:
    """Whether the chain passes through an entry that is known from elsewhere."""

    def __init__(self, after: ChainHead) -> None:
        self._after = after
        self._is_reached = False

    def reach(self, seq: int, link: str, restores: Sequence[_Place]) -> None:
        if seq != self._after.seq:
            return
        if link != self._after.link:
            raise AuditBroken(f"entry {seq} is not the one that was known earlier: {_rewound(restores)}")
        self._is_reached = True

    def finish(self, head: _Head, restores: Sequence[_Place]) -> None:
        if self._is_reached:
            return
        if not head.complete:
            raise AuditBroken("a selection cannot show that the chain was continued; export the whole chain")
        if head.last < self._after.seq:
            raise AuditBroken(
                f"the chain ends at entry {head.last}, earlier it reached entry {self._after.seq}: {_rewound(restores)}"
            )
        raise AuditBroken(
            f"the export begins at entry {head.first}, behind entry {self._after.seq}: it does not show what lies between"
        )


def _rewound(restores: Sequence[_Place]) -> str:
    told = [f"entry {entry.seq} by {entry.actor}: {entry.detail}" for entry in restores]
    return "; ".join(("the chain was taken back", *told[-3:]))


def _fingerprint(public: str) -> str:
    try:
        return sha256(bytes.fromhex(public)).hexdigest()[:16]
    except ValueError:
        return ""


def _next_link(previous: str, line: bytes) -> str:
    try:
        return sha256(bytes.fromhex(previous) + line).hexdigest()
    except ValueError:
        return ""


def _is_signed(public: str, message: bytes, signature: str) -> bool:
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        raise LatticeError("verifying needs the package cryptography: pip install 'lattice-hpc-sdk[audit]'") from None
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(bytes.fromhex(signature), message)
    except (InvalidSignature, ValueError):
        return False
    return True
