"""The registry of services against the records it is derived from. See docs/architecture/registry.md."""

from collections.abc import Iterator

from lattice.core.machine.parts.services import ServiceKey
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation, Lifecycle


def check_services(state: State) -> Iterator[str]:
    """Invariant 12: a service is in the registry exactly while its allocation is Running; a name has one owner."""
    expected: dict[ServiceKey, dict[int, Allocation]] = {}
    for record in state.allocations.values():
        if record.lifecycle is Lifecycle.BOUNDED or record.is_terminal:
            continue
        for each in record.exposes:
            expected.setdefault(ServiceKey(record.tenant, each.name), {})[record.number] = record
    for key in sorted(expected.keys() | state.services.live.keys()):
        live = expected.get(key, {})
        if state.services.live.get(key, {}) != live:
            yield f"service {key.name} of tenant {key.tenant} is not what its allocations offer"
        if len({record.user for record in live.values()}) > 1:
            yield f"service {key.name} of tenant {key.tenant} has several owners"
        running = sorted(number for number, record in live.items() if record.is_running)
        if [record.number for record in state.services.running(key)] != running:
            yield f"service {key.name} is not registered as {', '.join(map(allocation_id, running)) or 'nothing'} runs it"
