"""How allocations look in a table."""

from collections.abc import Iterable
from time import time

from msgspec import UNSET, UnsetType, to_builtins

from lattice.cli.output import Column
from lattice.cli.times import clock_text, local_with_distance, stamp_text, with_local_times
from lattice.cli.views.services import probe_pairs, service_pairs
from lattice_sdk.models.records import Allocation, Constraints, Details
from lattice_sdk.models.runs import RunUsage

NAMED_NODES = 4


def nodes_text(allocation: Allocation) -> str:
    """How many nodes; `1x20` for a group of which 20 tasks run, or wait while none runs."""
    each = allocation.resources.nodes
    counts = allocation.task_counts
    if counts is None:
        return str(allocation.node_count or each)
    return f"{each}x{counts.running or counts.pending or counts.size}"


def node_names(allocation: Allocation) -> str:
    named = ",".join(allocation.nodes[:NAMED_NODES])
    more = len(allocation.nodes) - NAMED_NODES
    return f"{named},+{more}" if more > 0 else named


def elapsed_text(allocation: Allocation) -> str:
    return "-" if allocation.started_at is None else clock_text(allocation.elapsed_s)


def walltime_text(allocation: Allocation) -> str:
    return clock_text(allocation.walltime_s) if allocation.walltime_s else "-"


def end_text(allocation: Allocation) -> str:
    """The exit code, or the signal, or nothing while it has not ended."""
    if allocation.signal:
        return f"signal {allocation.signal}"
    return "" if allocation.exit_code is None else str(allocation.exit_code)


def state_text(allocation: Allocation) -> str:
    return f"{allocation.state} (suspended)" if allocation.suspended else allocation.state


def outcome_text(allocation: Allocation) -> str:
    """The exit code, the signal, or else what ended it."""
    if not allocation.is_terminal:
        return ""
    return end_text(allocation) if allocation.cause in {"exit", "signal"} else allocation.cause or ""


def why_text(allocation: Allocation) -> str:
    """Why it waits, stops or failed; nothing when all is as it should be."""
    if allocation.is_terminal:
        return allocation.ending.removeprefix(f"{allocation.id} ") or allocation.message or ""
    return with_local_times(allocation.reason or "", time())


def percent_text(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}%"


def tasks_text(allocation: Allocation) -> str:
    """What became of the tasks of a group, and which still wait: `100, max 20: 5 pending (95-99), 75 completed`."""
    counts = allocation.task_counts
    if counts is None:
        return ""
    limit = f", max {counts.concurrency}" if counts.concurrency else ""
    waiting = f" ({counts.pending_indices})" if counts.pending_indices else ""
    figures = [
        f"{counts.pending} pending{waiting}" if counts.pending else "",
        f"{counts.running} running" if counts.running else "",
        f"{counts.completed} completed" if counts.completed else "",
        f"{counts.failed} failed" if counts.failed else "",
        f"{counts.cancelled} cancelled" if counts.cancelled else "",
    ]
    return f"{counts.size}{limit}: {', '.join(figure for figure in figures if figure)}"


def cpu_text(allocation: Allocation) -> str:
    """CPU time, and how much of what was held that is; nothing before it has run."""
    if allocation.cpu_efficiency is None:
        return ""
    return f"{clock_text(allocation.cpu_s)} ({percent_text(allocation.cpu_efficiency)} of what it held)"


def memory_text(allocation: Allocation) -> str:
    if allocation.memory_efficiency is None:
        return ""
    return f"{allocation.peak_memory_mb:g} MB ({percent_text(allocation.memory_efficiency)} of what it held)"


