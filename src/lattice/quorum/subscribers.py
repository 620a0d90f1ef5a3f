"""Who hears of which events. Most commands concern few of the loops: the others are not called at all."""

import contextlib
from collections.abc import Callable, Sequence

from lattice.core.machine.events import AnyEvent
from lattice.ports.quorum.replica import Subscriber

_MAX_KNOWN = 1024  # combinations of kinds; there are some dozens


class Subscribers:
    """Those who want to hear of commands, in the order in which they came."""

    def __init__(self) -> None:
        self._all: list[tuple[Subscriber, tuple[type, ...]]] = []
        self._known: dict[frozenset[type], tuple[Subscriber, ...]] = {}  # by the kinds of the events of one command

    def add(self, callback: Subscriber, of: tuple[type, ...] = ()) -> Callable[[], None]:
        """Lets it hear of commands with an event of one of these kinds, of all without any; returns what ends that."""
        entry = (callback, of)
        self._all.append(entry)
        self._known = {}

        def remove() -> None:
            with contextlib.suppress(ValueError):
                self._all.remove(entry)
                self._known = {}

        return remove

    def for_events(self, events: Sequence[AnyEvent]) -> tuple[Subscriber, ...]:
        kinds = frozenset(map(type, events))
        found = self._known.get(kinds)
        if found is None:
            found = tuple(
                callback for callback, of in self._all if not of or any(issubclass(kind, of) for kind in kinds)
            )
            if len(self._known) >= _MAX_KNOWN:
                self._known = {}
            self._known[kinds] = found
        return found
