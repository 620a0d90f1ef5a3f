"""What the dashboards show: one table, from which `make docs` writes deploy/grafana/dashboards.

Expressions name the variables of their dashboard with a dollar sign. Several servers show the same state: gauges of it are read with
`max`, what only the leader or each server by itself counts is summed.
"""

from msgspec import Struct

REMOTE_WRITE = "agents that send to this store (--tsdb-endpoint)"
GPUS, BPF, SENSORS = "nodes with GPUs", "nodes that load BPF programs", "nodes with power sensors"


class Line(Struct, frozen=True):
    """One curve, or one for each set of labels that `legend` names."""

    expr: str
    legend: str = ""


class Panel(Struct, frozen=True, kw_only=True):
    title: str
    lines: tuple[Line, ...]
    unit: str = "short"
    kind: str = "timeseries"
    needs: str = ""  # what a site has to have set up
    waits_for: str = ""  # what only some nodes have, and without which there is no data


class Variable(Struct, frozen=True, kw_only=True):
    """Chosen by who looks: a value of the label in the metric."""

    name: str
    metric: str
    label: str


class Dashboard(Struct, frozen=True, kw_only=True):
    name: str  # of the file
    title: str
    about: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()


def p99(metric: str, by: str = "", where: str = "") -> str:
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile(0.99, sum by ({labels}) (rate({metric}_bucket{where}[$__rate_interval])))"


def per_second(metric: str, by: str = "", where: str = "") -> str:
    grouped = f"sum by ({by})" if by else "sum"
    return f"{grouped} (rate({metric}{where}[$__rate_interval]))"


_CYCLE = "lattice_scheduling_cycle_duration_seconds"
_SCORING = "lattice_scheduling_cost_function_duration_seconds"
_COMMIT = "lattice_raft_commit_latency_seconds"
_REQUESTS = "lattice_api_requests_total"
_BACKFILLED = "lattice_scheduling_backfill_jobs_total"

HOLISTIC = Dashboard(
    name="holistic",
    title="Lattice: the whole system",
    about="For administrators: work, nodes, scheduler, servers and API at a glance.",
    panels=(
        Panel(
            title="Running and waiting",
            lines=(
                Line("max(lattice_allocations_active)", "running"),
                Line("max(lattice_allocations_pending)", "waiting"),
            ),
        ),
        Panel(title="Nodes by state", lines=(Line("max by (state) (lattice_nodes_total) > 0", "{{state}}"),)),
        Panel(
            title="Ended allocations a minute",
            lines=(Line("max by (state) (rate(lattice_allocations_total[$__rate_interval])) * 60", "{{state}}"),),
        ),
        Panel(
            title="Placements a minute",
            lines=(Line(f"{per_second('lattice_scheduling_placements_total')} * 60", "placed"),),
        ),
        Panel(
            title="Scheduling cycle, p99", unit="s", lines=(Line(p99(_CYCLE), "cycle"), Line(p99(_SCORING), "scoring"))
        ),
        Panel(title="Queue depth", lines=(Line("sum by (vcluster) (lattice_scheduling_queue_depth)", "{{vcluster}}"),)),
        Panel(
            title="Preemptions a minute",
            lines=(Line(f"({per_second('lattice_preemptions_total', 'reason')} or vector(0)) * 60", "{{reason}}"),),
        ),
        Panel(title="Leaders", kind="stat", lines=(Line("sum(lattice_raft_leader)", "leaders"),)),
        Panel(title="Commit latency, p99", unit="s", lines=(Line(p99(_COMMIT, "member_id"), "{{member_id}}"),)),
        Panel(title="API requests", unit="reqps", lines=(Line(per_second(_REQUESTS, "status"), "{{status}}"),)),
        Panel(
            title="API latency, p99",
            unit="s",
            lines=(Line(p99("lattice_api_request_duration_seconds", "method"), "{{method}}"),),
        ),
        Panel(
            title="Agents",
            lines=(
                Line("sum(lattice_agents_attached)", "connected"),
                Line("sum(lattice_agents_silent)", "silent"),
                Line("max(lattice_nodes_unfit)", "not configured for work"),
            ),
        ),
        Panel(
            title="Configurations of nodes",
            lines=(
                Line("max(lattice_conformance_groups)", "different configurations"),
                Line("sum(lattice_conformance_drifted_nodes)", "drifted nodes"),
            ),
        ),
        Panel(
            title="Failing loops",
            lines=(Line("sum by (loop) (increase(lattice_loop_failures_total[5m])) or vector(0)", "{{loop}}"),),
        ),
        Panel(title="Notifications waiting", lines=(Line("max(lattice_notifications_waiting)", "waiting"),)),
        Panel(
            title="Power",
            unit="watt",
            lines=(Line('sum(lattice_node_power_draw{stat="mean"})', "all nodes"),),
            needs=REMOTE_WRITE,
            waits_for=SENSORS,
        ),
    ),
)

