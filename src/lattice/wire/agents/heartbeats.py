"""Heartbeats between the wire and the model, whichever way they came: on a node's own stream, or through a collector.

Figures that no node has are replaced by the nearest that one could have: everybody who lists nodes reads them.
"""

import math

from lattice.core.model.nodes.observations import Beat
from lattice.wire.pb import agent_pb2 as pb

MAX_LOAD = 1e6
MAX_TEMPERATURE_C = 1e4
MAX_MEMORY_MB = 1 << 40
MAX_COUNT = (1 << 31) - 1
FINGERPRINT_BYTES = 8


def _figure(value: float, most: float) -> float:
    return min(max(value, -most), most) if math.isfinite(value) else 0.0


def beat_of(message: pb.Heartbeat) -> Beat:
    return Beat(
        seq=message.seq,
        running=min(message.running, MAX_COUNT),
        load1=max(0.0, _figure(message.load1, MAX_LOAD)),
        memory_used_mb=min(message.memory_used_mb, MAX_MEMORY_MB),
        session=message.session,
        fingerprint=message.fingerprint[:FINGERPRINT_BYTES],
        gpus=min(message.gpus, MAX_COUNT),
        temperature_c=_figure(message.temperature_c, MAX_TEMPERATURE_C),
        memory_errors=min(message.memory_errors, MAX_COUNT),
        failing_checks=min(message.failing_checks, MAX_COUNT),
    )
