"""How long what work leaves behind is kept."""

from collections.abc import Mapping

from msgspec import Struct

DEFAULT_S = 30 * 86400.0
WEEK_S = 7 * 86400.0
YEARS_S = 7 * 365.25 * 86400.0


class LogRetention(Struct, frozen=True, kw_only=True):
    """What a vCluster says counts before what a tenant says, and that before the rest."""

    default_s: float = DEFAULT_S
    tenants: Mapping[str, float] = {}
    vclusters: Mapping[str, float] = {}
    checkpoints_s: float = WEEK_S  # after the end of the work; 0 = for good
    traces_s: float = WEEK_S  # after the last line; 0 = for good
    telemetry_s: float = WEEK_S  # samples of mode debug; 0 = for good
    access_s: float = YEARS_S  # what sensitive work touched; 0 = for good

    def seconds(self, tenant: str, vcluster: str) -> float:
        """For output of this tenant in this vCluster; an empty name stands for none."""
        return self.vclusters.get(vcluster, self.tenants.get(tenant, self.default_s))

    @property
    def shortest_s(self) -> float:
        return min((self.default_s, *self.tenants.values(), *self.vclusters.values()))

    @property
    def asks_vclusters(self) -> bool:
        return bool(self.vclusters)
