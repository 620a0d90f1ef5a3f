"""Every alert: when it fires, how urgent it is, what it says, and what to do. The only table there is.

`deploy/alerts/lattice.rules.yml`, docs/reference/alerts.md and docs/runbooks/alerts.md are made of it by `make docs`;
`tests/integration/monitoring/` lets promtool fire and silence each.
"""

from typing import Literal

from msgspec import Struct

from lattice.core.machine.node_effects import EFFECTS
from lattice.observe.alerting.drift import CONFORMANCE
from lattice.observe.figures.specified import SPECIFIED, Waits

Severity = Literal["critical", "warning", "info"]
RUNBOOK = "docs/runbooks/alerts.md"
_VALUE = '{{ printf "%.3g" $value }}'


class Alert(Struct, frozen=True, kw_only=True):
    """`text` may hold {value}, and labels of the expression as {label}. `steps` are what an operator does."""

    name: str
    group: str
    severity: Severity
    expr: str
    text: str
    steps: tuple[str, ...]
    hold: str = ""  # how long it must be true; empty = once is enough
    waits_for: str = ""  # the feature without which it cannot fire

    @property
    def runbook(self) -> str:
        return f"{RUNBOOK}#{self.name.lower()}"

    @property
    def message(self) -> str:
        """The text with the placeholders of Prometheus."""
        filled = self.text.replace("{value}", _VALUE)
        for label in ("node_id", "vcluster", "member_id", "tenant"):
            filled = filled.replace(f"{{{label}}}", f"{{{{ $labels.{label} }}}}")
        return filled


def _feature(metric: str) -> str:
    place = SPECIFIED[metric]
    return place.feature if isinstance(place, Waits) else ""


def _quantile(metric: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({metric}_bucket[5m])))"


