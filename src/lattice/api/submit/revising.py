"""From what a user wants changed of waiting work to the revision that is proposed; the core judges it."""

from msgspec import Struct
from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.find.visibility import may_see_vcluster, visible_vclusters
from lattice.api.submit.dependencies import resolved
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.asked import Asked
from lattice.core.model.work.revisions import Revision
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line
from lattice.wire.text.times import parse_moment
from lattice.wire.work.dependencies import read_dependencies
from lattice.wire.work.resources import MAX_GPUS, MAX_NODES, between, memory_mb

NOW = "now"
MAX_COMMENT = 1000
_NOTHING = Revision()


class PendingChanges(Struct, frozen=True, kw_only=True):
    """What an update names of waiting work; None = as it was."""

    vcluster: str | None = None
    nodes: int | None = None
    max_nodes: int | None = None
    cpus: int | None = None
    memory: str | int | None = None
    gpus: int | None = None
    begin: str | None = None
    depends_on: str | None = None
    comment: str | None = None


async def revision_of(context: Context, head: Allocation, requested: PendingChanges) -> Revision | None:
    """None when nothing of this kind is to change. Raises BadField and ApiError."""
    revision = Revision(
        vcluster=None if requested.vcluster is None else _vcluster(context, requested.vcluster),
        nodes=None if requested.nodes is None else between(requested.nodes, "nodes", 1, MAX_NODES),
        max_nodes=_max_nodes(requested),
        cpus=None if requested.cpus is None else between(requested.cpus, "cpus", 0, MAX_NODES),
        memory_mb=None if requested.memory is None else memory_mb(requested.memory, "memory"),
        gpus=None if requested.gpus is None else between(requested.gpus, "gpus", 0, MAX_GPUS),
        eligible_at=None if requested.begin is None else _begin(requested.begin),
    )
    if requested.depends_on is not None:
        clauses, ended = await resolved(context, read_dependencies(requested.depends_on, "depends_on"))
        revision = replace(revision, depends_on=clauses, ended=ended)
    comment = None if requested.comment is None else check_line(requested.comment, "comment", MAX_COMMENT)
    if comment is not None and head.asked is None:
        raise ApiError(
            "conflict",
            f"{allocation_id(head.number)} was not submitted by a Slurm command and has no comment",
            hint="set a tag instead: --tag=comment=TEXT",
        )
    return completed(context, head, revision, comment)


def completed(context: Context, head: Allocation, revision: Revision, comment: str | None = None) -> Revision | None:
    """With what listings show of work of a Slurm command; None for a revision that changes nothing."""
    if revision == _NOTHING and comment is None:
        return None
    if head.asked is None:
        return revision
    return replace(revision, asked=_asked(context, head, head.asked, revision, comment))


def _asked(context: Context, head: Allocation, asked: Asked, revision: Revision, comment: str | None) -> Asked:
    changes: dict[str, object] = {}
    memory = revision.min_memory_mb if revision.memory_mb is None else revision.memory_mb
    if memory is not None:
        changes |= {"memory_mb": memory, "memory_per_cpu_mb": 0}
    if revision.gpus is not None:
        kind = f"{head.request.gpu_type}:" if head.request.gpu_type else ""
        changes |= {"gres": f"gpu:{kind}{revision.gpus}" if revision.gpus else "", "gpus": ""}
    if revision.vcluster is not None:
        changes["partition"] = context.services.slurm.partition_of(revision.vcluster)
    if revision.depends_on is not None:
        changes["dependency"] = ""
    if comment is not None:
        changes["comment"] = comment
    if not {revision.vcluster, revision.nodes, revision.cpus} <= {None}:
        changes["never"] = ""  # the plan says why it waits
    return replace(asked, **changes)


def _max_nodes(requested: PendingChanges) -> int | None:
    if requested.max_nodes is None:
        return None
    if requested.nodes is None:
        raise BadField("max_nodes", "needs nodes, the number to start with", hint="give both")
    most = between(requested.max_nodes, "max_nodes", 1, MAX_NODES)
    if most < requested.nodes:
        raise BadField("max_nodes", f"at most {most} nodes, but at least {requested.nodes} are asked for")
    return most if most > requested.nodes else 0


def _begin(text: str) -> int:
    return 0 if text.strip().lower() in ("", NOW) else parse_moment(text, "begin")


def _vcluster(context: Context, name: str) -> str:
    found = context.state.vclusters.get(check_line(name, "vcluster"))
    if found is None or not may_see_vcluster(context, found):
        raise unknown("vCluster", name, visible_vclusters(context))
    return found.name
