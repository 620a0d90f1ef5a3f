"""The cluster itself: settings, the scheduler, and who is asking."""

from collections import Counter

from msgspec import Struct

from lattice.api.answers import Page
from lattice.api.auth.rbac import Permission
from lattice.api.context import Context, NoParameters
from lattice.api.errors import ApiError, unknown
from lattice.core.machine.commands import SetSetting
from lattice.core.machine.rules.node_wipes import REQUIRE_WIPE
from lattice.core.model.site.settings import SETTINGS, setting_value
from lattice.core.model.work.allocations import HOLDING, QUEUED
from lattice.wire.admin.admin import SettingView
from lattice.wire.text.times import rfc3339


class GetSetting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str


class SetSettingRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    key: str
    value: str | int | float | bool
    request_id: str = ""


class SchedulerView(Struct, frozen=True, kw_only=True):
    server: str
    leader: bool
    applied_index: int
    cycles: int
    last_cycle_at: str | None
    last_cycle_ms: float
    last_placements: int
    placements: int
    failed_cycles: int
    last_error: str
    pending: int
    running: int
    nodes: dict[str, int]


class SelfView(Struct, frozen=True, kw_only=True):
    user: str
    account: str
    tenant: str
    tenants: tuple[str, ...]
    roles: tuple[str, ...]
    kind: str
    allocation: int | None
    expires_at: str | None


async def list_settings(context: Context, request: NoParameters) -> Page[SettingView]:
    """List all settings with their current values."""
    return Page(items=[_setting(context, key) for key in sorted(SETTINGS) if SETTINGS[key].is_read])


async def get_setting(context: Context, request: GetSetting) -> SettingView:
    """Get one setting."""
    return _setting(context, request.key)


async def set_setting(context: Context, request: SetSettingRequest) -> SettingView:
    """Change one setting."""
    known = SETTINGS.get(request.key)
    if known is not None and not known.is_read:
        raise _not_yet(request.key)
    value = request.value
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if context.services.is_production and request.key == REQUIRE_WIPE and text == "false":
        raise ApiError(
            "conflict",
            f"{REQUIRE_WIPE} cannot be false in production: sensitive work would leave its nodes unwiped",
            hint="configure sensitive.wiper, or wipe by hand: docs/admin/wiping-nodes.md",
        )
    await context.carry_out(SetSetting(key=request.key, value=text), request.request_id)
    return _setting(context, request.key)


async def scheduler_status(context: Context, request: NoParameters) -> SchedulerView:
    """Get the scheduler's last cycle and its current queue."""
    services, state = context.services, context.state
    status = services.scheduling.status()
    counts = state.state_counts
    in_groups = sum(group.pending_count for group in state.groups.values())
    return SchedulerView(
        server=services.server_name,
        leader=services.replica.is_leader,
        applied_index=services.replica.applied_index,
        cycles=status.cycles,
        last_cycle_at=rfc3339(status.last_cycle_at),
        last_cycle_ms=round(status.last_cycle_ms, 3),
        last_placements=status.last_placements,
        placements=status.placements,
        failed_cycles=status.failed_cycles,
        last_error=status.last_error,
        pending=sum(counts.get(name, 0) for name in QUEUED) + in_groups,
        running=sum(counts.get(name, 0) for name in HOLDING),
        nodes=dict(Counter(str(node.state) for node in state.nodes.values())),
    )


async def whoami(context: Context, request: NoParameters) -> SelfView:
    """Get the identity and roles in the caller's token."""
    identity = context.identity
    tenant = context.tenant or (identity.tenants[0] if identity.tenants else "")
    if context.tenant:
        tenant = context.chosen_tenant(Permission.READ)
    return SelfView(
        user=identity.user,
        account=identity.account,
        tenant=tenant,
        tenants=identity.tenants,
        roles=identity.roles,
        kind=identity.kind,
        allocation=identity.allocation,
        expires_at=rfc3339(identity.expires_at * 1000),
    )


def _setting(context: Context, key: str) -> SettingView:
    known = SETTINGS.get(key)
    if known is None:
        raise unknown("setting", key, [name for name, setting in SETTINGS.items() if setting.is_read])
    if not known.is_read:
        raise _not_yet(key)
    return SettingView(
        key=key,
        value=setting_value(context.state.settings, key),
        default=known.default,
        help=known.help,
    )


def _not_yet(key: str) -> ApiError:
    return ApiError(
        "invalid",
        f'setting "{key}" is not supported by this version of Lattice: nothing would read it',
        hint="`lattice admin config list` shows those that there are",
    )
