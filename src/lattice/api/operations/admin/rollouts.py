"""Rolling upgrades of agents and servers: the plan, the start, and the turns that an administrator orders."""

import math
import re
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError, unknown
from lattice.api.operations.admin.server_rollouts import ChosenServers, check_release, choose_servers
from lattice.api.operations.admin.upgrades import servers_of, upgrade_view
from lattice.config.release import installed_release
from lattice.core.machine.commands import BeginUpgrade, TurnUpgrade
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node, NodeState
from lattice.core.model.site.upgrades import Upgrade, UpgradeKind, UpgradeTrigger, batch_of, default_sizes
from lattice.wire.admin.upgrades import LeftOut, UpgradeBatch, UpgradePlan, UpgradeView

_PAGE = "docs/admin/upgrades.md"
_UP = frozenset({NodeState.READY, NodeState.DRAINING, NodeState.DRAINED})
_BATCH = re.compile(r"([0-9]{1,6})(%?)")
Word = Annotated[str, Meta(max_length=256)]


class UpgradeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`canary` and `batch` default to sizes that fit the cluster; `batch` is a number of nodes or a share such as `5%`."""

    to: Annotated[str, Meta(min_length=1, max_length=64)]
    canary: Annotated[int, Meta(ge=0, le=100_000)] | None = None
    batch: Annotated[str, Meta(max_length=8)] = ""
    observe_s: Annotated[int, Meta(ge=0, le=604_800)] = 900
    within: Word = ""
    urgent: bool = False
    kind: Literal["agents", "servers"] = "agents"
    request_id: str = ""


class TurnRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`to` and `kind` of a rollback say what the caller expects: another former release, or an upgrade of the others, is refused."""

    reason: Word = ""
    to: Annotated[str, Meta(max_length=64)] = ""
    kind: Literal["", "agents", "servers"] = ""
    request_id: str = ""


async def plan_upgrade(context: Context, request: UpgradeRequest) -> UpgradePlan:
    """Show what a rolling upgrade of the agents, or of the servers, would do now; nothing is changed."""
    return (await _planned(context, request)).shown


async def start_upgrade(context: Context, request: UpgradeRequest) -> UpgradeView:
    """Start a rolling upgrade: of the agents, canaries first, then batch by batch; of the servers, one by one, the leader last."""
    plan, formers = await _planned(context, request)
    upgrading = context.services.upgrading
    if upgrading is None or not upgrading.has_program:
        raise ApiError(
            "conflict",
            "no program replaces the software of nodes: upgrade.program is not set in the servers' configuration",
            hint=f"set upgrade.program on every server and restart it; see {_PAGE}",
        )
    missing = [state.name for state in await servers_of(context) if state.replica is None]
    if missing:
        raise ApiError(
            "conflict",
            f"server {', '.join(missing)} does not answer; an upgrade begins with all servers",
            hint="lattice admin raft status",
        )
    begin = BeginUpgrade(
        target=plan.target,
        nodes=tuple(node for batch in plan.batches for node in batch.nodes),
        canaries=plan.canaries,
        batch=plan.batch,
        observe_s=plan.observe_s,
        within=plan.within,
        urgent=plan.urgent,
        before=upgrading.before(),
        kind=UpgradeKind(plan.kind),
        formers=formers,
    )
    await context.carry_out(begin, request.request_id)
    return await upgrade_view(context)


async def pause_upgrade(context: Context, request: TurnRequest) -> UpgradeView:
    """Start no further node; nodes whose software was replaced return to service."""
    return await _turned(context, UpgradeTrigger.PAUSE, request)


async def resume_upgrade(context: Context, request: TurnRequest) -> UpgradeView:
    """Continue a paused upgrade; nodes that did not return are tried again."""
    return await _turned(context, UpgradeTrigger.RESUME, request)


async def roll_back_upgrade(context: Context, request: TurnRequest) -> UpgradeView:
    """Return every node or server that was touched to its former release."""
    newest = context.state.upgrades.newest
    if newest is not None:
        _check_rolled_back(newest, request)
    return await _turned(context, UpgradeTrigger.ROLL_BACK, replace(request, to="", kind=""))


def _check_rolled_back(newest: Upgrade, request: TurnRequest) -> None:
    formers = sorted({each.former for each in newest.nodes})
    instead = f"lattice admin upgrade start --to {request.to or formers[0]} --{request.kind or newest.kind}"
    if request.kind not in ("", newest.kind):
        raise ApiError("conflict", f"the newest upgrade was one of the {newest.kind}", hint=f"go back by: {instead}")
    if request.to and formers != [request.to]:
        raise ApiError(
            "conflict",
            f"the newest upgrade began at release {', '.join(formers)}, so a rollback does not lead to {request.to}",
            current=newest.target,
            requested=request.to,
            hint=f"leave out --to, or: {instead}",
        )


