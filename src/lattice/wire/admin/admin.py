"""Tenants, vClusters, projects and settings on the wire: views, and requests that change only the fields they name."""

from collections.abc import Mapping
from math import isfinite

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from lattice.core.model.capacity.lending import NO_LENDING, lending_of
from lattice.core.model.site.tenants import (
    NO_DEMANDS,
    SCHEDULERS,
    Confinement,
    Demands,
    Fencing,
    Lending,
    Lends,
    NodeSharing,
    OnQuota,
    Preemption,
    Project,
    Tenant,
    TenantUse,
    Vcluster,
    Visibility,
)
from lattice.core.model.site.weights import FACTORS, check_weights
from lattice.core.model.work.evictions import policy_of
from lattice.images.references import BadReference, parse_images
from lattice.wire.bounds import Short
from lattice.wire.text.node_names import node_names
from lattice.wire.text.problems import BadField
from lattice.wire.text.texts import check_names, check_users
from lattice.wire.text.times import rfc3339
from lattice.wire.work.resources import MAX_NODES
from lattice.wire.work.submissions import MAX_CLASS, MIN_IDLE_END_S, walltime_s

MAX_COUNT = 10**9
DEFAULT_WALLTIME_S = 3600


class UseView(Struct, frozen=True, kw_only=True):
    nodes: int
    allocations: int


class TenantView(Struct, frozen=True, kw_only=True):
    name: str
    max_nodes: int | None
    max_concurrent_allocations: int | None
    max_class: int
    on_quota: OnQuota
    max_running_per_user: int | None
    max_pending_per_user: int | None
    gpu_hours_budget: float | None
    node_hours_budget: float | None
    fair_share_target: float | None
    burst_allowance: float | None
    created_at: str | None
    members: tuple[str, ...]
    admins: tuple[str, ...]
    in_use: UseView
    visibility: Visibility


class LoanView(Struct, frozen=True, kw_only=True):
    """A node that works for a vCluster which does not list it."""

    node: str
    vcluster: str  # the other one: which has it, or whose it is; empty when the caller may not know it
    since: str | None


class LendingView(Struct, frozen=True, kw_only=True):
    """0 = no limit."""

    lends: Lends
    lend_to: tuple[str, ...]  # empty = all
    max_lent: int
    lend_after_s: int
    borrows: bool
    max_borrowed: int
    borrow_priority: int
    max_borrow_duration_s: int
    return_grace_s: int
    base: int  # nodes of its own
    lent: tuple[LoanView, ...] = ()
    borrowed: tuple[LoanView, ...] = ()


class VclusterView(Struct, frozen=True, kw_only=True):
    name: str
    scheduler: str
    tenants: tuple[str, ...]
    nodes: tuple[str, ...]
    node_sharing: NodeSharing
    fencing: Fencing
    default_walltime_s: int
    max_walltime_s: int
    max_nodes: int
    up: bool
    profile: str
    weights: dict[str, float]
    backfill_depth: int
    default_uenv: str
    require_signed: bool
    confinement: Confinement
    idle_end_s: int
    preemption: Preemption  # what was set, else what the scheduler implies
    lending: LendingView
    read_mb_s: int  # of storage, for its work on each node; 0 = no limit
    write_mb_s: int
    created_at: str | None
    pending: int
    running: int


class ProjectView(Struct, frozen=True, kw_only=True):
    tenant: str
    name: str
    max_nodes: int | None
    created_at: str | None


class SettingView(Struct, frozen=True, kw_only=True):
    key: str
    value: str
    default: str
    help: str


class TenantFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a tenant to set; the others stay as they are."""

    name: str
    request_id: str = ""
    max_nodes: int | UnsetType | None = UNSET
    max_concurrent_allocations: int | UnsetType | None = UNSET
    max_class: int | UnsetType = UNSET
    on_quota: OnQuota | UnsetType = UNSET
    max_running_per_user: int | UnsetType | None = UNSET
    max_pending_per_user: int | UnsetType | None = UNSET
    gpu_hours_budget: float | UnsetType | None = UNSET
    node_hours_budget: float | UnsetType | None = UNSET
    fair_share_target: float | UnsetType | None = UNSET
    burst_allowance: float | UnsetType | None = UNSET
    members: list[str] | UnsetType = UNSET
    admins: list[str] | UnsetType = UNSET
    visibility: Visibility | UnsetType = UNSET


DEMANDS = Demands.__struct_fields__


class VclusterFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a vCluster to set; the others stay as they are."""

    name: str
    request_id: str = ""
    scheduler: str | UnsetType = UNSET
    tenants: list[str] | UnsetType = UNSET
    nodes: list[str] | UnsetType = UNSET
    node_sharing: NodeSharing | UnsetType = UNSET
    fencing: Fencing | UnsetType = UNSET
    default_walltime: Short | int | UnsetType | None = UNSET
    default_walltime_s: Short | int | UnsetType | None = UNSET
    max_walltime: Short | int | UnsetType | None = UNSET
    max_walltime_s: Short | int | UnsetType | None = UNSET
    max_nodes: int | UnsetType | None = UNSET
    up: bool | UnsetType = UNSET
    profile: str | UnsetType | None = UNSET
    weights: dict[str, float | None] | UnsetType | None = UNSET
    backfill_depth: int | UnsetType = UNSET
    default_uenv: str | UnsetType | None = UNSET
    require_signed: bool | UnsetType = UNSET
    confinement: Confinement | UnsetType = UNSET
    idle_end: Short | int | UnsetType | None = UNSET
    idle_end_s: Short | int | UnsetType | None = UNSET
    preemption: Preemption | UnsetType | None = UNSET  # null = what the scheduler implies
    lends: Lends | UnsetType = UNSET
    lend_to: list[str] | UnsetType = UNSET
    max_lent: int | UnsetType | None = UNSET
    lend_after: Short | int | UnsetType | None = UNSET
    borrows: bool | UnsetType = UNSET
    max_borrowed: int | UnsetType | None = UNSET
    borrow_priority: int | UnsetType = UNSET
    max_borrow_duration: Short | int | UnsetType | None = UNSET
    return_grace: Short | int | UnsetType = UNSET
    read_mb_s: int | UnsetType | None = UNSET
    write_mb_s: int | UnsetType | None = UNSET


