"""What is true after every command. `check` recomputes everything from the records and compares; slow, for tests and soak.

Each finding is a sentence; an empty list means that all holds. Nothing here may use a counter or an index of the state except to
compare it: an invariant that trusts what it checks finds nothing. It is true between commands, not between the events of one: a fold
may leave a node without a holder that the next event of the same command gives away. See docs/architecture/core.md.
"""

from collections import Counter
from collections.abc import Iterator

from lattice.core.machine.checks.audit import check_audit
from lattice.core.machine.checks.dependencies import check_dependencies
from lattice.core.machine.checks.services import check_services
from lattice.core.machine.parts.node_history import KEPT
from lattice.core.machine.state import State, UserUse
from lattice.core.model import intervals
from lattice.core.model.ids import allocation_id
from lattice.core.model.nodes.admission import AdmissionStatus
from lattice.core.model.nodes.nodes import DownCause, Node, NodeState
from lattice.core.model.services.rollouts import Rollout
from lattice.core.model.work.allocations import Allocation, AllocationState, Part, PartPhase
from lattice.core.model.work.notifications import MAX_WAITING_PER_USER


def check(state: State) -> list[str]:
    """Every broken invariant, in words."""
    return [
        *_check_nodes(state),
        *_check_holdings(state),
        *_check_allocations(state),
        *_check_groups(state),
        *_check_quotas(state),
        *_check_counters(state),
        *check_dependencies(state),
        *_check_notifications(state),
        *check_audit(state),
        *_check_drift(state),
        *check_services(state),
    ]


def _check_nodes(state: State) -> Iterator[str]:
    """A node is held whole, or shared, or claimed, or free; and never gives more than it has."""
    for node in state.nodes.values():
        kinds = bool(node.holder) + bool(node.claimant) + bool(node.tenures)
        if kinds > 1:
            yield f"node {node.id} is held in {kinds} ways"
        cpus, memory_mb, gpus = node.free_share()
        if min(cpus, memory_mb, gpus) < 0:
            yield f"shares on node {node.id} exceed its capacity"
        if bool(node.vcluster) != bool(node.holder or node.tenures):
            yield f"node {node.id} names vCluster {node.vcluster!r} but its holders do not"
        yield from _check_node_state(node)
        waits = state.admission.standing(node.id) is AdmissionStatus.WAITING
        if node.state is NodeState.QUARANTINE and node.wipe is None and not waits:
            yield f"node {node.id} is in Quarantine, owes no wipe and does not wait for admission"
        if waits and node.state not in (NodeState.QUARANTINE, NodeState.DOWN):
            yield f"node {node.id} is {node.state} and waits for admission"
        if len(state.node_history(node.id)) > KEPT:
            yield f"node {node.id} has too long a history"


def _check_node_state(node: Node) -> Iterator[str]:
    """Down has a cause and nothing else has; Draining becomes Drained in the command that empties it, so no command leaves it between."""
    if (node.state is NodeState.DOWN) != (node.down_cause is not None):
        yield f"node {node.id} is {node.state} with down cause {node.down_cause}"
    if node.state is NodeState.DRAINED and not node.is_free:
        yield f"node {node.id} is Drained and held"
    if node.state is NodeState.DRAINING and node.is_free:
        yield f"node {node.id} is Draining and free"
    if node.state in (NodeState.DRAINING, NodeState.DRAINED) and not node.is_kept_back:
        yield f"node {node.id} is {node.state} without a reason"
    if node.state in (NodeState.READY, NodeState.DEGRADED) and node.is_kept_back:
        yield f"node {node.id} is {node.state} though its drain or wipe is wanted"
    if node.down_cause is DownCause.OPERATOR and node.state is not NodeState.DOWN:
        yield f"node {node.id} is disabled and {node.state}"


def _check_holdings(state: State) -> Iterator[str]:
    """What allocations say they hold is what nodes say is held."""
    by_allocations: Counter[tuple[str, int, bool, int, int, int]] = Counter()
    for record in state.allocations.values():
        if record.is_holding:
            for s in record.shares:
                by_allocations[s.node, record.number, s.whole, s.cpus, s.memory_mb, s.gpus] += 1
    by_nodes: Counter[tuple[str, int, bool, int, int, int]] = Counter()
    for node in state.nodes.values():
        if node.holder:
            by_nodes[node.id, node.holder, True, 0, 0, 0] += 1
        for t in node.tenures:
            by_nodes[node.id, t.number, False, t.cpus, t.memory_mb, t.gpus] += 1
    for key in sorted((by_allocations - by_nodes) + (by_nodes - by_allocations)):
        yield f"holding {key} is known to one side only"
    for record in state.allocations.values():
        for name in record.nodes if record.is_holding else ():
            if state.nodes[name].vcluster != record.vcluster:
                yield f"node {name} is held across vClusters"


