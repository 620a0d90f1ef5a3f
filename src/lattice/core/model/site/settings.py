"""Settings that the whole cluster shares and an administrator may change while it runs. See docs/architecture/core.md."""

import re

from msgspec import Struct

from lattice.slurm.text.hostlists import BadHostlist, expand

MAX_TEXT = 65_536
MAX_PATH = 512
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
DEFAULT_VCLUSTER = "submission.default_vcluster"


class Setting(Struct, frozen=True, kw_only=True):
    kind: str  # "seconds", "count", "bool", "text", "path", "nodes", "flags" or "choice"
    default: str
    help: str
    flags: tuple[str, ...] = ()  # those that it may name
    is_read: bool = True  # False: nothing reads it yet. The log may hold it; setting it now gives a warning


SETTINGS: dict[str, Setting] = {
    "archive.after_s": Setting(kind="seconds", default="300", help="how long finished work stays in the hot state"),
    "scheduler.cycle_interval_s": Setting(
        kind="seconds", default="5", help="longest time between two scheduling cycles"
    ),
    "scheduler.reference_wait_s": Setting(kind="seconds", default="3600", help="wait at which f2 reaches log 2"),
    "scheduler.fairshare_half_life_s": Setting(
        kind="seconds", default="604800", help="half-life of past usage in the fair share"
    ),
    "scheduler.budget_period_days": Setting(kind="count", default="90", help="days of the rolling budget window"),
    "scheduler.power_budget_w": Setting(kind="count", default="0", help="watts that busy nodes may draw, 0 = no limit"),
    "scheduler.storage_bandwidth_gbps": Setting(
        kind="seconds",
        default="0",
        help="storage bandwidth that running work may ask for or use before more that asks for some starts, 0 = no limit",
    ),
    "scheduler.trace_capture": Setting(kind="bool", default="false", help="write a trace of submissions and ends"),
    "scheduling.max_dag_size": Setting(kind="count", default="1000", help="allocations that one DAG may have"),
    "scheduling.max_prologue_retries": Setting(
        kind="count", default="3", help="further nodes that are tried after a failed prologue"
    ),
    "preemption.patience_s": Setting(
        kind="seconds", default="30", help="work that would start later than this may take work of lower classes"
    ),
    "preemption.min_runtime_s": Setting(kind="seconds", default="300", help="work that began later is not taken"),
    "preemption.near_completion_s": Setting(
        kind="seconds", default="300", help="work whose walltime is over sooner is not taken"
    ),
    "preemption.max_per_allocation": Setting(
        kind="count", default="3", help="how often one allocation is taken by higher classes, 0 = never"
    ),
    "preemption.max_victims": Setting(
        kind="count", default="3", help="allocations that are taken for one, 0 = preemption is off"
    ),
    "conformance.stale_after_s": Setting(
        kind="seconds", default="46800", help="how long a node's fingerprint counts after it was reported"
    ),
    "conformance.drift_remediation_timeout_s": Setting(
        kind="seconds", default="86400", help="how long a node may differ from its baseline, 0 = for ever"
    ),
    "conformance.sensitive_remediation_timeout_s": Setting(
        kind="seconds", default="14400", help="the same for sensitive nodes"
    ),
    "sensitive.pool_size": Setting(kind="count", default="0", help="nodes that may be claimed, 0 = none set"),
    "sensitive.require_wipe": Setting(
        kind="bool", default="false", help="nodes are wiped when sensitive work leaves them, or quarantined"
    ),
    "sensitive.wipe_timeout_s": Setting(kind="seconds", default="1800", help="a wipe that takes longer has failed"),
    "node.heartbeat_interval_s": Setting(
        kind="seconds", default="10", help="time between two heartbeats, 0 = report once and wait"
    ),
    "node.heartbeat_timeout_s": Setting(kind="seconds", default="30", help="silence after which a node is Degraded"),
    "node.grace_s": Setting(kind="seconds", default="60", help="further silence after which a Degraded node is Down"),
    "node.sensitive_heartbeat_timeout_s": Setting(
        kind="seconds", default="120", help="the same time-out for nodes with sensitive work"
    ),
    "node.sensitive_grace_s": Setting(kind="seconds", default="300", help="the grace of nodes with sensitive work"),
    "node.borrowed_grace_s": Setting(
        kind="seconds", default="30", help="the grace of nodes that work for a vCluster which is not theirs"
    ),
    "node.collectors": Setting(
        kind="nodes", default="", help="nodes that gather the heartbeats of others, n[1-3]; empty = none"
    ),
    "node.collector_fan_out": Setting(
        kind="count", default="64", help="collectors that report to the servers, or to any one collector"
    ),
    "node.admission": Setting(
        kind="choice",
        default="open",
        help="unknown nodes: open = they join, approve = they wait in Quarantine until they are admitted",
        flags=("open", "approve"),
    ),
    "node.debug": Setting(
        kind="flags",
        default="",
        help="debug flags of the servers: init, msg, node, sched, api, all",
        flags=("init", "msg", "node", "sched", "api", "all"),
    ),
    DEFAULT_VCLUSTER: Setting(
        kind="text", default="", help="where submissions go that name no vCluster; empty = as configured"
    ),
    "node.boot_timeout_s": Setting(kind="seconds", default="600", help="a node not Ready by then failed to boot"),
    "agent.grace_s": Setting(kind="seconds", default="30", help="time between SIGTERM and SIGKILL"),
    "checkpoint.root": Setting(
        kind="path", default="", help="directory of all checkpoints, the same on every node; empty = there are none"
    ),
    "checkpoint.timeout_s": Setting(
        kind="seconds",
        default="600",
        help="a checkpoint that takes longer has failed; half as long again with progress",
    ),
    "checkpoint.keep": Setting(kind="count", default="2", help="complete checkpoints that are kept per allocation"),
    "checkpoint.keep_bytes": Setting(
        kind="count", default="0", help="bytes of those together; the newest one is always kept, 0 = no limit"
    ),
    "checkpoint.every_s": Setting(
        kind="seconds",
        default="30",
        help="time between two looks for work whose checkpoint is worth it; 0 = only before work loses its nodes",
    ),
    "checkpoint.max_bandwidth": Setting(
        kind="count", default="0", help="bytes a second that checkpoints may take together, 0 = no limit"
    ),
    "checkpoint.min_interval_s": Setting(
        kind="seconds", default="60", help="a run is not asked again sooner after a checkpoint, or after its start"
    ),
    "checkpoint.max_deferral_s": Setting(
        kind="seconds", default="300", help="how long work that is asked by grpc may put a checkpoint off"
    ),
    "checkpoint.upload": Setting(
        kind="bool",
        default="false",
        help="keep a copy of complete checkpoints in the object store, for nodes without them",
    ),
    "checkpoint.node_mtbf_s": Setting(
        kind="seconds", default="3600000", help="mean time between failures of one node, 0 = nodes do not fail"
    ),
    "staging.recheck_s": Setting(
        kind="seconds",
        default="0",
        help="how long a copy counts after it was compared with its source; 0 = it is compared for every submission",
    ),
    "staging.retry_s": Setting(kind="seconds", default="5", help="pause after the first failure to stage data"),
    "staging.bandwidth": Setting(
        kind="seconds", default="0.3", help="part of the hot tier's bandwidth that staging may use, up to 1"
    ),
    "terminal.keep": Setting(
        kind="seconds", default="900", help="a terminal without a client is hung up after this time"
    ),
    **{
        f"rate_limits.{name}": Setting(
            kind="count",
            default=default,
            help=f"of one user: {text}; 0 = no limit",
        )
        for name, default, text in (
            ("attach_max_concurrent", "5", "concurrent terminals"),
            ("stream_logs_max_concurrent", "10", "concurrently followed outputs"),
            ("stream_metrics_max_concurrent", "5", "concurrently followed metrics"),
            ("watch_max_concurrent", "20", "concurrently followed event streams"),
            ("query_metrics_per_minute", "60", "queries of metrics"),
            ("diagnostics_per_minute", "30", "diagnostics"),
            ("compare_per_minute", "10", "comparisons"),
            ("audit_per_minute", "60", "queries of the audit chain"),
            ("requests_per_second", "1000", "requests of any kind"),
            ("requests_burst", "5000", "size of a burst of requests"),
        )
    },
    "accounting.enabled": Setting(
        kind="bool", default="false", help="report usage to the accounting service", is_read=False
    ),
}


