"""What needs attention now, as far as the state of the servers tells it; the names are those of docs/reference/alerts.md.

The only place that decides this: the command line, `lattice tui` and the web page show the answer as it is.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context, NoParameters
from lattice.api.operations.admin.cluster import SchedulerView, scheduler_status
from lattice.api.operations.admin.quorum import raft_status
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.slurm.text.hostlists import fold
from lattice.wire.admin.quorum import QuorumStatusView

LONG_QUEUE = 100
NEARLY = 0.95
UNHEARD_S = 60
SHOWN_REASONS = 3


class AlertNowView(Struct, frozen=True, kw_only=True):
    """`command` shows more about it."""

    severity: Literal["critical", "warning"]
    name: str
    text: str
    command: str


async def list_alerts(context: Context, request: NoParameters) -> Page[AlertNowView]:
    """List what needs attention now: servers, the scheduler, nodes, and tenants the caller may see; critical ones first."""
    found = [
        *_of_servers(await raft_status(context, request)),
        *_of_scheduler(await scheduler_status(context, request)),
        *_of_nodes(context),
        *_of_tenants(context),
    ]
    return Page(items=sorted(found, key=lambda alert: alert.severity))


def _critical(name: str, text: str, command: str) -> AlertNowView:
    return AlertNowView(severity="critical", name=name, text=text, command=command)


def _warning(name: str, text: str, command: str) -> AlertNowView:
    return AlertNowView(severity="warning", name=name, text=text, command=command)


def _of_servers(quorum: QuorumStatusView) -> Iterator[AlertNowView]:
    command = "lattice admin raft status"
    if not quorum.leader:
        yield _critical("LatticeRaftNoLeader", "No server leads: nothing is accepted or scheduled.", command)
    for member in quorum.members:
        said = member.problem or member.warning
        if not member.healthy:
            yield _critical("Server", f"{member.name}: {said or 'it does not answer'}", command)
        elif said:
            yield _warning("Server", f"{member.name}: {said}", command)


def _of_scheduler(scheduler: SchedulerView) -> Iterator[AlertNowView]:
    if scheduler.last_error:
        said = f"The last scheduling cycle failed ({scheduler.failed_cycles:,} in all): {scheduler.last_error}"
        yield _critical("LatticeSchedulingStalled", said, "lattice admin scheduler status")
    if scheduler.pending > LONG_QUEUE:
        said = f"{scheduler.pending:,} allocations wait."
        yield _warning("LatticeQueueDepthHigh", said, "lattice status --all --state=pending")


def _of_nodes(context: Context) -> Iterator[AlertNowView]:
    nodes = list(context.state.nodes.values())
    down = [node for node in nodes if node.state is NodeState.DOWN]
    degraded = [node for node in nodes if node.state is NodeState.DEGRADED]
    silent = _silent(context, nodes)
    drifted = [node for node in nodes if node.id in context.state.drift.drifts]
    if down:
        yield _critical("LatticeNodeDown", f"{_named(down)} down{_why(down)}", "lattice nodes --state=down")
    if degraded:
        said = f"{_named(degraded)} degraded{_why(degraded)}"
        yield _warning("NodeCheckFailed", said, "lattice nodes --state=degraded")
    if silent:
        said = f"{_named([node for node, _ in silent])} not heard for {max(ago for _, ago in silent):.0f} s"
        yield _warning("LatticeNodeHeartbeatMissing", said, "lattice nodes")
    if drifted:
        said = f"{_named(drifted)} {'differs from its' if len(drifted) == 1 else 'differ from their'} baseline"
        yield _warning("ConformanceDrift", said, "lattice nodes")


def _silent(context: Context, nodes: Sequence[Node]) -> list[tuple[Node, float]]:
    """Nodes that are not known to be down, with how long ago each was heard."""
    now, heard = context.services.clock.monotonic_s(), context.services.observations
    known = [(node, heard.get(node.id)) for node in nodes if node.state is not NodeState.DOWN]
    ages = [(node, now - seen.last_heard) for node, seen in known if seen is not None]
    return [(node, ago) for node, ago in ages if ago > UNHEARD_S]


def _named(nodes: Sequence[Node]) -> str:
    names = fold(sorted(node.id for node in nodes))
    return f"{len(nodes):,} {'node' if len(nodes) == 1 else 'nodes'} ({names})"


def _why(nodes: Sequence[Node]) -> str:
    reasons = list(dict.fromkeys(node.reason for node in nodes if node.reason))[:SHOWN_REASONS]
    return f": {'; '.join(reasons)}" if reasons else ""


def _of_tenants(context: Context) -> Iterator[AlertNowView]:
    for name, tenant in sorted(context.state.tenants.items()):
        if not tenant.max_nodes or not context.covers_tenant(Permission.READ_TENANTS, name):
            continue
        share = context.state.use_of(name).nodes / tenant.max_nodes
        if share > NEARLY:
            said = f"Tenant {name} uses {share:.0%} of its nodes."
            yield _warning("LatticeQuotaUtilizationHigh", said, f"lattice admin tenant show {name}")
