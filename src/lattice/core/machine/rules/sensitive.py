"""The pool of sensitive work: how many nodes may be claimed or do sensitive work at once. Never exceeded, not even for one log entry.

Judged this way from level 2 on: older servers accepted the setting and ignored it. See docs/architecture/nodes.md.
"""

from lattice.core.machine.outcomes import Rejected
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Node, Share
from lattice.core.model.site.settings import setting_value
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.work.allocations import Allocation

POOL_SIZE = "sensitive.pool_size"
SINCE_LEVEL = 2


def pool_size(state: State) -> int:
    """How many nodes the pool may have; 0 = no limit."""
    return int(setting_value(state.settings, POOL_SIZE)) if state.level >= SINCE_LEVEL else 0


def nodes_in_use(state: State) -> int:
    """How many nodes are claimed or do sensitive work."""
    return sum(_is_used(state, node) for node in state.nodes.values())


def _is_used(state: State, node: Node) -> bool:
    return bool(node.claimant) or (bool(node.vcluster) and node.vcluster in state.audit.sensitive)


def check_placement(state: State, allocation: Allocation, shares: tuple[Share, ...]) -> Rejected | None:
    limit = pool_size(state)
    if not limit or allocation.vcluster not in state.audit.sensitive:
        return None
    return _refusal(state, limit, sum(not _is_used(state, state.nodes[share.node]) for share in shares))


def check_request(state: State, vcluster: Vcluster, nodes: int) -> Rejected | None:
    """Sensitive work gets its nodes at once or is refused, so the pool must have room when it is submitted."""
    limit = pool_size(state)
    if not limit or vcluster.scheduler != SENSITIVE:
        return None
    return _refusal(state, limit, nodes)


def check_setting(state: State, key: str, value: str) -> Rejected | None:
    """The pool is not made smaller than what is in use."""
    if key != POOL_SIZE or state.level < SINCE_LEVEL or int(value) == 0:
        return None
    used = nodes_in_use(state)
    if used <= int(value):
        return None
    return Rejected(
        code="conflict",
        message=f"the pool of sensitive nodes cannot be smaller than what is in use: {used} nodes",
        current=f"{used} nodes in use",
        requested=f"{value} nodes",
        hint="Wait until sensitive work has ended, or cancel some.",
    )


def check_vcluster(state: State, vcluster: Vcluster, old: Vcluster | None) -> Rejected | None:
    """A vCluster does not become sensitive, nor cease to be, under running work: its nodes would escape the pool and the wipe."""
    if old is None or state.level < SINCE_LEVEL or (old.scheduler == SENSITIVE) == (vcluster.scheduler == SENSITIVE):
        return None
    if not any(node.vcluster == vcluster.name for node in state.nodes.values()):
        return None
    return Rejected(
        code="conflict",
        message=f'vCluster "{vcluster.name}" cannot become or cease to be sensitive while work runs in it',
        hint="Set the vCluster down and wait until it is empty.",
    )


def _refusal(state: State, limit: int, added: int) -> Rejected | None:
    used = nodes_in_use(state)
    if used + added <= limit:
        return None
    return Rejected(
        code="quota",
        message="the pool of sensitive nodes would be exceeded",
        current=f"{used} nodes in use",
        requested=f"{added} additional nodes",
        limit=f"{limit} nodes",
        hint=f"Wait until sensitive work has ended, or ask an administrator for a larger {POOL_SIZE}.",
    )
