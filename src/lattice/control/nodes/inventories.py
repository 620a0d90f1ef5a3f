"""The nodes' inventories, as far as this server heard them: documents, fingerprints, and how old they are.

Nothing of it is in the log: after a change of leader every agent registers and sends its own again. The fingerprint is made here,
from the document, so that agents of different versions are judged alike. What is older than the staleness window is not known.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from types import MappingProxyType

from lattice.control.heartbeats import Allowance
from lattice.core.model.nodes.conformance import fingerprint
from lattice.core.model.nodes.fitness import GpuFitness, gpu_fitness
from lattice.core.model.nodes.inventory import (
    Inventory,
    UnusableInventory,
    components,
    decode_inventory,
    gpu_topology,
    memory_topology,
)
from lattice.ports.clock import Clock
from lattice.ports.nodes.inventories import InventoryLinks, KnownInventory

STALE_AFTER_S = 13 * 3600.0
MARK_BYTES = 8
# A node whose heartbeats name another fingerprint is asked for its inventory, but not with every beat.
ASK_AGAIN_S = 30.0
MAX_KINDS = 256
PER_S = 1.0  # inventories of one node, for good
_NOTHING: Mapping[str, str] = MappingProxyType({})

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Content:
    """One document, however many nodes sent it."""

    document: bytes
    fingerprint: str
    components: dict[str, str]
    fitness: dict[tuple[str, int], GpuFitness]
    nodes: int = 0


@dataclass(slots=True)
class _Report:
    content: _Content
    key: bytes
    mark: bytes
    heard_s: float
    received_at: int


class Inventories:
    """Implements `InventoryRegistry` and `Fingerprints`. `stale_after_s` is asked each time: it can be changed while the cluster runs."""

    def __init__(
        self, links: InventoryLinks, clock: Clock, stale_after_s: Callable[[], float] = lambda: STALE_AFTER_S
    ) -> None:
        self._links = links
        self._clock = clock
        self._stale_after_s = stale_after_s
        self._contents: dict[bytes, _Content] = {}
        self._reports: dict[str, _Report] = {}
        self._asked: dict[str, float] = {}
        self._allowances: dict[str, Allowance] = {}
        self._fresh: Mapping[str, str] = _NOTHING
        self._fresh_until_s = float("inf")
        self._window_s = 0.0
        self._is_fresh = True
        self._fitness: dict[tuple[str, int], GpuFitness] | None = {}
        self._kinds: dict[object, dict[int, GpuFitness]] = {}
        self._callbacks: list[Callable[[str], None]] = []
        self.counts: Counter[str] = Counter()

    def subscribe(self, callback: Callable[[str], None]) -> None:
        """Called with a node whenever its fingerprint became another one."""
        self._callbacks.append(callback)

    def take(self, node: str, document: bytes, claimed: str) -> bool:
        """Notes what a node said of itself; False, and nothing noted, when it makes no sense or too many come. `claimed` is its own fingerprint."""
        now_s = self._clock.monotonic_s()
        if not self._allowances.setdefault(node, Allowance(PER_S, filled_at=now_s)).take(now_s):
            # What is lost here is asked for again: the node's heartbeats name it.
            self.counts["surplus"] += 1
            return False
        key = blake2b(document, digest_size=16).digest()
        content = self._contents.get(key)
        if content is None:
            try:
                inventory = decode_inventory(document)
            except UnusableInventory as error:
                self.counts["refused"] += 1
                _log.warning("inventory refused: %s", str(error)[:200], extra={"node_id": node})
                return False
            found = components(inventory)
            fitness = self._fitness_of(inventory)
            content = self._contents[key] = _Content(document, fingerprint(found) if found else "", found, fitness)
        self.counts["taken"] += 1
        old = self._reports.get(node)
        content.nodes += 1
        self._reports[node] = _Report(content, key, _mark(claimed), now_s, self._clock.now_ms())
        self._asked.pop(node, None)
        self._let_go(old)
        self._is_fresh = False
        if old is None or old.content is not content:
            self._fitness = None
        if old is None or old.content.fingerprint != content.fingerprint:
            self.counts["changed"] += 1
            for callback in self._callbacks:
                callback(node)
        return True

    def forget(self, node: str) -> None:
        """Forget the inventory from before a reboot: it may have changed, and is unknown until the node reports it again."""
        report = self._reports.pop(node, None)
        if report is None:
            return
        self._let_go(report)
        self._is_fresh, self._fitness = False, None
        for callback in self._callbacks:
            callback(node)

    def _fitness_of(self, inventory: Inventory) -> dict[tuple[str, int], GpuFitness]:
        """Nodes of one kind differ in names only: each kind is worked out once."""
        gpus = gpu_topology(inventory)
        if not gpus.gpus:
            return {}
        memory = memory_topology(inventory)
        near = tuple((domain.id, domain.attached_cpus, domain.attached_gpus) for domain in memory.domains)
        kind = (gpus.links, gpus.indices, tuple(sorted(gpus.nic_affinity.items())), near, memory.interconnects)
        if len(self._kinds) > MAX_KINDS:
            self._kinds.clear()
        found = self._kinds.get(kind)
        if found is None:
            found = self._kinds[kind] = gpu_fitness(gpus, memory)
        return {(gpus.gpus[0].model, count): value for count, value in found.items()}

    def _let_go(self, report: _Report | None) -> None:
        if report is not None:
            report.content.nodes -= 1
            if not report.content.nodes:
                del self._contents[report.key]

    def get(self, node: str) -> KnownInventory | None:
        report = self._reports.get(node)
        if report is None:
            return None
        age_s = max(0.0, self._clock.monotonic_s() - report.heard_s)
        return KnownInventory(
            fingerprint=report.content.fingerprint,
            components=report.content.components,
            document=report.content.document,
            received_at=report.received_at,
            age_s=age_s,
            is_stale=age_s > self._stale_after_s(),
        )

    def fingerprints(self) -> Mapping[str, str]:
        """By node, fresh ones only. The same object as long as nothing changed."""
        now_s, window_s = self._clock.monotonic_s(), self._stale_after_s()
        if self._is_fresh and now_s <= self._fresh_until_s and window_s == self._window_s:
            return self._fresh
        since_s = now_s - window_s
        reports = {node: report for node, report in self._reports.items() if report.heard_s >= since_s}
        found = {node: report.content.fingerprint for node, report in reports.items() if report.content.fingerprint}
        self._fresh_until_s = window_s + min((report.heard_s for report in reports.values()), default=float("inf"))
        self._window_s, self._is_fresh = window_s, True
        if found != self._fresh:
            self._fresh = MappingProxyType(found)
        return self._fresh

    def gpu_fitness(self) -> Mapping[tuple[str, int], GpuFitness]:
        """By type and number, how well GPUs of one node fit together, on the average of the nodes that have them."""
        if self._fitness is None:
            sums: dict[tuple[str, int], tuple[float, float, int]] = {}
            for content in self._contents.values():
                count = content.nodes
                for key, value in content.fitness.items():
                    links, memory, nodes = sums.get(key, (0.0, 0.0, 0))
                    sums[key] = (links + value.links * count, memory + value.memory * count, nodes + count)
            self._fitness = {key: GpuFitness(links / n, memory / n) for key, (links, memory, n) in sums.items()}
        return self._fitness

    @property
    def documents(self) -> list[bytes]:
        """The different ones that are kept."""
        return [content.document for content in self._contents.values()]

    def components(self, node: str) -> Mapping[str, str]:
        """What the node's fingerprint is made of; empty when it has said nothing."""
        report = self._reports.get(node)
        return _NOTHING if report is None else report.content.components

    def refresh(self, node: str) -> bool:
        """Asks the node to look at itself again; False when its agent cannot be reached."""
        return self._links.refresh_inventory(node)

    def heard(self, node: str, mark: bytes) -> None:
        """A heartbeat names a fingerprint: where that is not the one known here, a message was lost, and is asked for."""
        report = self._reports.get(node)
        if not mark or (report is not None and report.mark == mark):
            return
        now_s = self._clock.monotonic_s()
        if now_s - self._asked.get(node, -ASK_AGAIN_S) >= ASK_AGAIN_S:
            self._asked[node] = now_s
            self.counts["asked"] += 1
            self.refresh(node)


def _mark(claimed: str) -> bytes:
    try:
        return bytes.fromhex(claimed)[:MARK_BYTES]
    except ValueError:
        return b""