_QUORUM = (
    Alert(
        name="LatticeRaftNoLeader",
        group="quorum",
        severity="critical",
        expr="(sum(lattice_raft_leader) or vector(0)) < 1",
        hold="30s",
        text="No server leads: nothing is accepted or scheduled. Running work continues.",
        steps=(
            "`lattice admin raft status` on any server: which servers answer, and what each says is wrong.",
            "Start the servers that are down. A majority has to answer before one can lead.",
            "If none can be started: docs/runbooks/disaster-recovery.md.",
        ),
    ),
    Alert(
        name="LatticeRaftCommitSlow",
        group="quorum",
        severity="critical",
        expr=f"{_quantile('lattice_raft_commit_latency_seconds', 'member_id')} > 5",
        text="Commits on {member_id} take {value} s (p99): every change waits for its disk or for the other servers.",
        steps=(
            "Look at the write latency of the disk with the server's data (`iostat -x 1`); it needs a fast SSD of its own.",
            "Look for packet loss between the servers, and for a snapshot in progress (a short peak is normal).",
            "Hand leadership to a healthy server: `lattice admin raft transfer-leader NAME`.",
        ),
    ),
    Alert(
        name="LatticeDiskSpaceLow",
        group="quorum",
        severity="critical",
        expr="lattice_raft_disk_used_bytes / lattice_raft_disk_total_bytes > 0.80",
        hold="30m",
        text="The disk with the data of {member_id} has been more than 80 % full for half an hour ({value}).",
        steps=(
            "Find what grows: log.db, snapshots/, archive.db and backups/ below data_dir.",
            "Move backups elsewhere (`backup.directory`), or keep fewer snapshots (`snapshots.keep`).",
            "A server whose disk is full takes no part until it has room; the others continue.",
        ),
    ),
    Alert(
        name="LatticeRaftDiskUsageHigh",
        group="quorum",
        severity="warning",
        expr="lattice_raft_disk_used_bytes / lattice_raft_disk_total_bytes > 0.80",
        hold="5m",
        text="The disk with the data of {member_id} is more than 80 % full ({value}).",
        steps=("As for LatticeDiskSpaceLow, before it becomes urgent.",),
    ),
    Alert(
        name="LatticeSnapshotGrowth",
        group="quorum",
        severity="info",
        expr="delta(lattice_raft_snapshot_size_bytes[1h]) > 100e6",
        text="Snapshots of {member_id} grew by {value} bytes within an hour.",
        steps=(
            "Look for a submission of very many allocations or large scripts: `lattice admin scheduler status`.",
            "Ended work leaves the state after `archive.after`; shorten it if the state stays large.",
        ),
    ),
)
_SCHEDULING = (
    Alert(
        name="LatticeSchedulingStalled",
        group="scheduling",
        severity="warning",
        expr=(
            "sum(increase(lattice_scheduling_placements_total[10m])) == 0"
            " and sum(min_over_time(lattice_scheduling_queue_depth[10m])) > 0"
        ),
        text="Work has been waiting for ten minutes and none was placed.",
        steps=(
            "`lattice admin scheduler status`: does the last cycle have an error?",
            "`lattice explain ID` of the first in the queue: a full cluster is no fault; a limit or a reservation may be.",
            "`lattice nodes`: how many are Ready?",
        ),
    ),
    Alert(
        name="LatticeSchedulingCycleSlow",
        group="scheduling",
        severity="warning",
        expr=f"{_quantile('lattice_scheduling_cycle_duration_seconds', 'vcluster')} > 30",
        text="Scheduling cycles with work of {vcluster} take {value} s (p99).",
        steps=(
            "Compare with lattice_scheduling_cost_function_duration_seconds: is it scoring or placing?",
            "Look at the depth of the queue, and at the number of different configurations (`lattice admin conformance status`).",
            "Lengthen `scheduler.cycle_interval_s`, or reduce the backfill depth of the vCluster.",
        ),
    ),
    Alert(
        name="LatticeQueueDepthHigh",
        group="scheduling",
        severity="warning",
        expr="lattice_scheduling_queue_depth > 100",
        hold="5m",
        text="{value} allocations wait in {vcluster}.",
        steps=(
            "`lattice admin vcluster show NAME`: is this usual for the vCluster? If not, as for LatticeSchedulingStalled.",
        ),
    ),
    Alert(
        name="LatticeHighPreemptionRate",
        group="scheduling",
        severity="warning",
        expr="sum(rate(lattice_preemptions_total[5m])) * 60 > 10",
        text="{value} allocations a minute are preempted.",
        steps=("Look for a user or tenant that submits much urgent work, and at the classes that it may use.",),
    ),
    Alert(
        name="LatticeCheckpointFailure",
        group="scheduling",
        severity="warning",
        expr=(
            'sum(increase(lattice_checkpoint_duration_seconds_count{result="failed"}[30m]))'
            " / sum(increase(lattice_checkpoint_duration_seconds_count[30m])) > 0.10"
        ),
        text="Less than 90 % of the checkpoints of the last half hour succeeded ({value} failed).",
        steps=("Look for the reason in the events of the allocations, and at the space of the checkpoint storage.",),
    ),
    Alert(
        name="LatticeCheckpointStorageUnavailable",
        group="scheduling",
        severity="critical",
        expr="max(lattice_checkpoint_storage_unavailable) > 0",
        hold="1m",
        text="A node that is to write a checkpoint does not find the checkpoint storage. Work continues; requests wait.",
        steps=(
            "`lattice admin config get checkpoint.root` names the directory; look whether it is mounted and writable on the nodes.",
            "Until it is back, work that loses its nodes continues from its last complete checkpoint.",
        ),
    ),
    Alert(
        name="LatticeAutoscalingMetricMissing",
        group="scheduling",
        severity="warning",
        expr="increase(lattice_autoscaling_metric_query_repeated_failures_total[5m]) > 0",
        text="the metric of a reactive service was not known three times in a row; its size stays as it is",
        steps=(
            "`lattice status -v ID` names the metric and says what is missing.",
            "If it comes from the time-series store, check that the store answers at telemetry.query_url or telemetry.tsdb_endpoint.",
            "If it comes from agents, check that the nodes of the service report: `lattice node metrics NODE`.",
        ),
    ),
    Alert(
        name="LatticeAutoscalingOscillates",
        group="scheduling",
        severity="info",
        expr="lattice_autoscaling_alternating > 0",
        text="{value} reactive services get and give back nodes in turn",
        steps=(
            "`lattice status -v ID` shows the metric, the target and the last step.",
            "Ask its owner to raise the target or --scale-cooldown, or to lower --scale-down-threshold; nothing is adjusted automatically.",
        ),
    ),
    Alert(
        name="LatticeQuotaUtilizationHigh",
        group="scheduling",
        severity="warning",
        expr="lattice_quota_used_nodes / lattice_quota_max_nodes > 0.95",
        hold="10m",
        text="Tenant {tenant} uses more than 95 % of its nodes ({value}).",
        steps=(
            "`lattice admin tenant show NAME`; raise the quota with `lattice admin tenant set-quota`, or let the tenant wait.",
        ),
    ),
)
_OUTSIDE = (
    Alert(
        name="LatticeAPIErrorRateHigh",
        group="api",
        severity="warning",
        expr=(
            'sum(rate(lattice_api_requests_total{status=~"5.."}[5m])) / sum(rate(lattice_api_requests_total[5m])) > 0.05'
        ),
        text="More than 5 % of the API requests fail ({value}).",
        steps=(
            "`lattice admin metrics dump --component=api`: which operations, which statuses?",
            "503 and 507 come from the log: see LatticeRaftNoLeader and LatticeDiskSpaceLow. 500 is in the servers' logs.",
        ),
    ),
    Alert(
        name="LatticeAccountingBufferFilling",
        group="api",
        severity="warning",
        expr="lattice_accounting_events_buffered > 8000",
        text="{value} accounting events wait to be sent; beyond 10,000 the oldest are dropped.",
        steps=("Look whether the accounting service answers, and in the leader's log.",),
        waits_for=_feature("lattice_accounting_events_buffered"),
    ),
    Alert(
        name="LatticeVNIPoolExhausted",
        group="api",
        severity="warning",
        expr=(
            "(lattice_network_vni_pool_total - lattice_network_vni_pool_available)"
            " / lattice_network_vni_pool_total > 0.90"
        ),
        text="More than 90 % of the virtual networks are in use ({value}).",
        steps=("Look for network domains that outlived their work, or enlarge the pool.",),
        waits_for=_feature("lattice_network_vni_pool_total"),
    ),
)
_NODES = (
    Alert(
        name="LatticeNodeHeartbeatMissing",
        group="nodes",
        severity="warning",
        expr="time() - lattice_agent_last_heartbeat_timestamp > 60",
        text="Node {node_id} has not been heard for {value} s. Its work continues; it gets no more.",
        steps=(
            "`lattice node status NODE`. Less than two minutes are often a short interruption of the network.",
            "On the node: `systemctl status lattice-agent` and its log.",
        ),
    ),
    Alert(
        name="LatticeNodeDown",
        group="nodes",
        severity="critical",
        expr="time() - lattice_agent_last_heartbeat_timestamp > 300",
        text="Node {node_id} has not been heard for {value} s; its work was given up or is being moved.",
        steps=(
            "Look at the node's power and console. Restart its agent if the machine runs.",
            "After a repair it comes back by itself; `lattice node disable NODE` ends the alert of a node that stays away.",
        ),
    ),
)


