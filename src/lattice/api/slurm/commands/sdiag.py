"""`sdiag`: what the scheduler has done since its server started."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.slurm.answering import complained, printed, require
from lattice.api.slurm.helping import asks_for_help, check_clusters, helped
from lattice.core.model.work.allocations import HOLDING, QUEUED, AllocationState
from lattice.slurm.listings.listing import ALIKE, flag, read_line, value
from lattice.slurm.submit.getopt import Grammar
from lattice.slurm.text.times import format_date
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

GRAMMAR = Grammar(
    "sdiag",
    (
        *ALIKE,
        flag("all", "a"),
        value("cluster", "M", "clusters"),
        flag("json"),
        flag("reset", "r"),
        flag("sort-by-id", "i"),
        flag("sort-by-time", "t"),
        flag("sort-by-time2", "T"),
    ),
)
_RULE = "*" * 55


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    require(context, Permission.READ_SCHEDULER)
    check_clusters(context, "sdiag", line)
    if line.has("reset"):
        return complained("sdiag: error: the figures count from the start of the server and cannot be reset")
    services, state = context.services, context.state
    now = services.clock.now_ms() / 1000
    status, counts = services.scheduling.status(), state.state_counts
    in_groups = sum(group.pending_count for group in state.groups.values())
    pending = sum(counts.get(name, 0) for name in QUEUED) + in_groups
    finished = state.finished
    last_us = round(status.last_cycle_ms * 1000)
    return printed(
        _RULE,
        f"sdiag output at {format_date(now)} ({int(now)})",
        _RULE,
        "",
        f"Jobs submitted: {state.next_number - 1}",
        f"Jobs started:   {status.placements}",
        f"Jobs completed: {finished.get(AllocationState.COMPLETED, 0)}",
        f"Jobs canceled:  {finished.get(AllocationState.CANCELLED, 0)}",
        f"Jobs failed:    {finished.get(AllocationState.FAILED, 0)}",
        "",
        f"Job states ts:  {format_date(now)} ({int(now)})",
        f"Jobs pending:   {pending}",
        f"Jobs running:   {sum(counts.get(each, 0) for each in HOLDING)}",
        "",
        "Main schedule statistics (microseconds):",
        f"\tLast cycle:   {last_us}",
        f"\tTotal cycles: {status.cycles}",
        f"\tLast queue length: {pending}",
        "",
        "Backfilling stats",
        f"\tTotal cycles: {status.cycles}",
        f"\tLast cycle when: {format_date(status.last_cycle_at / 1000) if status.last_cycle_at else 'N/A'}",
        f"\tLast cycle: {last_us}",
        f"\tLast queue length: {pending}",
    )
