"""`lattice down`: end the cluster on this machine, with everything that runs in it."""

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lattice.cli.command import Command
from lattice.cli.commands.local.up import cluster_directory
from lattice.cli.context import Context


@dataclass(frozen=True, kw_only=True)
class DownOptions:
    dir: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", default="", help="directory of the cluster")


def run(options: DownOptions, context: Context) -> int:
    directory = cluster_directory(options.dir, context)
    program = Path(sys.executable).with_name("lattice-supervisor")
    outcome = subprocess.run(
        [program, "stop", "--dir", str(directory)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False
    )
    context.say(outcome.stdout.decode(errors="replace").rstrip("\n"))
    return outcome.returncode


COMMAND = Command(options=DownOptions, run=run, fill=fill, examples=("lattice down", "lattice down --dir /tmp/second"))
