"""`lattice admin scheduler status`: what the scheduler did last."""

from collections import Counter
from dataclasses import dataclass

from msgspec.structs import replace

from lattice.cli.command import Command
from lattice.cli.context import Context
from lattice.cli.errors import OK
from lattice.cli.output import show_one
from lattice.cli.times import stamp_text
from lattice_sdk.models.records import SchedulerStatus


@dataclass(frozen=True, kw_only=True)
class Options:
    """Takes nothing."""


def run(_options: Options, context: Context) -> int:
    name = context.flags.vcluster
    status = context.client.scheduler_status()
    if name:
        vcluster = context.client.get_vcluster(name)
        nodes = Counter(node.state for node in context.client.list_nodes(vcluster=name))
        status = replace(status, pending=vcluster.pending, running=vcluster.running, nodes=dict(nodes))
    duration = "" if status.last_cycle_ms is None else f"{status.last_cycle_ms:.1f} ms"
    shown_nodes = ", ".join(f"{count} {state}" for state, count in status.nodes.items())
    pairs = [
        *([("vCluster", name)] if name else []),
        ("Server", status.server or ""),
        ("Leader", _leader(status)),
        ("Log index", str(status.applied_index)),
        ("Cycles", str(status.cycles)),
        ("Last cycle", stamp_text(status.last_cycle_at)),
        ("Duration", duration),
        ("Placed in it", str(status.last_placements or 0)),
        ("Placed so far", str(status.placements)),
        ("Failed cycles", str(status.failed_cycles)),
        ("Last error", status.last_error or "none"),
        ("Pending", str(status.pending)),
        ("Running", str(status.running)),
        ("Nodes", shown_nodes),
    ]
    show_one(context, status, pairs)
    return OK


def _leader(status: SchedulerStatus) -> str:
    if isinstance(status.leader, bool):
        return "yes" if status.leader else "no"
    return status.leader or ""


STATUS = Command(
    options=Options,
    run=run,
    examples=("lattice admin scheduler status", "lattice admin scheduler status --vcluster=hpc-batch"),
    has_vcluster=True,
)
