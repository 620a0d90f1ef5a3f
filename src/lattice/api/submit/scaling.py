"""Whether the metric that a service is to be scaled by can be known here."""

from lattice.api.context import Context
from lattice.core.model.services.scaling import ScalePolicy
from lattice.wire.services.scaling import OF_AGENTS, OF_GATEWAY, needs_store
from lattice.wire.text.problems import BadField


def check_metric(context: Context, policy: ScalePolicy | None) -> None:
    """Raises BadField for a metric of a store where there is none."""
    if policy is None or context.services.metric_store is not None or not needs_store(policy.metric):
        return
    raise BadField(
        "lifecycle.metric",
        f"{policy.metric[:60]} is a metric of a time-series store, and this cluster has none",
        hint=f"use one of {', '.join((*OF_AGENTS, *OF_GATEWAY))}, or have telemetry.tsdb_endpoint set",
    )
