"""Ports of running allocations: who may reach them, which there are, and the way there."""

from msgspec import Struct

from lattice.api.answers import TunnelAnswer
from lattice.api.auditing import record_access
from lattice.api.context import Context
from lattice.api.errors import ApiError, starting
from lattice.api.find.lookup import find, find_hot
from lattice.api.running.sharing import Wanted, may_reach, port_on, run_of, serving_node, shared_with, wanted_port
from lattice.api.running.step_launch import not_running, single
from lattice.core.model.ids import allocation_id, parse_allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.exposure import MAX_PORT, Exposed
from lattice.ports.nodes.tunnels import ListeningPort, PortLinks, Tunnel, TunnelRefused
from lattice.wire.bounds import Short
from lattice.wire.text.problems import BadField

_NAMED = 10
HINT = "its owner may reach its ports, and those with whom a port is shared"


class PortsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ports of an allocation on one of its nodes (default: its first)."""

    id: str
    node: Short = ""


class PortQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A port of an allocation, by number or by the name that it has there, on one of its nodes (default: its first)."""

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
    name: str = ""  # by which the allocation exposes it


class Reached(Struct, frozen=True):
    """A port that the caller may reach."""

    allocation: Allocation
    node: str
    port: int
    exposed: Exposed | None


async def list_open_ports(context: Context, query: PortsQuery) -> list[PortView]:
    """All ports for the owner, those that are shared for others. Raises ApiError."""
    allocation = await _found(context, query.id)
    shared = shared_with(context.identity, allocation)
    is_owner = may_reach(context.identity, allocation, None)
    if not is_owner and not shared:
        raise _not_yours(allocation)
    node = _node_of(context, allocation, query.node)
    try:
        found = await links_of(context).listening(node, run_of(allocation))
    except TunnelRefused as refusal:
        raise refused(refusal, allocation, node) from None
    names = {port_on(allocation, node, Wanted(each, each.port)): each.name for each in allocation.exposes}
    seen = None if is_owner else {each.name for each in shared}
    return [
        PortView(
            port=each.port,
            node=node,
            address=each.address,
            program=each.program,
            pid=each.pid,
            name=names.get(each.port, ""),
        )
        for each in found
        if seen is None or names.get(each.port) in seen
    ]


async def tunnel_to(context: Context, query: PortQuery) -> TunnelAnswer:
    """The way to a port, open when the wire is ready to carry it. Raises ApiError."""
    reached = await reach(context, query.id, query.port, query.node)
    allocation, node = reached.allocation, reached.node
    await record_access(context, "allocation.forward", allocation)
    is_owner = may_reach(context.identity, allocation, None)

    async def connect() -> Tunnel:
        try:
            return await links_of(context).connect_port(node, run_of(allocation), reached.port)
        except TunnelRefused as refusal:
            raise refused(refusal, allocation, node, names_others=is_owner) from None

    return TunnelAnswer(connect)


async def reach(context: Context, text: str, port: str, node: str) -> Reached:
    """The port and where it is, if the caller may reach it now. Raises ApiError and BadField."""
    allocation = await _found(context, text)
    wanted = wanted_port(allocation, port)
    if not may_reach(context.identity, allocation, None if wanted is None else wanted.exposed):
        raise _not_yours(allocation)
    if wanted is None:
        raise _no_port(allocation, port)
    node = _node_of(context, allocation, node)
    number = port_on(allocation, node, wanted)
    if not number:
        name = allocation_id(allocation.number)
        raise ApiError("conflict", f'{node} has not told which port "{port[:60]}" of {name} is', hint="try again")
    return Reached(allocation, node, number, wanted.exposed)


async def must_listen(context: Context, reached: Reached) -> None:
    """Raises ApiError, with the ports that could be reached, unless a process of the work listens on this one."""
    allocation, node = reached.allocation, reached.node
    links, run = links_of(context), run_of(allocation)
    is_owner = may_reach(context.identity, allocation, None)
    try:
        found = await links.listening(node, run)
        if all(each.port != reached.port for each in found):  # a node names the first ports only
            (await links.connect_port(node, run, reached.port)).close()
    except TunnelRefused as refusal:
        if refusal.code == "not_listening":
            raise _not_listening(reached, refusal.listening, is_owner=is_owner) from None
        raise refused(refusal, allocation, node, names_others=is_owner) from None


def _not_listening(reached: Reached, listening: tuple[ListeningPort, ...], *, is_owner: bool) -> ApiError:
    name, hints = allocation_id(reached.allocation.number), []
    told = f"nothing of {name} listens on port {reached.port} on {reached.node}"
    if reached.exposed is not None:
        told = f"port {reached.port} of {name}, exposed as {reached.exposed.name}, is not ready: nothing listens on it on {reached.node}"
        hints.append("try again when it is")
    if is_owner:
        hints.append(f"listening: {_names(listening)}" if listening else "no process of it listens on any port yet")
    return ApiError("conflict", told, hint="; ".join(hints))


async def _found(context: Context, text: str) -> Allocation:
    """As `find`; work that shares a port with the caller is found though the caller may not see it otherwise."""
    number = parse_allocation_id(text)
    hot = None if number is None else find_hot(context, number)
    if hot is not None and isinstance(hot.record, Allocation) and shared_with(context.identity, hot.record):
        return hot.record
    return single(await find(context, text))


def _node_of(context: Context, allocation: Allocation, node: str) -> str:
    """The node to go to, if its ports can be reached now."""
    name = allocation_id(allocation.number)
    if allocation.vcluster in context.state.audit.sensitive:
        raise ApiError(
            "forbidden",
            f"{name} is sensitive work, and what goes through its ports would have to be recorded, which is not possible yet",
            hint="`lattice logs` shows its output",
        )
    if not allocation.is_running:
        raise not_running(allocation)
    if node and node not in allocation.nodes:
        raise BadField("node", f"{node} is not a node of {name}", hint=f"its nodes: {', '.join(allocation.nodes[:20])}")
    return node or serving_node(allocation)


def links_of(context: Context) -> PortLinks:
    if context.services.ports is None:
        raise starting()
    return context.services.ports


def _not_yours(allocation: Allocation) -> ApiError:
    return ApiError("forbidden", f"{allocation_id(allocation.number)} belongs to {allocation.user}", hint=HINT)


def _no_port(allocation: Allocation, text: str) -> BadField:
    if text[:1].isdigit() or not allocation.exposes:
        return BadField("port", f'"{text[:60]}" is not a port', limit=f"from 1 to {MAX_PORT:,}")
    name = allocation_id(allocation.number)
    known = ", ".join(each.name for each in allocation.exposes)
    return BadField("port", f'{name} exposes no port "{text[:60]}"', hint=f"its names: {known}; or a number")


def refused(refusal: TunnelRefused, allocation: Allocation, node: str, *, names_others: bool = True) -> ApiError:
    """The refusal of a node, with the ports that could be reached."""
    name = allocation_id(allocation.number)
    match refusal.code:
        case "not_listening":
            hint = (
                f"listening there: {_names(refusal.listening)}" if refusal.listening else "nothing of it listens there"
            )
            return ApiError("conflict", f"{name} on {node}: {refusal}", hint=hint if names_others else "")
        case "gone" | "unsupported":
            return ApiError("conflict", f"{name} on {node}: {refusal}")
        case _:
            return ApiError("unavailable", f"{name} on {node}: {refusal}", hint="try again")


def _names(ports: tuple[ListeningPort, ...]) -> str:
    shown = ", ".join(f"{each.port} ({each.program})" for each in ports[:_NAMED])
    return shown + (", ..." if len(ports) > _NAMED else "")
