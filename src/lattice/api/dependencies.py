"""Looks up what a submission depends on: the number behind each id, and how those ended that have ended.

What has ended may leave the hot state before the command is applied, so the command brings its end along.
"""

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.lookup import Found, find
from lattice.core.machine.commands import SubmitAllocation
from lattice.core.machine.rules.standings import ending_of, group_ending
from lattice.core.model.allocations import TaskGroup
from lattice.core.model.dependencies import Clause, Dependency, EndedWork
from lattice.wire.dependencies import Wanted, WantedClauses


async def with_dependencies(context: Context, command: SubmitAllocation, wanted: WantedClauses) -> SubmitAllocation:
    """The command with its dependencies. Raises ApiError for an id that does not exist or must not be seen."""
    if not wanted:
        return command
    ended: dict[int, EndedWork] = {}
    clauses: list[Clause] = []
    for alternatives in wanted:
        clause: list[Dependency] = []
        for each in alternatives:
            found = await _found(context, each)
            clause.append(Dependency(number=found.number, condition=each.condition, delay_s=each.delay_s))
            record = found.record
            ending = group_ending(record) if isinstance(record, TaskGroup) else ending_of(record)
            if ending is not None:
                ended[found.number] = EndedWork(number=found.number, ending=ending)
        clauses.append(tuple(clause))
    return replace(command, depends_on=tuple(clauses), ended=tuple(ended.values()))


async def _found(context: Context, wanted: Wanted) -> Found:
    try:
        return await find(context, wanted.ref)
    except ApiError as error:
        if error.code != "not_found":
            raise
        raise ApiError(
            "not_found",
            f'unknown dependency: there is no allocation "{wanted.ref[:60]}"',
            requested=f"{wanted.ref[:60]}:{wanted.condition}",
            hint="`lattice status --all` lists yours; names work only between allocations of one DAG",
        ) from None
