"""What tenants, users, projects and task groups may still take in this plan, its own placements counted.

A hard quota is never exceeded: the rules refuse what goes beyond, so proposing it would only waste a cycle.
See docs/architecture/scheduler.md.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from lattice.core.model.site.tenants import SENSITIVE, Tenant
from lattice.core.scheduler.room.journal import Undo
from lattice.core.scheduler.tables.snapshot import Shape, Snapshot

Key = tuple[str, str]
K = TypeVar("K", str, int, Key)
_NO_LIMITS = Tenant(name="")
_QUOTA = "waiting for quota headroom"


class Headroom:
    """Running totals, starting from what is in use. Only `take` changes them, only an undo takes back."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        # What is held, by tenant: nodes, of which a shared one counts once, and allocations; by tenant and user; by tenant and project.
        self._nodes: dict[str, int] = {name: use.nodes for name, use in snapshot.uses.items()}
        self._allocations: dict[str, int] = {name: use.allocations for name, use in snapshot.uses.items()}
        self._users: dict[Key, int] = dict(snapshot.user_holding)
        self._projects: dict[Key, int] = dict(snapshot.project_nodes)
        # Nodes of the sensitive pool, and running tasks by group. A name that is not in one of these tables holds nothing.
        self._pool: dict[str, int] = {SENSITIVE: snapshot.pool.used}
        self._tasks: dict[int, int] = {number: group.holding for number, group in snapshot.groups.items()}
        self._before: list[Callable[[], None]] | None = None  # since the first mark: how to take back each change

    def mark(self) -> Undo:
        """What puts everything back as it is now."""
        before = self._before = [] if self._before is None else self._before
        count = len(before)

        def undo() -> None:
            while len(before) > count:
                before.pop()()

        return undo

    def nodes_left(self, tenant: str) -> int | None:
        """How many nodes the tenant may hold besides those it has; None = no limit."""
        limit = self._tenant(tenant).max_nodes
        return None if limit is None else max(0, limit - self._nodes.get(tenant, 0))

    def most_nodes(self, shape: Shape, most: int, *, is_whole: bool) -> int:
        """The largest placement that the limits allow; shares on nodes that the tenant has already are free of charge."""
        left = self.nodes_left(shape.tenant)
        if is_whole and left is not None:
            most = min(most, left)
        limit = self._project_limit(shape)
        if limit is not None:
            most = min(most, limit - self._projects.get((shape.tenant, shape.project), 0))
        left = self._pool_left(shape)
        return most if left is None else min(most, left)

    def _pool_left(self, shape: Shape) -> int | None:
        """How many nodes the pool of sensitive work may still have; None when it does not limit this shape."""
        vcluster = self._snapshot.vclusters.get(shape.vcluster)
        limit = self._snapshot.pool.limit
        if not limit or vcluster is None or vcluster.scheduler != SENSITIVE:
            return None
        return max(0, limit - self._pool[SENSITIVE])

    def refusal(self, shape: Shape) -> str | None:
        """The limit, with figures, that leaves no room for one more allocation; None when there is room."""
        group = self._snapshot.groups.get(shape.group)
        if group is not None and 0 < group.concurrency <= self._tasks[group.number]:
            running = self._tasks[group.number]
            return f"waiting for tasks of its group: {running} of {group.concurrency} at a time run"
        refusal = self._quota_refusal(shape)
        return None if refusal is None else f"{_QUOTA}: {refusal}"

    def _quota_refusal(self, shape: Shape) -> str | None:
        tenant = self._tenant(shape.tenant)
        running = self._allocations.get(shape.tenant, 0)
        limit = tenant.max_concurrent_allocations
        if limit is not None and running >= limit:
            return f"tenant {tenant.name} runs {running} of {limit} allocations"
        limit = tenant.max_running_per_user
        running = self._users.get((shape.tenant, shape.user), 0)
        if limit is not None and running >= limit:
            return f"user {shape.user} runs {running} of {limit} allocations"
        return None

    def node_refusal(self, shape: Shape) -> str:
        """The limit, with figures, that leaves no room for the nodes requested."""
        nodes = shape.request.nodes
        left = self._pool_left(shape)
        if left is not None and left < nodes:
            pool = self._snapshot.pool
            return f"{_QUOTA}: {self._pool[SENSITIVE]} of {pool.limit} nodes of the sensitive pool are in use, {nodes} requested"
        limit = self._project_limit(shape)
        used = self._projects.get((shape.tenant, shape.project), 0)
        if limit is not None and used + nodes > limit:
            return f"{_QUOTA}: project {shape.project} uses {used} of {limit} nodes, {nodes} requested"
        used = self._nodes.get(shape.tenant, 0)
        return f"{_QUOTA}: tenant {shape.tenant} uses {used} of {self._tenant(shape.tenant).max_nodes} nodes, {nodes} requested"

    def take(self, shape: Shape, *, nodes: int, new_nodes: int) -> None:
        """Counts a placement of `nodes` nodes, `new_nodes` of which the tenant did not have."""
        self._add(self._nodes, shape.tenant, new_nodes)
        self._add(self._allocations, shape.tenant, 1)
        self._add(self._users, (shape.tenant, shape.user), 1)
        if self._pool_left(shape) is not None:
            self._add(self._pool, SENSITIVE, nodes)
        if shape.project:
            self._add(self._projects, (shape.tenant, shape.project), nodes)
        if shape.group in self._tasks:
            self._add(self._tasks, shape.group, 1)

    def _add(self, counts: dict[K, int], key: K, value: int) -> None:
        before = counts.get(key)
        if self._before is not None:
            self._before.append(partial(_put_back, counts, key, before))
        counts[key] = (before or 0) + value

    def _tenant(self, name: str) -> Tenant:
        return self._snapshot.tenants.get(name, _NO_LIMITS)

    def _project_limit(self, shape: Shape) -> int | None:
        project = self._snapshot.projects.get((shape.tenant, shape.project))
        return None if project is None else project.max_nodes


def _put_back(counts: dict[K, int], key: K, before: int | None) -> None:
    if before is None:
        del counts[key]
    else:
        counts[key] = before
