"""Reports."""

from collections.abc import Sequence

from lattice_sdk.models.reports import UsageReport
from lattice_sdk.operation import Steps, given, operation, read


class ReportCalls:
    @operation
    def usage_report(
        self,
        by: str = "user",
        *,
        since: str = "",
        until: str = "",
        tenant: str = "",
        user: str = "",
        project: str = "",
        vcluster: str = "",
        tags: Sequence[str] = (),
    ) -> Steps[UsageReport]:
        """What ended in a span of time, by user, project or tenant: hours, waits, efficiency. Times are RFC 3339."""
        wanted = given(by=by, since=since, until=until, tenant=tenant, user=user, project=project, vcluster=vcluster)
        return read("/reports/usage", UsageReport, [*wanted, *(("tag", tag) for tag in tags)])
