"""`lattice forward`: ports of a running allocation on this machine."""

import argparse
from dataclasses import dataclass, replace

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK, CommandError, UsageError
from lattice.cli.output import Column, show_list
from lattice.cli.ports.forwarder import HERE, Forward, Forwarder
from lattice_sdk.models.steps import OpenPort

MAX_PORT = 65_535


@dataclass(frozen=True, kw_only=True)
class Options:
    id: str
    ports: tuple[str, ...] = ()
    node: str = ""


def fill(parser: argparse.ArgumentParser) -> None:
    parser.usage = "lattice forward [flags] ID [[LOCAL:]PORT|NAME...]"
    parser.description = (
        "Makes ports of a running allocation reachable on this machine, at 127.0.0.1, until Ctrl-C or the end of the allocation. "
        "Only ports on which a process of the allocation listens can be reached, by number or by the name that --expose gave them; "
        "without PORT they are listed."
    )
    add = parser.add_argument
    add("id", metavar="ID", help="allocation, as in a17")
    add(
        "ports",
        nargs="*",
        metavar="[LOCAL:]PORT|NAME",
        help="port of the allocation or its name, and the one here that leads to it (default: the same; 0: a free one)",
    )
    add("--node", metavar="N", help="node of the allocation (default: its first)")


COLUMNS: tuple[Column[OpenPort], ...] = (
    Column("PORT", lambda port: str(port.port)),
    Column("NAME", lambda port: port.name),
    Column("NODE", lambda port: port.node),
    Column("ADDRESS", lambda port: port.address),
    Column("PROGRAM", lambda port: port.program),
    Column("PID", lambda port: str(port.pid), is_wide=True),
)


def run(options: Options, context: Context) -> int:
    wanted = [parse_forward(text, options) for text in options.ports]
    found = context.client.list_ports(options.id, node=options.node)
    if not wanted:
        show_list(context, found, COLUMNS, name=lambda port: str(port.port))
        return OK
    named = [_found(each, found, options) for each in wanted]
    forwarder = Forwarder(context, named)
    try:
        for port, forward in forwarder.ports:
            title = f" ({forward.name})" if forward.name else ""
            context.say(f"{HERE}:{port} -> {options.id} {found[0].node}:{forward.port}{title}")
        context.streams.stdout.flush()
        forwarder.serve()
    finally:
        forwarder.close()
    return OK


def _found(wanted: Forward, ports: list[OpenPort], options: Options) -> Forward:
    """The same with the number of a port that has a name; raises CommandError when nothing listens there."""
    for each in ports:
        if each.port == wanted.port or (wanted.name and each.name == wanted.name):
            return replace(wanted, port=each.port)
    what = f"port {wanted.port}" if wanted.port else f'a port called "{wanted.name}"'
    raise CommandError(
        f"nothing of {options.id} listens on {what}",
        hint=f"listening: {_named(ports)}" if ports else "no process of it listens on any port yet",
    )


def parse_forward(text: str, options: Options) -> Forward:
    """Raises UsageError."""
    local, colon, port = text.rpartition(":")
    is_name = port[:1].isascii() and port[:1].isalpha()
    for word, least in ((port, 1), (local, 0)):
        is_number = word.isascii() and word.isdigit() and len(word) < 6 and least <= int(word) <= MAX_PORT
        if not is_number and ((word is port and not is_name) or (word is local and colon)):
            hint = "write PORT, NAME, LOCAL:PORT or LOCAL:NAME, as in 8888, web or 9999:8888"
            raise UsageError(f'"{text}" is not a port', hint=hint)
    return Forward(
        allocation=options.id,
        port=0 if is_name else int(port),
        name=port if is_name else "",
        node=options.node,
        local=int(local) if colon else None,
    )


def _named(ports: list[OpenPort]) -> str:
    return ", ".join(f"{each.port} ({each.name or each.program})" for each in ports[:20])


COMMAND = Command(
    options=Options,
    fill=fill,
    run=run,
    examples=(
        "lattice forward a17",
        "lattice forward a17 8888",
        "lattice forward a17 web 0:metrics",
        "lattice forward a17 9999:8888 0:6006 --node n2",
    ),
)
