"""Use of GPUs and energy are added up from the first sample of a run to its end."""

from types import SimpleNamespace

import pytest

from lattice.agent.machine.state import End
from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.totals import KEEP, LONGEST_S, RunTotals
from lattice.core.model.work.efficiency import use_sentence
from lattice.core.model.work.usage import Usage, total_usage
from lattice.ports.nodes.agents import EndCause, RunKey
from lattice.wire.work.usage import usage_view

KEY = RunKey(7, 1)
END = End(cause=EndCause.EXIT, usage=Usage(read_bytes=5))


class Stage:
    def __init__(self) -> None:
        self.node = Target(None, 4.0)
        self.now_s = 0.0
        self.samples: list[object] = []
        collector = SimpleNamespace(node=self.node, samples=self.samples)
        self.totals = RunTotals(collector, lambda: self.now_s)  # type: ignore[arg-type]

    def sample(self, after_s: float, key: RunKey | None = KEY, **figures: float) -> None:
        self.now_s += after_s
        found = {(name.partition("__")[0], name.partition("__")[2]): value for name, value in figures.items()}
        self.totals._sampled(Target(key, 1.0), found)


def test_gpus_and_energy_add_up() -> None:
    stage = Stage()
    stage.node.figures = {("power_draw", ""): 100.0, ("cpus_used", ""): 4.0}
    stage.sample(0.0)
    for _ in range(10):
        stage.sample(1.0, cpus_used=1.0, gpu_utilization__0=80.0, gpu_utilization__1=20.0, gpu_power_draw__0=300.0)
    usage = stage.totals.added(KEY, END).usage
    assert (usage.gpu_used_s, usage.gpu_held_s, usage.read_bytes) == (10.0, 20.0, 5)
    assert usage.energy_j == pytest.approx(10 * (300 + 25))
    shown = usage_view(total_usage([usage, usage]))
    assert shown.gpu_efficiency == 50.0
    assert shown.energy_kwh == pytest.approx(6500 / 3.6e6, rel=1e-3)


def test_what_is_not_measured_is_not_there() -> None:
    stage = Stage()
    stage.sample(0.0)
    stage.sample(1.0, cpus_used=1.0)
    shown = usage_view(stage.totals.added(KEY, END).usage)
    assert (shown.gpu_efficiency, shown.energy_kwh) == (None, None)
    assert stage.totals.added(KEY, END) == END, "an end is told once more after a restart"


def test_a_gap_is_not_filled_and_old_runs_are_forgotten() -> None:
    stage = Stage()
    stage.sample(0.0)
    stage.sample(3600.0, gpu_power_draw__0=100.0)
    assert stage.totals.added(KEY, END).usage.energy_j == LONGEST_S * 100
    for number in range(KEEP + 5):
        stage.sample(0.0, RunKey(number, 1))
    assert len(stage.totals._totals) == KEEP
    stage.sample(1.0, None, gpu_power_draw__0=1.0)
    assert len(stage.totals._totals) == KEEP


@pytest.mark.parametrize(
    ("cpus", "cpu_s", "elapsed_s", "memory", "expected"),
    [
        (8, 110.0, 100.0, (0, 0), "asked for 8 CPUs, used 1.1"),
        (1, 50.0, 100.0, (1000, 20), "asked for 1 CPU, used 0.5; asked for 1000 MB, used 20 MB"),
        (0, 50.0, 100.0, (1, 1), ""),
        (4, 0.0, 100.0, (1, 1), ""),
        (4, float("nan"), 100.0, (1, 1), ""),
        (4, 5.0, 0.0, (1, 1), ""),
    ],
)
def test_one_sentence_says_what_was_asked_for_and_used(
    cpus: int, cpu_s: float, elapsed_s: float, memory: tuple[int, int], expected: str
) -> None:
    assert use_sentence(cpus, cpu_s, elapsed_s, *memory) == expected
