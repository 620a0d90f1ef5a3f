"""`lattice open`: an address for a browser that leads to a web page of a running allocation."""

import argparse
from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.output import structured


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str
    port: str = ""
    node: str = ""
    path: str = "/"
    keep_path: bool = False


def fill(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lattice open [flags] ID [PORT|NAME]"
    parser.description = (
        "Prints a URL for a browser that leads through the cluster's gateway to a web page of a running allocation. "
        "It is good once and for a minute; the browser then has a session of 12 hours for that page."
    )
    add = parser.add_argument
    add("id", metavar="ID", help="allocation, as in a17")
    add("port", nargs="?", metavar="PORT|NAME", help="port on which it listens, or its name (default: the only one)")
    add("--node", metavar="N", help="node of the allocation (default: its first)")
    add("--path", metavar="PATH", help="path of the page (default: /)")
    add("--keep-path", action="store_true", help="the application expects the whole path, /proxy/ID/PORT/...")


def run(options: Options, context: Context) -> int:
    if not options.path.startswith("/"):
        raise UsageError(f'--path: "{options.path}" does not begin with /')
    port = options.port or _only_port(options, context)
    opened = context.client.open_port(
        options.id, port, node=options.node, path=options.path, keep_path=options.keep_path
    )
    if not structured(context, opened):
        context.streams.write(f"{opened.url}\n")
    return OK


def _only_port(options: Options, context: Context) -> str:
    found = context.client.list_ports(options.id, node=options.node)
    if len(found) == 1:
        return found[0].name or str(found[0].port)
    listening = ", ".join(f"{each.port} ({each.program})" for each in found[:20])
    raise CommandError(
        f"{options.id} listens on {len(found)} ports" if found else f"{options.id} listens on no port yet",
        hint=f"name one of {listening}" if found else "",
    )


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=("lattice open a17", "lattice open a17 web", "lattice open a17 6006 --path=/graphs"),
)
