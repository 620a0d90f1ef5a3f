"""Upgrades: which level the cluster writes, what every server supports, and raising the level for good."""

from collections import Counter

from msgspec import Struct

from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError
from lattice.core.machine.commands import RaiseLevel
from lattice.core.machine.levels import NEWEST
from lattice.ports.quorum.servers import ServerState, alone, level_blocked_by
from lattice.wire.admin.upgrades import AgentProtocols, ServerLevels, UpgradeView


class FinalizeUpgrade(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    request_id: str = ""


async def upgrade_status(context: Context, request: NoParameters) -> UpgradeView:
    """Get the level of the cluster, the levels each server supports, and the protocol versions of the agents."""
    return await _view(context)


async def finalize_upgrade(context: Context, request: FinalizeUpgrade) -> UpgradeView:
    """Raise the level by one once every server supports it; this cannot be undone."""
    view = await _view(context)
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
    return await _view(context)


async def _view(context: Context) -> UpgradeView:
    level = context.state.level
    states = await _servers(context)
    counts = Counter(context.services.observations.protocols.values())
    return UpgradeView(
        level=level,
        next_level=level + 1 if level < NEWEST else None,
        blocked_by=level_blocked_by(states, level + 1) if level < NEWEST else "",
        servers=[_levels(state) for state in states],
        agents=[AgentProtocols(protocol=version, nodes=counts[version]) for version in sorted(counts)],
    )


async def _servers(context: Context) -> list[ServerState]:
    services = context.services
    if services.quorum is not None:
        return await services.quorum.ask_all(None)
    return [alone(services.server_name, services.replica.applied_index)]


def _levels(state: ServerState) -> ServerLevels:
    if state.replica is None:
        return ServerLevels(name=state.name, problem=state.problem or "it does not answer")
    return ServerLevels(
        name=state.name,
        newest_level=state.replica.newest_level,
        newest_protocol=state.replica.newest_protocol,
    )
