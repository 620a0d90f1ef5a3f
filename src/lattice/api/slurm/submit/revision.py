"""`scontrol update JobId=`: changes of pending jobs in Slurm's words, as a revision. The core judges it."""

from typing import TypeVar

from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.slurm.submit.predecessors import predecessors_of
from lattice.api.submit.dependencies import resolved
from lattice.api.submit.revising import MAX_COMMENT, completed
from lattice.core.model.site.tenants import NodeSharing
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.revisions import Revision
from lattice.slurm.faults import Fault
from lattice.slurm.submit.dependencies import parse_dependency
from lattice.slurm.text.sizes import parse_count, parse_gres, parse_memory_mb, parse_nodes
from lattice.slurm.text.times import parse_moment
from lattice.wire.text.texts import check_line
from lattice.wire.work.dependencies import UnresolvedClauses

T = TypeVar("T")

# What is understood, as scontrol's manual spells it; several spellings of one thing are one row.
FIELDS = {
    "numnodes": "NumNodes",
    "reqnodes": "NumNodes",
    "numcpus": "NumCPUs",
    "reqprocs": "NumCPUs",
    "mincpusnode": "MinCPUsNode",
    "minmemorynode": "MinMemoryNode",
    "minmemorycpu": "MinMemoryCPU",
    "gres": "Gres",
    "trespernode": "TresPerNode",
    "partition": "Partition",
    "starttime": "StartTime",
    "eligibletime": "StartTime",
    "dependency": "Dependency",
    "comment": "Comment",
}


async def read_revision(
    context: Context, head: Allocation, fields: dict[str, str], warnings: list[str]
) -> Revision | None:
    """None when no field of a pending job is named. Raises Fault for a value that cannot be read."""
    if not fields:
        return None
    revision = Revision()
    for name, text in fields.items():
        revision = replace(revision, **_plain(context, head, FIELDS[name], text, revision))
    dependency = fields.get("dependency")
    if dependency is not None:
        clauses, ended = await resolved(context, await _clauses(context, dependency, warnings))
        revision = replace(revision, depends_on=clauses, ended=ended)
    comment = None
    if "comment" in fields:
        if head.asked is None:
            raise Fault("scontrol: error: only jobs of the Slurm commands have a comment; others have tags")
        comment = check_line(fields["comment"], "Comment", MAX_COMMENT)
    whole = completed(context, head, revision, comment)
    if whole is not None and whole.asked is not None and dependency is not None:
        return replace(whole, asked=replace(whole.asked, dependency=dependency))
    return whole


def _plain(context: Context, head: Allocation, field: str, text: str, revision: Revision) -> dict[str, object]:
    nodes = revision.nodes or head.request.nodes
    match field:
        case "NumNodes":
            least, most = _read(parse_nodes(text), field)
            return {"nodes": least, "max_nodes": most if most > least else 0}
        case "NumCPUs":
            return {"cpus": -(-_read(parse_count(text.partition("-")[0]), field) // nodes)}
        case "MinCPUsNode":
            return {"cpus": _read(parse_count(text), field)}
        case "MinMemoryNode":
            return _memory(context, head, revision, _read(parse_memory_mb(text), field))
        case "MinMemoryCPU":
            cpus = (head.request.cpus if revision.cpus is None else revision.cpus) or 1
            return _memory(context, head, revision, _read(parse_memory_mb(text), field) * cpus)
        case "Gres" | "TresPerNode":
            gpus = _read(parse_gres(text.replace("gres:", "")), field)
            if gpus.others:
                raise Fault(f"scontrol: error: Invalid generic resource (gres) specification: {text}")
            return {"gpus": gpus.number}
        case "Partition":
            return {"vcluster": _partition(context, text)}
        case "StartTime":
            return {"eligible_at": _begin(context, text)}
        case _:
            return {}


def _read(value: T | None, field: str) -> T:
    if value is None:
        raise Fault(f"scontrol: error: Invalid {field} value")
    return value


def _memory(context: Context, head: Allocation, revision: Revision, memory_mb: int) -> dict[str, object]:
    """A share of a shared node; of a whole node, what it must have."""
    vcluster = context.state.vclusters.get(revision.vcluster or head.vcluster)
    is_shared = vcluster is not None and vcluster.node_sharing is NodeSharing.SHARED and not head.request.exclusive
    return {"memory_mb": memory_mb} if is_shared else {"min_memory_mb": memory_mb}


def _partition(context: Context, text: str) -> str:
    found = context.services.slurm.vcluster_of(text, context.state.vclusters)
    if found is None:
        raise Fault(
            "slurm_update error: Invalid partition name specified",
            f"scontrol: error: known partitions: {', '.join(context.services.slurm.known_partitions(context.state.vclusters))}",
        )
    return found


def _begin(context: Context, text: str) -> int:
    now = context.services.clock.now_ms() / 1000
    if text.strip().lower() == "now":
        return 0
    moment = parse_moment(text, now)
    if moment is None:
        raise Fault("scontrol: error: Invalid StartTime value")
    return int(moment * 1000)


async def _clauses(context: Context, text: str, warnings: list[str]) -> UnresolvedClauses:
    if text.strip().lower() in ("", "none", "(null)"):
        return ()
    wanted = parse_dependency(text)
    if wanted is None:
        raise Fault("slurm_update error: Job dependency problem")
    if wanted.is_singleton:
        raise Fault("scontrol: error: singleton can be asked for only when a job is submitted")
    said: list[str] = []
    clauses = await predecessors_of(context, wanted, said)
    warnings += [f"scontrol: warning: {line.replace('--dependency', 'Dependency')}" for line in said]
    return clauses
