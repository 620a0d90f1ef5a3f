"""How the API reaches the loop that brings data to the hot tier."""

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from lattice.core.machine.commands import ReportCopy
from lattice.core.model.data.copies import Copy
from lattice.core.model.work.allocations import Allocation


class Progress(Struct, frozen=True, kw_only=True):
    """How far a copy is, as its mover last said."""

    bytes_done: int = 0
    bytes_total: int = 0
    bytes_per_s: float = 0.0

    @property
    def percent(self) -> float:
        return 100.0 * self.bytes_done / self.bytes_total if self.bytes_total else 0.0

    @property
    def seconds_left(self) -> float | None:
        if not self.bytes_per_s or not self.bytes_total:
            return None
        return (self.bytes_total - self.bytes_done) / self.bytes_per_s


class TierUse(Struct, frozen=True, kw_only=True):
    """The hot tier; `capacity` 0 = no mover has said it yet."""

    capacity: int = 0
    used: int = 0
    movers: int = 0  # that are heard


class StagingFigures(Struct, frozen=True, kw_only=True):
    """Since this leader began, and now."""

    moved_bytes: int = 0
    moved_seconds: float = 0.0
    failures: int = 0
    waiting: int = 0  # allocations and groups in Staging
    tier: TierUse = TierUse()


class MoverWork(Struct, frozen=True, kw_only=True):
    """What a mover has to do: copies it has claimed just now, with who wants to read them, and generations to remove."""

    claimed: tuple[tuple[Copy, tuple[str, ...]], ...] = ()
    remove: tuple[tuple[str, int], ...] = ()
    stop: tuple[str, ...] = ()
    bytes_per_s: float = 0.0


class StagingService(Protocol):
    async def work_for(
        self,
        mover: str,
        *,
        slots: int,
        wait_s: float,
        progress: Sequence[tuple[str, int, Progress]],
        space: tuple[int, int],
    ) -> MoverWork:
        """Notes that the mover is alive and how far it is; claims for it what it can take on."""
        ...

    async def reported(self, report: ReportCopy) -> str | None:
        """Enters what a mover says; None when it may continue, else why not."""
        ...

    def progress_of(self, copy: Copy) -> Progress:
        """How far the copy is."""
        ...

    def reason_for(self, head: Allocation) -> str:
        """Why work in Staging waits, in one sentence."""
        ...

    def tier(self) -> TierUse: ...