def _check_allocations(state: State) -> Iterator[str]:
    for number, record in state.allocations.items():
        label = allocation_id(number)
        if record.number != number or number >= state.next_number:
            yield f"{label} has a wrong number"
        if record.is_terminal != (record.cause is not None):
            yield f"{label} is {record.state} with cause {record.cause}"
        if record.is_terminal and (record.ended_at == 0 or record.intent is not None):
            yield f"{label} has ended without an end"
        if record.requeue_count > record.max_requeue or record.requeue_count > record.restart_count:
            yield f"{label} was requeued too often"
        if (record.group or number) not in state.payloads:
            yield f"{label} has lost what it runs"
        yield from _check_run(label, record)


def _check_run(label: str, record: Allocation) -> Iterator[str]:
    """What waits has no trace of a run; what holds nodes has an open part on at least one of them, or no report could ever end it."""
    if record.is_waiting and (record.shares or record.parts or record.started_at or record.released):
        yield f"{label} is Pending with traces of a run"
    if record.paused_at and record.state is not AllocationState.RUNNING:
        yield f"{label} is {record.state} and paused"
    if not record.is_holding:
        return
    open_parts = [part for part in record.parts if part.phase is not PartPhase.ENDED]
    if not open_parts:
        yield f"{label} is {record.state} though all its parts have ended"
    if record.is_running and _assigned(record.parts) and not record.has_instances:
        yield f"{label} is Running before all its parts are"
    if (record.state is AllocationState.STOPPING) != (record.intent is not None):
        yield f"{label} is {record.state} with intent {record.intent}"
    nodes = tuple(part.node for part in record.parts)
    launched = record.nodes if record.per_node else record.nodes[:1]
    # The others are those that are prepared for steps, in the order of the nodes.
    if nodes[: len(launched)] != launched or nodes != tuple(node for node in record.nodes if node in nodes):
        yield f"{label} has parts on other nodes than it was started on"
    most = record.most_nodes
    if not (1 if record.has_instances else record.request.nodes) <= len(set(record.run_nodes)) <= most:
        yield f"{label} holds {len(record.nodes)} nodes"
    if record.released and not record.stages_out:
        yield f"{label} has given nodes back before its end"
    yield from _check_instances(label, record, most)


def _check_instances(label: str, record: Allocation, most: int) -> Iterator[str]:
    going = [part for part in record.parts if part.phase is PartPhase.LEAVING]
    if going and not record.has_instances and not all(record.is_prepared_only(part.node) for part in going):
        yield f"{label} has no instances, and nodes leave it"
    if record.wanted > most or (record.wanted and not record.has_instances):
        yield f"{label} wants {record.wanted} instances"
    if record.rollout is not None:
        yield from _check_rollout(label, record, record.rollout)
    numbers = [part.instance for part in record.parts if part.instance]
    if len(set(numbers)) != len(numbers) or max(numbers, default=0) > record.last_instance:
        yield f"{label} has instances {numbers} and counted {record.last_instance}"


def _check_rollout(label: str, record: Allocation, rollout: Rollout) -> Iterator[str]:
    """An instance that is renewed leaves first; one that counts as updated is on a node that the service still has."""
    if rollout.wanted != record.revision:
        yield f"{label} is to have revision {record.revision}, its update leads to {rollout.wanted}"
    leaving = {part.node for part in record.parts if part.phase is PartPhase.LEAVING}
    if not set(rollout.renewing) <= leaving and record.state is not AllocationState.STOPPING:
        yield f"{label} renews instances that do not end: {rollout.renewing}"
    if not set(rollout.updated) <= {part.node for part in record.parts}:
        yield f"{label} has updated instances on nodes that it does not have: {rollout.updated}"
    if (rollout.updated or rollout.renewing) and not rollout.is_open:
        yield f"{label} is not being updated, and has nodes that are"


def _assigned(parts: tuple[Part, ...]) -> bool:
    return any(part.phase is PartPhase.ASSIGNED for part in parts)


