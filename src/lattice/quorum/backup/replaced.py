"""What a restore replaces: the end of the former audit chain, and the entry that records it in the new one.

A restore takes the audit chain back to where it was when the backup was made. So the first entry of the restored history names who
asked for it, the backup, and the last entry of the chain that it replaces, as far as that is known.
"""

from pathlib import Path

import msgspec

from lattice.core.machine.apply import apply
from lattice.core.machine.codec import UnreadableBatch, decode_batch
from lattice.core.machine.state import State
from lattice.core.model.site.audit import AuditNote
from lattice.ports.quorum.log import LogError
from lattice.quorum.backup.folder import Manifest
from lattice.quorum.logs.sqlite import read_file
from lattice.quorum.snapshots.folders import SnapshotDamaged, SnapshotFolder

KIND = "backup.restored"


class ChainEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest known entry of a chain, its link, and the epoch of its log. 0 = unknown."""

    last: int = 0
    link: str = ""
    epoch: int = 0


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who requested a restore, and the end of the chain that it replaces."""

    actor: str = ""
    replaced: ChainEnd = ChainEnd()


UNKNOWN = Origin()


def state_of(data_dir: Path) -> State | None:
    """The state of a stopped single server: its newest snapshot and the log after it. None if it cannot be read.

    Of one of several servers the snapshot alone is read: their log lies in etcd. Blocks.
    """
    log = data_dir / "log.db"
    try:
        found = SnapshotFolder(data_dir / "snapshots").newest(0)
        index, state = (0, State.empty()) if found is None else found
        if log.exists():
            for entry in read_file(log, index + 1):
                for envelope in decode_batch(entry.payload).envelopes:
                    apply(state, envelope)
    except (LogError, SnapshotDamaged, UnreadableBatch, AssertionError):
        return None
    return state


def end_of(state: State, epoch: int) -> ChainEnd:
    return ChainEnd(last=state.audit.head.last, link=state.audit.head.link, epoch=epoch)


def note_of(origin: Origin, backup: Path, manifest: Manifest) -> AuditNote:
    """The first entry of the restored chain."""
    end = origin.replaced
    known = f"replaces the chain up to entry {end.last}, link {end.link}, epoch {end.epoch}"
    detail = (
        f"state {manifest.digest} after log entry {manifest.index}, epoch {manifest.epoch}, made {manifest.created_at} "
        f"by {manifest.server}; {known if end.last else 'how far the replaced chain had come is not known'}"
    )
    return AuditNote(kind=KIND, actor=origin.actor, subject=str(backup)[-256:], detail=detail)
