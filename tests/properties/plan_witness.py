"""Judges a plan by brute force, knowing the records of the state and nothing of the scheduler.

`judge` walks the placements in their order on a model of its own and returns what is wrong with them, as sentences.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations

from lattice.core.machine.parts.folded_tasks import task_record
from lattice.core.machine.state import State
from lattice.core.model.nodes.nodes import Hardware, NodeState, Share
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.core.model.work.allocations import Allocation, AllocationState, Request
from lattice.core.scheduler.proposals import Placement, Plan, Reservation

FOREVER = 10**18


@dataclass
class Use:
    """One share of a node in the witness's own books."""

    number: int
    tenant: str
    vcluster: str
    end: int
    whole: bool
    cpus: int
    memory_mb: int
    gpus: int


@dataclass
class PlanWitness:
    state: State
    connected: frozenset[str]
    now: int
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    uses: dict[str, list[Use]] = field(default_factory=dict)
    started: list[Allocation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.uses = {node: [] for node in self.state.nodes}
        for record in self.state.allocations.values():
            if record.is_holding:
                self._registry(record, record.shares, self._end(record))

    def judge(self, plan: Plan, *, nothing_promised: bool) -> list[str]:
        """`nothing_promised` = no earlier plan had reservations that this one had to keep."""
        findings: list[str] = []
        queue = self.queue()
        place = {record.number: index for index, record in enumerate(queue)}
        kept_for = {kept.number: waits_for(plan, queue, kept) for kept in plan.reservations}
        first_kept = min((place[record.number] for record in kept_for.values()), default=len(queue))
        records = {record.number: record for record in queue}
        for placement in plan.placements:
            record = records.get(placement.number)
            if record is None:
                findings.append(f"{placement.number} was not waiting")
                continue
            findings += self.start(record, placement)
            if place[record.number] < first_kept:
                findings += self._judge_span(record, placement)
        findings += self._judge_progress(plan, queue) if nothing_promised else []
        for kept in plan.reservations:
            findings += self._judge_kept(kept, kept_for[kept.number])
        findings += self._judge_power()
        return findings + self._judge_together([(kept, kept_for[kept.number]) for kept in plan.reservations])

    def queue(self) -> list[Allocation]:
        """Everything that may start, tasks one by one, in the order in which it should."""
        waiting = [r for r in self.state.allocations.values() if r.state is AllocationState.PENDING]
        for group in self.state.groups.values():
            for start, stop in group.pending:
                waiting += [task_record(group, position) for position in range(start, stop)]
        waiting.sort(key=lambda r: (-r.preemption_class, _waits_since(r), r.submitted_at, r.number))
        return [r for r in waiting if not r.hold and r.eligible_at <= self.now and self._vcluster(r).is_up]

    # one placement

    def start(self, record: Allocation, placement: Placement) -> list[str]:
        """Books the placement; returns what is wrong with it."""
        request, label = record.request, f"{record.number} on {[s.node for s in placement.shares]}"
        findings = []
        most = max(request.nodes, request.max_nodes)
        names = [share.node for share in placement.shares]
        if not request.nodes <= len(set(names)) == len(names) <= most:
            findings.append(f"{label}: wrong number of nodes")
        if placement.run != record.run + 1:
            findings.append(f"{label}: wrong run")
        for share in placement.shares:
            if not self.suits(record, share.node):
                findings.append(f"{label}: {share.node} does not suit")
            if not self._is_right_share(record, share):
                findings.append(f"{label}: wrong share {share}")
            if not self.has_room(record, share.node, self.now):
                findings.append(f"{label}: {share.node} has no room")
            if self._is_shut(record, share.node, self.now, self._end_from(record, self.now)):
                findings.append(f"{label}: {share.node} is reserved")
        if request.require_conformance and len(names) > 1 and len({self.fingerprints.get(n, n) for n in names}) > 1:
            findings.append(f"{label}: not alike")
        self._registry(record, placement.shares, self._end_from(record, self.now))
        self.started.append(record)
        return findings + [f"{label}: {broken}" for broken in self._broken_limits(record)]

    def suits(self, record: Allocation, name: str) -> bool:
        node, vcluster = self.state.nodes[name], self._vcluster(record)
        is_fit = node.state is NodeState.READY and name in self.connected and not node.claimant
        is_member = not vcluster.nodes or name in vcluster.nodes
        return is_fit and is_member and _satisfies(record.request, node.hardware, name)

    def _is_right_share(self, record: Allocation, share: Share) -> bool:
        hardware = self.state.nodes[share.node].hardware
        if self._wants_whole(record):
            return share.whole
        cpus = record.request.cpus if record.request.cpus else 1
        memory_mb = record.request.memory_mb or int(hardware.memory_mb * cpus / hardware.cpus)
        wanted = (False, cpus, memory_mb, record.request.gpus)
        return (share.whole, share.cpus, share.memory_mb, share.gpus) == wanted

    def has_room(self, record: Allocation, name: str, at: int) -> bool:
        """Whether the node could be given at that time, as far as ends are known; `now` counts all that is held."""
        hardware = self.state.nodes[name].hardware
        left = [use for use in self.uses[name] if at == self.now or use.end > at]
        if self._wants_whole(record):
            return not left
        if any(use.whole or use.vcluster != record.vcluster for use in left):
            return False
        cpus = record.request.cpus or 1
        memory_mb = record.request.memory_mb or int(hardware.memory_mb * cpus / hardware.cpus)
        return (
            sum(use.cpus for use in left) + cpus <= hardware.cpus
            and sum(use.memory_mb for use in left) + memory_mb <= hardware.memory_mb
            and sum(use.gpus for use in left) + record.request.gpus <= hardware.gpus
        )

    def _broken_limits(self, record: Allocation) -> list[str]:
        tenant = self.state.tenants[record.tenant]
        holding = [r for r in self.state.allocations.values() if r.is_holding] + self.started
        of_tenant = [r for r in holding if r.tenant == record.tenant]
        nodes = [name for name, uses in self.uses.items() if any(u.tenant == record.tenant for u in uses)]
        of_user = [r for r in of_tenant if r.user == record.user]
        numbers = {r.number for r in of_tenant if r.project == record.project}
        of_project = sum(use.number in numbers for uses in self.uses.values() for use in uses)
        project = self.state.projects.get((record.tenant, record.project))
        group = self.state.groups.get(record.group)
        checks = [
            ("max_nodes", len(nodes), tenant.max_nodes),
            ("max_concurrent_allocations", len(of_tenant), tenant.max_concurrent_allocations),
            ("max_running_per_user", len(of_user), tenant.max_running_per_user),
            ("project", of_project, project.max_nodes if project else None),
            (
                "concurrency",
                sum(r.group == record.group for r in holding),
                (group.concurrency or None) if group else None,
            ),
        ]
        return [f"{name} {used} > {limit}" for name, used, limit in checks if limit is not None and used > limit]

    def _is_shut(self, record: Allocation, name: str, start: int, end: int) -> bool:
        """Whether an advance reservation that does not admit the record has the node at some time between."""
        for advance in self.state.reservations.values():
            if record.tenant in advance.tenants or record.user in advance.users:
                continue
            if advance.nodes and name not in advance.nodes:
                continue
            step, length = advance.repeat_s * 1000, advance.end_at - advance.start_at
            first = advance.start_at
            if step and start > advance.end_at:
                first += (start - advance.end_at) // step * step
            windows = [first, first + step] if step else [first]
            if any(begin < end and begin + length > start for begin in windows):
                return True
        return False

    def _judge_power(self) -> list[str]:
        """What all busy nodes draw is within the budget."""
        limit = int(self.state.settings.get("scheduler.power_budget_w", 0))
        drawn = sum(self.state.nodes[name].hardware.power_w for name, uses in self.uses.items() if uses)
        return [f"{drawn} W drawn, {limit} W allowed"] if limit and drawn > limit and self.started else []

    # topology

    def _judge_span(self, record: Allocation, placement: Placement) -> list[str]:
        """Every choice of groups that could give as many nodes has at least as many groups."""
        if record.request.topology == "any" or self.state.tenants[record.tenant].max_nodes is not None:
            return []
        if record.request.require_conformance:
            return []
        mine = {share.node for share in placement.shares}
        free: dict[str, int] = {}
        for name, node in self.state.nodes.items():
            before = [use for use in self.uses[name] if use.number != record.number]
            held, self.uses[name] = self.uses[name], before
            end = self._end_from(record, self.now)
            is_open = not self._is_shut(record, name, self.now, end)
            if is_open and self.suits(record, name) and self.has_room(record, name, self.now):
                free[node.hardware.group] = free.get(node.hardware.group, 0) + 1
            self.uses[name] = held
        span = len({self.state.nodes[name].hardware.group for name in mine})
        smaller = [c for c in combinations(free.values(), span - 1) if sum(c) >= len(mine)] if span > 1 else []
        return [f"{record.number}: {span} groups, {span - 1} would do"] if smaller else []

    # the first of the queue, and what is kept

    def _judge_progress(self, plan: Plan, queue: list[Allocation]) -> list[str]:
        """The very first of the queue starts whenever it could."""
        placed = {placement.number for placement in plan.placements}
        if not queue or queue[0].number in placed:
            return []
        fresh = PlanWitness(self.state, self.connected, self.now)
        first = queue[0]
        if self.state.reservations or self.state.settings or first.request.require_conformance:
            return []
        fitting = [n for n in self.state.nodes if fresh.suits(first, n) and fresh.has_room(first, n, self.now)]
        if len(fitting) < first.request.nodes:
            return []
        shares = tuple(fresh.share(first, name) for name in fitting[: first.request.nodes])
        fresh._registry(first, shares, FOREVER)
        fresh.started.append(first)
        return [] if fresh._broken_limits(first) else [f"{first.number} could start on {fitting} and did not"]

    def share(self, record: Allocation, name: str) -> Share:
        if self._wants_whole(record):
            return Share(node=name)
        hardware = self.state.nodes[name].hardware
        cpus = record.request.cpus or 1
        memory_mb = record.request.memory_mb or int(hardware.memory_mb * cpus / hardware.cpus)
        return Share(node=name, whole=False, cpus=cpus, memory_mb=memory_mb, gpus=record.request.gpus)

    def _judge_kept(self, kept: Reservation, record: Allocation) -> list[str]:
        """At the promised time the kept nodes are there, whatever this plan has started."""
        label = f"reservation of {kept.number}"
        findings = []
        if len(set(kept.nodes)) != record.request.nodes:
            findings.append(f"{label}: wrong number of nodes")
        for name in kept.nodes:
            if not self.suits(record, name):
                findings.append(f"{label}: {name} does not suit")
            elif not self.has_room(record, name, max(kept.start_at, self.now + 1)):
                findings.append(f"{label}: {name} is delayed")
        return findings

    def _judge_together(self, kept_for: list[tuple[Reservation, Allocation]]) -> list[str]:
        """All reservations can be carried out side by side with what runs, on the nodes they name."""
        findings = []
        spans: dict[str, list[tuple[int, int, Use]]] = {
            name: [(self.now, use.end, use) for use in uses] for name, uses in self.uses.items()
        }
        for kept, record in kept_for:
            end = self._end_from(record, kept.start_at)
            for name in kept.nodes:
                share = self.share(record, name)
                hardware = self.state.nodes[name].hardware
                whole = (hardware.cpus, hardware.memory_mb, hardware.gpus)
                amounts = whole if share.whole else (share.cpus, share.memory_mb, share.gpus)
                use = Use(record.number, record.tenant, record.vcluster, end, share.whole, *amounts)
                spans[name].append((kept.start_at, end, use))
                if self._is_shut(record, name, kept.start_at, end):
                    findings.append(f"reservation of {kept.number}: {name} is reserved in advance")
        for name, entries in spans.items():
            for moment in {start for start, _, _ in entries}:
                active = [use for start, end, use in entries if start <= moment < end]
                if not self._fit_together(name, active):
                    findings.append(f"{name} at {moment - self.now}: {active}")
        return findings

    def _fit_together(self, name: str, active: list[Use]) -> bool:
        hardware = self.state.nodes[name].hardware
        if len(active) > 1 and (any(use.whole for use in active) or len({use.vcluster for use in active}) > 1):
            return False
        return (
            sum(use.cpus for use in active) <= hardware.cpus
            and sum(use.memory_mb for use in active) <= hardware.memory_mb
            and sum(use.gpus for use in active) <= hardware.gpus
        )

    def earliest(self, record: Allocation) -> int | None:
        """When enough nodes, alike where that is asked for, are free if nothing else starts from now on."""
        ends = {use.end for uses in self.uses.values() for use in uses if use.end < FOREVER}
        for at in sorted(ends):
            fitting = [n for n in self.state.nodes if self.suits(record, n) and self.has_room(record, n, at)]
            if self._most_together(record, fitting) >= record.request.nodes:
                return at
        return None

    def _most_together(self, record: Allocation, names: list[str]) -> int:
        """How many of the nodes the record could have at once; a node without a fingerprint is like no other."""
        if not record.request.require_conformance:
            return len(names)
        return max(Counter(self.fingerprints.get(name, name) for name in names).values(), default=0)

    # books

    def _registry(self, record: Allocation, shares: tuple[Share, ...], end: int) -> None:
        for s in shares:
            hardware = self.state.nodes[s.node].hardware
            whole = (hardware.cpus, hardware.memory_mb, hardware.gpus)
            amounts = whole if s.whole else (s.cpus, s.memory_mb, s.gpus)
            self.uses[s.node].append(Use(record.number, record.tenant, record.vcluster, end, s.whole, *amounts))

    def _end(self, record: Allocation) -> int:
        end = FOREVER
        if record.walltime_s:
            end = (record.started_at or self.now) + record.walltime_s * 1000
        if record.state is AllocationState.STOPPING:
            asked = record.stop_asked_at + 30_000
            end = asked if not record.started_at else min(end, asked)
        return max(end, self.now + 1000)

    def _end_from(self, record: Allocation, start: int) -> int:
        return start + record.walltime_s * 1000 if record.walltime_s else FOREVER

    def _vcluster(self, record: Allocation) -> Vcluster:
        return self.state.vclusters[record.vcluster]

    def _wants_whole(self, record: Allocation) -> bool:
        return record.request.exclusive or self._vcluster(record).node_sharing is NodeSharing.EXCLUSIVE


def _waits_since(record: Allocation) -> int:
    """From when its wait counts: the earliest start that was asked for; another run keeps the submission."""
    return record.submitted_at if record.run else max(record.submitted_at, record.eligible_at)


def waits_for(plan: Plan, queue: list[Allocation], kept: Reservation) -> Allocation:
    """Whom the reservation is for: the allocation itself, or the first task of the group that the plan did not start."""
    others = {placement.number for placement in plan.placements} | {other.number for other in plan.reservations}
    return next(r for r in queue if r.number == kept.number or (r.group == kept.number and r.number not in others))


def _satisfies(request: Request, hardware: Hardware, name: str) -> bool:
    return all(
        (
            not request.node_list or name in request.node_list,
            name not in request.exclude,
            hardware.cpus >= request.cpus,
            hardware.memory_mb >= request.memory_mb,
            hardware.memory_mb >= request.min_memory_mb,
            hardware.gpus >= request.gpus,
            request.gpu_type in ("", hardware.gpu_type),
            all(feature in hardware.features for feature in request.features),
        )
    )
