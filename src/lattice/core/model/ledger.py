"""What users have consumed, by day: the source of fair share, budgets and usage reports."""

from msgspec import Struct
from msgspec.structs import replace

DAY_MS = 86_400_000
KEPT_DAYS = 400


class Ledger(Struct, frozen=True, kw_only=True, gc=False):
    """Node and GPU milliseconds of one user in one project, by the day (since 1970) on which a run ended."""

    tenant: str
    project: str
    user: str
    days: tuple[tuple[int, int, int], ...] = ()  # (day, node_ms, gpu_ms), rising

    def with_run(self, at: int, node_ms: int, gpu_ms: int) -> "Ledger":
        """The ledger after a run that ended at `at`; days beyond the kept ones are forgotten."""
        day = at // DAY_MS
        days = tuple(entry for entry in self.days if day - KEPT_DAYS < entry[0] < day)
        today = [entry for entry in self.days if entry[0] == day]
        before = today[0] if today else (day, 0, 0)
        return replace(self, days=(*days, (day, before[1] + node_ms, before[2] + gpu_ms)))

    def since(self, first_day: int) -> tuple[int, int]:
        """Node and GPU milliseconds from that day on."""
        kept = [entry for entry in self.days if entry[0] >= first_day]
        return sum(entry[1] for entry in kept), sum(entry[2] for entry in kept)
