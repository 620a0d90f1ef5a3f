"""Reports on what has ended."""

from msgspec import Struct

from lattice_sdk.models.records import Figure


class ReportRow(Struct, frozen=True, kw_only=True):
    """Sums of one user, project or tenant. Waits are in seconds, efficiency in percent; None where nothing has run."""

    name: str
    tenant: str = ""
    allocations: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    node_hours: Figure = 0
    gpu_hours: Figure = 0
    cpu_hours: Figure = 0
    wait_mean_s: Figure | None = None
    wait_p50_s: Figure | None = None
    wait_p95_s: Figure | None = None
    cpu_efficiency: Figure | None = None
    memory_efficiency: Figure | None = None


class UsageReport(Struct, frozen=True, kw_only=True):
    """What ended between two moments, in rows by user, project or tenant."""

    by: str = "user"
    since: str | None = None
    until: str | None = None
    rows: list[ReportRow] = []
    total: ReportRow = ReportRow(name="total")
