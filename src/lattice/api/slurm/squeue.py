"""`squeue`: which jobs wait and run."""

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.slurm.answering import printed, require, version_line
from lattice.core.machine.state import State
from lattice.core.model.allocations import Allocation
from lattice.slurm import formats
from lattice.slurm.getopt import Grammar
from lattice.slurm.options import Option, Takes
from lattice.slurm.rows import JobRow
from lattice.slurm.squeue import DEFAULT, LETTERS, Writer
from lattice.slurm.states import end_reason, state_of
from lattice.wire.slurm import SlurmAnswer, SlurmCommand

GRAMMAR = Grammar(
    "squeue",
    (
        Option("noheader", "h", Takes.NOTHING),
        Option("format", "o"),
        Option("jobs", "j", Takes.MAYBE),
        Option("version", "V", Takes.NOTHING),
    ),
)


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    given = {each.option.name: each.value for each in GRAMMAR.read(command.argv).given}
    if "version" in given:
        return SlurmAnswer(stdout=version_line())
    require(context, Permission.READ)
    parts = formats.parse_percent(given.get("format", DEFAULT), LETTERS)
    writer = Writer(context.services.clock.now_ms() / 1000)
    lines = [] if "noheader" in given else [formats.line(parts, LETTERS.__getitem__)]
    rows = (_row(context, context.state, record) for record in context.state.allocations.values())
    lines += [formats.line(parts, writer.value_of(row)) for row in rows if row.state.is_active]
    return printed(*lines)


def _row(context: Context, state: State, record: Allocation) -> JobRow:
    return JobRow(
        number=record.number,
        name=record.name,
        user=record.account,
        uid=record.asked.uid if record.asked else 0,
        partition=context.services.slurm.partition_of(record.vcluster),
        state=state_of(record.state, record.cause or ""),
        reason=end_reason(record.state, record.cause or ""),
        nodes=record.nodes,
    )
