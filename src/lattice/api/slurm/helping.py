"""What the programs that list have in common: help, version, and the name of the cluster."""

from lattice.api.context import Context
from lattice.api.slurm.answering import version_line
from lattice.slurm.faults import error
from lattice.slurm.getopt import Grammar
from lattice.slurm.listing import ListingLine
from lattice.slurm.options import Takes
from lattice.wire.slurm import SlurmAnswer


def asks_for_help(line: ListingLine) -> bool:
    return line.has("help", "usage", "version")


def helped(grammar: Grammar, line: ListingLine) -> SlurmAnswer:
    """Version, or all options."""
    if line.which("help", "usage", "version") == "version":
        return SlurmAnswer(stdout=version_line())
    options = list(dict.fromkeys(grammar.long.values()))
    shown = [f"Usage: {grammar.program} [OPTIONS]"]
    for option in sorted(options, key=lambda each: each.name.lower()):
        short = f"-{option.short}, " if option.short else "    "
        shown.append(f"  {short}--{option.name}{'' if option.takes is Takes.NOTHING else '=value'}")
    return SlurmAnswer(stdout="\n".join(shown) + "\n")


def check_clusters(context: Context, program: str, line: ListingLine) -> None:
    """Raises Fault for another cluster than this one."""
    own = context.services.slurm.cluster
    for name in line.items("clusters"):
        if name not in (own, "all"):
            raise error(
                program,
                f"'{name}' can't be reached now, or it is an invalid entry for --cluster.  "
                "Use 'sacctmgr list clusters' to see available clusters.",
            )
