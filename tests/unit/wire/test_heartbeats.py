"""Heartbeats of honest agents and of others: what everybody who lists nodes reads is a figure that a node could have."""

import math

import msgspec
import pytest
from google.protobuf.descriptor import FieldDescriptor as Field

from lattice.core.model.nodes.observations import Beat
from lattice.wire.agents.heartbeats import beat_of
from lattice.wire.pb import agent_pb2 as pb

OWN = {"seq", "session"}  # compared, never shown
EXTREMES: dict[int, list[object]] = {
    Field.TYPE_UINT32: [(1 << 32) - 1],
    Field.TYPE_UINT64: [(1 << 64) - 1],
    Field.TYPE_DOUBLE: [math.nan, math.inf, -math.inf, 1.7e308, -1.7e308],
    Field.TYPE_BYTES: [b"\x1b" * 1_000_000],
}
CASES = [
    (field.name, value)
    for field in pb.Heartbeat.DESCRIPTOR.fields
    if field.name not in OWN
    for value in EXTREMES[field.type]
]


@pytest.mark.parametrize(("name", "value"), CASES)
def test_figures_that_no_node_has_are_cut(name: str, value: object) -> None:
    beat = beat_of(pb.Heartbeat(**{name: value}))  # type: ignore[arg-type]
    for shown in msgspec.structs.asdict(beat).values():
        if isinstance(shown, bytes):
            assert len(shown) <= 8
        else:
            # JSON has no other numbers, and sums over all nodes have to fit into the 64 bits of protobuf.
            assert math.isfinite(shown)
            assert abs(shown) < 1 << 45


def test_an_honest_heartbeat_arrives_as_it_was_sent() -> None:
    sent = pb.Heartbeat(seq=3, running=2, load1=1.25, memory_used_mb=900, gpus=4, temperature_c=61.5, memory_errors=1)
    assert beat_of(sent) == Beat(
        seq=3, running=2, load1=1.25, memory_used_mb=900, gpus=4, temperature_c=61.5, memory_errors=1
    )