class ProjectFields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fields of a project to set; the others stay as they are."""

    name: str
    tenant: str = ""
    request_id: str = ""
    max_nodes: int | UnsetType | None = UNSET


def tenant_view(tenant: Tenant, use: TenantUse) -> TenantView:
    return TenantView(
        name=tenant.name,
        max_nodes=tenant.max_nodes,
        max_concurrent_allocations=tenant.max_concurrent_allocations,
        max_class=tenant.max_class,
        on_quota=tenant.on_quota,
        max_running_per_user=tenant.max_running_per_user,
        max_pending_per_user=tenant.max_pending_per_user,
        gpu_hours_budget=tenant.gpu_hours_budget,
        node_hours_budget=tenant.node_hours_budget,
        fair_share_target=tenant.fair_share_target,
        burst_allowance=tenant.burst_allowance,
        created_at=rfc3339(tenant.created_at),
        members=tenant.members,
        admins=tenant.admins,
        in_use=UseView(nodes=use.nodes, allocations=use.allocations),
        visibility=tenant.visibility,
    )


def vcluster_view(vcluster: Vcluster, *, pending: int, running: int) -> VclusterView:
    demands = vcluster.demands or NO_DEMANDS
    return VclusterView(
        name=vcluster.name,
        scheduler=vcluster.scheduler,
        tenants=vcluster.tenants,
        nodes=vcluster.nodes,
        node_sharing=vcluster.node_sharing,
        fencing=vcluster.fencing,
        default_walltime_s=vcluster.default_walltime_s,
        max_walltime_s=vcluster.max_walltime_s,
        max_nodes=vcluster.max_nodes,
        up=vcluster.is_up,
        profile=vcluster.profile,
        weights={name: weight for name, weight in vcluster.weights if isfinite(weight)},
        backfill_depth=vcluster.backfill_depth,
        default_uenv=demands.default_uenv,
        require_signed=demands.require_signed,
        confinement=demands.confinement,
        idle_end_s=demands.idle_end_s,
        preemption=policy_of(vcluster),
        lending=lending_view(vcluster),
        read_mb_s=demands.read_mb_s,
        write_mb_s=demands.write_mb_s,
        created_at=rfc3339(vcluster.created_at),
        pending=pending,
        running=running,
    )


def lending_view(vcluster: Vcluster) -> LendingView:
    lending = lending_of(vcluster)
    return LendingView(
        lends=lending.lends,
        lend_to=lending.lend_to,
        max_lent=lending.max_lent,
        lend_after_s=lending.lend_after_s,
        borrows=lending.borrows,
        max_borrowed=lending.max_borrowed,
        borrow_priority=lending.borrow_priority,
        max_borrow_duration_s=lending.max_borrow_s,
        return_grace_s=lending.return_grace_s,
        base=len(vcluster.nodes),
    )


def project_view(project: Project) -> ProjectView:
    return ProjectView(
        tenant=project.tenant,
        name=project.name,
        max_nodes=project.max_nodes,
        created_at=rfc3339(project.created_at),
    )


def changed_tenant(old: Tenant, fields: TenantFields) -> Tenant:
    """The tenant with the named fields changed. Raises BadField."""
    changes = _given(fields)
    for field in (
        "max_nodes",
        "max_concurrent_allocations",
        "max_running_per_user",
        "max_pending_per_user",
        "gpu_hours_budget",
        "node_hours_budget",
        "burst_allowance",
    ):
        _check_number(changes, field, 0, MAX_COUNT)
    _check_number(changes, "fair_share_target", 0, 1)
    _check_number(changes, "max_class", 0, MAX_CLASS)
    for field in ("members", "admins"):
        if isinstance(users := changes.get(field), list):
            changes[field] = check_users(users, field)
    return replace(old, **changes)


def new_vcluster(fields: VclusterFields) -> Vcluster:
    """A vCluster as asked for; one that names no default walltime has an hour, or its maximum where that is less. Raises BadField."""
    vcluster = changed_vcluster(Vcluster(name=fields.name), fields)
    if vcluster.default_walltime_s:
        return vcluster
    return replace(vcluster, default_walltime_s=min(DEFAULT_WALLTIME_S, vcluster.max_walltime_s or DEFAULT_WALLTIME_S))


def changed_vcluster(old: Vcluster, fields: VclusterFields) -> Vcluster:
    """The vCluster with the named fields changed. Raises BadField."""
    changes = _given(fields)
    for field in ("default_walltime", "max_walltime", "idle_end"):
        for spelled in (field, f"{field}_s"):
            if spelled in changes:
                value = changes.pop(spelled)
                changes[f"{field}_s"] = _walltime(value, spelled)
    if changes.get("default_walltime_s") == 0:
        raise BadField("default_walltime", "a vCluster always has a default walltime", hint="give one, such as 1h")
    if isinstance(tenants := changes.get("tenants"), list):
        changes["tenants"] = check_names(tenants, "tenants")
    if isinstance(nodes := changes.get("nodes"), list):
        changes["nodes"] = node_names(nodes, "nodes")
    if "up" in changes:
        changes["is_up"] = changes.pop("up")
    if "profile" in changes:
        changes["profile"] = changes["profile"] or ""
    _set_lending(old, changes)
    if demanded := {name: changes.pop(name) for name in DEMANDS if name in changes}:
        changes["demands"] = _demands(old, demanded)
    if fields.weights is not UNSET:
        changes["weights"] = _merged_weights(old, fields.weights)
    _check_number(changes, "backfill_depth", 0, MAX_COUNT)
    _check_number(changes, "max_nodes", 0, MAX_NODES)
    if changes.get("max_nodes", 0) is None:
        changes["max_nodes"] = 0
    new: Vcluster = replace(old, **changes)
    return _check_vcluster(new)


# As a request names it, and as the record does.
_LENDING_TIMES = {"lend_after": "lend_after_s", "max_borrow_duration": "max_borrow_s", "return_grace": "return_grace_s"}
_LENDING = ("lends", "lend_to", "max_lent", "borrows", "max_borrowed", "borrow_priority", *_LENDING_TIMES)


def _set_lending(old: Vcluster, changes: dict[str, object]) -> None:
    """Puts one record of what it lends and borrows in place of the fields that name parts of it."""
    given = {name: changes.pop(name) for name in _LENDING if name in changes}
    if not given:
        return
    for name in ("max_lent", "max_borrowed"):
        _check_number(given, name, 0, MAX_NODES)
    _check_number(given, "borrow_priority", 0, MAX_COUNT)
    for name, field in _LENDING_TIMES.items():
        if name in given:
            given[field] = _walltime(given.pop(name), name)
    if isinstance(names := given.get("lend_to"), list):
        given["lend_to"] = check_names(names, "lend_to")
    given = {name: 0 if value is None else value for name, value in given.items()}
    new: Lending = replace(lending_of(old), **given)
    changes["lending"] = None if new == NO_LENDING else new


def _demands(old: Vcluster, given: dict[str, object]) -> Demands | None:
    if "default_uenv" in given:
        given["default_uenv"] = _default_images(str(given["default_uenv"] or ""))
    idle_end_s = given.get("idle_end_s")
    if isinstance(idle_end_s, int) and 0 < idle_end_s < MIN_IDLE_END_S:
        raise BadField("idle_end", "is too short", limit=f"from {MIN_IDLE_END_S // 60} minutes, or 0 for never")
    for name in ("read_mb_s", "write_mb_s"):
        _check_number(given, name, 0, MAX_COUNT)
        if name in given:
            given[name] = given[name] or 0
    new: Demands = replace(old.demands or NO_DEMANDS, **given)
    return None if new == NO_DEMANDS else new


def _default_images(text: str) -> str:
    """As `uenv` of a submission, but of the site's registry: what a path means would depend on who submits. Raises BadField."""
    if not text:
        return ""
    try:
        images = parse_images(text)
    except BadReference as problem:
        raise BadField("default_uenv", str(problem), hint=problem.hint) from None
    if any(image.path for image in images):
        raise BadField("default_uenv", "a path cannot be the default image", hint="write NAME/VERSION:TAG")
    return text