def setting_value(settings: dict[str, str], key: str) -> str:
    """The value in force: what was set, else the default."""
    return settings.get(key, SETTINGS[key].default)


def check_setting(key: str, value: str) -> tuple[str, str] | None:
    """A sentence and a hint when the setting cannot be made; None when it can."""
    setting = SETTINGS.get(key)
    if setting is None:
        return f'unknown setting "{key[:80]}"', f"Known: {', '.join(sorted(SETTINGS))}."
    if setting.kind == "bool":
        good = value in ("true", "false")
    elif setting.kind == "count":
        good = value.isascii() and value.isdigit() and len(value) < 12
    elif setting.kind == "nodes":
        good = len(value) <= MAX_TEXT and _is_node_set(value)
    elif setting.kind == "flags":
        good = not value or all(flag in setting.flags for flag in value.split(","))
    elif setting.kind == "choice":
        good = value in setting.flags
    elif setting.kind == "path":
        good = not value or _is_path(value)
    elif setting.kind == "text":
        good = len(value) <= MAX_TEXT and value.isprintable()
    else:
        good = _is_seconds(value)
    if good:
        return None
    wanted = {
        "bool": "true or false",
        "count": "a whole number",
        "seconds": "a number of seconds",
        "nodes": "names of nodes, as in n1,n[3-5]",
        "flags": f"some of {', '.join(setting.flags)}, apart by commas",
        "choice": f"one of {', '.join(setting.flags)}",
        "path": f"an absolute path without . and .., quotes and backslashes, of up to {MAX_PATH} characters",
    }.get(setting.kind, f"up to {MAX_TEXT:,} printable characters")
    return f'"{value[:80]}" is no value for {key}', f"It takes {wanted}; the default is {setting.default or 'none'}."


def _is_path(value: str) -> bool:
    parts = value.split("/")[1:]
    is_plain = value.startswith("/") and value.isprintable() and len(value) <= MAX_PATH and not {*value} & {*'"\\'}
    return is_plain and not {".", ".."} & set(parts) and any(parts)


def _is_node_set(value: str) -> bool:
    try:
        names = expand(value)
    except BadHostlist:
        return False
    return all(_NODE.fullmatch(name) for name in names)


def _is_seconds(value: str) -> bool:
    try:
        seconds = float(value)
    except ValueError:
        return False
    return 0 <= seconds < 1e9
