"""`lattice version` and `lattice --version`."""

from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import structured


@dataclass(frozen=True, kw_only=True)
class Options:
    """Takes nothing."""


def run(_options: Options, context: Context) -> int:
    from importlib.metadata import PackageNotFoundError, version

    try:
        number = version("lattice-hpc")
    except PackageNotFoundError:
        number = "unknown"
    if context.flags.output in {"json", "yaml"}:
        structured(context, {"version": number})
    else:
        context.streams.write(f"lattice {number}\n")
    return OK


COMMAND = Command(options=Options, run=run, examples=("lattice version", "lattice --version"))
