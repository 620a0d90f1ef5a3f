"""What a job waits for, from Slurm's words: ids that are not known count as ended, as they do in Slurm."""

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.find.lookup import find
from lattice.core.model.work.dependencies import Condition
from lattice.slurm.submit.dependencies import Dependency, Wait
from lattice.wire.work.dependencies import UnresolvedClauses, UnresolvedDependency

_CONDITIONS = {
    "after": Condition.AFTER,
    "afterany": Condition.ANY,
    "afterok": Condition.SUCCESS,
    "afternotok": Condition.FAILURE,
    "aftercorr": Condition.CORRESPONDING,
}


async def predecessors_of(context: Context, dependency: Dependency, warnings: list[str]) -> UnresolvedClauses:
    """The clauses of a dependency: each alone, or with `?` all of them as alternatives."""
    found: list[UnresolvedDependency] = []
    for wait in dependency.waits:
        ref = f"{wait.number}" if wait.task is None else f"a{wait.number}_{wait.task}"
        try:
            await find(context, ref)
        except ApiError as error:
            if error.code != "not_found":
                raise
            warnings.append(f"--dependency: job {_shown(wait)} is not known and counts as ended")
            if dependency.any_of:
                return ()
            continue
        found.append(UnresolvedDependency(ref, _CONDITIONS[wait.kind], wait.delay_min * 60))
    if dependency.any_of:
        return (tuple(found),) if found else ()
    return tuple((each,) for each in found)


def _shown(wait: Wait) -> str:
    return f"{wait.number}" if wait.task is None else f"{wait.number}_{wait.task}"
