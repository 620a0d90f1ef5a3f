"""For each alert, series under which it fires and series under which it is silent, in the notation of promtool.

A minute lies between two values. `at` is the moment at which both are looked at.
"""

from typing import NamedTuple

from lattice.core.machine.node_effects import EFFECTS

Series = dict[str, str]


class Case(NamedTuple):
    firing: Series
    silent: Series
    at: str = "20m"
    labels: tuple[dict[str, str], ...] = ({},)


def _slow(metric: str, label: str, end: float) -> Case:
    """A histogram in which all observations are above, or below, a bound."""

    def of(*, slow: bool) -> Series:
        counts = {"0.1": not slow, f"{end:g}": not slow, "60" if end == 30 else "10": True, "+Inf": True}
        return {
            f'{metric}_bucket{{{label},le="{le}"}}': "0+10x30" if counted else "0x30" for le, counted in counts.items()
        }

    name, _, value = label.partition("=")
    return Case(of(slow=True), of(slow=False), labels=({name: value.strip('"')},))


def _counter(metric: str, *, rises: str = "0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 1 1 1") -> Case:
    return Case({metric: rises}, {metric: "0x30"}, labels=(_labels(metric),))


def _labels(metric: str) -> dict[str, str]:
    inner = metric.partition("{")[2].rstrip("}")
    return {name: value.strip('"') for name, _, value in (each.partition("=") for each in inner.split(",") if each)}


_M = 'member_id="s1"'
_STAGES = {
    "ConformanceDrift": ("open", "false"),
    "ConformanceDriftSensitive": ("open", "true"),
    "ConformanceDriftPersists": ("persistent", "false"),
    "ConformanceDriftEscalated": ("escalated", "false"),
    "ConformanceApprovalWaits": ("waits", "false"),
}

