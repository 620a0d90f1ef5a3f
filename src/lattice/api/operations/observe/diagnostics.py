"""What an administrator sends along with a report of a problem: configuration and log lines of servers and nodes."""

from typing import Annotated

from msgspec import Meta, Struct

from lattice.api.auditing import record
from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.protocol import server_version
from lattice.observe.recent_lines import RECENT
from lattice.observe.scrubbing import scrub
from lattice.ports.nodes.agents import AgentUnreachable

LONGEST_S = 7 * 86_400
Seconds = Annotated[int, Meta(ge=1, le=LONGEST_S)]


class DiagnosticsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    since_s: Seconds = 3600


class NodeLogQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    since_s: Seconds = 3600


class ServerDiagnostics(Struct, frozen=True, kw_only=True):
    """Secrets are left out of the configuration and of the lines."""

    server: str
    version: str
    leader: bool
    applied_index: int
    problem: str
    warning: str
    configuration: str  # YAML
    log: list[str]


class NodeLog(Struct, frozen=True, kw_only=True):
    node: str
    log: list[str]


async def server_diagnostics(context: Context, request: DiagnosticsQuery) -> ServerDiagnostics:
    """Get configuration and recent log lines of the server that answers, without secrets."""
    services = context.services
    return ServerDiagnostics(
        server=services.server_name,
        version=server_version().release,
        leader=services.replica.is_leader,
        applied_index=services.replica.applied_index,
        problem=services.problem(),
        warning=services.warning(),
        configuration=scrub(services.configuration()),
        log=[scrub(line) for line in RECENT.since(request.since_s)],
    )


async def node_log(context: Context, request: NodeLogQuery) -> NodeLog:
    """Get recent log lines of the agent of a node, without secrets."""
    if request.id not in context.state.nodes:
        raise unknown("node", request.id, sorted(context.state.nodes)[:20])
    await record(context, "node.log", request.id)
    try:
        lines = await context.services.links.read_log(request.id, request.since_s)
    except AgentUnreachable as error:
        raise ApiError("unavailable", str(error), hint="try again when the node is connected") from None
    return NodeLog(node=request.id, log=[scrub(line) for line in lines])
