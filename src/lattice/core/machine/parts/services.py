"""The registry of services: which allocations offer a name. Derived from the records and never stored by itself.

A name belongs to one user of a tenant while any allocation of that user that offers it has not ended; it is in the registry exactly
while such an allocation is Running (invariant 12). See docs/architecture/registry.md.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lattice.core.model.work.allocations import Allocation, Lifecycle, PartPhase
from lattice.core.model.work.exposure import Exposed


class ServiceKey(NamedTuple):
    tenant: str
    name: str


class Endpoint(NamedTuple):
    """A port of one instance; 0 = its node has not told which one it chose."""

    number: int
    run: int
    node: str
    port: int


def offers(record: Allocation) -> bool:
    """Whether the ports of an allocation are services; those of bounded work and sessions are reached by its ID."""
    return bool(record.exposes) and record.lifecycle is not Lifecycle.BOUNDED


def is_registered(record: Allocation) -> bool:
    return record.is_running and offers(record)


def endpoints_of(record: Allocation, exposed: Exposed) -> tuple[Endpoint, ...]:
    """Where the port is on each node that runs an instance."""
    return tuple(
        Endpoint(record.number, record.run, part.node, exposed.port or dict(part.ports).get(exposed.name, 0))
        for part in record.launched
        if part.phase is PartPhase.RUNNING
    )


class ServiceNames:
    """`State` tells it of every change of a record."""

    def __init__(self) -> None:
        self._live: dict[ServiceKey, dict[int, Allocation]] = {}

    def note(self, old: Allocation | None, new: Allocation | None) -> None:
        if old is not None and old.exposes and offers(old):
            for exposed in old.exposes:
                self._drop(ServiceKey(old.tenant, exposed.name), old.number)
        if new is not None and new.exposes and offers(new) and not new.is_terminal:
            for exposed in new.exposes:
                self._live.setdefault(ServiceKey(new.tenant, exposed.name), {})[new.number] = new

    def _drop(self, key: ServiceKey, number: int) -> None:
        live = self._live.get(key, {})
        live.pop(number, None)
        if not live:
            self._live.pop(key, None)

    def owner(self, key: ServiceKey) -> str:
        """Who has the name; empty when it is free."""
        live = self._live.get(key)
        return next(iter(live.values())).user if live else ""

    def running(self, key: ServiceKey) -> list[Allocation]:
        """The allocations behind a name of the registry, by number; none = it is not in the registry."""
        found = [each for each in self._live.get(key, {}).values() if each.is_running]
        return sorted(found, key=lambda each: each.number)

    def registered(self) -> Iterator[tuple[ServiceKey, list[Allocation]]]:
        """The whole registry, by tenant and name."""
        for key in sorted(self._live):
            if found := self.running(key):
                yield key, found

    @property
    def live(self) -> Mapping[ServiceKey, Mapping[int, Allocation]]:
        """Every name that is taken, with the allocations that take it."""
        return self._live
