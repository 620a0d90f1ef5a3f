"""`scontrol show`: one record after the other."""

from collections.abc import Awaitable, Callable, Iterable

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.limits import MAX_READ_HERE
from lattice.api.pacing import Pace, free_in_slices, in_thread, joined_in_slices
from lattice.api.slurm.answering import Measure, complained, printed, require
from lattice.api.slurm.rows.cluster_config import config_values
from lattice.api.slurm.rows.finding import (
    MIN_JOB_AGE_S,
    Entry,
    JobFilter,
    behind,
    matching,
    parse_job_id,
)
from lattice.api.slurm.rows.jobs import Depth, JobRows
from lattice.api.slurm.rows.machine import MachineRows
from lattice.slurm.faults import error
from lattice.slurm.listings import scontrol
from lattice.slurm.listings.listing import ListingLine
from lattice.slurm.listings.rows import JobRow
from lattice.slurm.text.hostlists import BadHostlist, expand, fold, most_named
from lattice.slurm.text.times import format_moment
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

Show = Callable[[Context, SlurmCommand, ListingLine, str], Awaitable[SlurmAnswer]]


async def show(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    """`show ENTITY [ID]` or `show ENTITY=ID`."""
    if not line.words:
        return complained("too few arguments for keyword:show")
    if len(line.words) > 2:
        return complained("too many arguments for keyword:show")
    entity, _, wanted = line.words[0].partition("=")
    wanted = wanted or (line.words[1] if len(line.words) > 1 else "")
    carry_out = _find_entity(entity.lower())
    if carry_out is None:
        return complained(f"invalid entity:{line.words[0]} for keyword:show ")
    return await carry_out(context, command, line, wanted)


def _find_entity(word: str) -> Show | None:
    """By any beginning of its name that is long enough."""
    return next((found for name, least, found in _ENTITIES if len(word) >= least and name.startswith(word)), None)


def _end(line: ListingLine) -> str:
    return "\n" if line.has("oneliner") else "\n\n"


def _records(texts: Iterable[str], line: ListingLine, code: int = 0, last: str = "") -> SlurmAnswer:
    """One record a line, or records with an empty line behind each; `last` is what could not be found."""
    end = _end(line)
    stdout = "".join(f"{text}{end}" for text in texts)
    return SlurmAnswer(stdout=stdout + (f"{last}\n" if last else ""), code=code)


# jobs and steps


async def _jobs(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    require(context, Permission.READ)
    now = context.services.clock.now_ms() / 1000
    job = parse_job_id(wanted) if wanted else None
    if wanted and job is None:
        return complained("scontrol_print_job error: Invalid job id specified")
    rows = await _job_rows(context, wanted, now)
    if rows is None:
        return complained("slurm_load_jobs error: Invalid job id specified")
    if not rows and wanted:
        return SlurmAnswer(stdout=f"Job {wanted} not found\n", code=1)
    if not rows:
        return printed("No jobs in the system")
    form = command.environment.get("SLURM_TIME_FORMAT", "")
    texts: list[str] = []
    try:
        await _write(texts, rows, now, line, form)
        return SlurmAnswer(stdout=await joined_in_slices(texts, _end(line)))
    finally:
        await free_in_slices(rows, texts)


async def _write(texts: list[str], rows: list[JobRow], now: float, line: ListingLine, form: str) -> None:
    measure, pace = Measure("scontrol"), Pace()
    is_detailed, is_short = line.has("details", "verbose"), line.has("oneliner")
    for row in rows:
        texts.append(scontrol.job_text(row, now, one_line=is_short, in_detail=is_detailed, form=form))
        measure.add(len(texts[-1]))
        if pace.is_due():
            await pace.rest()


async def _job_rows(context: Context, wanted: str, now: float) -> list[JobRow] | None:
    since_ms = int((now - MIN_JOB_AGE_S) * 1000)
    job = parse_job_id(wanted) if wanted else None
    entries: list[Entry] | None
    if job is not None:
        found = await behind(context, job, since_ms=since_ms)
        entries = None if found is None else list(found)
    else:
        everything = JobFilter(scope=context.scope(Permission.READ), since_ms=since_ms)
        entries = [entry async for entry in matching(context, everything, with_archive=True)]
    if entries is None:
        return None
    rows = [row async for row in JobRows(context, Depth.FULL).rows(entries)]
    await free_in_slices(entries)
    return rows


async def _steps(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    require(context, Permission.READ)
    now = context.services.clock.now_ms() / 1000
    job_text, _, name = wanted.partition(".")
    if wanted and parse_job_id(job_text) is None:
        return complained("slurm_get_job_steps error: Invalid job id specified")
    rows = await _job_rows(context, job_text, now)
    if rows is None:
        return complained("slurm_get_job_steps error: Invalid job id specified")
    form = command.environment.get("SLURM_TIME_FORMAT", "")
    texts = [
        scontrol.step_text(row, step, one_line=line.has("oneliner"), form=form)
        for row in rows
        for step in row.steps
        if step.state.is_active and (not name or step.name == name)
    ]
    if texts:
        return _records(texts, line)
    if wanted:
        return SlurmAnswer(stdout=f"Job step {wanted} not found\n", code=1)
    return printed("No job steps in the system")


# the machine


async def _nodes(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    require(context, Permission.READ_NODES)
    rows = MachineRows(context)
    known = context.state.nodes
    names = list(rows.nodes()) if not wanted or wanted.upper() == "ALL" else _names(wanted)
    form = command.environment.get("SLURM_TIME_FORMAT", "")
    texts = [
        scontrol.node_text(rows.node(known[name]), one_line=line.has("oneliner"), form=form)
        for name in names
        if name in known
    ]
    missing = [f"Node {name} not found" for name in names if name not in known]
    if not names:
        return printed("No nodes in the system")
    return _records(texts, line, code=1 if missing else 0, last="\n".join(missing))


async def _partitions(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    require(context, Permission.READ_VCLUSTERS)
    rows = MachineRows(context)
    found = [row for row in rows.partitions(rows.nodes()) if wanted in ("", row.name)]
    if not found and wanted:
        return SlurmAnswer(stdout=f"Partition {wanted} not found\n", code=1)
    if not found:
        return printed("No partitions in the system")
    return _records((scontrol.partition_text(row, one_line=line.has("oneliner")) for row in found), line)


async def _reservations(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    require(context, Permission.READ_RESERVATIONS)
    found = [row for row in MachineRows(context).reservations() if wanted in ("", row.name)]
    if not found and wanted:
        return SlurmAnswer(stdout=f"Reservation {wanted} not found\n", code=1)
    if not found:
        return printed("No reservations in the system")
    form = command.environment.get("SLURM_TIME_FORMAT", "")
    texts = (scontrol.reservation_text(row, one_line=line.has("oneliner"), form=form) for row in found)
    return _records(texts, line)


async def _config(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    require(context, Permission.READ_NODES)
    values = config_values(context)
    date = format_moment(context.services.clock.now_ms() / 1000)
    up = f"Slurmctld(primary) at {context.services.server_name} is UP"
    return printed(f"Configuration data as of {date}", *scontrol.config_lines(values), "", up)


async def _licenses(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    return printed("No licenses configured in Slurm.")


async def _daemons(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    return printed("slurmctld slurmd")


async def _nothing(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    return printed()


# lists of hosts


def _names(text: str) -> list[str]:
    try:
        return expand(text)
    except BadHostlist as bad:
        raise error("scontrol", f"Invalid hostlist: {text} ({bad})") from None


async def _hostnames(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    environment = command.environment
    text = wanted or environment.get("SLURM_JOB_NODELIST", "") or environment.get("SLURM_NODELIST", "")
    if not text:
        return complained("scontrol: error: host list is empty", code=0)
    return await _beside(text, lambda: printed(*_names(text)))


async def _hostlist(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    if not wanted:
        return complained("invalid encode argument")
    return await _beside(wanted, lambda: printed(fold(_names(wanted))))


async def _hostlist_sorted(context: Context, command: SlurmCommand, line: ListingLine, wanted: str) -> SlurmAnswer:
    if not wanted:
        return complained("invalid encode argument")
    return await _beside(wanted, lambda: printed(fold(sorted(_names(wanted), key=lambda name: (len(name), name)))))


async def _beside(text: str, answer: Callable[[], SlurmAnswer]) -> SlurmAnswer:
    """Lists of very many hosts are made in a thread, which hands the interpreter over; the event loop does not wait for them."""
    return await in_thread(answer) if most_named(text) > MAX_READ_HERE else answer()


# Name, how much of it is needed at least.
_ENTITIES: tuple[tuple[str, int, Show], ...] = (
    ("aliases", 1, _nothing),
    ("assoc_mgr", 2, _nothing),
    ("burstbuffer", 2, _nothing),
    ("config", 1, _config),
    ("daemons", 1, _daemons),
    ("federation", 2, _nothing),
    ("hostnames", 5, _hostnames),
    ("hostlist", 5, _hostlist),
    ("hostlistsorted", 9, _hostlist_sorted),
    ("jobs", 1, _jobs),
    ("jobid", 1, _jobs),
    ("licenses", 1, _licenses),
    ("nodes", 1, _nodes),
    ("partitions", 1, _partitions),
    ("reservations", 1, _reservations),
    ("reservationname", 1, _reservations),
    ("steps", 2, _steps),
    ("topology", 1, _nothing),
)
