"""What a job waits for, from Slurm's words. An unknown id never ends: work that waits only for it stays pending."""

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
    """The clauses of a dependency: each alone, or with `?` all of them as alternatives. A clause without alternatives is one
    that cannot be met."""
    found: list[UnresolvedDependency | None] = []
    for wait in dependency.waits:
        ref = f"{wait.number}" if wait.task is None else f"a{wait.number}_{wait.task}"
        try:
            await find(context, ref)
        except ApiError as error:
            if error.code != "not_found":
                raise
            what = "is left out" if dependency.any_of and len(dependency.waits) > 1 else "can never be satisfied"
            warnings.append(f"--dependency: job {_shown(wait)} is not known; {wait.kind} {what}")
            found.append(None)
            continue
        found.append(UnresolvedDependency(ref, _CONDITIONS[wait.kind], wait.delay_min * 60))
    if dependency.any_of:
        return (tuple(each for each in found if each is not None),)
    return tuple((each,) if each is not None else () for each in found)


def _shown(wait: Wait) -> str:
    return f"{wait.number}" if wait.task is None else f"{wait.number}_{wait.task}"