CASES: dict[str, Case] = {
    "LatticeRaftNoLeader": Case(
        {'lattice_raft_leader{member_id="s1"}': "1x5 0x30", 'lattice_raft_leader{member_id="s2"}': "0x40"},
        {'lattice_raft_leader{member_id="s1"}': "0x40", 'lattice_raft_leader{member_id="s2"}': "1x40"},
    ),
    "LatticeRaftCommitSlow": _slow("lattice_raft_commit_latency_seconds", _M, 5),
    "LatticeDiskSpaceLow": Case(
        {f"lattice_raft_disk_used_bytes{{{_M}}}": "85x60", f"lattice_raft_disk_total_bytes{{{_M}}}": "100x60"},
        {f"lattice_raft_disk_used_bytes{{{_M}}}": "79x60", f"lattice_raft_disk_total_bytes{{{_M}}}": "100x60"},
        at="45m",
        labels=({"member_id": "s1"},),
    ),
    "LatticeRaftDiskUsageHigh": Case(
        {f"lattice_raft_disk_used_bytes{{{_M}}}": "85x60", f"lattice_raft_disk_total_bytes{{{_M}}}": "100x60"},
        {f"lattice_raft_disk_used_bytes{{{_M}}}": "79x60", f"lattice_raft_disk_total_bytes{{{_M}}}": "100x60"},
        labels=({"member_id": "s1"},),
    ),
    "LatticeSnapshotGrowth": Case(
        {f"lattice_raft_snapshot_size_bytes{{{_M}}}": "1e6+5e6x90"},
        {f"lattice_raft_snapshot_size_bytes{{{_M}}}": "1e6+1e5x90"},
        at="80m",
        labels=({"member_id": "s1"},),
    ),
    "LatticeSchedulingStalled": Case(
        {"lattice_scheduling_placements_total": "7x30", 'lattice_scheduling_queue_depth{vcluster="hpc"}': "3x30"},
        {"lattice_scheduling_placements_total": "7+1x30", 'lattice_scheduling_queue_depth{vcluster="hpc"}': "3x30"},
    ),
    "LatticeSchedulingCycleSlow": _slow("lattice_scheduling_cycle_duration_seconds", 'vcluster="hpc"', 30),
    "LatticeQueueDepthHigh": Case(
        {'lattice_scheduling_queue_depth{vcluster="hpc"}': "101x30"},
        {'lattice_scheduling_queue_depth{vcluster="hpc"}': "100x30"},
        labels=({"vcluster": "hpc"},),
    ),
    "LatticeHighPreemptionRate": Case(
        {'lattice_preemptions_total{vcluster="hpc",reason="priority"}': "0+12x30"},
        {"lattice_preemptions_total": "0+8x30"},
    ),
    "LatticeCheckpointFailure": Case(
        {
            'lattice_checkpoint_duration_seconds_count{result="failed"}': "0+2x60",
            'lattice_checkpoint_duration_seconds_count{result="complete"}': "0+10x60",
        },
        {
            'lattice_checkpoint_duration_seconds_count{result="failed"}': "0+1x60",
            'lattice_checkpoint_duration_seconds_count{result="complete"}': "0+20x60",
        },
        at="40m",
    ),
    "LatticeCheckpointStorageUnavailable": Case(
        {"lattice_checkpoint_storage_unavailable": "1x30"},
        {"lattice_checkpoint_storage_unavailable": "0x30"},
    ),
    "LatticeAutoscalingMetricMissing": _counter("lattice_autoscaling_metric_query_repeated_failures_total"),
    "LatticeAutoscalingOscillates": Case(
        {"lattice_autoscaling_alternating": "1x30"}, {"lattice_autoscaling_alternating": "0x30"}
    ),
    "LatticeQuotaUtilizationHigh": Case(
        {'lattice_quota_used_nodes{tenant="physics"}': "96x30", 'lattice_quota_max_nodes{tenant="physics"}': "100x30"},
        {'lattice_quota_used_nodes{tenant="physics"}': "95x30", 'lattice_quota_max_nodes{tenant="physics"}': "100x30"},
        labels=({"tenant": "physics"},),
    ),
    "LatticeAPIErrorRateHigh": Case(
        {
            'lattice_api_requests_total{status="500"}': "0+6x30",
            'lattice_api_requests_total{status="200"}': "0+94x30",
        },
        {
            'lattice_api_requests_total{status="500"}': "0+4x30",
            'lattice_api_requests_total{status="404"}': "0+96x30",
        },
    ),
    "LatticeAccountingBufferFilling": Case(
        {"lattice_accounting_events_buffered": "8001x30"}, {"lattice_accounting_events_buffered": "8000x30"}
    ),
    "LatticeVNIPoolExhausted": Case(
        {"lattice_network_vni_pool_total": "100x30", "lattice_network_vni_pool_available": "9x30"},
        {"lattice_network_vni_pool_total": "100x30", "lattice_network_vni_pool_available": "10x30"},
    ),
    "LatticeNodeHeartbeatMissing": Case(
        {'lattice_agent_last_heartbeat_timestamp{node_id="n1"}': "1100x30"},
        {'lattice_agent_last_heartbeat_timestamp{node_id="n1"}': "1150x30"},
        labels=({"node_id": "n1"},),
    ),
    "LatticeNodeDown": Case(
        {'lattice_agent_last_heartbeat_timestamp{node_id="n1"}': "800x30"},
        {'lattice_agent_last_heartbeat_timestamp{node_id="n1"}': "1000x30"},
        labels=({"node_id": "n1"},),
    ),
    **{
        "Node" + "".join(word.capitalize() for word in trigger.split("_")): _counter(
            f'lattice_node_transitions_total{{trigger="{trigger}"}}'
        )
        for trigger, effect in EFFECTS.items()
        if effect.severity
    },
    **{
        name: Case(
            {f'lattice_conformance_drifted_nodes{{stage="{stage}",sensitive="{sensitive}"}}': "2x30"},
            {f'lattice_conformance_drifted_nodes{{stage="{stage}",sensitive="{sensitive}"}}': "0x30"},
        )
        for name, (stage, sensitive) in _STAGES.items()
    },
    "ConformanceFragmented": Case({"lattice_conformance_groups": "6x30"}, {"lattice_conformance_groups": "5x30"}),
    "ConformanceUnknown": Case(
        {"lattice_conformance_unknown_nodes": "1x60"}, {"lattice_conformance_unknown_nodes": "1x40 0 1x30"}, at="50m"
    ),
    "ConformanceSignalsFail": Case(
        {'lattice_conformance_signals_total{outcome="failed"}': "0+1x30"},
        {'lattice_conformance_signals_total{outcome="failed"}': "2x30"},
        labels=({"outcome": "failed"},),
    ),
}
