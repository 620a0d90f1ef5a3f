"""How long the fabric lets this node's interfaces wait with data to send: counters of InfiniBand ports and of Slingshot interfaces.

InfiniBand counts the ticks in which a port had data and no credit to send it, and the words that it sent; Slingshot the cycles of a clock
of 1 GHz in which a traffic class was paused. Without such an interface nothing is known of congestion.
"""

import os

from lattice.agent.shim.hierarchies import read_bytes
from lattice.core.model.telemetry.rates import Reading

MAX_PORTS = 32
TRAFFIC_CLASSES = 8
_PERCENT_OF_NS = 1e-7  # a cycle of 1 GHz, as a share of a second


def add_congestion(reading: Reading, root: str) -> None:
    """Adds what the interfaces say; nothing where there are none of these kinds."""
    for port in _infiniband(f"{root}/sys/class/infiniband")[:MAX_PORTS]:
        waited, sent = _counter(f"{port}/counters/port_xmit_wait"), _counter(f"{port}/counters/port_xmit_data")
        if waited is not None and sent is not None:
            nic = port.split("/")[-3]
            reading.counters["_fabric_waited", nic] = reading.counters.get(("_fabric_waited", nic), 0.0) + waited
            reading.counters["_fabric_sent", nic] = reading.counters.get(("_fabric_sent", nic), 0.0) + sent
    for nic in _names(f"{root}/sys/class/cxi")[:MAX_PORTS]:
        for number in range(TRAFFIC_CLASSES):
            paused = _counter(f"{root}/sys/class/cxi/{nic}/device/telemetry/hni_tx_paused_{number}")
            if paused is not None:
                reading.counters["_fabric_paused", f"{nic}/{number}"] = paused * _PERCENT_OF_NS


def _infiniband(place: str) -> list[str]:
    return [f"{place}/{device}/ports/{port}" for device in _names(place) for port in _names(f"{place}/{device}/ports")]


def _names(place: str) -> list[str]:
    try:
        return sorted(os.listdir(place))
    except OSError:
        return []


def _counter(path: str) -> float | None:
    """A figure, for Slingshot with the time after an @."""
    try:
        return float(int(read_bytes(path).partition(b"@")[0]))
    except (OSError, ValueError):
        return None
