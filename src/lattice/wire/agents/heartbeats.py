"""Heartbeats between the wire and the model, whichever way they came: on a node's own stream, or through a collector.

Figures that no node has are replaced by the nearest that one could have: everybody who lists nodes reads them.
"""

import math

from lattice.wire.agents.messages import HEARTBEAT

MAX_LOAD = 1e6
MAX_TEMPERATURE_C = 1e4
MAX_MEMORY_MB = 1 << 40
MAX_COUNT = (1 << 31) - 1
FINGERPRINT_BYTES = 8


def _figure(value: float, most: float) -> float:
    return min(max(value, -most), most) if math.isfinite(value) else 0.0


def _count(value: int) -> int:
    return min(value, MAX_COUNT)


beat_of = HEARTBEAT.reader(
    running=_count,
    load1=lambda load: max(0.0, _figure(load, MAX_LOAD)),
    memory_used_mb=lambda size: min(size, MAX_MEMORY_MB),
    fingerprint=lambda fingerprint: fingerprint[:FINGERPRINT_BYTES],
    gpus=_count,
    temperature_c=lambda degrees: _figure(degrees, MAX_TEMPERATURE_C),
    memory_errors=_count,
    failing_checks=_count,
)
