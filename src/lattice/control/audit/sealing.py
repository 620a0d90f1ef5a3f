"""Seals the audit chain with this server's key, moves old segments to the object store, and takes refusals in, counted.

Wakes every second. The chain itself is written by the commands that it records; what is decided here is only when.
A segment is in the object store, under a name that says what is in it, before the command that lets it leave the state: done
twice, by two leaders, it is the same object.
"""

import asyncio
import logging
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.audit.keys import Signer, is_signed
from lattice.control.loop import Guard, keep_turning
from lattice.core.machine.commands import AddAuditKey, ArchiveAudit, RecordAudit, SealAudit
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.parts.audit import AuditRegistry
from lattice.core.model.site.audit import AuditKey, AuditNote, AuditOutcome, AuditSeal, seal_message
from lattice.ports.clock import Clock
from lattice.ports.quorum.object_store import ObjectStore, ObjectStoreError
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.audit import AuditError
from lattice.wire.files.audit import ARCHIVE, SegmentName, chain_lines, parse_segment

ACTOR = "audit"
EVERY_S = 1.0
SEAL_BATCH = 1000
ARCHIVE_BATCH = 10_000
REPEAT_MS = 60_000
MAX_DIFFERENT = 64
TRIES = 5
RETENTION_EVERY_MS = 3_600_000
EPOCHS_SINCE_LEVEL = 2

_log = logging.getLogger(__name__)


class AuditSettings(Struct, frozen=True, kw_only=True):
    """The hot chain keeps `keep` sealed entries at the most, and none that is older than `archive_after_s`."""

    seal_every_s: float = 10.0
    keep: int = 10_000
    archive_after_s: float = 86_400.0
    retention_s: float = 7 * 365.25 * 86_400


class Refusals:
    """What was refused, waiting to be recorded: the first one immediately, repeats counted for a minute, bounded."""

    def __init__(self) -> None:
        self._counts: dict[AuditNote, int] = {}
        self._recorded: dict[AuditNote, int] = {}  # when last

    def add(self, note: AuditNote) -> None:
        if note not in self._counts and len(self._counts) >= MAX_DIFFERENT:
            note = AuditNote(kind=note.kind, outcome=AuditOutcome.REFUSED, detail="various")
        self._counts[note] = self._counts.get(note, 0) + 1

    def due(self, now_ms: int) -> tuple[AuditNote, ...]:
        """Those to be recorded now, with their counts; the others wait."""
        self._recorded = {note: at for note, at in self._recorded.items() if at > now_ms - REPEAT_MS}
        allowed = max(0, MAX_DIFFERENT - len(self._recorded))
        fresh = [note for note in self._counts if note not in self._recorded]
        chosen = fresh[:allowed]
        self._recorded.update(dict.fromkeys(chosen, now_ms))
        return tuple(replace(note, count=self._counts.pop(note)) for note in chosen)


def signed_seal(registry: AuditRegistry, last: int, signer: Signer, now_ms: int, epoch: int) -> AuditSeal:
    """The seal over everything behind the newest one up to the entry `last`; raises AuditError."""
    bare = AuditSeal(
        first=registry.head.sealed + 1,
        last=last,
        previous=registry.head.sealed_link,
        head=registry.entries[last].link,
        key=signer.id,
        sealed_at=now_ms,
        signature="",
        epoch=epoch,
    )
    message = seal_message(bare)
    signature = signer.sign(message)
    if not is_signed(signer.public, message, signature):
        raise AuditError("the audit key makes signatures that do not verify")
    return replace(bare, signature=signature)


