"""What an agent says of its node is checked before it reaches the state."""

import pytest

from lattice.api.grpc.agents.messages import checkpoint_of, registration_of, report_of, step_report_of
from lattice.api.grpc.agents.values import BadMessage
from lattice.core.model.work.checkpoints import CheckpointPhase
from lattice.ports.nodes.checkpoints import REMOVED, STORAGE_AWAY
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


@pytest.mark.parametrize(
    "features",
    [["\x1b[31mred"], ["two words"], ["line\nbreak"], ["x" * 129], [""], [f"f{n}" for n in range(257)]],
)
def test_features_that_no_node_has_are_refused(features: list[str]) -> None:
    declared = pb.Hardware(cpus=4, memory_mb=4096, features=features)
    with pytest.raises(BadMessage, match="feature"):
        registration_of(pb.Register(node_id="n1", hardware=declared))


@pytest.mark.parametrize("field", ["address", "boot_id", "agent_version", "collector_address"])
def test_texts_that_cannot_be_shown_are_refused(field: str) -> None:
    said = pb.Register(node_id="n1", hardware=pb.Hardware(cpus=4, memory_mb=4096))
    setattr(said, field, "good\x1b[2Jbad")
    with pytest.raises(BadMessage, match="printable"):
        registration_of(said)


@pytest.mark.parametrize("figure", [float("nan"), float("inf"), float("-inf"), -1.0, 1e300])
def test_figures_of_a_run_are_finite_and_bounded(figure: float) -> None:
    said = pb.RunReport(
        phase=pb.PHASE_ENDED, cpu_s=figure, elapsed_s=figure, peak_memory_mb=2**64 - 1, message="a\x1bb"
    )
    report = report_of(said)
    assert report is not None
    assert 0 <= report.cpu_s <= 1e10
    assert 0 <= report.elapsed_s <= 1e10
    assert report.peak_memory_mb < 1 << 63
    assert report.message == "a?b"


def test_figures_of_a_step_are_finite_and_bounded() -> None:
    task = pb.TaskEnd(rank=0, message="a\nb")
    said = pb.StepReport(cpu_s=float("nan"), elapsed_s=float("inf"), peak_memory_mb=2**64 - 1, tasks=[task])
    report = step_report_of(said)
    assert (report.cpu_s, report.elapsed_s, report.tasks[0].message) == (0.0, 0.0, "a?b")
    assert report.peak_memory_mb < 1 << 63


@pytest.mark.parametrize(("said", "kept"), [(0, 0), (255, 255), (256, 255), (2**31 - 1, 255), (-1, 255)])
def test_exit_codes_are_codes_and_never_become_a_success(said: int, kept: int) -> None:
    report = report_of(pb.RunReport(phase=pb.PHASE_ENDED, exit_code=said))
    assert report is not None
    assert report.exit_code == kept
    assert step_report_of(pb.StepReport(tasks=[pb.TaskEnd(exit_code=said)])).tasks[0].exit_code == kept


@pytest.mark.parametrize(("said", "kept"), [(0, 0), (15, 15), (64, 64), (65, 9), (-5, 9)])
def test_signals_are_signals(said: int, kept: int) -> None:
    report = report_of(pb.RunReport(phase=pb.PHASE_ENDED, signal=said))
    assert report is not None
    assert report.signal == kept
    assert step_report_of(pb.StepReport(tasks=[pb.TaskEnd(signal=said)])).tasks[0].signal == kept


def test_everything_that_agents_say_of_checkpoints_is_taken_and_nothing_else() -> None:
    for phase in (*(each for each in CheckpointPhase if each is not CheckpointPhase.ASKED), REMOVED, STORAGE_AWAY):
        assert checkpoint_of(pb.CheckpointReport(phase=phase)).phase == phase
    for phase in ("", CheckpointPhase.ASKED, "eaten"):
        with pytest.raises(BadMessage, match="no phase of a checkpoint"):
            checkpoint_of(pb.CheckpointReport(phase=phase))
