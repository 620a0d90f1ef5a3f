"""An operator's orders for nodes: which command each is, and one order carried out for many nodes.

Every way to give an order (one node, a set of them, the Slurm commands) comes through here.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from msgspec import Struct

from lattice.api.context import Context
from lattice.api.errors import ApiError, ErrorView
from lattice.api.limits import BULK_BATCH
from lattice.api.nodes.health import refuse_unhealthy
from lattice.core.machine.commands import (
    AnyCommand,
    DisableNode,
    DownNode,
    DrainNode,
    EnableNode,
    RebootNode,
    UndrainNode,
    WipeNode,
)
from lattice.core.model.nodes.nodes import DownCause, NodeState
from lattice.slurm.text.hostlists import fold
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_line

MAX_REASON = 512
BY_HAND = "reboot it by hand: the site has no program for that (node.reboot_program)"
_SHOWN = 300  # characters of a list of names in an error
_UNCHANGED = "nothing was changed; `lattice nodes` lists those there are"


class NodeOrder(StrEnum):
    DRAIN = "drain"
    UNDRAIN = "undrain"
    DISABLE = "disable"
    ENABLE = "enable"
    REBOOT = "reboot"
    FAULT = "fault"
    WIPE = "wipe"


class NodeAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome for one node: its new state, or the refusal and its unchanged state.

    `note`: what is left to do by hand.
    """

    id: str
    ok: bool
    state: NodeState
    error: ErrorView | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """What an operator wants of a node."""

    order: NodeOrder
    reason: str = ""
    urgent: bool = False
    force: bool = False


async def order_node(context: Context, node: str, instruction: Instruction, request_id: str, *, part: str = "") -> None:
    """Returns when it is done. Raises ApiError when it is refused, BadField for a reason that cannot be one."""
    if instruction.order is NodeOrder.UNDRAIN:
        await refuse_unhealthy(context, node)
    await context.carry_out(_command(context, node, instruction), request_id, part)


def _command(context: Context, node: str, instruction: Instruction) -> AnyCommand:
    reason = check_line(instruction.reason, "reason", MAX_REASON)
    match instruction.order:
        case NodeOrder.DRAIN:
            return DrainNode(node=node, reason=reason, urgent=instruction.urgent)
        case NodeOrder.UNDRAIN:
            heard = context.services.observations.get(node)
            return UndrainNode(node=node, is_heard=heard is not None and heard.connected, reason=reason)
        case NodeOrder.DISABLE:
            return DisableNode(node=node, reason=reason)
        case NodeOrder.ENABLE:
            return EnableNode(node=node, reason=reason)
        case NodeOrder.REBOOT:
            return RebootNode(node=node, reason=reason)
        case NodeOrder.WIPE:
            return WipeNode(node=node, reason=reason, force=instruction.force)
        case NodeOrder.FAULT:
            return DownNode(node=node, cause=DownCause.HARDWARE, reason=reason)
        case _:
            assert_never(instruction.order)


def known_nodes(context: Context, given: str | Sequence[str], hint: str = _UNCHANGED) -> tuple[str, ...]:
    """The names of a set. Raises BadField when it cannot be read or is empty, ApiError when any name is not that of a node."""
    names = node_names(given, "nodes")
    if not names:
        raise BadField("nodes", "names no node", hint="write n1,n[3-5,7]")
    nodes = context.state.nodes
    strangers = [name for name in names if name not in nodes]
    if strangers:
        listed = fold(strangers)
        listed = listed if len(listed) <= _SHOWN else f"{listed[:_SHOWN]}..."
        words = f'unknown node "{listed}"' if len(strangers) == 1 else f"{len(strangers):,} unknown nodes: {listed}"
        raise ApiError("not_found", words, current=f"{len(nodes):,} nodes", hint=hint)
    return names


async def order_each(
    context: Context, names: Sequence[str], instruction_for: Callable[[str], Instruction], request_id: str
) -> list[NodeAnswer]:
    """One answer per node, in the order of the names; many are ordered in pieces, so that others are served in between.

    Raises like `Context.carry_out` when the log fails: the whole order may be repeated under the same request id.
    """
    answers: list[NodeAnswer] = []
    for start in range(0, len(names), BULK_BATCH):
        chunk = names[start : start + BULK_BATCH]
        answers += await asyncio.gather(*(_one(context, name, instruction_for(name), request_id) for name in chunk))
    return answers


async def _one(context: Context, node: str, instruction: Instruction, request_id: str) -> NodeAnswer:
    error = None
    try:
        await order_node(context, node, instruction, request_id, part=node)
    except ApiError as refusal:
        error = refusal.view
    note = BY_HAND if instruction.order is NodeOrder.REBOOT and not context.services.reboots_nodes else ""
    return NodeAnswer(
        id=node,
        ok=error is None,
        state=context.state.nodes[node].state,
        error=error,
        note="" if error is not None else note,
    )
