"""The rows and columns of sacct: a job, its batch step, its steps."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lattice.slurm.listings.rows import JobRow, StepRow
from lattice.slurm.text.formats import Column
from lattice.slurm.text.hostlists import fold
from lattice.slurm.text.numbers import whole
from lattice.slurm.text.sizes import format_memory
from lattice.slurm.text.states import State
from lattice.slurm.text.times import format_limit, format_moment, format_span

DEFAULT = "JobID,JobName,Partition,Account,AllocCPUS,State,ExitCode"
BRIEF = "JobID,State,ExitCode"
LONG = (
    "JobID,JobIDRaw,JobName,Partition,MaxVMSize,MaxVMSizeNode,MaxVMSizeTask,AveVMSize,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MaxPages,"
    "MaxPagesNode,MaxPagesTask,AvePages,MinCPU,MinCPUNode,MinCPUTask,AveCPU,NTasks,AllocCPUS,Elapsed,State,ExitCode,AveCPUFreq,"
    "ReqCPUFreqMin,ReqCPUFreqMax,ReqCPUFreqGov,ReqMem,ConsumedEnergy,MaxDiskRead,MaxDiskReadNode,MaxDiskReadTask,AveDiskRead,"
    "MaxDiskWrite,MaxDiskWriteNode,MaxDiskWriteTask,AveDiskWrite,ReqTRES,AllocTRES"
)

_WIDTHS = {
    "JobID": -12,
    "JobIDRaw": -12,
    "JobName": 10,
    "Partition": 10,
    "Account": 10,
    "AllocCPUS": 10,
    "AllocNodes": 10,
    "State": 10,
    "ExitCode": 8,
    "DerivedExitCode": 15,
    "NodeList": 15,
    "Start": 19,
    "End": 19,
    "Submit": 19,
    "Eligible": 19,
    "Elapsed": 10,
    "ElapsedRaw": 10,
    "TotalCPU": 10,
    "CPUTime": 10,
    "CPUTimeRAW": 10,
    "UserCPU": 10,
    "SystemCPU": 10,
    "MaxRSS": 10,
    "AveRSS": 10,
    "MaxVMSize": 10,
    "ReqMem": 10,
    "ReqCPUS": 8,
    "ReqNodes": 8,
    "ReqTRES": 10,
    "AllocTRES": 10,
    "NNodes": 8,
    "NCPUS": 10,
    "NTasks": 8,
    "Comment": 14,
    "SystemComment": 14,
    "Reason": 22,
    "User": 9,
    "UID": 6,
    "Group": 9,
    "GID": 6,
    "Cluster": 10,
    "QOS": 10,
    "WorkDir": 20,
    "Timelimit": 10,
    "TimelimitRaw": 12,
    "Priority": 10,
    "Reservation": 20,
    "WCKey": 10,
    "Restarts": 8,
    "SubmitLine": 20,
    "Constraints": 10,
    "Suspended": 10,
    "Planned": 10,
    "PlannedCPU": 10,
    "PlannedCPURAW": 13,
    "Reserved": 10,
    "MaxRSSNode": 10,
    "MaxRSSTask": 10,
    "AveCPU": 10,
    "AveDiskRead": 11,
    "AveDiskWrite": 12,
    "MaxDiskRead": 11,
    "MaxDiskWrite": 12,
    "MinCPU": 10,
    "QOSRAW": 10,
    "Flags": 20,
    "Layout": 9,
    "ConsumedEnergy": 14,
    "ConsumedEnergyRaw": 17,
}
# Known, but always empty: not measured by Lattice, or not applicable.
_EMPTY = (
    "AdminComment AssocID AveCPUFreq AvePages AveVMSize BlockID Container DBIndex MaxDiskReadNode "
    "MaxDiskReadTask MaxDiskWriteNode MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxVMSizeNode MaxVMSizeTask "
    "McsLabel MinCPUNode MinCPUTask ReqCPUFreq ReqCPUFreqGov ReqCPUFreqMax ReqCPUFreqMin ReservationId ResvCPU ResvCPURAW "
    "TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin TRESUsageInMinNode TRESUsageInMinTask "
    "TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode "
    "TRESUsageOutMinTask TRESUsageOutTot WCKeyID"
)
_WIDTHS |= {name: max(10, len(name)) for name in _EMPTY.split()}
COLUMNS: Mapping[str, Column] = {name.lower(): Column(name, name, width) for name, width in _WIDTHS.items()}


class Line(NamedTuple):
    """A line of sacct: the job itself, or one of its steps."""

    job: JobRow
    step: StepRow | None = None


def lines(job: JobRow, *, with_steps: bool) -> Iterator[Line]:
    """The job, then its steps, unless only jobs are requested."""
    yield Line(job)
    if with_steps:
        for step in job.steps:
            yield Line(job, step)


class Writer:
    """The text of every column, line by line."""

    def __init__(self, now: float, cluster: str, form: str = "") -> None:
        self._now = now
        self._cluster = cluster
        self._form = form

    def value_of(self, line: Line) -> Callable[[str], str]:
        return lambda name: self._value(line, name)

    def _value(self, line: Line, name: str) -> str:
        if name == "Cluster":
            return self._cluster
        writer = _VALUES.get(name)
        return "" if writer is None else writer(line, self._now, self._form)


_Value = Callable[[Line, float, str], str]


def _of_job(read: Callable[[JobRow], str]) -> _Value:
    """A column that is only filled on the job's own line."""
    return lambda line, now, form: read(line.job) if line.step is None else ""