class Auditing:
    """Implements `AuditService`; `begin` has to come before anything is served."""

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        signer: Signer,
        objects: ObjectStore | None,
        settings: AuditSettings,
        epoch: int = 0,
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._signer = signer
        self._objects = objects
        self._settings = settings
        self._epoch = epoch
        self._guard = Guard(ACTOR)
        self._refusals = Refusals()
        self._sealing = asyncio.Lock()
        self._looked_for_old_at = 0

    @property
    def _registry(self) -> AuditRegistry:
        return self._replica.state.audit

    async def begin(self) -> None:
        """Makes this server's key one that seals; raises AuditError."""
        known = self._registry.keys.get(self._signer.id)
        if known is not None and not known.retired_at:
            return
        if known is not None:
            await asyncio.to_thread(self._signer.renew)
        await self._add_key(ACTOR)

    async def _add_key(self, actor: str) -> AuditKey:
        outcome = await self._replica.propose(AddAuditKey(key=self._signer.key), actor=actor)
        if isinstance(outcome, Rejected):
            raise AuditError(f"the audit key was refused: {outcome.message}")
        return self._registry.keys[self._signer.id]

    # the service

    def tell(self, note: AuditNote) -> None:
        self._refusals.add(note)

    def sign(self, message: bytes) -> tuple[str, str]:
        return self._signer.id, self._signer.sign(message)

    async def rotate(self, actor: str) -> AuditKey:
        async with self._sealing:
            await asyncio.to_thread(self._signer.renew)
            return await self._add_key(actor)

    async def seal(self) -> None:
        wanted = self._registry.head.last
        for _ in range(TRIES + wanted // SEAL_BATCH):
            if self._registry.head.sealed >= wanted:
                return
            await self._seal_once()
        if self._registry.head.sealed < wanted:
            raise AuditError("the audit chain could not be sealed")

    # the loop

    async def run(self) -> None:
        await keep_turning(ACTOR, self.turn)

    async def turn(self) -> None:
        for duty in (self.record_refusals, self.seal_due, self.archive_due, self.forget_old):
            with self._guard.item(duty.__name__):
                await duty()
        await asyncio.sleep(EVERY_S)

    async def record_refusals(self) -> None:
        notes = self._refusals.due(self._clock.now_ms())
        if notes:
            await self._replica.propose(RecordAudit(notes=notes), actor=ACTOR)

    async def seal_due(self) -> None:
        if self._is_seal_due():
            await self._seal_once()

    def _is_seal_due(self) -> bool:
        head = self._registry.head
        if head.last == head.sealed:
            return False
        oldest = self._registry.entries[head.sealed + 1].entry.at
        waited_ms = self._clock.now_ms() - oldest
        return head.last - head.sealed >= SEAL_BATCH or waited_ms >= self._settings.seal_every_s * 1000

    async def _seal_once(self) -> None:
        async with self._sealing:
            made = self._make_seal()
            if made is None:
                return
            outcome = await self._replica.propose(SealAudit(seal=made), actor=ACTOR)
            if isinstance(outcome, Rejected) and outcome.code != "stale":
                raise AuditError(f"a seal was refused: {outcome.message}")

    def _make_seal(self) -> AuditSeal | None:
        head = self._registry.head
        last = min(head.last, head.sealed + SEAL_BATCH)
        if last == head.sealed:
            return None
        # Servers of the release before know seals without an epoch alone.
        epoch = self._epoch if self._replica.state.level >= EPOCHS_SINCE_LEVEL else 0
        return signed_seal(self._registry, last, self._signer, self._clock.now_ms(), epoch)

    async def archive_due(self) -> None:
        """Moves the oldest sealed entries to the object store when they are too many or too old."""
        last = self._last_due()
        if not last or self._objects is None:
            return
        registry, head = self._registry, self._registry.head
        leaving = list(islice(registry.entries.values(), last - head.archived))
        lines = b"".join(line + b"\n" for line in chain_lines(leaving, registry.seals))
        first, final = leaving[0].entry, leaving[-1].entry
        name = SegmentName(first.seq, final.seq, first.at, final.at, head.archived_link, leaving[-1].link)
        try:
            await self._objects.put(name.text(), lines)
        except ObjectStoreError as error:
            _log.error("the audit chain cannot be archived and stays in the state: %s", error)
            return
        await self._replica.propose(ArchiveAudit(last=last), actor=ACTOR)

    def _last_due(self) -> int:
        """The end of the last seal that may leave now; 0 = none."""
        registry, head, settings = self._registry, self._registry.head, self._settings
        limit = self._clock.now_ms() - int(settings.archive_after_s * 1000)
        ends: Iterator[int] = (
            end
            for end in sorted(registry.seals)
            if end <= head.archived + ARCHIVE_BATCH
            and (head.sealed - end >= settings.keep or registry.entries[end].entry.at <= limit)
        )
        return max(ends, default=0)

    async def forget_old(self) -> None:
        """Deletes archived segments whose time is over; looks for them now and then."""
        now = self._clock.now_ms()
        if self._objects is None or now - self._looked_for_old_at < RETENTION_EVERY_MS:
            return
        self._looked_for_old_at = now
        limit = now - int(self._settings.retention_s * 1000)
        async for name in self._objects.names(ARCHIVE):
            segment = parse_segment(name)
            if segment is None or segment.last_at >= limit:
                continue
            with self._guard.item(name):
                await self._objects.delete(name)
                _log.info("audit entries %d to %d are older than kept: deleted", segment.first, segment.last)
