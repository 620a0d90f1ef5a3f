"""Judges the ports that a submission exposes: their names, and whether a service of somebody else has one of them.

See docs/architecture/registry.md.
"""

from collections.abc import Mapping

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.parts.services import ServiceKey, offers
from lattice.core.machine.state import State
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Allocation, Lifecycle
from lattice.core.model.work.exposure import MAX_EXPOSED, MAX_PORT, MAX_SHARED, Exposed, is_label


def check_exposes(
    state: State, command: cmd.SubmitAllocation, vcluster: Vcluster, planned: Mapping[ServiceKey, str]
) -> Rejected | None:
    """Why its ports cannot be exposed; None when they can, or there are none. `planned` names are taken by the same command."""
    if not command.exposes:
        return None
    if command.tasks:
        return Rejected(code="invalid", message="a task group cannot expose ports: its tasks would share their names")
    if vcluster.name in state.audit.sensitive:
        return Rejected(
            code="forbidden",
            message="what goes through ports of sensitive work would have to be recorded, which is not possible yet",
            hint="Leave out what it exposes.",
        )
    return _check_shapes(command.exposes) or _check_names(state, command, planned)


def _check_shapes(exposes: tuple[Exposed, ...]) -> Rejected | None:
    names = {each.name for each in exposes}
    ports = [each.port for each in exposes if each.port]
    if len(exposes) > MAX_EXPOSED:
        return _invalid("an allocation exposes too many ports", f"{len(exposes)}", f"{MAX_EXPOSED} ports")
    if not all(is_label(name) for name in names) or not all(0 <= port <= MAX_PORT for port in ports):
        return _invalid("an exposed port needs a name of lower-case letters, digits and hyphens, and a number")
    if len(names) < len(exposes) or len(set(ports)) < len(ports):
        return _invalid("an allocation exposes each name and each port once")
    if any(len(each.users) > MAX_SHARED for each in exposes):
        return _invalid("a port is shared with too many users", limit=f"{MAX_SHARED} users")
    return None


def named_services(record: Allocation) -> dict[ServiceKey, str]:
    """The names that the allocation takes, with their owner."""
    return {ServiceKey(record.tenant, each.name): record.user for each in record.exposes} if offers(record) else {}


def _check_names(state: State, command: cmd.SubmitAllocation, planned: Mapping[ServiceKey, str]) -> Rejected | None:
    """Services of one user may have the same name and are one then; a name of somebody else is taken."""
    if command.lifecycle is Lifecycle.BOUNDED:
        return None
    for each in command.exposes:
        key = ServiceKey(command.tenant, each.name)
        owner = state.services.owner(key) or planned.get(key, "")
        if owner and owner != command.user:
            return Rejected(
                code="conflict",
                message=f'tenant "{command.tenant}" has a service "{each.name}" of another user',
                hint=f"Give the port another name, as in --expose my-{each.name}:{each.port}.",
            )
    return None


def _invalid(message: str, requested: str = "", limit: str = "") -> Rejected:
    return Rejected(code="invalid", message=message, requested=requested, limit=limit)