def _merged_weights(old: Vcluster, given: Mapping[str, float | None] | None) -> tuple[tuple[str, float], ...]:
    """The old weights with the given ones laid over; null takes one away, null for all of them takes all away."""
    merged = {**dict(old.weights), **given} if given is not None else {}
    kept = {name: weight for name, weight in merged.items() if weight is not None}
    problem = check_weights(kept)
    if problem is not None:
        raise BadField("weights", problem)
    return tuple(sorted(kept.items(), key=lambda pair: FACTORS.index(pair[0])))


def changed_project(old: Project, fields: ProjectFields) -> Project:
    """The project with the named fields changed. Raises BadField."""
    changes = _given(fields)
    changes.pop("tenant", None)
    _check_number(changes, "max_nodes", 0, MAX_COUNT)
    return replace(old, **changes)


def _given(fields: TenantFields | VclusterFields | ProjectFields) -> dict[str, object]:
    named = {name: getattr(fields, name) for name in fields.__struct_fields__}
    return {name: value for name, value in named.items() if value is not UNSET and name not in ("name", "request_id")}


def _walltime(value: object, field: str) -> int:
    if not value or value == "0":
        return 0
    return walltime_s(value if isinstance(value, int) else str(value), field)


def _check_number(changes: Mapping[str, object], field: str, low: int, high: int) -> None:
    value = changes.get(field)
    if isinstance(value, int | float) and not low <= value <= high:
        raise BadField(field, f"{value} is not possible", limit=f"from {low:,} to {high:,}")


def _check_vcluster(new: Vcluster) -> Vcluster:
    if new.scheduler not in SCHEDULERS:
        raise BadField(
            "scheduler",
            f'unknown scheduler "{new.scheduler[:60]}"',
            hint=f"known: {', '.join(SCHEDULERS)}",
        )
    if new.max_walltime_s and new.default_walltime_s > new.max_walltime_s:
        raise BadField(
            "default_walltime",
            "the default walltime is above the maximum",
            current=f"{new.default_walltime_s} s",
            limit=f"{new.max_walltime_s} s",
        )
    return new
