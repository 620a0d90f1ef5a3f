"""Figures that name tenants. They are not on the public page, but on one of their own for those who may see every tenant."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lattice.core.machine.state import State
from lattice.core.model.work.ledger import Ledger

_MS_PER_HOUR = 3_600_000


class _Sum(NamedTuple):
    ledger: Ledger
    node_ms: int
    gpu_ms: int


class TenantFigures(Collector):
    """Read from the state at each scrape."""

    def __init__(self, state: Callable[[], State]) -> None:
        self._state = state
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._sums: dict[tuple[str, str, str], _Sum] = {}

    def describe(self) -> Iterator[Metric]:
        yield from ()

    def collect(self) -> Iterator[Metric]:
        state = self._state()
        used = GaugeMetricFamily("lattice_quota_used_nodes", "Nodes that a tenant holds now", labels=["tenant"])
        most = GaugeMetricFamily(
            "lattice_quota_max_nodes", "Nodes that a tenant may hold; absent where it has no limit", labels=["tenant"]
        )
        running = GaugeMetricFamily(
            "lattice_tenant_allocations_active", "Allocations of a tenant that hold nodes now", labels=["tenant"]
        )
        waiting = GaugeMetricFamily(
            "lattice_tenant_allocations_pending", "Allocations and tasks of a tenant that wait", labels=["tenant"]
        )
        queued: Counter[str] = Counter()
        for (owner, _), use in state.user_uses.items():
            queued[owner] += use.pending
        for name, tenant in sorted(state.tenants.items()):
            use_now = state.use_of(name)
            used.add_metric([name], use_now.nodes)
            if tenant.max_nodes is not None:
                most.add_metric([name], tenant.max_nodes)
            running.add_metric([name], use_now.allocations)
            waiting.add_metric([name], queued[name])
        yield from (used, most, running, waiting, *self._consumed(state))

    def _consumed(self, state: State) -> Iterator[Metric]:
        node_ms: Counter[str] = Counter()
        gpu_ms: Counter[str] = Counter()
        sums: dict[tuple[str, str, str], _Sum] = {}
        for key, ledger in state.ledger.items():
            known = self._sums.get(key)
            # Records are replaced, never changed: the same one has the same sum.
            found = known if known is not None and known.ledger is ledger else _Sum(ledger, *ledger.since(0))
            sums[key] = found
            node_ms[key[0]] += found.node_ms
            gpu_ms[key[0]] += found.gpu_ms
        self._sums = sums
        node_hours = GaugeMetricFamily(
            "lattice_tenant_node_hours", "Node hours of ended runs in the last 400 days", labels=["tenant"]
        )
        gpu_hours = GaugeMetricFamily(
            "lattice_tenant_gpu_hours", "GPU hours of ended runs in the last 400 days", labels=["tenant"]
        )
        for name in sorted(state.tenants):
            node_hours.add_metric([name], node_ms[name] / _MS_PER_HOUR)
            gpu_hours.add_metric([name], gpu_ms[name] / _MS_PER_HOUR)
        yield node_hours
        yield gpu_hours
