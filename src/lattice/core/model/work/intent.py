"""Which vCluster a submission goes to that names none: the first rule that holds and can be used.

Pure: rules and what is wanted in, a name out. See docs/architecture/core.md.
"""

from collections.abc import Mapping

from msgspec import Struct

from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Lifecycle


class Intent(Struct, frozen=True, kw_only=True):
    """What a submission wants, as far as rules may ask."""

    tenant: str
    user: str
    project: str = ""
    tags: tuple[tuple[str, str], ...] = ()
    lifecycle: Lifecycle = Lifecycle.BOUNDED
    nodes: int = 1
    gpus: int = 0  # per node
    walltime_s: int = 0  # 0 = not said


class IntentRule(Struct, frozen=True, kw_only=True):
    """Every condition that is given has to hold; an empty one holds always. Bounds include their ends.

    A rule about walltime does not hold for a submission that says none.
    """

    vcluster: str
    name: str
    tenants: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    tags: tuple[tuple[str, str], ...] = ()
    lifecycle: Lifecycle | None = None
    nodes: tuple[int | None, int | None] = (None, None)
    gpus: tuple[int | None, int | None] = (None, None)
    walltime_s: tuple[int | None, int | None] = (None, None)

    def holds(self, intent: Intent) -> bool:
        return (
            (not self.tenants or intent.tenant in self.tenants)
            and (not self.users or intent.user in self.users)
            and (not self.projects or intent.project in self.projects)
            and all(tag in intent.tags for tag in self.tags)
            and (self.lifecycle is None or intent.lifecycle is self.lifecycle)
            and _within(intent.nodes, self.nodes)
            and _within(intent.gpus, self.gpus)
            and (self.walltime_s == (None, None) or (intent.walltime_s > 0))
            and _within(intent.walltime_s, self.walltime_s)
        )


def _within(value: int, bounds: tuple[int | None, int | None]) -> bool:
    low, high = bounds
    return (low is None or value >= low) and (high is None or value <= high)


def choose_rule(rules: tuple[IntentRule, ...], intent: Intent, vclusters: Mapping[str, Vcluster]) -> IntentRule | None:
    """The first rule that holds and whose vCluster exists, is up and takes the tenant; None when there is none."""
    for rule in rules:
        vcluster = vclusters.get(rule.vcluster)
        if vcluster is None or not vcluster.is_up or (vcluster.tenants and intent.tenant not in vcluster.tenants):
            continue
        if rule.holds(intent):
            return rule
    return None


def unknown_targets(rules: tuple[IntentRule, ...], vclusters: Mapping[str, Vcluster]) -> list[str]:
    """The rules that name no vCluster there is, in words."""
    return [
        f'{rule.name} names the vCluster "{rule.vcluster}", which does not exist'
        for rule in rules
        if rule.vcluster not in vclusters
    ]