def _severity(word: str) -> Severity:
    return "critical" if word == "critical" else "warning"


def _moves() -> tuple[Alert, ...]:
    """Every move of a node that an operator has to hear of."""
    found = []
    for trigger, effect in EFFECTS.items():
        if effect.severity:
            remedy = effect.alert.replace("{node}", "NODE").replace("{reason}", "REASON")
            found.append(
                Alert(
                    name="Node" + "".join(word.capitalize() for word in trigger.split("_")),
                    group="nodes",
                    severity=_severity(effect.severity),
                    expr=f'increase(lattice_node_transitions_total{{trigger="{trigger}"}}[5m]) > 0',
                    text=f"A node moved: {effect.when}. `lattice nodes` names it and says why.",
                    steps=("Find NODE and REASON with `lattice nodes` and `lattice node events NODE`.", remedy),
                )
            )
    return tuple(found)


def _drift() -> tuple[Alert, ...]:
    return tuple(
        Alert(
            name=name,
            group="conformance",
            severity=_severity(severity),
            expr=expr,
            text=text,
            steps=("docs/runbooks/conformance.md",),
        )
        for name, severity, expr, text in CONFORMANCE
    )


ALERTS: tuple[Alert, ...] = (*_QUORUM, *_SCHEDULING, *_OUTSIDE, *_NODES, *_moves(), *_drift())
