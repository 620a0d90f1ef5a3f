"""`lattice admin upgrade status|finalize`: the rolling upgrade, the level of the cluster, and raising it."""

from dataclasses import dataclass

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_one
from lattice.cli.times import stamp_text
from lattice.slurm.text.hostlists import fold
from lattice_sdk.models.upgrades import AgentUpgrade, NodeUpgrade, ServerLevels, UpgradeStatus


@dataclass(frozen=True, kw_only=True)
class Options:
    """Takes nothing."""


def run_status(_options: Options, context: Context) -> int:
    show_upgrade(context, context.client.upgrade_status())
    return OK


def run_finalize(_options: Options, context: Context) -> int:
    show_upgrade(context, context.client.finalize_upgrade())
    return OK


def show_upgrade(context: Context, status: UpgradeStatus) -> None:
    """The rolling upgrade, if there was one, and the level."""
    pairs = [
        *_rollout(status.rollout),
        ("Level", str(status.level)),
        ("Next level", _next(status)),
        *((f"Server {server.name}", _line(server)) for server in status.servers),
        *((f"Agents, protocol {each.protocol}", str(each.nodes)) for each in status.agents),
    ]
    show_one(context, status, pairs)


def _rollout(rollout: AgentUpgrade | None) -> list[tuple[str, str]]:
    if rollout is None:
        return []
    batches: dict[int, list[NodeUpgrade]] = {}
    for node in rollout.nodes:
        batches.setdefault(node.batch, []).append(node)
    what, shown = "nodes", [(_named(number), _steps(nodes)) for number, nodes in sorted(batches.items())]
    if rollout.kind == "servers":
        what, shown = "servers", [("Servers", _steps(rollout.nodes))]
    pairs = [
        ("Upgrade", f"to {rollout.target}, {rollout.phase}, {rollout.done} of {len(rollout.nodes)} {what} done"),
        ("Reason", rollout.reason),
        ("Waits for", rollout.waits_for),
        ("Started", f"{stamp_text(rollout.began_at)} by {rollout.by}"),
        ("Ended", stamp_text(rollout.ended_at)),
        *shown,
    ]
    return [(name, text) for name, text in pairs if text]


def _named(batch: int) -> str:
    return f"Batch {batch}" if batch else "Canaries"


def _steps(nodes: list[NodeUpgrade]) -> str:
    steps: dict[str, list[str]] = {}
    for node in nodes:
        steps.setdefault(node.step, []).append(node.node)
    return "; ".join(f"{step}: {fold(names)}" for step, names in steps.items())


def _next(status: UpgradeStatus) -> str:
    if status.next_level is None:
        return "none: this release supports no higher level"
    return f"{status.next_level}, {status.blocked_by or 'ready to finalize'}"


def _line(server: ServerLevels) -> str:
    if server.newest_level is None:
        return f"does not answer: {server.problem}"
    release = f"{server.release}, " if server.release else ""
    return f"{release}supports levels up to {server.newest_level}, protocol {server.newest_protocol}"


STATUS = Command(
    options=Options, run=run_status, examples=("lattice admin upgrade status", "lattice admin upgrade status -o json")
)
FINALIZE = Command(options=Options, run=run_finalize, examples=("lattice admin upgrade finalize",))
