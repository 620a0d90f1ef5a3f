"""Every metric that the specification names, and where it is: on which page, or which feature it waits for.

A feature is recognised by a sign in the code: the name of a command or an event of the state machine, of an operation of the API, or
of a section of the configuration. Once the sign is there, the metric has to be, too: `tests/unit/observe/test_specified.py`.
"""

from typing import NamedTuple

PUBLIC = "/metrics"
TENANTS = "/metrics/tenants"
AGENT = "agent"  # on the page of each node's agent


class Waits(NamedTuple):
    """`signs` are beginnings of names; the first one found says that the feature is there."""

    feature: str
    signs: tuple[str, ...]


class Renamed(NamedTuple):
    """Two sections have two names for it; this one is not shown."""

    to: str


_FEDERATION = Waits("federation", ("config:federation", "operation:federation"))
_ACCOUNTING = Waits("the accounting service of the site", ("config:accounting", "config:waldur"))
_NETWORK = Waits(
    "network domains",
    ("command:SetNetworkDomain", "command:CreateNetworkDomain", "config:network_domain", "config:vni"),
)

SPECIFIED: dict[str, str | Waits | Renamed] = {
    "lattice_accounting_events_buffered": _ACCOUNTING,
    "lattice_accounting_events_dropped_total": _ACCOUNTING,
    "lattice_agent_allocation_startup_seconds": AGENT,
    "lattice_agent_ebpf_overhead_percent": AGENT,
    "lattice_agent_heartbeat_latency_seconds": AGENT,
    "lattice_agent_last_heartbeat_timestamp": PUBLIC,
    "lattice_allocations_active": PUBLIC,
    "lattice_allocations_total": PUBLIC,
    "lattice_api_active_streams": PUBLIC,
    "lattice_api_request_duration_seconds": PUBLIC,
    "lattice_api_requests_total": PUBLIC,
    "lattice_autoscaling_metric_query_failures_total": PUBLIC,
    "lattice_checkpoint_duration_seconds": PUBLIC,
    "lattice_checkpoint_storage_unavailable": PUBLIC,
    "lattice_checkpoint_walltime_conflict_total": PUBLIC,
    "lattice_federation_data_gravity_score": _FEDERATION,
    "lattice_federation_peer_stale": _FEDERATION,
    "lattice_federation_peer_status": _FEDERATION,
    "lattice_federation_proposal_latency_seconds": _FEDERATION,
    "lattice_federation_proposals_total": _FEDERATION,
    "lattice_network_vni_pool_available": _NETWORK,
    "lattice_network_vni_pool_total": _NETWORK,
    "lattice_nodes_total": PUBLIC,
    "lattice_preemption_checkpoint_duration_seconds": PUBLIC,
    "lattice_preemption_failed_checkpoint_total": PUBLIC,
    "lattice_preemption_victim_requeue_total": PUBLIC,
    "lattice_preemptions_total": PUBLIC,
    "lattice_quota_max_nodes": TENANTS,
    "lattice_quota_used_nodes": TENANTS,
    "lattice_raft_commit_latency_seconds": PUBLIC,
    "lattice_raft_disk_total_bytes": PUBLIC,
    "lattice_raft_disk_used_bytes": PUBLIC,
    "lattice_raft_leader": PUBLIC,
    "lattice_raft_log_entries": PUBLIC,
    "lattice_raft_sensitive_audit_entries_total": PUBLIC,
    "lattice_raft_snapshot_duration_seconds": PUBLIC,
    "lattice_raft_snapshot_size_bytes": PUBLIC,
    "lattice_scheduling_backfill_jobs_total": PUBLIC,
    "lattice_scheduling_cost_function_duration_seconds": PUBLIC,
    "lattice_scheduling_cycle_duration_seconds": PUBLIC,
    "lattice_scheduling_placements_total": PUBLIC,
    "lattice_scheduling_preemptions_total": Renamed("lattice_preemptions_total"),
    "lattice_scheduling_proposals_total": PUBLIC,
    "lattice_scheduling_queue_depth": PUBLIC,
    "lattice_sensitive_wipe_failure_total": PUBLIC,
}
