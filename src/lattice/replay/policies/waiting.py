"""Who waits and wants the same number of processors, in queue order, with the smallest estimate of every stretch.

A tree of minima over the places of the queue answers in a few steps who is first with an estimate of at most so much.
Places of those that left hold `LEFT`, which no estimate reaches.
"""

from bisect import bisect_left, insort

from lattice.replay.policies.timeline import Instant

LEFT = 1 << 62
_SMALLEST = 8


class Waiting:
    """A queue of positions. They are added in rising order and leave in any."""

    __slots__ = ("_capacity", "_first", "_live", "_places", "_tree", "procs")

    def __init__(self, procs: int) -> None:
        self.procs = procs
        self._capacity = _SMALLEST
        self._places: list[int] = []
        self._tree: list[Instant] = [LEFT] * (2 * _SMALLEST)
        self._first = 0
        self._live = 0

    def __len__(self) -> int:
        return self._live

    @property
    def shortest(self) -> Instant:
        """The smallest estimate of all; LEFT when the queue is empty."""
        return self._tree[1]

    def add(self, position: int, estimate: Instant) -> None:
        if len(self._places) == self._capacity:
            self._make_room()
        node = self._capacity + len(self._places)
        self._places.append(position)
        self._live += 1
        tree = self._tree
        tree[node] = estimate
        node >>= 1
        while node and tree[node] > estimate:
            tree[node] = estimate
            node >>= 1

    def first(self) -> int:
        """The place of the first row; the queue must not be empty."""
        tree, leaf = self._tree, self._capacity + self._first
        while tree[leaf] == LEFT:
            leaf += 1
        self._first = leaf - self._capacity
        return self._first

    def first_within(self, limit: Instant) -> int:
        """The place of the first with an estimate of at most `limit`; `shortest` must not exceed it."""
        tree, capacity, node = self._tree, self._capacity, 1
        while node < capacity:
            node *= 2
            if tree[node] > limit:
                node += 1
        return node - capacity

    def position(self, place: int) -> int:
        return self._places[place]

    def place_of(self, position: int) -> int:
        return bisect_left(self._places, position)

    def leave(self, place: int) -> None:
        tree = self._tree
        node = self._capacity + place
        tree[node] = LEFT
        self._live -= 1
        while node > 1:
            least, other = tree[node], tree[node ^ 1]
            if other < least:
                least = other
            node >>= 1
            if tree[node] == least:
                break
            tree[node] = least

    def _make_room(self) -> None:
        """Closes the gaps; doubles the tree when that alone would soon have to be done again."""
        old, capacity = self._tree, self._capacity
        stay = [(place, position) for place, position in enumerate(self._places) if old[capacity + place] != LEFT]
        while 2 * len(stay) > self._capacity:
            self._capacity *= 2
        self._places = [position for _, position in stay]
        self._first = 0
        leaves = [old[capacity + place] for place, _ in stay]
        tree: list[Instant] = [LEFT] * self._capacity + leaves + [LEFT] * (self._capacity - len(leaves))
        for node in range(self._capacity - 1, 0, -1):
            left, right = tree[2 * node], tree[2 * node + 1]
            tree[node] = left if left < right else right
        self._tree = tree


def waiting_of(procs: int, queues: dict[int, Waiting], sizes: list[int]) -> Waiting:
    """The queue of what wants this size, which is about to get one more: `sizes` has those whose queues are not empty, in order."""
    queue = queues.get(procs)
    if queue is None:
        queue = queues[procs] = Waiting(procs)
    if not queue:
        insort(sizes, procs)
    return queue
