"""`lattice admin upgrade status|finalize`: the level of the cluster, and raising it."""

from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_one
from lattice_sdk.models.upgrades import ServerLevels, UpgradeStatus


@dataclass(frozen=True, kw_only=True)
class Options:
    """Takes nothing."""


def run_status(_options: Options, context: Context) -> int:
    _show(context, context.client.upgrade_status())
    return OK


def run_finalize(_options: Options, context: Context) -> int:
    _show(context, context.client.finalize_upgrade())
    return OK


def _show(context: Context, status: UpgradeStatus) -> None:
    pairs = [
        ("Level", str(status.level)),
        ("Next level", _next(status)),
        *((f"Server {server.name}", _line(server)) for server in status.servers),
        *((f"Agents, protocol {each.protocol}", str(each.nodes)) for each in status.agents),
    ]
    show_one(context, status, pairs)


def _next(status: UpgradeStatus) -> str:
    if status.next_level is None:
        return "none: this release supports no higher level"
    return f"{status.next_level}, {status.blocked_by or 'ready to finalize'}"


def _line(server: ServerLevels) -> str:
    if server.newest_level is None:
        return f"does not answer: {server.problem}"
    return f"supports levels up to {server.newest_level}, protocol {server.newest_protocol}"


STATUS = Command(
    options=Options, run=run_status, examples=("lattice admin upgrade status", "lattice admin upgrade status -o json")
)
FINALIZE = Command(options=Options, run=run_finalize, examples=("lattice admin upgrade finalize",))