def bytes_text(count: float) -> str:
    """1234567 as 1.2 MB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if count < 1000 or unit == "TB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"


def usage_of(allocation: Allocation) -> RunUsage:
    return RunUsage() if allocation.usage is UNSET else allocation.usage


def throttled_text(usage: RunUsage) -> str:
    """How long it waited for CPUs that its share did not give."""
    return f"{usage.throttled_s:.1f} s" if usage.throttled_s else ""


def energy_text(usage: RunUsage) -> str:
    return "" if usage.energy_kwh is None else f"{usage.energy_kwh:.3g} kWh"


def storage_text(usage: RunUsage) -> str:
    if not usage.read_bytes and not usage.written_bytes:
        return ""
    return f"{bytes_text(usage.read_bytes)} read, {bytes_text(usage.written_bytes)} written"


def task_text(allocation: Allocation) -> str:
    """The name of a task by its index; nothing for what is no task."""
    return "" if allocation.task_index is None else f"{allocation.group_id}_{allocation.task_index}"


COLUMNS: tuple[Column[Allocation], ...] = (
    Column("ID", lambda a: a.id),
    Column("NAME", lambda a: a.name),
    Column("STATE", state_text),
    Column("NODES", nodes_text),
    Column("WALLTIME", walltime_text),
    Column("ELAPSED", elapsed_text),
    Column("VCLUSTER", lambda a: a.vcluster),
    Column("TENANT", lambda a: a.tenant, is_wide=True),
    Column("PROJECT", lambda a: a.project or "", is_wide=True),
    Column("USER", lambda a: a.user, is_wide=True),
    Column("NODELIST", node_names, is_wide=True),
    Column("CAUSE", lambda a: a.cause or "", is_wide=True),
    Column("EXIT", outcome_text, is_sparse=True),
    Column("CPU_EFF", lambda a: percent_text(a.cpu_efficiency), is_wide=True),
    Column("MEM_EFF", lambda a: percent_text(a.memory_efficiency), is_wide=True),
    Column("SUBMITTED", lambda a: stamp_text(a.submitted_at), is_wide=True),
    Column("TASK", task_text, is_sparse=True),
    Column("REASON", why_text, is_sparse=True),
)

# Of everybody's work it matters whose it is.
COLUMNS_OF_ALL = tuple(column._replace(is_wide=column.is_wide and column.head != "USER") for column in COLUMNS)

HISTORY_COLUMNS: tuple[Column[Allocation], ...] = (
    Column("ID", lambda a: a.id),
    Column("NAME", lambda a: a.name),
    Column("STATE", lambda a: a.state),
    Column("CAUSE", lambda a: a.cause or ""),
    Column("EXIT", end_text),
    Column("NODES", nodes_text),
    Column("ELAPSED", elapsed_text),
    Column("COMPLETED", lambda a: stamp_text(a.completed_at)),
    Column("USER", lambda a: a.user),
    Column("VCLUSTER", lambda a: a.vcluster),
    Column("TENANT", lambda a: a.tenant, is_wide=True),
    Column("PROJECT", lambda a: a.project or "", is_wide=True),
    Column("NODELIST", node_names, is_wide=True),
    Column("SUBMITTED", lambda a: stamp_text(a.submitted_at), is_wide=True),
    Column("STARTED", lambda a: stamp_text(a.started_at), is_wide=True),
    Column("RESTARTS", lambda a: str(a.restart_count), is_wide=True),
    Column("PREEMPTED", lambda a: str(a.preempted or 0), is_wide=True),
    Column("CPU_TIME", lambda a: clock_text(a.cpu_s) if a.started_at else "", is_wide=True),
    Column("PEAK_MB", lambda a: f"{a.peak_memory_mb:g}" if a.started_at else "", is_wide=True),
    Column("CPU_EFF", lambda a: percent_text(a.cpu_efficiency), is_wide=True),
    Column("MEM_EFF", lambda a: percent_text(a.memory_efficiency), is_wide=True),
    Column("THROTTLED", lambda a: throttled_text(usage_of(a)), is_wide=True),
    Column("READ", lambda a: bytes_text(usage_of(a).read_bytes) if a.started_at else "", is_wide=True),
    Column("WRITTEN", lambda a: bytes_text(usage_of(a).written_bytes) if a.started_at else "", is_wide=True),
    Column("PIDS", lambda a: str(usage_of(a).peak_pids or ""), is_wide=True),
)


def _times(count: int | UnsetType) -> str:
    if not count:
        return ""
    return "once" if count == 1 else f"{count} times"


def allocation_pairs(allocation: Allocation, now: float) -> list[tuple[str, str]]:
    """One allocation in full, as far as there is something to say; times are local."""
    pairs = [
        ("Allocation", allocation.id),
        ("Task", task_text(allocation)),
        ("Name", allocation.name),
        ("State", state_text(allocation)),
        ("User", allocation.user),
        ("Tenant", allocation.tenant),
        ("Project", allocation.project or ""),
        ("vCluster", allocation.vcluster),
        ("Class", str(allocation.preemption_class)),
        ("Nodes", nodes_text(allocation)),
        ("On", ",".join(allocation.nodes)),
        ("Walltime", walltime_text(allocation)),
        ("Tags", ", ".join(f"{key}={value}" for key, value in sorted(allocation.tags.items()))),
        ("DAG", allocation.dag_id or ""),
        ("Depends on", allocation.depends_on),
        ("Mutex", allocation.mutex),
        ("Deadline", local_with_distance(allocation.deadline, now)),
        ("Submitted", local_with_distance(allocation.submitted_at, now)),
        ("Not before", local_with_distance(allocation.eligible_at, now)),
        ("Started", local_with_distance(allocation.started_at, now)),
        ("Elapsed", elapsed_text(allocation)),
        ("Completed", local_with_distance(allocation.completed_at, now)),
        ("Ended with", end_text(allocation)),
        ("Cause", allocation.cause or ""),
        ("Ending", allocation.ending),
        ("Message", allocation.message or ""),
        ("Restarts", str(allocation.restart_count or "")),
        ("Preempted", _times(allocation.preempted)),
        ("Tasks", tasks_text(allocation)),
        ("Steps", f"{allocation.step_count}, see `lattice steps {allocation.id}`" if allocation.step_count else ""),
        ("Used", allocation.used),
        ("CPU time", cpu_text(allocation)),
        ("Throttled", throttled_text(usage_of(allocation))),
        ("Peak memory", memory_text(allocation)),
        ("Storage", storage_text(usage_of(allocation))),
        ("Most processes", str(usage_of(allocation).peak_pids or "")),
        ("GPU use", percent_text(usage_of(allocation).gpu_efficiency)),
        ("Energy", energy_text(usage_of(allocation))),
    ]
    shown = [(name, text) for name, text in pairs if text and text != "-"]
    return [*shown, *service_pairs(allocation)]


def script_text(details: Details) -> str:
    """What was submitted: the script as it is, or the command as a shell would take it."""
    if details.script:
        return details.script
    words = details.entrypoint if isinstance(details.entrypoint, list) else [details.entrypoint or ""]
    return _shell_words(words) + "\n"


def _shell_words(words: Iterable[str]) -> str:
    import shlex

    return shlex.join(words)


def request_pairs(allocation: Allocation) -> list[tuple[str, str]]:
    """What was asked for, as far as the caller may see it."""
    details = allocation.details
    if details is UNSET or details is None:
        return []
    words = details.entrypoint if isinstance(details.entrypoint, list) else [details.entrypoint or ""]
    lines = (details.script or "").count("\n")
    pairs = [
        ("Command", _shell_words(word for word in words if word)),
        ("Script", f"{lines} lines" if details.script else ""),
        ("Arguments", _shell_words(details.script_args or [])),
        ("Directory", details.cwd or ""),
        ("Constraints", _constraints_text(details.constraints)),
        ("Exclusive", "yes" if details.exclusive else ""),
        *probe_pairs(details),
    ]
    return [(name, text) for name, text in pairs if text]


def _constraints_text(constraints: Constraints | None) -> str:
    """As `--constraint` takes them."""
    given = {} if constraints is None else to_builtins(constraints)
    shown = [
        name if value is True else f"{name}={'+'.join(value) if isinstance(value, list) else value}"
        for name, value in given.items()
        if value
    ]
    return ", ".join(shown)
