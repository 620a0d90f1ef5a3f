"""`squeue`: which jobs wait and run."""

from collections.abc import Iterable
from dataclasses import fields
from functools import partial

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.pacing import Pace, free_in_slices, joined_in_slices, sorted_in_slices
from lattice.api.slurm.accounts import named
from lattice.api.slurm.answering import Measure, complained, require
from lattice.api.slurm.helping import asks_for_help, check_clusters, helped, repeated
from lattice.api.slurm.rows.finding import (
    MIN_JOB_AGE_S,
    Entry,
    JobFilter,
    JobId,
    behind,
    matching,
    parse_job_id,
    partition_reader,
)
from lattice.api.slurm.rows.jobs import Depth, JobRows
from lattice.core.model.work.allocations import AllocationState, TaskGroup
from lattice.slurm.faults import error
from lattice.slurm.listings import squeue
from lattice.slurm.listings.documents import job_records, written
from lattice.slurm.listings.listing import read_line
from lattice.slurm.listings.rows import JobRow
from lattice.slurm.listings.squeue_line import GRAMMAR, Query, read_query
from lattice.slurm.text import formats
from lattice.slurm.text.states import names_of
from lattice.slurm.text.times import format_date
from lattice.slurm.text.zones import zone_key
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

UNKNOWN_ID = "slurm_load_jobs error: Invalid job id specified"


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    require(context, Permission.READ)
    query = read_query(command.argv, command.environment)
    check_clusters(context, "squeue", line)
    for name in sorted(query.nodes):
        if name not in context.state.nodes:
            raise error("squeue", f"Invalid node name {name}")
    answer = partial(_kept_answer if _is_of_records(query) else _answer, context, query)
    return await repeated(context, command, line.last("iterate"), answer)


def _is_of_records(query: Query) -> bool:
    """Whether the listing shows many and nothing but what the log and the last plan say of them."""
    is_past = any(not state.is_active for state in query.states)
    return not (query.jobs or query.steps or query.shows_steps or query.is_full or is_past)


async def _kept_answer(context: Context, query: Query) -> SlurmAnswer:
    given = tuple((each.option.name, each.value) for each in query.line.given)
    # All of the query: what the environment says of it is not in the line.
    told = tuple(getattr(query, each.name) for each in fields(query) if each.name not in ("line", "parts"))
    scope = context.scope(Permission.READ)
    # Callers to whom nothing is shown of themselves alone share an answer.
    user = context.user if scope.own or query.line.has("me") else ""
    key = ("squeue", given, told, tuple(query.parts), scope.whole, scope.own, user, zone_key())
    return await context.services.listings.answer(key, context.services.stamp, partial(_answer, context, query))


async def _answer(context: Context, query: Query) -> SlurmAnswer:
    now = context.services.clock.now_ms() / 1000
    rows = await _rows(context, query, now)
    if rows is None:
        return complained(UNKNOWN_ID)
    lines: list[str] = []
    try:
        if query.document:
            records = job_records(rows, now, context.services.slurm.cluster)
            return SlurmAnswer(stdout=await joined_in_slices(written("jobs", records, query.document)))
        lines = await _lines(context, query, rows, now)
        complaints = "".join(f"{text}\n" for text in query.complaints)
        return SlurmAnswer(stdout=await joined_in_slices(lines, "\n"), stderr=complaints)
    finally:
        await free_in_slices(rows, lines)


async def _rows(context: Context, query: Query, now: float) -> list[JobRow] | None:
    """In order; None when a single job was asked for that does not exist."""
    entries = await _entries(context, query, _filter(context, query, now))
    if entries is None:
        return None
    depth = Depth.FULL if query.is_full else Depth.BRIEF if query.is_brief else Depth.USUAL
    rows = [row async for row in JobRows(context, depth).rows(entries) if _keeps(query, row)]
    return await _ordered(await _by_turn(context, rows), query.sort, now)


