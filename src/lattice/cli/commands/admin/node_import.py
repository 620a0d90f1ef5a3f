"""`lattice admin node import FILE`: import the nodes, partitions and settings of a SlurmConf, or the nodes of a NodeSpecConf."""

import argparse
import os
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import NOT_FOUND, OK, CommandError
from lattice.cli.output import structured
from lattice.cli.progress import ticking
from lattice_sdk.models.machine_status import ConfFile, NodeImportReport

MAX_BYTES = 4 << 20
USUAL_PLACE = "/etc/SLURM.cfg"


@dataclass(frozen=True, kw_only=True)
class Options:
    file: str = USUAL_PLACE
    dry_run: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    meaning = f"SlurmConf (files it includes are read too) or NodeSpecConf (default: {USUAL_PLACE})"
    parser.add_argument("file", nargs="?", metavar="FILE", help=meaning)
    parser.add_argument("--dry-run", action="store_true", help="show what would change, without importing")


def run(options: Options, context: Context) -> int:
    path = os.path.join(context.process.directory(), options.file)
    first = read_file(path)
    if first.text is None:
        raise CommandError(f"{options.file}: {first.problem}", exit_code=NOT_FOUND)
    files = [first]
    with ticking(context, f"importing {options.file}"):
        report = context.client.import_nodes(files, dry_run=options.dry_run)
        if report.needs:
            files += [read_file(name) for name in report.needs]
            report = context.client.import_nodes(files, dry_run=options.dry_run)
    for warning in report.warnings:
        context.warn(warning)
    if not structured(context, report):
        _tell(report, context)
    return OK


def read_file(path: str) -> ConfFile:
    """The file, or why it cannot be read; whether that matters is the server's to say."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        return ConfFile(path=path, problem=_lower(error.strerror or "cannot be read"))
    if len(data) > MAX_BYTES:
        return ConfFile(path=path, problem=f"larger than {MAX_BYTES >> 20} MiB")
    try:
        return ConfFile(path=path, text=data.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return ConfFile(path=path, problem=f"no text: byte 0x{data[error.start]:02x} in line {line}")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _tell(report: NodeImportReport, context: Context) -> None:
    for change in report.changes:
        context.say(f"{change.what} {change.name}: {change.change}")
    for change in report.unfit:
        context.say(f"node {change.name}: not configured for work: {change.change}")
    verb = "would be" if report.dry_run else "were"
    context.say(f"{report.added} nodes {verb} added, {report.changed} changed; {report.unchanged} are as the file says")


IMPORT = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice admin node import --dry-run", "lattice admin node import NodeSpecConf"),
)
