"""What the scheduling loop tells others about itself."""

from typing import Protocol

from msgspec import Struct


class SchedulingStatus(Struct, frozen=True, kw_only=True):
    """The loop's own figures since the server started."""

    cycles: int = 0
    last_cycle_at: int = 0  # ms since 1970, 0 = none yet
    last_cycle_ms: float = 0.0
    last_placements: int = 0
    placements: int = 0


class SchedulingView(Protocol):
    def reason_for(self, number: int) -> str:
        """Why this allocation or task group waits, in one sentence; empty when the last cycle said nothing of it."""
        ...

    def status(self) -> SchedulingStatus:
        """The loop's figures."""
        ...