_V = '{vcluster="$vcluster"}'
PER_VCLUSTER = Dashboard(
    name="per-vcluster",
    title="Lattice: one vCluster",
    about="For those who tune scheduling: the queue of a vCluster, its cycles, and what becomes of proposals.",
    variables=(Variable(name="vcluster", metric="lattice_scheduling_queue_depth", label="vcluster"),),
    panels=(
        Panel(title="Queue depth", lines=(Line(f"sum(lattice_scheduling_queue_depth{_V})", "waiting"),)),
        Panel(
            title="Scheduling cycle",
            unit="s",
            lines=(
                Line(p99(_CYCLE, where=_V), "p99"),
                Line(
                    f"sum (rate({_CYCLE}_sum{_V}[$__rate_interval])) / sum (rate({_CYCLE}_count{_V}[$__rate_interval]))",
                    "mean",
                ),
            ),
        ),
        Panel(title="Cost function, p99", unit="s", lines=(Line(p99(_SCORING, where=_V), "p99"),)),
        Panel(
            title="Proposals a minute",
            lines=(Line(f"{per_second('lattice_scheduling_proposals_total', 'result', _V)} * 60", "{{result}}"),),
        ),
        Panel(
            title="Accepted proposals",
            unit="percentunit",
            lines=(
                Line(
                    'sum (increase(lattice_scheduling_proposals_total{vcluster="$vcluster",result="accepted"}[5m]))'
                    ' / sum (increase(lattice_scheduling_proposals_total{vcluster="$vcluster"}[5m]))',
                    "accepted",
                ),
            ),
        ),
        Panel(
            title="Backfilled a minute",
            lines=(Line(f"{per_second(_BACKFILLED, '', _V)} * 60", "backfilled"),),
        ),
    ),
)

_M = '{member_id="$member"}'
PER_QUORUM_MEMBER = Dashboard(
    name="per-quorum-member",
    title="Lattice: one server",
    about="For those who run the servers: the log, its snapshots and the disk of a server.",
    variables=(Variable(name="member", metric="lattice_raft_leader", label="member_id"),),
    panels=(
        Panel(title="Leader", kind="stat", lines=(Line(f"lattice_raft_leader{_M}", "1 = leads"),)),
        Panel(
            title="Commit latency",
            unit="s",
            lines=(
                Line(p99(_COMMIT, where=_M), "p99"),
                Line(f"histogram_quantile(0.5, sum by (le) (rate({_COMMIT}_bucket{_M}[$__rate_interval])))", "median"),
            ),
        ),
        Panel(title="Commits", unit="cps", lines=(Line(per_second(f"{_COMMIT}_count", "", _M), "batches"),)),
        Panel(title="Entries in the log", lines=(Line(f"lattice_raft_log_entries{_M}", "entries"),)),
        Panel(
            title="Snapshots",
            unit="s",
            lines=(
                Line(
                    f"increase(lattice_raft_snapshot_duration_seconds_sum{_M}[1h])"
                    f" / (increase(lattice_raft_snapshot_duration_seconds_count{_M}[1h]) > 0)",
                    "mean time of an hour",
                ),
            ),
        ),
        Panel(
            title="Size of the newest snapshot",
            unit="bytes",
            lines=(Line(f"lattice_raft_snapshot_size_bytes{_M}", "size"),),
        ),
        Panel(
            title="Disk",
            unit="percentunit",
            lines=(Line(f"lattice_raft_disk_used_bytes{_M} / lattice_raft_disk_total_bytes{_M}", "used"),),
        ),
        Panel(
            title="Audit entries of sensitive work",
            lines=(Line(f"lattice_raft_sensitive_audit_entries_total{_M}", "entries"),),
        ),
        Panel(
            title="Open streams", lines=(Line("sum by (stream_type) (lattice_api_active_streams)", "{{stream_type}}"),)
        ),
    ),
)

