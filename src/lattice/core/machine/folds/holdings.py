"""What an allocation takes of its nodes and gives back, and the time that is entered for it. See docs/architecture/core.md."""

from collections.abc import Sequence

from msgspec.structs import replace

from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Share, Tenure
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.ledger import Ledger, run_amounts

LONGEST_S = 1e9  # beyond that, no time but nonsense


def take(state: State, record: Allocation, share: Share) -> None:
    """A node counts once per tenant, whole or shared, and however many shares of it the tenant has: that is what quotas bound."""
    node = state.nodes[share.node]
    if share.whole:
        state.put_node(replace(node, holder=record.number, vcluster=record.vcluster))
        state.count_tenant(record.tenant, nodes=+1)
        return
    if not any(tenure.tenant == record.tenant for tenure in node.tenures):
        state.count_tenant(record.tenant, nodes=+1)
    tenure = Tenure(
        number=record.number,
        tenant=record.tenant,
        cpus=share.cpus,
        memory_mb=share.memory_mb,
        gpus=share.gpus,
    )
    state.put_node(replace(node, tenures=(*node.tenures, tenure), vcluster=record.vcluster))


def give_back(state: State, record: Allocation) -> None:
    """The reverse of `take`, share by share. Uses the record as it was while it held, because the changed one has no shares."""
    for share in record.shares:
        give_back_share(state, record, share)


def give_back_share(state: State, record: Allocation, share: Share) -> None:
    node = state.nodes[share.node]
    if share.whole:
        state.put_node(replace(node, holder=0, vcluster=""))
        state.count_tenant(record.tenant, nodes=-1)
        return
    tenures = tuple(tenure for tenure in node.tenures if tenure.number != record.number)
    if not any(tenure.tenant == record.tenant for tenure in tenures):
        state.count_tenant(record.tenant, nodes=-1)
    state.put_node(replace(node, tenures=tenures, vcluster=node.vcluster if tenures else ""))


def before(at: int, elapsed_s: float, record: Allocation) -> int:
    """That long before `at`, but not before the allocation existed."""
    return max(record.submitted_at, at - _ms(elapsed_s))


def end_of(record: Allocation, at: int, elapsed_s: float) -> int:
    """When its run ended that is known at `at` to be over: what the nodes measured counts, not when they said it."""
    elapsed_ms = _ms(elapsed_s)
    return min(at, record.started_at + elapsed_ms) if record.started_at and elapsed_ms else at


def _ms(seconds: float) -> int:
    """Times that nodes measured come from outside: one that cannot be is taken for none."""
    return int(seconds * 1000) if 0 < seconds < LONGEST_S else 0


def enter_time(state: State, record: Allocation, at: int, elapsed_s: float) -> None:
    """Enters the time of a run that has ended, from its start, into its user's ledger; nodes that came later count from then."""
    if not record.started_at:
        return
    end = end_of(record, at, elapsed_s)
    joined = {part.node: part.joined_at for part in record.parts if part.joined_at > record.started_at}
    first = [share for share in record.shares if share.node not in joined]
    enter_shares(state, record, first, at, end - record.started_at)
    for share in record.shares:
        if share.node in joined:
            enter_shares(state, record, [share], at, end - joined[share.node])


def enter_shares(state: State, record: Allocation, shares: Sequence[Share], at: int, took_ms: int) -> None:
    """Enters the time for which a run had these shares."""
    if not shares:
        return
    node_ms, gpu_ms = run_amounts(shares, state.nodes, took_ms)
    key = (record.tenant, record.project, record.user)
    ledger = state.ledger.get(key) or Ledger(tenant=record.tenant, project=record.project, user=record.user)
    state.put_ledger(ledger.with_run(at, node_ms, gpu_ms))
