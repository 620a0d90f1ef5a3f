"""Every example of the scheduling guide, computed from the numbers that stand in it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lattice.core.machine.commands import SetSetting
from lattice.core.model.scheduler_signals import Signals
from lattice.core.model.site.weights import FACTORS
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.score.budget import penalties
from lattice.core.scheduler.score.energy import normalised_price
from lattice.core.scheduler.score.profiles import WEIGHTS, built_in
from lattice.core.scheduler.score.score import score
from tests.unit.core.scheduler.factors.test_placement_factors import grouped
from tests.unit.core.scheduler.factors.test_row_factors import values
from tests.unit.core.scheduler.test_budget import world_with
from tests.unit.core.scheduler.test_fairshare import deficit_of, machine, ran, tenant
from tests.unit.core.scheduler.world import HOUR, NOON, World

GUIDE = Path(__file__).parents[5] / "docs" / "guide" / "scheduling.md"
Numbers = dict[str, str]


def examples() -> dict[str, Numbers]:
    boxes = re.findall(r"```example (\w+)\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return {name: dict(line.split(" = ") for line in box.splitlines()) for name, box in boxes}


def priority(n: Numbers) -> float:
    world = World()
    world.submit(preemption_class=int(n["class"]))
    return values(world.snapshot(), "priority")[0]


def wait_time(n: Numbers) -> float:
    world = World()
    world.submit()
    world.do(SetSetting(key="scheduler.reference_wait_s", value=n["reference_wait_s"]))
    return values(world.snapshot(), "wait_time", NOON + int(n["wait_s"]) * 1000)[0]


def fair_share(n: Numbers) -> float:
    world = machine(tenant("physics", float(n["target"])), tenant("biology", float(n["other_target"])))
    ran(world, float(n["used_hours"]), tenant="physics")
    ran(world, float(n["other_used_hours"]), tenant="biology")
    return deficit_of(world, "physics")


def topology(n: Numbers) -> float:
    world = World()
    grouped(world, {f"g{place}": int(size) for place, size in enumerate(n["groups"].split())})
    world.submit(Request(nodes=int(n["nodes"])))
    return values(world.snapshot(), "topology")[0]


def data_readiness(n: Numbers) -> float:
    world = World()
    world.cycle.signals = Signals(data_readiness={world.submit(): float(n["on_hot_tier"])})
    return values(world.snapshot(), "data_readiness")[0]


def backlog(n: Numbers) -> float:
    world = World()
    names = [f"n{index}" for index in range(int(n["running_nodes"]))]
    world.add_nodes(names)
    running = world.submit(Request(nodes=len(names)), walltime_s=int(n["running_walltime_h"]) * 3600)
    world.place(running, *names)
    world.submit(Request(nodes=int(n["waiting_nodes"])), walltime_s=int(n["waiting_walltime_h"]) * 3600)
    return values(world.snapshot(), "backlog")[0]


def energy(n: Numbers) -> float:
    world = World()
    world.submit()
    hours = enumerate((n["cheapest"], n["price_now"], n["dearest"]), start=-1)
    prices = [(NOON + hour * HOUR, float(price)) for hour, price in hours]
    world.cycle.signals = Signals(energy_price=normalised_price(prices, NOON))
    return values(world.snapshot(), "energy")[0]


def checkpoint(n: Numbers) -> float:
    world = World()
    world.cycle.signals = Signals(checkpoint_minutes={world.submit(): float(n["minutes"])})
    return values(world.snapshot(), "checkpoint")[0]


def conformance(n: Numbers) -> float:
    world = World()
    fingerprints = {}
    for print_of, size in enumerate(n["equal_nodes"].split()):
        for index in range(int(size)):
            world.add_node(f"n{print_of}-{index}")
            fingerprints[f"n{print_of}-{index}"] = f"fingerprint {print_of}"
    world.cycle.signals = Signals(fingerprints=fingerprints)
    world.submit(Request(nodes=int(n["nodes"])))
    return values(world.snapshot(), "conformance")[0]


def expansion(n: Numbers) -> float:
    world = World()
    world.submit(walltime_s=int(n["walltime_s"]))
    return values(world.snapshot(), "expansion", NOON + int(n["wait_s"]) * 1000)[0]


def budget(n: Numbers) -> float:
    gpus = int(float(n["gpu_hours_used"]) / float(n["node_hours_used"]))
    world = world_with(node_hours_budget=float(n["node_hours_budget"]), gpu_hours_budget=float(n["gpu_hours_budget"]))
    world.add_node("n7", gpus=gpus)
    ran(world, float(n["node_hours_used"]), node="n7", tenant="physics")
    found = penalties(world.snapshot(), world.now)
    assert found is not None
    return float(found[0])


def whole_score(n: Numbers) -> float:
    """The factors that the box names must be those of the situation that the text tells."""
    world = machine(tenant("biology"))
    running = world.submit(Request(nodes=2), tenant="biology", walltime_s=3600)
    world.place(running, "n0", "n1")
    world.report_running(running)
    world.submit(preemption_class=int(n["class"]), walltime_s=4 * 3600)
    world.now += int(n["wait_s"]) * 1000
    scores = score(world.snapshot(), {"default": built_in(n["profile"])}, world.now)
    said = scores.of(0)
    for name in set(FACTORS) & set(n):
        assert said[name] == pytest.approx(float(n[name])), name
    return said["total"]


COMPUTED: dict[str, Callable[[Numbers], float]] = {
    "priority": priority,
    "wait_time": wait_time,
    "fair_share": fair_share,
    "topology": topology,
    "data_readiness": data_readiness,
    "backlog": backlog,
    "energy": energy,
    "checkpoint": checkpoint,
    "conformance": conformance,
    "expansion": expansion,
    "budget": budget,
    "score": whole_score,
}


def test_every_factor_has_an_example() -> None:
    assert set(FACTORS) < set(COMPUTED) == set(examples())


@pytest.mark.parametrize("name", sorted(COMPUTED))
def test_the_example_is_true(name: str) -> None:
    numbers = examples()[name]
    assert COMPUTED[name](numbers) == pytest.approx(float(numbers[name]), abs=5e-5)


def test_the_table_of_profiles_is_the_one_in_force() -> None:
    lines = re.findall(r"^\| (\w+) \| ([\d.| ]+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert {name: tuple(float(cell) for cell in cells.split("|")) for name, cells in lines} == WEIGHTS
