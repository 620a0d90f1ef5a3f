"""The part of an audit chain that a restored backup does not hold, as an export that verifies on its own.

A restore gives entries up: they are in no state any more. They are kept as lines of JSON in the form of an export, sealed to the end
by the server that restores.
"""

from dataclasses import dataclass
from hashlib import sha256

from lattice.control.audit.keys import Signer
from lattice.control.audit.sealing import signed_seal
from lattice.core.machine.parts.audit import AuditRegistry
from lattice.core.model.site.audit import AuditHead
from lattice.wire.files.audit import ExportEnd, ExportHead, chain_lines, end_line, end_message, head_line

REPLACED = "audit-replaced/"


@dataclass(frozen=True)
class ReplacedTail:
    """`name` says which entries of which chain it holds: no two different ones share it."""

    name: str
    data: bytes


def replaced_tail(
    registry: AuditRegistry, kept: AuditHead, signer: Signer, now_ms: int, epoch: int
) -> ReplacedTail | None:
    """Everything behind the last seal that the restored chain has in common with this one; None when nothing is given up.

    What left the state is in the object store already, under names that no other chain uses.
    """
    head = registry.head
    if (head.last, head.link) == (kept.last, kept.link) or head.last == head.archived:
        return None
    first, previous = _beginning(registry, kept)
    seals = dict(registry.seals)
    if head.sealed < head.last:
        seals[head.last] = signed_seal(registry, head.last, signer, now_ms, epoch)
    keys = {**registry.keys, signer.id: registry.keys.get(signer.id, signer.key)}
    lines = [
        head_line(
            ExportHead(
                version=2,
                exported_at=now_ms,
                exported_by="restore",
                complete=True,
                first=first,
                last=head.last,
                previous=previous,
                entries=head.last - first + 1,
                keys=tuple(keys.values()),
                selection={},
            )
        )
    ]
    lines += chain_lines((registry.entries[seq] for seq in range(first, head.last + 1)), seals)
    body = b"".join(line + b"\n" for line in lines)
    digest = sha256(body).hexdigest()
    signature = signer.sign(end_message(len(lines), digest))
    end = end_line(ExportEnd(lines=len(lines), sha256=digest, key=signer.id, signature=signature))
    name = f"{REPLACED}{epoch}-{first:012d}-{head.last:012d}-{head.link[:16]}.jsonl"
    return ReplacedTail(name, body + end + b"\n")


def _beginning(registry: AuditRegistry, kept: AuditHead) -> tuple[int, str]:
    """The first entry to keep and the link before it: right behind a seal, so that the seals fit."""
    head = registry.head
    shared = [
        seal.last
        for seal in registry.seals.values()
        if seal.last <= kept.last and registry.link_at(kept.last) == kept.link
    ]
    last = max(shared, default=head.archived)
    return last + 1, registry.link_at(last) or head.archived_link
