"""`scontrol`: its options, and which function carries out which keyword."""

from collections.abc import Awaitable, Callable, Mapping

from lattice.api.context import Context
from lattice.api.slurm.answering import complained, printed, version_line
from lattice.api.slurm.commands.batch_scripts import write
from lattice.api.slurm.commands.scontrol_show import show
from lattice.api.slurm.commands.scontrol_verbs import VERBS as CHANGES
from lattice.api.slurm.helping import check_clusters, helped
from lattice.slurm.listings.listing import ALIKE, ListingLine, flag, read_line, value
from lattice.slurm.submit.getopt import Grammar
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

GRAMMAR = Grammar(
    "scontrol",
    (
        *(option for option in ALIKE if option.name != "help"),
        flag("help", "h"),
        flag("all", "a"),
        flag("details", "d"),
        flag("federation"),
        flag("future", "F"),
        flag("hide"),
        flag("local"),
        value("clusters", "M", "cluster"),
        flag("oneliner", "o"),
        flag("quiet", "Q"),
        flag("sibling"),
        value("uid", "u"),
    ),
)
# Options and words of the line, without the keyword itself.
Verb = Callable[[Context, SlurmCommand, ListingLine], Awaitable[SlurmAnswer]]


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    check_clusters(context, "scontrol", line)
    if line.has("version", "help", "usage"):
        return helped(GRAMMAR, line)
    if not line.words:
        return complained(
            "scontrol: error: name a keyword, for example `scontrol show job`; lines are not read from stdin"
        )
    keyword = line.words.pop(0).lower()
    verb = VERBS.get(keyword)
    if verb is None:
        return complained(f"invalid keyword: {keyword}")
    answer = await verb(context, command, line)
    return answer if not line.has("quiet") or answer.code == 0 else SlurmAnswer(code=answer.code)


async def _version(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    return SlurmAnswer(stdout=version_line())


async def _ping(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    # A server that answers is up, and there is always one that leads.
    return printed(f"Slurmctld(primary) at {context.services.server_name} is UP")


async def _help(context: Context, command: SlurmCommand, line: ListingLine) -> SlurmAnswer:
    known = ", ".join(sorted(VERBS))
    return SlurmAnswer(stdout=f"{helped(GRAMMAR, line).stdout}\nKeywords: {known}\n")


VERBS: Mapping[str, Verb] = {"show": show, "version": _version, "ping": _ping, "help": _help, "write": write, **CHANGES}
