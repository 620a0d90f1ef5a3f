"""What an agent says of its node is checked before it reaches the state."""

import pytest

from lattice.api.grpc.agents.messages import BadMessage, registration_of
from lattice.wire.pb import agent_pb2 as pb


@pytest.mark.parametrize(
    "hardware",
    [
        {"memory_mb": 2**63},
        {"memory_mb": 2**64 - 1},
        {"cpus": 2**32 - 1},
        {"gpus": 2**32 - 1},
        {"cxl_memory_mb": 2**63},
        {"power_w": 2**32 - 1},
        {"cpus": 0},
        {"memory_mb": 0},
    ],
)
def test_hardware_that_no_node_has_is_refused(hardware: dict[str, int]) -> None:
    declared = pb.Hardware(cpus=4, memory_mb=4096)
    for name, figure in hardware.items():
        setattr(declared, name, figure)
    with pytest.raises(BadMessage, match="node n1 declares"):
        registration_of(pb.Register(node_id="n1", hardware=declared))


def test_large_hardware_is_taken() -> None:
    declared = pb.Hardware(cpus=1024, memory_mb=64 << 20, gpus=16)
    assert registration_of(pb.Register(node_id="n1", hardware=declared)).hardware.memory_mb == 64 << 20


def test_what_a_node_says_of_its_memory_and_power_is_kept() -> None:
    declared = pb.Hardware(cpus=4, memory_mb=4096, unified_memory=True, cxl_memory_mb=2048, power_w=700)
    hardware = registration_of(pb.Register(node_id="n1", hardware=declared)).hardware
    assert (hardware.unified_memory, hardware.cxl_memory_mb, hardware.power_w) == (True, 2048, 700)
