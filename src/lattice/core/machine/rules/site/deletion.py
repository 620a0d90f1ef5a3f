"""What may be deleted: tenants, projects, vClusters and nodes that nothing uses any more. A refusal names what still does.

Before: the record exists. After: no waiting or running work, list or reservation names it. Ended work keeps the names it had.
See docs/architecture/core.md.
"""

from collections.abc import Callable, Iterable, Mapping

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.deletion import Deletable
from lattice.core.model.work.allocations import Allocation

Events = tuple[ev.AnyEvent, ...]
SHOWN = 5
# A node in another state runs work, may be given some, or is about to say that it is ready for it.
_IDLE = frozenset({NodeState.UNKNOWN, NodeState.DOWN, NodeState.DRAINED, NodeState.FAILED, NodeState.QUARANTINE})


def delete_record(state: State, command: cmd.DeleteRecord) -> Events | Rejected:
    refusal = _CHECKS[command.what](state, command)
    if refusal is not None:
        return refusal
    # Its baseline goes with a vCluster, or it would judge the nodes of another one that gets the same name later.
    deleted = ev.RecordDeleted(what=command.what, name=command.name, tenant=command.tenant)
    if command.what is Deletable.VCLUSTER and command.name in state.drift.baselines:
        return (ev.BaselineUnset(vcluster=command.name), deleted)
    return (deleted,)


def _check_tenant(state: State, command: cmd.DeleteRecord) -> Rejected | None:
    name = command.name
    if name not in state.tenants:
        return _unknown("tenant", name, state.tenants)
    return (
        _in_use("tenant", name, "has work", _work(state, lambda record: record.tenant == name), _CANCEL)
        or _in_use("tenant", name, "has projects", [key[1] for key in state.projects if key[0] == name], _DELETE)
        or _in_use(
            "tenant",
            name,
            "is named by vClusters",
            [each.name for each in state.vclusters.values() if name in each.tenants],
            "Take it from their --tenants first.",
        )
        or _in_use(
            "tenant",
            name,
            "is named by reservations",
            [each.name for each in state.reservations.values() if name in each.tenants],
            _DELETE,
        )
    )


def _check_project(state: State, command: cmd.DeleteRecord) -> Rejected | None:
    key = (command.tenant, command.name)
    if key not in state.projects:
        return _unknown("project", command.name, [name for tenant, name in state.projects if tenant == command.tenant])
    found = _work(state, lambda record: (record.tenant, record.project) == key)
    return _in_use("project", command.name, "has work", found, _CANCEL)


def _check_vcluster(state: State, command: cmd.DeleteRecord) -> Rejected | None:
    name = command.name
    if name not in state.vclusters:
        return _unknown("vCluster", name, state.vclusters)
    return _in_use(
        "vCluster", name, "has work", _work(state, lambda record: record.vcluster == name), _CANCEL
    ) or _in_use(
        "vCluster",
        name,
        "holds nodes",
        [node.id for node in state.nodes.values() if node.vcluster == name],
        "Wait until they are given back.",
    )


def _check_node(state: State, command: cmd.DeleteRecord) -> Rejected | None:
    name = command.name
    node = state.nodes.get(name)
    if node is None:
        return _unknown("node", name, ())
    if node.state not in _IDLE or node.holders() or node.claimant or node.wipe is not None:
        return Rejected(
            code="conflict",
            message=f"node {name} is in use",
            current=f"{node.state}",
            hint=f"Drain it with `lattice node drain {name}`, and stop its agent.",
        )
    return _in_use(
        "node",
        name,
        "is named by vClusters",
        [each.name for each in state.vclusters.values() if name in each.nodes],
        "Take it from their --nodes first.",
    ) or _in_use(
        "node",
        name,
        "is named by reservations",
        [each.name for each in state.reservations.values() if name in each.nodes],
        _DELETE,
    )


_CANCEL = "Wait for it or cancel it first."
_DELETE = "Delete these first."
_CHECKS: Mapping[Deletable, Callable[[State, cmd.DeleteRecord], Rejected | None]] = {
    Deletable.TENANT: _check_tenant,
    Deletable.PROJECT: _check_project,
    Deletable.VCLUSTER: _check_vcluster,
    Deletable.NODE: _check_node,
}


def _work(state: State, concerns: Callable[[Allocation], bool]) -> list[str]:
    """Ids of what has not ended, tasks that still wait in their group included."""
    found = [each.number for each in state.allocations.values() if not each.is_terminal and concerns(each)]
    found += [each.number for each in state.groups.values() if not each.is_done and concerns(each.template)]
    return [allocation_id(number) for number in sorted(found)]


def _in_use(what: str, name: str, how: str, by: Iterable[str], hint: str) -> Rejected | None:
    users = list(by)
    if not users:
        return None
    shown = ", ".join(users[:SHOWN]) + (f" and {len(users) - SHOWN} more" if len(users) > SHOWN else "")
    return Rejected(code="conflict", message=f'{what} "{name}" {how}: {shown}', hint=hint)


def _unknown(what: str, name: str, known: Iterable[str]) -> Rejected:
    names = ", ".join(sorted(known)[:20])
    return Rejected(code="not_found", message=f'unknown {what} "{name[:80]}"', hint=f"Known: {names}." if names else "")