def _id(number: str, line: Line) -> str:
    return number if line.step is None else f"{number}.{line.step.name}"


def _state(line: Line, _now: float, _form: str) -> str:
    state = line.job.state if line.step is None else line.step.state
    if line.step is None and state is State.CANCELLED and line.job.cancelled_by is not None:
        return f"CANCELLED by {line.job.cancelled_by}"
    return state.accounted.long


def _exit(line: Line, _now: float, _form: str) -> str:
    of = line.job if line.step is None else line.step
    return f"{of.exit_code}:{of.signal}"


def _times(line: Line, now: float) -> tuple[float | None, float | None, int]:
    """Start, end and whole seconds between them."""
    of = line.job if line.step is None else line.step
    started = None if of.state.is_waiting else of.started_at
    if started is None:
        return None, of.ended_at, 0
    return started, of.ended_at, max(0, int((of.ended_at if of.ended_at is not None else now) - started))


def _elapsed(line: Line, now: float, _form: str) -> str:
    return format_span(_times(line, now)[2], short=False)


def _cpus(line: Line) -> int:
    return line.job.cpus if line.step is None else line.step.cpus or line.job.cpus


def _cpu_seconds(line: Line) -> float:
    return line.job.cpu_s if line.step is None else line.step.cpu_s


def _nodes(line: Line) -> tuple[str, ...]:
    return line.job.nodes if line.step is None else line.step.nodes


def _rss(line: Line, _now: float, _form: str) -> str:
    # sacct shows memory only for steps, not for jobs.
    if line.step is None or not line.step.peak_memory_mb:
        return ""
    return f"{line.step.peak_memory_mb * 1024}K"


def _disk(read: Callable[[StepRow], int]) -> _Value:
    """Bytes of storage, in megabytes as sacct shows them."""
    return lambda line, now, form: (
        "" if line.step is None or line.step.ended_at is None else f"{read(line.step) / (1 << 20):.2f}M"
    )


def _requested_memory(job: JobRow) -> str:
    if job.memory_per_cpu_mb:
        return format_memory(job.memory_per_cpu_mb * max(1, job.cpus))
    return format_memory(job.memory_mb) if job.memory_mb else "0"


def _resources(job: JobRow, cpus: int, nodes: int) -> str:
    gpus = job.gres.rpartition(":")[2] if job.gres else ""
    more = f",gres/gpu={int(gpus) * nodes}" if whole(gpus) else ""
    return f"billing={cpus},cpu={cpus}{more},node={nodes}"


def _cpu_time(line: Line, now: float, _form: str) -> str:
    return format_span(_times(line, now)[2] * _cpus(line), short=False)


def _total_cpu(line: Line, _now: float, _form: str) -> str:
    seconds = _cpu_seconds(line)
    whole = int(seconds)
    if whole < 3600:
        return f"{whole // 60:02}:{whole % 60:02}.{int(seconds * 1000) % 1000:03}"
    return format_span(whole, short=False)


