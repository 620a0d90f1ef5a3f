"""Upgrades: which level the cluster writes, what every server supports, and raising the level for good."""

from collections import Counter

from msgspec import Struct

from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.config.release import installed_release
from lattice.core.machine.commands import RaiseLevel
from lattice.core.machine.levels import NEWEST
from lattice.core.model.site.upgrades import NodeStep, NodeUpgrade, Upgrade, UpgradeKind, UpgradePhase
from lattice.ports.quorum.servers import ServerState, alone, level_blocked_by
from lattice.wire.admin.upgrades import AgentProtocols, AgentUpgradeView, NodeUpgradeView, ServerLevels, UpgradeView
from lattice.wire.text.times import rfc3339

_RETURN = {UpgradeKind.AGENTS: "register", UpgradeKind.SERVERS: "answer"}


class FinalizeUpgrade(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: str = ""


async def upgrade_status(context: Context, request: NoParameters) -> UpgradeView:
    """Get the level of the cluster, the levels each server supports, and the protocol versions of the agents."""
    return await upgrade_view(context)


async def finalize_upgrade(context: Context, request: FinalizeUpgrade) -> UpgradeView:
    """Raise the level by one once every server supports it; this cannot be undone."""
    view = await upgrade_view(context)
    if view.next_level is None or view.blocked_by:
        reason = view.blocked_by or f"this release supports no level above {view.level}"
        raise ApiError(
            "conflict",
            f"the level stays at {view.level}: {reason}",
            current=f"level {view.level}",
            requested=f"level {view.level + 1}",
            hint="lattice admin upgrade status",
        )
    await context.carry_out(RaiseLevel(level=view.next_level), request.request_id)
    return await upgrade_view(context)


async def upgrade_view(context: Context) -> UpgradeView:
    """What an administrator sees of the upgrade."""
    level, newest = context.state.level, context.state.upgrades.newest
    states = await servers_of(context)
    counts = Counter(context.services.observations.protocols.values())
    return UpgradeView(
        level=level,
        next_level=level + 1 if level < NEWEST else None,
        blocked_by=level_blocked_by(states, level + 1) if level < NEWEST else "",
        servers=[_levels(state) for state in states],
        agents=[AgentProtocols(protocol=version, nodes=counts[version]) for version in sorted(counts)],
        rollout=None if newest is None else _rollout(newest),
    )


async def servers_of(context: Context) -> list[ServerState]:
    """Every server as it answers now."""
    services = context.services
    if services.quorum is not None:
        return await services.quorum.ask_all(None)
    return [alone(services.server_name, services.replica.applied_index, installed_release())]


def _levels(state: ServerState) -> ServerLevels:
    if state.replica is None:
        return ServerLevels(name=state.name, problem=state.problem or "it does not answer")
    return ServerLevels(
        name=state.name,
        newest_level=state.replica.newest_level,
        newest_protocol=state.replica.newest_protocol,
        release=state.replica.release,
    )


def _rollout(upgrade: Upgrade) -> AgentUpgradeView:
    left = [each for each in upgrade.nodes if each.step is not NodeStep.DONE]
    return AgentUpgradeView(
        target=upgrade.target,
        phase=upgrade.phase,
        by=upgrade.by,
        began_at=rfc3339(upgrade.began_at),
        ended_at=rfc3339(upgrade.ended_at),
        reason=upgrade.reason,
        observe_s=upgrade.observe_s,
        within=upgrade.within,
        urgent=upgrade.urgent,
        done=len(upgrade.nodes) - len(left),
        waits_for=_waits_for(upgrade, left) if upgrade.is_open else "",
        nodes=[
            NodeUpgradeView(node=each.node, former=each.former, batch=each.batch, step=each.step)
            for each in upgrade.nodes
        ],
        kind=upgrade.kind,
    )


def _waits_for(upgrade: Upgrade, left: list[NodeUpgrade]) -> str:
    if upgrade.phase is UpgradePhase.PAUSED:
        return "an administrator: resume or rollback"
    called = [each.node for each in left if each.step is NodeStep.CALLED]
    if called:
        return f"{_some(called)} to {_RETURN[upgrade.kind]} with the release"
    draining = [each.node for each in left if each.step is NodeStep.DRAINING]
    if draining:
        return f"work on {_some(draining)} to end"
    if upgrade.phase is not UpgradePhase.ROLLING_BACK and len(left) < len(upgrade.nodes):
        return "the observation time" + (f" and the window of reservation {upgrade.within}" if upgrade.within else "")
    return f"the window of reservation {upgrade.within}" if upgrade.within else ""


def _some(nodes: list[str]) -> str:
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return ", ".join(nodes[:3]) + more
