"""Ports of running allocations: who may reach them, which there are, and the way there."""

from msgspec import Struct

from lattice.api.answers import TunnelAnswer
from lattice.api.auditing import record_access
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.errors import ApiError, starting
from lattice.api.find.lookup import find
from lattice.api.running.step_launch import not_running, single
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.tunnels import ListeningPort, PortLinks, Tunnel, TunnelRefused
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField

MAX_PORT = 65_535
_NAMED = 10
HINT = "only its owner may reach its ports"


class PortsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ports of an allocation on one of its nodes (default: its first)."""

    id: str
    node: Short = ""


class PortQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A port of an allocation on one of its nodes (default: its first)."""

    id: str
    port: Short
    node: Short = ""


class PortView(Struct, frozen=True, kw_only=True):
    """A port on which a process of the allocation listens."""

    port: int
    node: str
    address: str
    program: str
    pid: int


async def list_open_ports(context: Context, query: PortsQuery) -> list[PortView]:
    """Raises ApiError."""
    allocation, node = await reached(context, query.id, query.node)
    try:
        found = await links_of(context).listening(node, run_of(allocation))
    except TunnelRefused as refusal:
        raise refused(refusal, allocation, node) from None
    return [
        PortView(port=each.port, node=node, address=each.address, program=each.program, pid=each.pid) for each in found
    ]


async def tunnel_to(context: Context, query: PortQuery) -> TunnelAnswer:
    """The way to a port, open when the wire is ready to carry it. Raises ApiError."""
    allocation, node = await reached(context, query.id, query.node)
    port = parse_port(query.port)
    await record_access(context, "allocation.forward", allocation)

    async def connect() -> Tunnel:
        try:
            return await links_of(context).connect_port(node, run_of(allocation), port)
        except TunnelRefused as refusal:
            raise refused(refusal, allocation, node) from None

    return TunnelAnswer(connect)


async def reached(context: Context, text: str, node: str) -> tuple[Allocation, str]:
    """The allocation and its node, if the caller may reach its ports now."""
    allocation = single(await find(context, text))
    name = allocation_id(allocation.number)
    if allocation.user != context.user or not context.reach_in(Permission.FORWARD, allocation.tenant):
        raise ApiError("forbidden", f"{name} belongs to {allocation.user}", hint=HINT)
    if allocation.vcluster in context.state.audit.sensitive:
        raise ApiError(
            "forbidden",
            f"{name} is sensitive work, and what goes through its ports would have to be recorded, which is not possible yet",
            hint="`lattice logs` shows its output",
        )
    if allocation.state is not AllocationState.RUNNING:
        raise not_running(allocation)
    if node and node not in allocation.nodes:
        raise BadField("node", f"{node} is not a node of {name}", hint=f"its nodes: {', '.join(allocation.nodes[:20])}")
    return allocation, node or allocation.nodes[0]


def run_of(allocation: Allocation) -> RunKey:
    return RunKey(allocation.number, allocation.run)


def links_of(context: Context) -> PortLinks:
    if context.services.ports is None:
        raise starting()
    return context.services.ports


def parse_port(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text[:6]) <= MAX_PORT:
        return int(text)
    raise BadField("port", f'"{text}" is not a port', limit=f"from 1 to {MAX_PORT:,}")


def refused(refusal: TunnelRefused, allocation: Allocation, node: str) -> ApiError:
    """The refusal of a node, with the ports that could be reached."""
    name = allocation_id(allocation.number)
    match refusal.code:
        case "not_listening":
            hint = (
                f"listening there: {_names(refusal.listening)}" if refusal.listening else "nothing of it listens there"
            )
            return ApiError("conflict", f"{name} on {node}: {refusal}", hint=hint)
        case "gone" | "unsupported":
            return ApiError("conflict", f"{name} on {node}: {refusal}")
        case _:
            return ApiError("unavailable", f"{name} on {node}: {refusal}", hint="try again")


def _names(ports: tuple[ListeningPort, ...]) -> str:
    shown = ", ".join(f"{each.port} ({each.program})" for each in ports[:_NAMED])
    return shown + (", ..." if len(ports) > _NAMED else "")
