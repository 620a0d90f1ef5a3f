"""What nodes said they have at hand: by image the nodes that have it, by node what its free GPUs are worth.

Nothing of it is in the log: every agent says it after each Welcome, also to the next leader. A plan gets what does not change under it.
"""

from lattice.core.model.nodes.at_hand import NO_SETS, NOTHING_AT_HAND, AtHand, GpuSets
from lattice.core.model.nodes.gpus import GpuSet

MAX_ENTRIES = 1_000_000  # of all nodes together; what is beyond is not known
SPARE_KINDS = 1024  # that no node has any more, before they are forgotten
_NOBODY: frozenset[str] = frozenset()
_ALIKE = (0.0, 0, 0)


class NodesAtHand:
    """What each node said last."""

    def __init__(self) -> None:
        self._told: dict[str, AtHand] = {}
        self._having: dict[int, set[str]] = {}  # by key of an image; the inverse of the images in `_told`
        self._entries = 0
        self._handed: dict[int, frozenset[str]] = {}  # of `_having`, as plans have it
        self._sets: dict[str, int] = {}  # by node: its place among the kinds
        self._kinds: dict[tuple[GpuSet, ...], int] = {}
        self._shown: GpuSets | None = NO_SETS

    def has_images(self) -> bool:
        return bool(self._having)

    def take(self, node: str, told: AtHand) -> None:
        """In place of what the node said before."""
        before = set(self._told.get(node, NOTHING_AT_HAND).images)
        room = max(0, MAX_ENTRIES - self._entries + len(before))
        now = set(told.images[:room])
        for key in before - now:
            self._lose(key, node)
        for key in now - before:
            self._having.setdefault(key, set()).add(node)
            self._handed.pop(key, None)
        self._entries += len(now) - len(before)
        self._told[node] = AtHand(images=tuple(now))
        self._take_sets(node, told.gpu_sets)

    def forget(self, node: str) -> None:
        """Nothing is known of the node until it says it again."""
        self.take(node, NOTHING_AT_HAND)
        del self._told[node]

    def _lose(self, key: int, node: str) -> None:
        self._handed.pop(key, None)
        self._having[key].discard(node)
        if not self._having[key]:
            del self._having[key]

    def _take_sets(self, node: str, told: tuple[GpuSet, ...]) -> None:
        """Sets that say nothing are not kept."""
        before = self._sets.pop(node, None)
        if any(each.order != _ALIKE for each in told):
            self._sets[node] = self._kinds.setdefault(told, len(self._kinds))
        if self._sets.get(node) != before:
            self._shown = None
        if len(self._kinds) > 2 * len(self._sets) + SPARE_KINDS:
            self._forget_kinds()

    def _forget_kinds(self) -> None:
        """Those that no node has any more."""
        said, self._kinds = list(self._kinds), {}
        self._sets = {node: self._kinds.setdefault(said[kind], len(self._kinds)) for node, kind in self._sets.items()}
        self._shown = None

    def having(self, key: int) -> frozenset[str]:
        """The nodes that have the image; the same object as long as nothing changed."""
        if key not in self._having:
            return _NOBODY
        if key not in self._handed:
            self._handed[key] = frozenset(self._having[key])
        return self._handed[key]

    def gpu_sets(self) -> GpuSets:
        """The same object as long as nothing changed."""
        if self._shown is None:
            self._shown = GpuSets(kinds=tuple(self._kinds), by_node=dict(self._sets))
        return self._shown