_VALUES: Mapping[str, _Value] = {
    "JobID": lambda line, now, form: _id(line.job.shown_id, line),
    "JobIDRaw": lambda line, now, form: _id(str(line.job.raw_number or line.job.number), line),
    "JobName": lambda line, now, form: line.job.name if line.step is None else line.step.command,
    "Partition": _of_job(lambda job: job.partition),
    "Account": lambda line, now, form: line.job.account,
    "AllocCPUS": lambda line, now, form: "0" if line.job.state.is_waiting else str(_cpus(line)),
    "AllocNodes": lambda line, now, form: "0" if line.job.state.is_waiting else str(len(_nodes(line))),
    "State": _state,
    "ExitCode": _exit,
    "DerivedExitCode": _of_job(lambda job: f"{max((step.exit_code for step in job.steps), default=0)}:0"),
    "NodeList": lambda line, now, form: fold(_nodes(line)) or ("None assigned" if line.step is None else ""),
    "Start": lambda line, now, form: format_moment(_times(line, now)[0], form, "Unknown"),
    "End": lambda line, now, form: format_moment(_times(line, now)[1], form, "Unknown"),
    "Submit": lambda line, now, form: format_moment(
        line.job.submitted_at if line.step is None else line.step.started_at, form, "Unknown"
    ),
    "Eligible": lambda line, now, form: format_moment(line.job.eligible_at, form, "Unknown"),
    "Elapsed": _elapsed,
    "ElapsedRaw": lambda line, now, form: str(_times(line, now)[2]),
    "TotalCPU": _total_cpu,
    "UserCPU": _total_cpu,
    "SystemCPU": lambda line, now, form: "00:00:00",
    "CPUTime": _cpu_time,
    "CPUTimeRAW": lambda line, now, form: str(_times(line, now)[2] * _cpus(line)),
    "MaxRSS": _rss,
    "AveRSS": _rss,
    "MaxDiskRead": _disk(lambda step: step.read_bytes),
    "MaxDiskWrite": _disk(lambda step: step.written_bytes),
    "AveDiskRead": _disk(lambda step: step.read_bytes // max(1, step.ntasks)),
    "AveDiskWrite": _disk(lambda step: step.written_bytes // max(1, step.ntasks)),
    "ReqMem": _of_job(_requested_memory),
    "ReqCPUS": lambda line, now, form: str(_cpus(line)),
    "ReqNodes": _of_job(lambda job: str(job.min_nodes)),
    "ReqTRES": _of_job(lambda job: _resources(job, job.cpus, job.min_nodes)),
    "AllocTRES": lambda line, now, form: (
        _resources(line.job, _cpus(line), len(_nodes(line))) if _nodes(line) and not line.job.state.is_waiting else ""
    ),
    "NNodes": lambda line, now, form: str(len(_nodes(line)) or line.job.min_nodes),
    "NCPUS": lambda line, now, form: str(_cpus(line)),
    "NTasks": lambda line, now, form: "" if line.step is None else str(line.step.ntasks),
    "Comment": _of_job(lambda job: job.comment),
    "SystemComment": _of_job(lambda job: job.system_comment),
    "Reason": _of_job(lambda job: job.reason),
    "User": _of_job(lambda job: job.user),
    "UID": _of_job(lambda job: str(job.uid)),
    "Group": _of_job(lambda job: job.group),
    "GID": _of_job(lambda job: str(job.gid)),
    "QOS": _of_job(lambda job: job.qos),
    "WorkDir": _of_job(lambda job: job.work_dir),
    "Timelimit": _of_job(lambda job: format_limit(job.time_limit_s, short=False)),
    "TimelimitRaw": _of_job(lambda job: str(-(-job.time_limit_s // 60)) if job.time_limit_s > 0 else "UNLIMITED"),
    "Priority": _of_job(lambda job: str(job.priority)),
    "Reservation": _of_job(lambda job: job.reservation),
    "WCKey": _of_job(lambda job: job.wckey),
    "Restarts": _of_job(lambda job: str(job.restarts)),
    "SubmitLine": _of_job(lambda job: job.submit_line),
    "Constraints": _of_job(lambda job: job.features),
    "Suspended": lambda line, now, form: "00:00:00",
    "Planned": lambda line, now, form: (
        "" if line.step is not None else format_span(_planned(line.job, now), short=False)
    ),
    "PlannedCPU": lambda line, now, form: (
        "" if line.step is not None else format_span(_planned(line.job, now) * _cpus(line), short=False)
    ),
    "PlannedCPURAW": lambda line, now, form: (
        "" if line.step is not None else str(_planned(line.job, now) * _cpus(line))
    ),
    "Reserved": lambda line, now, form: (
        "" if line.step is not None else format_span(_planned(line.job, now), short=False)
    ),
    "MaxRSSNode": lambda line, now, form: line.step.nodes[0] if line.step is not None and line.step.nodes else "",
    "MaxRSSTask": lambda line, now, form: "0" if line.step is not None and line.step.peak_memory_mb else "",
    "AveCPU": lambda line, now, form: (
        "" if line.step is None else format_span(int(line.step.cpu_s / max(1, line.step.ntasks)), short=False)
    ),
    "MinCPU": lambda line, now, form: (
        "" if line.step is None else format_span(int(line.step.cpu_s / max(1, line.step.ntasks)), short=False)
    ),
    "QOSRAW": _of_job(lambda job: job.qos),
    "Flags": _of_job(lambda job: "SchedMain"),
    "Layout": lambda line, now, form: "" if line.step is None else "Block" if line.step.name.isdigit() else "Unknown",
    "ConsumedEnergy": lambda line, now, form: "0",
    "ConsumedEnergyRaw": lambda line, now, form: "0",
}


def _planned(job: JobRow, now: float) -> int:
    """Seconds between eligibility and start."""
    if job.eligible_at is None:
        return 0
    started = None if job.state.is_waiting else job.started_at
    return max(0, int((started or job.ended_at or now) - job.eligible_at))