async def _turned(context: Context, trigger: UpgradeTrigger, request: TurnRequest) -> UpgradeView:
    if request.to or request.kind:
        raise ApiError("invalid", "only a rollback says where it leads: leave out to and kind")
    reason = request.reason or f"ordered by {context.user}"
    await context.carry_out(TurnUpgrade(trigger=trigger, reason=reason), request.request_id)
    return await upgrade_view(context)


class Planned(NamedTuple):
    shown: UpgradePlan
    formers: tuple[str, ...] = ()  # of the servers, in the order of the plan


async def _planned(context: Context, request: UpgradeRequest) -> Planned:
    _check_window(context, request.within)
    if request.kind == "servers":
        chosen = choose_servers(context, request.to, await servers_of(context))
        _check_of_servers(request)
        return _servers_planned(request, chosen)
    return Planned(_nodes_planned(context, request))


def _check_of_servers(request: UpgradeRequest) -> None:
    if request.canary is not None or request.batch:
        raise ApiError("invalid", "servers are upgraded one at a time, the first one as the canary: no sizes")
    if request.urgent:
        raise ApiError("invalid", "nothing runs on servers, so their upgrade cannot be urgent")


def _servers_planned(request: UpgradeRequest, chosen: ChosenServers) -> Planned:
    plan = UpgradePlan(
        target=request.to,
        canaries=1,
        batch=1,
        observe_s=request.observe_s,
        batches=[UpgradeBatch(batch=place, nodes=[name]) for place, name in enumerate(chosen.names)],
        left_out=[LeftOut(node=name, reason=f"it runs {request.to} already") for name in chosen.left_out],
        within=request.within,
        urgent=False,
        kind=request.kind,
    )
    return Planned(plan, chosen.formers)


def _nodes_planned(context: Context, request: UpgradeRequest) -> UpgradePlan:
    state = context.state
    chosen, left_out = _choose(state, request.to)
    if not chosen:
        current = "; ".join(f"{each.node}: {each.reason}" for each in left_out[:5])
        raise ApiError("conflict", f"no node can be upgraded to {request.to}", current=current or "no nodes")
    check_release("the servers run", installed_release(), request.to)
    for name in chosen:
        check_release(f"node {name} runs", state.nodes[name].agent_version, request.to)
    canaries, size = default_sizes(len(chosen))
    canaries = min(len(chosen), canaries if request.canary is None else request.canary)
    size = _batch_size(request.batch, len(chosen)) if request.batch else size
    batches: dict[int, list[str]] = {}
    for place, name in enumerate(chosen):
        batches.setdefault(batch_of(place, canaries, size), []).append(name)
    return UpgradePlan(
        target=request.to,
        canaries=canaries,
        batch=size,
        observe_s=request.observe_s,
        batches=[UpgradeBatch(batch=number, nodes=batches[number]) for number in sorted(batches)],
        left_out=left_out,
        within=request.within,
        urgent=request.urgent,
    )


def _choose(state: State, target: str) -> tuple[list[str], list[LeftOut]]:
    chosen, left_out = [], []
    for name in sorted(state.nodes):
        reason = _unfit(state.nodes[name], target)
        if reason:
            left_out.append(LeftOut(node=name, reason=reason))
        else:
            chosen.append(name)
    return chosen, left_out


def _unfit(node: Node, target: str) -> str:
    if not node.agent_version:
        return "its release is not known"
    if node.agent_version == target:
        return f"it runs {target} already"
    return "" if node.state in _UP else f"it is {node.state}"


def _check_window(context: Context, within: str) -> None:
    if not within:
        return
    reservation = context.state.reservations.get(within)
    if reservation is None:
        raise unknown("reservation", within, context.state.reservations)
    if reservation.occurrence(context.services.clock.now_ms()) is None:
        raise ApiError("conflict", f"the window of reservation {within} is over, so no batch would ever start")


def _batch_size(text: str, nodes: int) -> int:
    found = _BATCH.fullmatch(text)
    number = int(found[1]) if found else 0
    if found is None or number < 1 or (found[2] and number > 100):
        raise ApiError("invalid", f'"{text}" is no size of a batch', hint="for example 25, or 5%")
    return max(1, math.ceil(nodes * number / 100)) if found[2] else number
