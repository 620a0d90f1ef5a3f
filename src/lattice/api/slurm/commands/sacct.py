"""`sacct`: all jobs there ever were, with their steps."""

from collections.abc import Iterator

from msgspec.structs import replace

from lattice.api.auth.rbac import Permission, Reach
from lattice.api.context import Context
from lattice.api.find.lookup import find_number
from lattice.api.pacing import Pace, free_in_slices, joined_in_slices, sorted_in_slices
from lattice.api.slurm.accounts import named
from lattice.api.slurm.answering import Measure, printed, require
from lattice.api.slurm.commands.batch_scripts import scripts
from lattice.api.slurm.helping import asks_for_help, helped
from lattice.api.slurm.rows.finding import (
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
from lattice.slurm.listings import sacct
from lattice.slurm.listings.documents import accounting_records, written
from lattice.slurm.listings.listing import read_line
from lattice.slurm.listings.rows import JobRow
from lattice.slurm.listings.sacct_line import GRAMMAR, Query, read_query
from lattice.slurm.listings.tables import field_names, style_of, table_lines
from lattice.slurm.text.states import State, names_of
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

Steps = frozenset[tuple[int, int | None, str]]  # job, task, step


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    if line.has("helpformat"):
        return printed(*field_names(sacct.COLUMNS))
    require(context, Permission.READ)
    now = context.services.clock.now_ms() / 1000
    query = read_query(command.argv, command.environment, now)
    own = context.services.slurm.cluster
    if query.line.has("clusters") and not {own, "all", "-1"} & set(query.line.items("clusters")):
        return printed()
    ids = await _job_ids(query)
    if query.line.has("batch-script"):
        return await scripts(context, list(dict.fromkeys(query.jobs)))
    rows = await _rows(context, query, ids, now)
    lines: list[str] = []
    try:
        if query.document:
            document = written("jobs", accounting_records(rows, now, own), query.document)
            return SlurmAnswer(stdout=await joined_in_slices(document))
        await _write(lines, _selected(rows, query, _steps(ids)), query, now, own)
        return SlurmAnswer(stdout=await joined_in_slices(lines, "\n"))
    finally:
        await free_in_slices(rows, lines)


async def _write(written: list[str], lines: Iterator[sacct.Line], query: Query, now: float, cluster: str) -> None:
    writer = sacct.Writer(now, cluster, query.time_form)
    values = (writer.value_of(line) for line in lines)
    measure, pace = Measure("sacct"), Pace()
    for text in table_lines(query.fields, sacct.COLUMNS, values, style_of(query.line)):
        written.append(text)
        measure.add(len(text))
        if pace.is_due():
            await pace.rest()


async def _job_ids(query: Query) -> list[JobId]:
    pace, ids = Pace(), list[JobId]()
    for text in dict.fromkeys(query.jobs):
        ids.append(_job_id(text))
        if pace.is_due():
            await pace.rest()
    return ids


def _job_id(text: str) -> JobId:
    found = parse_job_id(text)
    if found is None:
        raise error("sacct", f"Invalid job id: {text}")
    return found


def _steps(ids: list[JobId]) -> Steps:
    return frozenset((each.number, each.task, each.step) for each in ids if each.step)


def _selected(rows: list[JobRow], query: Query, steps: Steps) -> Iterator[sacct.Line]:
    """Jobs and steps; of a job of which only steps were named nothing else."""
    only = {(number, task) for number, task, _ in steps}
    for row in _with_taken(rows) if query.line.has("duplicates") else rows:
        keys = [(row.array_number or row.number, row.array_index), (row.number, None)]
        key = next((each for each in keys if each in only), None)
        for line in sacct.lines(row, with_steps=not query.line.has("allocations") or key is not None):
            if key is None or (line.step is not None and (*key, line.step.name) in steps):
                yield line


def _with_taken(rows: list[JobRow]) -> Iterator[JobRow]:
    """Before each job the runs that a preemption ended, as Slurm shows those of a job that was requeued."""
    for row in rows:
        for each in row.taken:
            yield replace(
                row,
                state=State.PREEMPTED,
                reason="None",
                nodes=each.nodes,
                started_at=each.started_at,
                ended_at=each.ended_at,
                exit_code=0,
                signal=0,
                steps=(),
            )
        yield row


async def _rows(context: Context, query: Query, ids: list[JobId], now: float) -> list[JobRow]:
    rows: dict[tuple[bool, int], JobRow] = {}
    entries = await _entries(context, query, ids)
    async for row in JobRows(context, Depth.FULL).rows(entries):
        if _keeps(query, row):
            rows[bool(row.waiting), row.number] = row
    await free_in_slices(entries)
    await _note_last_tasks(context, rows)
    return await sorted_in_slices(rows.values(), lambda row: row.number, Pace())


async def _note_last_tasks(context: Context, rows: dict[tuple[bool, int], JobRow]) -> None:
    """The last task of an array goes under the array's own number in JobIDRaw, as in Slurm."""
    for number in {row.array_number for row in rows.values() if row.array_index is not None}:
        found = await find_number(context, number)
        if found is not None and isinstance(found.record, TaskGroup):
            last = (False, number + found.record.size)
            if last in rows:
                rows[last] = replace(rows[last], raw_number=number)


async def _entries(context: Context, query: Query, ids: list[JobId]) -> list[Entry]:
    wanted = _filter(context, query)
    found: list[Entry] = []
    if not ids:
        measure = Measure("sacct")
        async for entry in matching(context, wanted, with_archive=True):
            found.append(entry)
            measure.add()
        return found
    partition, pace = partition_reader(context), Pace()
    for each in ids:
        for entry in await behind(context, each, spread=query.line.has("array")) or ():
            head = entry.template if isinstance(entry, TaskGroup) else entry
            if wanted.takes(head, partition):
                found.append(entry)
            if pace.is_due():
                await pace.rest()
    return found


def _filter(context: Context, query: Query) -> JobFilter:
    users = query.users
    if users is not None:
        users = frozenset(named(name) for name in users)
    elif not query.jobs and not query.line.has("allusers") and context.reach(Permission.READ) is not Reach.ALL:
        users = frozenset({context.user})
    states = frozenset(AllocationState(name) for state in _shown_as(query) for name in names_of(state))
    return JobFilter(
        states=states,
        users=users,
        partitions=query.names("partition"),
        names=query.names("name"),
        accounts=query.names("accounts"),
        scope=context.scope(Permission.READ),
        since_ms=int(query.since * 1000),
        is_spread=query.line.has("array"),
    )


def _shown_as(query: Query) -> list[State]:
    """The states that are shown as one of those asked for."""
    asked = query.states or frozenset()
    return [state for state in State if state.accounted in asked or state in asked]


def _keeps(query: Query, row: JobRow) -> bool:
    nodes, qos = query.names("nodelist"), query.names("qos")
    return (
        (query.states is None or row.state in _shown_as(query))
        and row.submitted_at <= query.until
        and (nodes is None or not nodes.isdisjoint(row.nodes))
        and (qos is None or row.qos in qos)
    )
