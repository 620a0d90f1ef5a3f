"""A time-series store that holds what agents sent to it, asked for the figures of runs or of a node.

The port takes names and times, never a query: what a caller may see is decided before, and the store is asked for exactly that.
"""

from typing import Protocol

from msgspec import Struct

from lattice.core.model.telemetry.windows import Window


class StoreUnavailable(Exception):
    """The store did not answer, or with something else than figures; says why."""


class StoredRun(Struct, frozen=True, gc=False):
    """A run as agents label it."""

    allocation: str
    run: int
    tenant: str


class StoreAsk(Struct, frozen=True, kw_only=True):
    """Figures of these runs or, without any, of `node`, between two moments.

    `step_ms` puts what was measured in each step together; 0 = every window as it was sent.
    """

    metrics: tuple[str, ...]
    begin_ms: int
    end_ms: int
    runs: tuple[StoredRun, ...] = ()
    node: str = ""
    step_ms: int = 0


class StoredSeries(Struct, frozen=True, kw_only=True):
    """The windows of one metric, oldest first; `run` is None for those of a node."""

    run: StoredRun | None
    node: str
    metric: str
    device: str
    windows: tuple[Window, ...]


class Matcher(Struct, frozen=True, kw_only=True):
    """`operator` is =, !=, =~ or !~."""

    label: str
    operator: str
    value: str


class Selector(Struct, frozen=True, kw_only=True):
    """A metric that is not one of agents."""

    name: str
    matchers: tuple[Matcher, ...] = ()


class MetricStore(Protocol):
    """Raises StoreUnavailable, soon and without waiting again for a store that did not answer just now."""

    async def read(self, ask: StoreAsk) -> tuple[StoredSeries, ...]:
        """What the store has of it; nothing is a possible answer."""
        ...

    async def latest(self, selector: Selector, nodes: tuple[str, ...], allocation: str) -> float | None:
        """The mean of the newest samples that are labelled with one of these nodes; None if there are none."""
        ...