async def _by_turn(context: Context, rows: list[JobRow]) -> list[JobRow]:
    """In the order in which the scheduler considers them, which decides between equal priorities."""
    turns = {number: turn for turn, number in enumerate(context.services.scheduling.queue())}
    last = len(turns)
    key = lambda row: (turns.get(row.number, last), row.array_number or row.number, row.number)  # noqa: E731
    return await sorted_in_slices(rows, key, Pace())


async def _ordered(rows: list[JobRow], fields: str, now: float) -> list[JobRow]:
    for key, is_turned in squeue.orders(fields, now):
        rows = await sorted_in_slices(rows, key, Pace(), reverse=is_turned)
    return rows


def _filter(context: Context, query: Query, now: float) -> JobFilter:
    users = query.users
    if users is not None:
        users = frozenset(named(name) for name in users)
    if query.line.has("me"):
        users = (users or frozenset()) | {context.user}
    states = frozenset(AllocationState(name) for state in query.states for name in names_of(state))
    return JobFilter(
        states=states,
        users=users,
        partitions=query.partitions,
        names=query.names,
        accounts=query.accounts,
        scope=context.scope(Permission.READ),
        since_ms=int((now - MIN_JOB_AGE_S) * 1000),
        is_spread=query.is_spread,
    )


async def _entries(context: Context, query: Query, wanted: JobFilter) -> Iterable[Entry] | None:
    ids = await _ids(query)
    if not ids:
        is_past = any(not state.is_active for state in query.states)
        return [entry async for entry in matching(context, wanted, with_archive=is_past)]
    found: dict[tuple[bool, int], Entry] = {}
    is_known = len(ids) > 1
    partition, pace = partition_reader(context), Pace()
    for each in dict.fromkeys(ids):
        entries = await behind(context, each, spread=wanted.is_spread, since_ms=wanted.since_ms)
        is_known = is_known or entries is not None
        for entry in entries or ():
            head = entry.template if isinstance(entry, TaskGroup) else entry
            if wanted.takes(head, partition):
                found[isinstance(entry, TaskGroup), entry.number] = entry
            if pace.is_due():
                await pace.rest()
        if pace.is_due():
            await pace.rest()
    return found.values() if is_known else None


async def _ids(query: Query) -> list[JobId]:
    """The jobs that were named."""
    pace, ids = Pace(), list[JobId]()
    for text in query.jobs or query.steps:
        job = parse_job_id(text)
        if job is None:
            raise error("squeue", f"Invalid job id: {text}")
        ids.append(job)
        if pace.is_due():
            await pace.rest()
    return ids


def _keeps(query: Query, row: JobRow) -> bool:
    return (
        row.state in query.states
        and (not query.nodes or not query.nodes.isdisjoint(row.nodes))
        and (query.qos is None or row.qos in query.qos)
        and (query.reservations is None or row.reservation in query.reservations)
    )


async def _lines(context: Context, query: Query, rows: list[JobRow], now: float) -> list[str]:
    lines = [format_date(now)] if query.line.has("long") and not query.line.has("noheader") else []
    if query.shows_steps:
        return lines + _step_lines(query, rows, now)
    if not query.line.has("noheader"):
        lines.append(formats.line(query.parts, squeue.header_of))
    write = formats.line_writer(query.parts, squeue.Writer(now, query.time_form, context.services.slurm.cluster).reader)
    measure, pace = Measure("squeue"), Pace()
    for row in rows:
        lines.append(write(row))
        measure.add(len(lines[-1]))
        if pace.is_due():
            await pace.rest()
    return lines


def _step_lines(query: Query, rows: list[JobRow], now: float) -> list[str]:
    wanted = {text for text in query.steps if "." in text}
    lines = [] if query.line.has("noheader") else [formats.line(query.parts, squeue.STEP_LETTERS.__getitem__)]
    for row in rows:
        for step in row.steps:
            is_wanted = not wanted or {f"{row.shown_id}.{step.name}", f"{row.number}.{step.name}"} & wanted
            if step.state.is_active and is_wanted:
                lines.append(formats.line(query.parts, squeue.step_value_of(row, step, now, query.time_form)))
    return lines
