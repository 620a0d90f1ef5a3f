"""Advance reservations: nodes reserved for a period, for tenants and users or for maintenance. See docs/architecture/core.md."""

from msgspec import Struct


class AdvanceReservation(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Times in milliseconds since 1970. Admits work of its tenants and users; with neither it admits no work."""

    name: str
    start_at: int
    end_at: int
    nodes: tuple[str, ...] = ()  # empty = the whole machine
    tenants: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    repeat_s: int = 0  # 0 = once
    until: int = 0  # no repeat starts at or after this; 0 = no end
    reason: str = ""
    created_by: str = ""
    created_at: int = 0

    def occurrence(self, now: int) -> tuple[int, int] | None:
        """The present or next window; None when all lie in the past."""
        start, end = self.start_at, self.end_at
        if end <= now and self.repeat_s:
            step = self.repeat_s * 1000
            periods = (now - end) // step + 1
            start, end = start + periods * step, end + periods * step
        if end <= now or (self.until and start >= self.until):
            return None
        return start, end

    def admits(self, tenant: str, user: str) -> bool:
        return tenant in self.tenants or user in self.users

    def covers(self, node: str) -> bool:
        return not self.nodes or node in self.nodes