def _check_groups(state: State) -> Iterator[str]:
    """Every task is pending, a record, or counted as ended: the three sum up to the size, and no task is in two of them."""
    for group in state.groups.values():
        label = allocation_id(group.number)
        tasks = [
            record
            for number in range(group.number + 1, group.number + group.size + 1)
            if (record := state.allocations.get(number)) is not None
        ]
        live = sum(not task.is_terminal for task in tasks)
        holding = sum(task.is_holding for task in tasks)
        if (live, holding) != (group.live, group.holding):
            yield f"group {label} counts {group.live} live, {group.holding} holding; there are {live}, {holding}"
        ended = group.completed + group.failed + group.cancelled
        if group.pending_count + group.live + ended != group.size:
            yield f"group {label} has lost tasks"
        rows = state.folded.get(group.number)
        if rows is not None and rows.count + len(tasks) + group.pending_count > group.size:
            yield f"group {label} has {rows.count} rows beside {len(tasks)} tasks"
        for name in ("held", "held_by_operator", "blocked"):
            if intervals.difference(getattr(group, name), group.pending):
                yield f"group {label} has tasks that are {name} and do not wait"
        if intervals.intersection(group.held, group.held_by_operator):
            yield f"group {label} has tasks that are held twice"
        if any(group.is_pending(task.number - group.number - 1) for task in tasks):
            yield f"group {label} has a task that is both pending and released"


def _check_quotas(state: State) -> Iterator[str]:
    """Usage summed from the records equals the counters. Limits are compared by the caller that knows earlier ones."""
    nodes: Counter[str] = Counter()
    for node in state.nodes.values():
        holders = {state.allocations[number].tenant for number in node.holders()}
        nodes.update(holders)
    allocations = Counter(record.tenant for record in state.allocations.values() if record.is_holding)
    for tenant in sorted(set(nodes) | set(allocations) | set(state.uses)):
        use = state.use_of(tenant)
        if (use.nodes, use.allocations) != (nodes[tenant], allocations[tenant]):
            yield f"tenant {tenant} counts {use}, holds {nodes[tenant]} nodes by {allocations[tenant]} allocations"


def _check_counters(state: State) -> Iterator[str]:
    counts = Counter(record.state for record in state.allocations.values())
    if counts != Counter(state.state_counts):
        yield f"states are counted as {state.state_counts}, there are {dict(counts)}"
    users: dict[tuple[str, str], list[int]] = {}
    for record in state.allocations.values():
        if not record.is_terminal:
            use = users.setdefault((record.tenant, record.user), [0, 0])
            use[record.is_holding] += 1
    for group in state.groups.values():
        if group.pending:
            users.setdefault((group.template.tenant, group.template.user), [0, 0])[0] += group.pending_count
    if {key: UserUse(*use) for key, use in users.items()} != state.user_uses:
        yield f"users are counted as {state.user_uses}, there are {users}"
    hardware = Counter(node.hardware for node in state.nodes.values())
    if hardware != Counter(state.hardware_counts):
        yield "hardware is counted wrongly"


def _check_drift(state: State) -> Iterator[str]:
    for name, drift in state.drift.drifts.items():
        if drift.node != name or name not in state.nodes:
            yield f"drift of {name} is that of no node"
        if drift.verified_at and not drift.is_strict:
            yield f"node {name} waits for an approval that it does not need"
        if drift.expected == drift.actual:
            yield f"node {name} differs from itself"
    for name, baseline in state.drift.baselines.items():
        if baseline.vcluster != name or name not in state.vclusters:
            yield f"the baseline of {name} is that of no vCluster"
    for name, accepted in state.drift.accepted.items():
        if accepted.node != name or name not in state.nodes or accepted.vcluster not in state.vclusters:
            yield f"the accepted fingerprint of {name} is that of no node of a vCluster"


def _check_notifications(state: State) -> Iterator[str]:
    registry = state.notifications
    per_user = Counter(notification.user for notification in registry.waiting.values())
    if per_user != Counter(registry.per_user):
        yield f"notifications are counted as {registry.per_user}, there are {dict(per_user)}"
    if any(count > MAX_WAITING_PER_USER for count in per_user.values()):
        yield "too many notifications wait for one user"
    if any(number >= registry.next_number for number in registry.waiting):
        yield "a notification has a number that is to be given again"
