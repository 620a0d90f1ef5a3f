"""Shortcuts of the plan change nothing: bounds on the queue, and requests compared with all kinds of nodes at once."""

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.work.allocations import Request
from lattice.core.model.work.shares import amounts, suits
from lattice.core.scheduler.placement.bounds import Bounds
from lattice.core.scheduler.tables.kinds import KindTable
from lattice.core.scheduler.tables.slots import Bools, Rows
from tests.conftest import sized
from tests.properties.machines import draw_machine, draw_work

SEEDS = st.integers(min_value=0, max_value=2**32)
EXAMPLES = sized(300, 10_000)


def everything(bounds: Bounds, rows: Rows) -> Bools:
    return np.ones(len(rows), np.bool_)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_with_and_without_bounds_the_same_starts(seed: int) -> None:
    dice = Random(seed)
    world = draw_machine(dice)
    for _ in range(3):
        draw_work(world, dice)
    world.cycle.load(world.state)
    bounded = world.plan()
    world.cycle.load(world.state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bounds, "possible", everything)
        unbounded = world.plan()
    assert bounded.placements == unbounded.placements
    assert bounded.reservations == unbounded.reservations


def draw_hardware(dice: Random) -> Hardware:
    gpus = dice.choice((0, 2, 4))
    return Hardware(
        cpus=dice.choice((2, 4, 64)),
        memory_mb=dice.choice((0, 2000, 4001)),
        gpus=gpus,
        gpu_type=dice.choice(("H100", "A100")) if gpus else "",
        features=dice.choice(((), ("nvme",), ("ib", "nvme"))),
        unified_memory=dice.random() < 0.5,
        cxl_memory_mb=dice.choice((0, 3000)),
    )


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_all_kinds_at_once_are_judged_as_one_by_one(seed: int) -> None:
    dice = Random(seed)
    kinds = tuple(draw_hardware(dice) for _ in range(dice.randrange(1, 6)))
    request = Request(
        cpus=dice.choice((0, 1, 3, 50)),
        memory_mb=dice.choice((0, 0, 2000, 4500)),
        min_memory_mb=dice.choice((0, 0, 3000)),
        gpus=dice.choice((0, 1, 3)),
        gpu_type=dice.choice(("", "", "H100", "none")),
        features=dice.choice(((), ("nvme",), ("ib", "nvme"), ("none",))),
        require_unified_memory=dice.random() < 0.3,
        allow_cxl_memory=dice.random() < 0.3,
    )
    table = KindTable(kinds)
    assert table.suits(request).tolist() == [suits(request, kind) for kind in kinds]
    assert table.share_memory_mb(request).tolist() == [amounts(request, kind)[1] for kind in kinds]
