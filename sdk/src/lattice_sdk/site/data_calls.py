"""Data on the hot tier: what is there, and bringing it there."""

from collections.abc import Mapping, Sequence

from lattice_sdk.data.models import HotCopy, HotTier, MoverTasks, ReportAnswers, Retained, Retention
from lattice_sdk.models.records import Page
from lattice_sdk.operation import Steps, given, operation, read, write

LONGEST_S = 60.0


class DataCalls:
    @operation
    def list_data(self, source: str = "") -> Steps[Page[HotCopy]]:
        """The sources on the hot tier that the caller's work uses, or one of them; all for administrators."""
        return read("/data", Page[HotCopy], given(source=source))

    @operation
    def data_tier(self) -> Steps[HotTier]:
        """How full the hot tier is."""
        return read("/data/tier", HotTier)

    @operation
    def stage_data(self, source: str, tenant: str = "", request_id: str = "") -> Steps[HotCopy]:
        """Bring a source to the hot tier; `list_data` says how far it is."""
        return write("POST", "/data/stage", HotCopy, {"source": source, "tenant": tenant}, request_id=request_id)

    @operation
    def evict_data(self, source: str, request_id: str = "") -> Steps[HotCopy]:
        """Have a source leave the hot tier, unless live work needs it."""
        return write("POST", "/data/evict", HotCopy, {"source": source}, request_id=request_id)

    @operation
    def list_retention(self) -> Steps[Retention]:
        """How long logs, checkpoints and traces are kept, and what is kept of ended work."""
        return read("/retention", Retention)

    @operation
    def keep_retained(self, id: str, *, keep: bool = True, request_id: str = "") -> Steps[Retained]:
        """Keep logs and checkpoints of an allocation for good; without `keep` they go when their time is over."""
        return write("POST", "/retention/keep", Retained, {"id": id, "keep": keep}, request_id=request_id)

    @operation
    def ask_for_data_work(
        self,
        mover: str,
        *,
        slots: int = 0,
        wait_s: float = 0.0,
        progress: Sequence[Mapping[str, object]] = (),
        hot_total: int = 0,
        hot_free: int = 0,
        request_id: str = "",
    ) -> Steps[MoverTasks]:
        """For movers: a sign of life, and copies to make."""
        body = {
            "mover": mover,
            "slots": slots,
            "wait_s": wait_s,
            "progress": list(progress),
            "hot_total": hot_total,
            "hot_free": hot_free,
        }
        return write("POST", "/data/work", MoverTasks, body, request_id=request_id, timeout_s=LONGEST_S)

    @operation
    def report_data_work(
        self, mover: str, reports: Sequence[Mapping[str, object]], request_id: str = ""
    ) -> Steps[ReportAnswers]:
        """For movers: what became of copies."""
        body = {"mover": mover, "reports": list(reports)}
        return write("POST", "/data/reports", ReportAnswers, body, request_id=request_id)
