"""Figures on their way to the store by way of a node's collector, beside its heartbeats.

A collector that has a store says so when it asks. What it is handed it acknowledges once the store has it; until then the node that
measured it keeps it. Neither side understands the other's bytes: they are series in the form that the store takes.
"""

from collections.abc import Callable
from typing import Protocol

from lattice.wire.agents.collecting import Figures, Taken


class FigureLine(Protocol):
    """A connection between a node and its collector."""

    def give(self, frame: Figures | Taken) -> bool:
        """False when it does not go out."""
        ...


class FigureRelay:
    """One per agent, for both sides: `gather` is what the agent does with figures of others; without it, it takes none."""

    def __init__(self) -> None:
        self.gather: Callable[[FigureLine, Figures], None] | None = None
        self.taken: Callable[[int], None] = lambda number: None
        self.closed: Callable[[], None] = lambda: None
        self._line: FigureLine | None = None

    @property
    def takes(self) -> bool:
        return self.gather is not None

    @property
    def is_open(self) -> bool:
        """Whether this node's collector takes figures now."""
        return self._line is not None

    def hand(self, frame: Figures) -> bool:
        """To the collector; False when there is none that takes it."""
        return self._line is not None and self._line.give(frame)

    # Said by the connections

    def asked(self, line: FigureLine, *, takes: bool) -> None:
        """The collector asked, and takes figures or not."""
        if takes:
            self._line = line
        elif self._line is line:
            self.lost(line)

    def lost(self, line: FigureLine) -> None:
        if self._line is line:
            self._line = None
            self.closed()

    def brought(self, line: FigureLine, frame: Figures) -> None:
        """A member hands something on."""
        if self.gather is not None:
            self.gather(line, frame)
