"""Who may reach a port of running work: its owner, and whom the work shares it with by name. One judgement for every way in."""

from typing import NamedTuple

from lattice.api.auth.rbac import Permission, reach_in
from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Allocation, PartPhase
from lattice.core.model.work.exposure import MAX_PORT, Exposed, find_exposed
from lattice.ports.nodes.agents import RunKey
from lattice.ports.site.identity import Identity


class Wanted(NamedTuple):
    """A port as somebody named it: `exposed` when it has a name; a `number` of 0 has to be looked up on its node."""

    exposed: Exposed | None
    number: int


def may_reach(identity: Identity, allocation: Allocation, exposed: Exposed | None) -> bool:
    """Others than the owner are members of the tenant that may reach ports of their own there."""
    tenant = allocation.tenant
    if not reach_in(identity, Permission.FORWARD, tenant):
        return False
    if allocation.user == identity.user:
        return True
    return exposed is not None and tenant in identity.tenants and exposed.admits(identity.user)


def is_still_shared(user: str, allocation: Allocation, exposed: Exposed | None) -> bool:
    """Whether somebody who was let in is still meant."""
    return allocation.user == user or (exposed is not None and exposed.admits(user))


def shared_with(identity: Identity, allocation: Allocation) -> tuple[Exposed, ...]:
    """The ports of an allocation that the caller may reach without owning it."""
    return tuple(each for each in allocation.exposes if may_reach(identity, allocation, each))


def wanted_port(allocation: Allocation, text: str) -> Wanted | None:
    """The port behind a number, or behind a name that the allocation exposes; None when it is neither."""
    exposed = find_exposed(allocation.exposes, text)
    if exposed is not None:
        return Wanted(exposed, exposed.port)
    if text.isascii() and text.isdigit() and 0 < int(text[:6]) <= MAX_PORT:
        return Wanted(None, int(text))
    return None


def port_on(allocation: Allocation, node: str, wanted: Wanted) -> int:
    """The number of the port on this node; 0 when the node has not told it."""
    if wanted.number or wanted.exposed is None:
        return wanted.number
    part = next((each for each in allocation.parts if each.node == node), None)
    return 0 if part is None else dict(part.ports).get(wanted.exposed.name, 0)


def serving_node(allocation: Allocation) -> str:
    """Where to go unless a node is named: the first on which a part of it runs."""
    parts = [each.node for each in allocation.launched if each.phase is PartPhase.RUNNING]
    return parts[0] if parts else allocation.nodes[0]


def is_open(state: State, allocation: Allocation) -> bool:
    """Whether ports of the allocation can be reached at all now."""
    return allocation.is_running and allocation.vcluster not in state.audit.sensitive


def run_of(allocation: Allocation) -> RunKey:
    return RunKey(allocation.number, allocation.run)
