"""The timelines agree with brute force, and the one for a single node with the one for many."""

from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.room.lane import Lane
from lattice.core.scheduler.room.timeline import Openings, Timeline, shared_nodes
from lattice.core.scheduler.tables.snapshot import NEVER, NO_VCLUSTER
from tests.conftest import sized

SEEDS = st.integers(min_value=0, max_value=2**32)
EXAMPLES = sized(300, 10_000)
NOW, CPUS, MEMORY, OWNER = 1000, 16, 64, 3
LONG = 40


def demand(cpus: int, memory_mb: int, *, whole: bool = False, vcluster: int = OWNER) -> Demand:
    return Demand(
        request=Request(cpus=cpus),
        vcluster=vcluster,
        is_whole=whole,
        usable=np.array([True]),
        cpus=cpus,
        gpus=0,
        memory_mb=np.array([memory_mb]),
    )


class Brute:
    """Free amounts and owner at each second."""

    def __init__(self, held: list[tuple[int, int, int]]) -> None:
        self.free = [[CPUS, MEMORY, NO_VCLUSTER] for _ in range(LONG)]
        for end, cpus, memory_mb in held:
            self.take(demand(cpus, memory_mb), 0, end - NOW)

    def take(self, wanted: Demand, start: int, end: int) -> None:
        for second in range(start, min(end, LONG)):
            free = self.free[second]
            free[0] -= free[0] if wanted.is_whole else wanted.cpus
            free[1] -= free[1] if wanted.is_whole else int(wanted.memory_mb[0])
            free[2] = wanted.vcluster

    def fits(self, wanted: Demand, second: int) -> bool:
        cpus, memory_mb, owner = self.free[second]
        if wanted.is_whole:
            return owner == NO_VCLUSTER
        enough = cpus >= wanted.cpus and memory_mb >= int(wanted.memory_mb[0])
        return enough and owner in (NO_VCLUSTER, wanted.vcluster)

    def openings(self, wanted: Demand) -> list[tuple[int, int]]:
        found, start = [], None
        for second in range(LONG + 1):
            is_open = second < LONG and self.fits(wanted, second)
            if is_open and start is None:
                start = second
            if not is_open and start is not None:
                found.append((NOW + start, NEVER if second == LONG else NOW + second))
                start = None
        return found


def listed(openings: Openings) -> list[tuple[int, int]]:
    return sorted(zip(openings.start.tolist(), openings.end.tolist(), strict=True))


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_both_timelines_agree_with_brute_force(seed: int) -> None:
    dice = Random(seed)
    held: list[tuple[int, int, int]] = []
    left = CPUS
    while left > 0 and (not held or dice.random() < 0.8):
        cpus = dice.randint(1, min(5, left))
        left -= cpus
        held.append((NOW + dice.randint(1, 20), cpus, dice.randint(0, 4)))
    brute = Brute(held)
    free, full = np.array([*brute.free[0][:2], 0]), np.array([CPUS, MEMORY, 0])
    ends = np.array([end for end, _, _ in held])
    amounts = np.array([[cpus, memory_mb, 0] for _, cpus, memory_mb in held]).T
    table = np.concatenate([np.zeros((1, len(held)), np.int64), [ends], amounts])
    rows, owner = np.array([0]), np.array([OWNER])
    segments = shared_nodes(NOW, rows, free[None], full[None], owner, table)
    both = Timeline(segments, rows, has_shares=True), Lane(NOW, 0, OWNER, free, full, ends, amounts)
    for _ in range(12):
        wanted = demand(
            dice.randint(1, 12),
            dice.choice((0, 4, 30)),
            whole=dice.random() < 0.15,
            vcluster=dice.choice((OWNER, OWNER, 5)),
        )
        expected = brute.openings(wanted)
        assert [listed(one.openings(wanted)) for one in both] == [expected, expected]
        assert_ahead(brute, both)
        expected = [opening for opening in expected if opening[0] < NOW + 30]
        if not expected:
            continue
        first, last = dice.choice(expected)
        start = dice.randint(first, min(last, NOW + 30) - 1)
        end = dice.randint(start + 1, NOW + 35 if last == NEVER else last)
        brute.take(wanted, start - NOW, end - NOW)
        for one in both:
            one.occupy(wanted, rows, start, end)


def assert_ahead(brute: Brute, both: tuple[Timeline, Lane]) -> None:
    """For every end, the CPUs that stay free until then are those of the first entry that reaches it."""
    for one in both:
        until, cpus, _ = one.ahead(0, NOW).tolist() or ([], [], [])
        for end in range(1, LONG):
            stays = min(free[0] for free in brute.free[:end])
            entry = next((amount for limit, amount in zip(until, cpus, strict=True) if limit >= NOW + end), 0)
            assert entry == stays
