"""`sprio`: what the priorities of waiting jobs are made of."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.pacing import Pace, sorted_in_slices
from lattice.api.slurm.answering import printed, require
from lattice.api.slurm.helping import asks_for_help, check_clusters, helped
from lattice.api.slurm.rows.finding import Entry, JobFilter, behind, matching, parse_job_id, partition_reader
from lattice.core.model.site.weights import FACTORS
from lattice.core.model.work.allocations import QUEUED, TaskGroup
from lattice.core.scheduler.score.profiles import profile_of
from lattice.slurm.faults import error
from lattice.slurm.listings import sprio
from lattice.slurm.listings.listing import ListingLine, items_outside_brackets, read_line
from lattice.slurm.listings.sprio import GRAMMAR, Priority
from lattice.slurm.text import formats
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    require(context, Permission.READ)
    check_clusters(context, "sprio", line)
    usual = sprio.LONG if line.has("long") else sprio.NORMALIZED if line.has("norm") else sprio.DEFAULT
    parts = formats.parse_percent(line.last("format") or usual, sprio.LETTERS)
    head = [] if line.has("noheader") else [formats.line(parts, sprio.LETTERS.__getitem__)]
    if line.has("weights"):
        weights = _weights(context, context.default_vcluster)
        return printed(*head, formats.line(parts, sprio.weight_of(weights)))
    found = await _priorities(context, line)
    if not found and line.has("jobs", "user"):
        return printed("Unable to find jobs matching user/id(s) specified")
    pace, lines = Pace(), head
    for each in await sorted_in_slices(found, lambda each: -each.total, pace):
        lines.append(formats.line(parts, each.value_of()))
        if pace.is_due():
            await pace.rest()
    return printed(*lines)


def _weights(context: Context, name: str) -> dict[str, float]:
    vcluster = context.state.vclusters.get(name)
    return {} if vcluster is None else dict(zip(FACTORS, profile_of({}, vcluster).weights, strict=True))


async def _priorities(context: Context, line: ListingLine) -> list[Priority]:
    partition, names = partition_reader(context), context.services.slurm
    pace, made = Pace(), list[Priority]()
    weights: dict[str, dict[str, float]] = {}
    for entry in await _entries(context, line):
        head = entry.template if isinstance(entry, TaskGroup) else entry
        if head.vcluster not in weights:
            weights[head.vcluster] = _weights(context, head.vcluster)
        if pace.is_due():
            await pace.rest()
        outlook = context.services.scheduling.outlook(entry.number)
        scores = {} if outlook is None else outlook.scores
        made.append(
            Priority(
                job=str(entry.number),
                partition=partition(head),
                user=head.account or head.user,
                account=head.tenant,
                cluster=names.cluster,
                total=scores.get("total", head.preemption_class / 10),
                factors={name: value for name, value in scores.items() if name != "total"},
                weights=weights[head.vcluster],
            )
        )
    return made


async def _entries(context: Context, line: ListingLine) -> list[Entry]:
    wanted = JobFilter(
        states=QUEUED,
        users=frozenset(line.items("user")) or None,
        partitions=frozenset(line.items("partition")) or None,
        scope=context.scope(Permission.READ),
    )
    named = line.last("jobs") or (line.words[0] if line.has("jobs") and line.words else "")
    if not named:
        return [entry async for entry in matching(context, wanted)]
    partition, found = partition_reader(context), []
    for text in items_outside_brackets(named):
        job = parse_job_id(text)
        if job is None:
            raise error("sprio", f"Invalid job id: {text}")
        for entry in await behind(context, job) or ():
            head = entry.template if isinstance(entry, TaskGroup) else entry
            if wanted.takes(head, partition):
                found.append(entry)
    return found
