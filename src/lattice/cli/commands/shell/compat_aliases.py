"""`lattice compat-aliases`: install the Slurm commands and print the file that puts them on PATH."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError
from lattice.cli.output import structured


@dataclass(frozen=True, kw_only=True)
class AliasOptions:
    dir: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dir", default="", help="directory to install the commands in (default: that of this installation)"
    )


def run(options: AliasOptions, context: Context) -> int:
    from lattice.cli.slurm.install import default_folder, find_installed, install
    from lattice.cli.warm.install import install_quick

    folder = Path(context.process.directory(), options.dir) if options.dir else default_folder()
    try:
        aliases = install(folder)
        install_quick(folder)
    except OSError as error:
        found = find_installed(folder)
        if found is None:
            raise CommandError(
                f"cannot install the commands in {folder}: {error.strerror}",
                hint="choose a directory you own with --dir",
            ) from None
        aliases = found
    if context.flags.output in {"json", "yaml"}:
        structured(context, {"folder": str(aliases.parent), "aliases": str(aliases)})
    else:
        context.streams.write(f"{aliases}\n")
    return OK


COMMAND = Command(
    options=AliasOptions,
    run=run,
    fill=fill,
    examples=("source $(lattice compat-aliases)", "lattice compat-aliases --dir ~/slurm-commands"),
)