_N = '{node_id="$node"}'
_NODE = '{node="$node",stat="mean"}'
PER_NODE = Dashboard(
    name="per-node",
    title="Lattice: one node",
    about="For operators: the agent of a node, and what the node does.",
    variables=(Variable(name="node", metric="lattice_agent_connected", label="node_id"),),
    panels=(
        Panel(title="Connected", kind="stat", lines=(Line(f"lattice_agent_connected{_N}", "1 = connected"),)),
        Panel(title="Runs", lines=(Line(f"lattice_agent_runs{_N}", "runs"),)),
        Panel(
            title="Heartbeats, p99",
            unit="s",
            lines=(
                Line(
                    f"histogram_quantile(0.99, sum by (le) (lattice_agent_heartbeat_latency_seconds_bucket{_N}))",
                    "answered within, since the agent started",
                ),
            ),
        ),
        Panel(
            title="Starts",
            unit="s",
            lines=(
                Line(
                    f"histogram_quantile(0.99, sum by (le) (lattice_agent_allocation_startup_seconds_bucket{_N}))",
                    "p99, since the agent started",
                ),
            ),
        ),
        Panel(
            title="CPU",
            unit="percent",
            lines=(Line(f"lattice_node_cpu_utilization{_NODE}", "used"),),
            needs=REMOTE_WRITE,
        ),
        Panel(
            title="Memory",
            unit="bytes",
            lines=(Line(f"lattice_node_memory_used{_NODE}", "used"),),
            needs=REMOTE_WRITE,
        ),
        Panel(
            title="GPUs",
            unit="percent",
            lines=(Line(f"lattice_node_gpu_utilization{_NODE}", "{{gpu}}"),),
            needs=REMOTE_WRITE,
            waits_for=GPUS,
        ),
        Panel(
            title="Cost of measuring",
            unit="percent",
            lines=(Line(f"lattice_agent_ebpf_overhead_percent{_N}", "of a CPU"),),
            waits_for=BPF,
        ),
    ),
)

_T = '{tenant="$tenant"}'
PER_TENANT = Dashboard(
    name="per-tenant",
    title="Lattice: one tenant",
    about="For administrators: what a tenant uses of its quota. Its metrics need the token of the page of tenants.",
    variables=(Variable(name="tenant", metric="lattice_quota_used_nodes", label="tenant"),),
    panels=(
        Panel(
            title="Nodes",
            lines=(
                Line(f"max(lattice_quota_used_nodes{_T})", "held"),
                Line(f"max(lattice_quota_max_nodes{_T}) or vector(0)", "quota (0 = none)"),
            ),
        ),
        Panel(
            title="Allocations",
            lines=(
                Line(f"max(lattice_tenant_allocations_active{_T})", "running"),
                Line(f"max(lattice_tenant_allocations_pending{_T})", "waiting"),
            ),
        ),
        Panel(title="Node hours", unit="h", lines=(Line(f"max(lattice_tenant_node_hours{_T})", "of 400 days"),)),
        Panel(title="GPU hours", unit="h", lines=(Line(f"max(lattice_tenant_gpu_hours{_T})", "of 400 days"),)),
        Panel(
            title="Share of all node hours",
            unit="percentunit",
            lines=(
                Line(
                    f"max(lattice_tenant_node_hours{_T}) / sum(max by (tenant) (lattice_tenant_node_hours))",
                    "of all tenants",
                ),
            ),
        ),
    ),
)


def _of_allocation(title: str, metric: str, unit: str, legend: str = "{{node}}", waits_for: str = "") -> Panel:
    return Panel(
        title=title,
        unit=unit,
        lines=(Line(f'lattice_allocation_{metric}{{allocation="$allocation",stat="mean"}}', legend),),
        needs=REMOTE_WRITE,
        waits_for=waits_for,
    )


USER_ALLOCATION = Dashboard(
    name="user-allocation",
    title="Lattice: one allocation",
    about="For the owner of an allocation: what its processes use on each node.",
    variables=(Variable(name="allocation", metric="lattice_allocation_cpu_utilization", label="allocation"),),
    panels=(
        _of_allocation("CPU", "cpu_utilization", "percent"),
        _of_allocation("Memory", "memory_used", "bytes"),
        _of_allocation("GPUs", "gpu_utilization", "percent", "{{node}} {{gpu}}", GPUS),
        _of_allocation("GPU memory", "gpu_memory_used", "bytes", "{{node}} {{gpu}}", GPUS),
        _of_allocation("GPU power", "gpu_power_draw", "watt", "{{node}} {{gpu}}", GPUS),
        _of_allocation("Network, sent", "network_tx_bytes", "Bps", waits_for=BPF),
        _of_allocation("Network, received", "network_rx_bytes", "Bps", waits_for=BPF),
        _of_allocation("Storage, read", "io_read_bytes", "Bps"),
        _of_allocation("Storage, written", "io_write_bytes", "Bps"),
    ),
)

DASHBOARDS = (HOLISTIC, PER_VCLUSTER, PER_QUORUM_MEMBER, PER_NODE, PER_TENANT, USER_ALLOCATION)
