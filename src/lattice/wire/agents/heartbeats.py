"""Heartbeats between the wire and the model, whichever way they came: on a node's own stream, or through a collector."""

from lattice.core.model.nodes.observations import Beat
from lattice.wire.pb import agent_pb2 as pb


def beat_of(message: pb.Heartbeat) -> Beat:
    return Beat(
        seq=message.seq,
        running=message.running,
        load1=message.load1,
        memory_used_mb=message.memory_used_mb,
        session=message.session,
        fingerprint=message.fingerprint,
        gpus=message.gpus,
        temperature_c=message.temperature_c,
        memory_errors=message.memory_errors,
        failing_checks=message.failing_checks,
    )
