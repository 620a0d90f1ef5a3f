"""Tenants, projects, vClusters and settings: create once, replace later, with sane figures.

Before: a command carries the whole record, made of the one that its sender saw and what was to change. After: tenants that a record
names exist; nodes that it names need not, because they may register later. Work that was submitted keeps what it was given: a
limit that falls below what is in use takes nothing away, it only lets nothing more in. See docs/architecture/core.md.
"""

import re
from collections.abc import Iterable

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.levels import Need, below
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.rules import lending, sensitive
from lattice.core.machine.state import State
from lattice.core.model.site.settings import check_setting
from lattice.core.model.site.tenants import SCHEDULERS, Project, Tenant, Vcluster
from lattice.core.model.site.weights import PROFILES, SINCE, check_weights
from lattice.core.model.work.notifications import BudgetNote

Events = tuple[ev.AnyEvent, ...]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def set_tenant(state: State, command: cmd.SetTenant, at: int) -> Events | Rejected:
    tenant = command.tenant
    old = state.tenants.get(tenant.name)
    refusal = _check_existence("tenant", tenant.name, old, state.tenants, create=command.create)
    refusal = refusal or _check_limits(
        tenant.max_nodes,
        tenant.max_concurrent_allocations,
        tenant.max_running_per_user,
        tenant.max_pending_per_user,
        tenant.gpu_hours_budget,
        tenant.node_hours_budget,
    )
    if refusal is None and not 0 <= tenant.max_class <= 10:
        refusal = Rejected(code="invalid", message="max_class must lie between 0 and 10")
    if refusal is not None:
        return refusal
    kept: Tenant = replace(tenant, created_at=old.created_at if old else at)
    # Notices are about one budget: another one is used up from the beginning, and gives its own.
    is_noted = tenant.name in state.notifications.budgets
    if is_noted and old is not None and _budgets(old) != _budgets(tenant):
        return ev.TenantSet(tenant=kept), ev.BudgetNoted(note=BudgetNote(tenant=tenant.name))
    return (ev.TenantSet(tenant=kept),)


def _budgets(tenant: Tenant) -> tuple[float | None, float | None]:
    return tenant.gpu_hours_budget, tenant.node_hours_budget


def set_project(state: State, command: cmd.SetProject, at: int) -> Events | Rejected:
    project = command.project
    if project.tenant not in state.tenants:
        known = ", ".join(sorted(state.tenants))
        return Rejected(code="not_found", message=f'unknown tenant "{project.tenant}"', hint=f"Known: {known}.")
    old = state.projects.get((project.tenant, project.name))
    names = [name for tenant, name in state.projects if tenant == project.tenant]
    refusal = _check_existence("project", project.name, old, names, create=command.create)
    refusal = refusal or _check_limits(project.max_nodes)
    if refusal is not None:
        return refusal
    kept: Project = replace(project, created_at=old.created_at if old else at)
    return (ev.ProjectSet(project=kept),)


def set_vcluster(state: State, command: cmd.SetVcluster, at: int) -> Events | Rejected:
    vcluster = command.vcluster
    old = state.vclusters.get(vcluster.name)
    refusal = (
        _check_existence("vCluster", vcluster.name, old, state.vclusters, create=command.create)
        or _check_vcluster(state, vcluster)
        or _check_factors(state, vcluster)
        or lending.check_vcluster(state, vcluster)
        or _check_sharing(state, vcluster, old)
        or sensitive.check_vcluster(state, vcluster, old)
    )
    if refusal is not None:
        return refusal
    kept: Vcluster = replace(vcluster, created_at=old.created_at if old else at)
    return (ev.VclusterSet(vcluster=kept),)


def _check_vcluster(state: State, vcluster: Vcluster) -> Rejected | None:
    if vcluster.scheduler not in SCHEDULERS:
        message = f'unknown scheduler "{vcluster.scheduler}"'
        return Rejected(code="invalid", message=message, hint=f"Known: {', '.join(SCHEDULERS)}.")
    strangers = sorted(set(vcluster.tenants) - set(state.tenants))
    if strangers:
        known = ", ".join(sorted(state.tenants))
        return Rejected(code="not_found", message=f'unknown tenant "{strangers[0]}"', hint=f"Known: {known}.")
    problem = check_weights(dict(vcluster.weights))
    if problem is not None:
        return Rejected(code="invalid", message=problem)
    if vcluster.profile and vcluster.profile not in PROFILES:
        message = f'unknown profile "{vcluster.profile}"'
        return Rejected(code="invalid", message=message, hint=f"Known: {', '.join(PROFILES)}.")
    most, default = vcluster.max_walltime_s, vcluster.default_walltime_s
    if most and default > most:
        return Rejected(code="invalid", message="the default walltime is longer than the maximum")
    return _check_limits(vcluster.max_nodes, most, default, vcluster.backfill_depth)


def _check_factors(state: State, vcluster: Vcluster) -> Rejected | None:
    """Servers of the release before refuse a weight for a factor that they do not know."""
    needs = (Need(SINCE[name], f"the factor {name}") for name, _ in vcluster.weights)
    return below(max(needs, default=Need(state.level, "")), state.level)


def _check_sharing(state: State, vcluster: Vcluster, old: Vcluster | None) -> Rejected | None:
    """Sharing is not switched under running work: what it holds was given under the old rule."""
    if old is None or old.node_sharing is vcluster.node_sharing:
        return None
    if not any(node.vcluster == vcluster.name for node in state.nodes.values()):
        return None
    return Rejected(
        code="conflict",
        message=f'node sharing of vCluster "{vcluster.name}" cannot change while work runs in it',
        hint="Set the vCluster down and wait until it is empty.",
    )


def set_setting(state: State, command: cmd.SetSetting) -> Events | Rejected:
    """A value is kept as the text that was given; who reads a setting parses it, and one that cannot be parsed is refused here."""
    problem = check_setting(command.key, command.value)
    if problem is not None:
        message, hint = problem
        return Rejected(code="invalid", message=message, hint=hint)
    refusal = sensitive.check_setting(state, command.key, command.value)
    if refusal is not None:
        return refusal
    if state.settings.get(command.key) == command.value:
        return ()
    return (ev.SettingSet(key=command.key, value=command.value),)


def raise_level(state: State, command: cmd.RaiseLevel) -> Events | Rejected:
    """One level after the other; that every server reads it was found out by who proposed it."""
    if command.level <= state.level:
        return ()
    if command.level != state.level + 1:
        return Rejected(
            code="invalid",
            message=f"the level rises by one at a time, from {state.level} to {state.level + 1}",
            current=f"level {state.level}",
            requested=f"level {command.level}",
        )
    return (ev.LevelRaised(level=command.level),)


def _check_existence(
    what: str, name: str, old: object | None, known: Iterable[str], *, create: bool
) -> Rejected | None:
    if create and not _NAME.fullmatch(name):
        return Rejected(
            code="invalid",
            message=f'"{name[:80]}" is no name for a {what}',
            hint="Use up to 63 letters, digits, '.', '_' and '-', starting with a letter or digit.",
        )
    if create and old is not None:
        return Rejected(code="already_exists", message=f'{what} "{name}" exists already')
    if not create and old is None:
        names = ", ".join(sorted(known))
        return Rejected(code="not_found", message=f'unknown {what} "{name}"', hint=f"Known: {names or 'none'}.")
    return None


def _check_limits(*limits: float | None) -> Rejected | None:
    if any(limit is not None and limit < 0 for limit in limits):
        return Rejected(code="invalid", message="limits cannot be negative")
    return None
