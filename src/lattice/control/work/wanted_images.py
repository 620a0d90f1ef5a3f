"""Which images the work in the queue brings, and which nodes have them: for the choice among equal nodes, and nothing else.

The images of work are in its payload, which the core never looks at. What was read once is remembered while the work waits.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from lattice.core.machine.state import State
from lattice.core.model.nodes.at_hand import image_key
from lattice.ports.quorum.replica import Replica
from lattice.wire.work.payloads import images_of

MAX_WAITING = 20_000
MAX_READ = 2_000  # in one cycle; the next one continues, and until then those are placed as if they brought none


class Wanted(NamedTuple):
    """`images` by number of the work, `cached` by key of such an image; only what some node has."""

    images: Mapping[int, tuple[int, ...]] = {}
    cached: Mapping[int, frozenset[str]] = {}


NOTHING_WANTED = Wanted()


class WantedImages:
    """`having` says which nodes have an image, by its key; `has_any` whether there is one that some node has."""

    def __init__(self, replica: Replica, having: Callable[[int], frozenset[str]], has_any: Callable[[], bool]) -> None:
        self._replica = replica
        self._having = having
        self._has_any = has_any
        self._known: dict[
            int, tuple[bytes, tuple[int, ...]]
        ] = {}  # by number: the payload that was read, and its images

    def of(self, numbers: Iterable[int]) -> Wanted:
        """For the work in the queue that brings images, by number."""
        if not self._has_any():
            return NOTHING_WANTED
        state, before, left = self._replica.state, self._known, MAX_READ
        self._known = {}
        images: dict[int, tuple[int, ...]] = {}
        cached: dict[int, frozenset[str]] = {}
        for number in islice(numbers, MAX_WAITING):
            payload = _payload_of(state, number)
            known = before.get(number)
            if known is None or known[0] is not payload:
                if not left:
                    continue
                left -= 1
                known = (payload, _keys_in(payload))
            self._known[number] = known
            found = {key: nodes for key in known[1] if (nodes := self._having(key))}
            if found:
                images[number] = known[1]
                cached |= found
        return Wanted(images, cached)


def _payload_of(state: State, number: int) -> bytes:
    """Of an allocation, a task or a group."""
    record = state.allocations.get(number)
    return state.payloads.get(number, b"") if record is None else state.payload_of(record)


def _keys_in(payload: bytes) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(image_key(image.digest) for image in images_of(payload)))
    except ValueError:
        return ()  # the start says what is wrong with it
