"""Looks up what a submission depends on: the number behind each id, and how those ended that have ended.

What has ended may leave the hot state before the command is applied, so the command brings its end along.
"""

from msgspec.structs import replace

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.dag_lookup import find_dag
from lattice.api.find.lookup import Found, find
from lattice.api.limits import MAX_PAGE
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.machine.rules.work.standings import DAG_ENDINGS, ending_of, group_ending, task_endings
from lattice.core.model import intervals
from lattice.core.model.ids import parse_dag_id
from lattice.core.model.intervals import Intervals
from lattice.core.model.work.allocations import AllocationState, TaskGroup
from lattice.core.model.work.dependencies import Clause, Clauses, Condition, Dependency, EndedWork, Ending
from lattice.ports.quorum.archive import ArchiveFilter
from lattice.wire.work.dependencies import UnresolvedClauses, UnresolvedDependency


async def with_dependencies(context: Context, command: SubmitAllocation, wanted: UnresolvedClauses) -> SubmitAllocation:
    """The command with its dependencies. Raises ApiError for an id that does not exist or must not be seen."""
    if not wanted:
        return command
    clauses, ended = await resolved(context, wanted)
    return replace(command, depends_on=clauses, ended=ended)


async def resolved(context: Context, wanted: UnresolvedClauses) -> tuple[Clauses, tuple[EndedWork, ...]]:
    """The clauses, and how those named in them ended that have. Raises ApiError for an id that does not exist or must not be seen."""
    ended: dict[int, EndedWork] = {}
    clauses: list[Clause] = []
    for alternatives in wanted:
        found = [await _looked_up(context, each) for each in alternatives]
        clauses.append(tuple(dependency for dependency, _ in found))
        ended |= {work.number: work for _, work in found if work is not None}
    return tuple(clauses), tuple(ended.values())


async def _looked_up(context: Context, wanted: UnresolvedDependency) -> tuple[Dependency, EndedWork | None]:
    """What the text stands for, and how that ended if it has."""
    if wanted.ref[:1] == "d" and parse_dag_id(wanted.ref) is not None:
        return await _dag(context, wanted)
    found = await _found(context, wanted)
    dependency = Dependency(number=found.number, condition=wanted.condition, delay_s=wanted.delay_s)
    record = found.record
    ending = group_ending(record) if isinstance(record, TaskGroup) else ending_of(record)
    if ending is None:
        return dependency, None
    work = EndedWork(number=found.number, ending=ending)
    if isinstance(record, TaskGroup) and wanted.condition is Condition.CORRESPONDING:
        work = replace(work, indices=record.indices, completed=await _completed(context, record, ending))
    return dependency, work


async def _dag(context: Context, wanted: UnresolvedDependency) -> tuple[Dependency, EndedWork | None]:
    if wanted.condition not in (Condition.SUCCESS, Condition.FAILURE, Condition.ANY):
        raise ApiError(
            "invalid",
            f"a DAG cannot be waited for with {wanted.condition}",
            requested=f"{wanted.ref[:60]}:{wanted.condition}",
            hint="with success, failure or any; or wait for one of its allocations",
        )
    try:
        dag, _ = await find_dag(context, wanted.ref, Permission.READ)
    except ApiError as error:
        raise (
            _unknown("DAG", wanted, "`lattice dag list` lists yours") if error.code == "not_found" else error
        ) from None
    ending = DAG_ENDINGS[dag.state]
    work = None if ending is None else EndedWork(number=dag.number, ending=ending)
    return Dependency(number=dag.number, condition=wanted.condition, is_dag=True), work


async def _completed(context: Context, group: TaskGroup, ending: Ending) -> Intervals:
    """Positions of the tasks of an ended group that completed."""
    if ending is Ending.COMPLETED:
        return ((0, group.size),)
    if group.number in context.state.groups:
        return task_endings(context.state, group)[0]
    wanted = ArchiveFilter(group=group.number, states=(AllocationState.COMPLETED,), with_groups=False)
    found: list[int] = []
    before: int | None = None
    while page := await context.services.replica.archived_page(wanted, before, MAX_PAGE):
        found += [record.number - group.number - 1 for record in page]
        before = page[-1].number
    return intervals.from_positions(found)


async def _found(context: Context, wanted: UnresolvedDependency) -> Found:
    try:
        return await find(context, wanted.ref)
    except ApiError as error:
        if error.code != "not_found":
            raise
        hint = "`lattice status` lists yours; names work only between allocations of one DAG"
        raise _unknown("allocation", wanted, hint) from None


def _unknown(what: str, wanted: UnresolvedDependency, hint: str) -> ApiError:
    return ApiError(
        "not_found",
        f'unknown dependency: there is no {what} "{wanted.ref[:60]}"',
        requested=f"{wanted.ref[:60]}:{wanted.condition}",
        hint=hint,
    )
