"""`lattice env`: the variables that lead programs to the local cluster. Paths of tokens, never tokens."""

import argparse
import shlex
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.commands.local.up import cluster_directory
from lattice.cli.context import Context
from lattice.cli.errors import NOT_PERMITTED, UNREACHABLE, CommandError
from lattice_sdk.site.local_cluster import AGENT_TOKEN_FILE, TOKEN_FILE, is_hidden, read_cluster


@dataclass(frozen=True, kw_only=True)
class EnvOptions:
    dir: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", default="", help="directory of the cluster")


def run(options: EnvOptions, context: Context) -> int:
    directory = cluster_directory(options.dir, context)
    cluster = read_cluster(directory)
    if cluster is None and is_hidden(directory):
        raise CommandError(
            f"{directory} cannot be read: permission denied",
            hint="a cluster there belongs to another user; choose a directory you own with --dir",
            exit_code=NOT_PERMITTED,
        )
    if cluster is None or not cluster.api_url:
        raise CommandError(
            f"no cluster is running in {directory}",
            hint=f"start one: lattice up --detach --dir {shlex.quote(str(directory))}",
            exit_code=UNREACHABLE,
        )
    variables = {
        "LATTICE_API_URL": cluster.api_url,
        "LATTICE_AGENT_ENDPOINTS": cluster.grpc,
        "LATTICE_TOKEN_FILE": str(directory / TOKEN_FILE),
        "LATTICE_AGENT_TOKEN_FILE": str(directory / AGENT_TOKEN_FILE),
    }
    for name, value in variables.items():
        context.streams.write(f"export {name}={shlex.quote(value)}\n")
    return 0


COMMAND = Command(
    options=EnvOptions, run=run, fill=fill, examples=('eval "$(lattice env)"', "lattice env --dir /tmp/second")
)
