"""A pass that goes back decides what two passes decided, and a room that is rolled back is the room that was marked, bit for bit."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lattice.core.machine.commands import DrainNode, UpdateAllocation
from lattice.core.scheduler.placement.backfill import earliest_start
from lattice.core.scheduler.placement.solver import choose_nodes
from lattice.core.scheduler.plan import _Pass, plan
from lattice.core.scheduler.proposals import Plan
from lattice.core.scheduler.room.journal import Journal
from lattice.core.scheduler.room.lane import Lane
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.room.sums import Sum
from lattice.core.scheduler.room.timeline import Timeline
from lattice.core.scheduler.tables.snapshot import NO_VCLUSTER, Snapshot
from tests.conftest import sized
from tests.properties.machines import VCLUSTERS, draw_machine, draw_request
from tests.properties.reference.plan import plan as reference_plan
from tests.unit.core.scheduler.world import World

EXAMPLES = sized(120, 20_000, covered=240)
SEEDS = st.integers(min_value=0, max_value=2**32)
# Remembered functions of the snapshot, which a rollback leaves as they are.
CACHES = {"_usable_by", "_demands", "_memory_needs", "calendar", "snapshot", "_journal", "_marks", "_shares"}


def said(made: Plan, numbers: list[int]) -> dict[str, Any]:
    """All that anybody can learn from a plan."""
    return {
        "placements": made.placements,
        "reservations": made.reservations,
        "considered": made.considered,
        "wake_at": made.wake_at,
        "explanations": {number: made.explain(number) for number in numbers},
    }


def disturb(world: World, dice: Random) -> None:
    """What may break a promise: work that runs longer, nodes that go, work that comes, time that passes."""
    for number, record in list(world.state.allocations.items()):
        if record.is_holding and record.walltime_s and dice.random() < 0.4:
            world.try_to(UpdateAllocation(number=number, walltime_s=record.walltime_s + dice.choice((60, 600, 7200))))
    if dice.random() < 0.2:
        world.try_to(DrainNode(node=dice.choice(sorted(world.state.nodes))))
    for _ in range(dice.randrange(4)):
        walltime_s = dice.choice((0, 600, 7200))
        world.try_submit(draw_request(dice), vcluster=dice.choice(VCLUSTERS), walltime_s=walltime_s, preemption_class=5)
    world.now += dice.choice((0, 0, 1000, 600_000))


def compare(snapshot: Snapshot, now: int) -> None:
    numbers = snapshot.queue.number.tolist()
    assert said(plan(snapshot, {}, now), numbers) == said(reference_plan(snapshot, {}, now), numbers)


def compare_cycles(seed: int) -> None:
    """Compares the plans of a machine over some cycles, in which promises are put to the test."""
    dice = Random(seed)
    world = draw_machine(dice, tight_limits=dice.random() < 0.3)
    for _ in range(4):
        compare(world.cycle.snapshot(world.observations), world.now)
        world.run_cycle()
        disturb(world, dice)


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_a_plan_that_goes_back_decides_as_two_passes_did(seed: int) -> None:
    compare_cycles(seed)


def test_the_machines_compared_break_promises(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = 0
    to_the_letter: Callable[[_Pass, list[int]], None] = _Pass._keep_to_the_letter

    def counted(passed: _Pass, rows: list[int]) -> None:
        nonlocal letters
        letters += 1
        to_the_letter(passed, rows)

    monkeypatch.setattr(_Pass, "_keep_to_the_letter", counted)
    for seed in range(80):
        compare_cycles(seed)
    assert letters > 10


# rolling back


def frozen(value: Any) -> Any:  # noqa: ANN401
    """A deep, comparable copy of what the value holds, arrays as bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, Timeline):
        table = value._table[:, : value._size]
        return "timeline", id(value), frozen(np.ascontiguousarray(table)), value._has_shares
    if isinstance(value, Lane):
        return "lane", id(value), frozen(value._times), frozen(np.ascontiguousarray(value._steps))
    if isinstance(value, Sum):
        return "sum", value.used(), frozen(value._entries), frozen(value._steps)
    if isinstance(value, dict):
        return [(key, frozen(entry)) for key, entry in value.items()]
    if isinstance(value, list | tuple):
        return [frozen(entry) for entry in value]
    if is_dataclass(value) and not isinstance(value, type):
        return [frozen(getattr(value, field.name)) for field in fields(value)]
    return value


def state_of(room: Room) -> dict[str, Any]:
    found = {name: frozen(value) for name, value in vars(room).items() if name not in CACHES}
    tenants = room.snapshot.tenant_names
    return found | {f"present {tenant}": frozen(room._shares_of(tenant)) for tenant in tenants}


class Changes:
    """Draws changes of a room, as a search would make them."""

    def __init__(self, room: Room, dice: Random) -> None:
        self.room, self.dice = room, dice
        self.rows = room.snapshot.queue.number.tolist()
        self.holders = sorted({int(number) for number in room.snapshot.held["number"].tolist()})
        self.kept: set[int] = set()

    def make(self, count: int) -> None:
        for _ in range(count):
            self.dice.choice((self.take, self.take, self.keep, self.release, self.evict))()

    def _row(self) -> int:
        return self.dice.randrange(len(self.rows))

    def take(self) -> None:
        room, row = self.room, self._row()
        shape = room.snapshot.shape_of(row)
        demand = room.demand(shape.request, room.snapshot.vclusters[shape.vcluster])
        rows = room.candidates(demand, shape)
        if len(rows) >= demand.least:
            chosen = choose_nodes(room, demand, rows, demand.least)
            room.take(demand, chosen, shape.end_if_started(room.now), shape.tenant)

    def keep(self) -> None:
        room, row = self.room, self._row()
        number, shape = self.rows[row], room.snapshot.shape_of(row)
        demand = room.demand(shape.request, room.snapshot.vclusters[shape.vcluster])
        start = earliest_start(room, demand, shape)
        if start is not None and number not in self.kept:
            end = start.at + shape.walltime_s * 1000 if shape.walltime_s else 2**62
            room.keep(number, demand, start.rows, start.at, end)
            self.kept.add(number)

    def release(self) -> None:
        if self.kept:
            number = self.dice.choice(sorted(self.kept))
            self.kept.discard(number)
            self.room.release(number)

    def evict(self) -> None:
        if self.holders:
            self.room.evict(self.dice.choice(self.holders))


def drawn_room(seed: int) -> tuple[Room, Changes] | None:
    dice = Random(seed)
    world = draw_machine(dice)
    snapshot = world.cycle.snapshot(world.observations)
    if dice.random() < 0.4:
        snapshot.held["storage_mbps"][:] = dice.choice((0, 500))
        snapshot = _replaced(snapshot, storage_gbps=2.0)
    if not len(snapshot.queue.number):
        return None
    room = Room(snapshot, world.now)
    return room, Changes(room, dice)


def _replaced(snapshot: Snapshot, *, storage_gbps: float) -> Snapshot:
    return replace(snapshot, budgets=replace(snapshot.budgets, storage_gbps=storage_gbps))


@settings(max_examples=EXAMPLES, deadline=None)
@given(SEEDS)
def test_a_rollback_restores_every_array_bit_for_bit(seed: int) -> None:
    drawn = drawn_room(seed)
    if drawn is None:
        return
    room, changes = drawn
    changes.make(changes.dice.randrange(4))
    for _ in range(3):
        outer, kept = state_of(room), set(changes.kept)
        first = room.mark()
        changes.make(changes.dice.randrange(5))
        inner, kept_inside = state_of(room), set(changes.kept)
        second = room.mark()
        changes.make(changes.dice.randrange(5))
        if changes.dice.random() < 0.5:
            room.rollback(second)
            changes.kept = kept_inside
            assert state_of(room) == inner
        elif changes.dice.random() < 0.5:
            room.commit(second)
        changes.make(changes.dice.randrange(3))
        room.rollback(first)
        changes.kept = kept
        assert state_of(room) == outer


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(SEEDS)
def test_after_a_rollback_the_room_behaves_as_one_that_was_never_touched(seed: int) -> None:
    tried, untouched = drawn_room(seed), drawn_room(seed)
    if tried is None or untouched is None:
        return
    room, changes = tried
    mark = room.mark()
    Changes(room, Random(seed)).make(8)
    room.rollback(mark)
    changes.make(8)
    untouched[1].make(8)
    assert same_amounts(room) == same_amounts(untouched[0])


def same_amounts(room: Room) -> dict[str, Any]:
    """What the room says, apart from which objects say it."""
    found = {name: frozen(getattr(room, name)) for name in ("free", "cpus", "memory_mb", "gpus", "vcluster", "bar")}
    held = room.holdings()
    return found | {"node": held.node.tolist(), "end": held.end.tolist(), "gone": room._gone.tolist()}


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(SEEDS)
def test_evicting_everybody_leaves_the_empty_machine(seed: int) -> None:
    drawn = drawn_room(seed)
    if drawn is None:
        return
    room, changes = drawn
    for number in changes.holders:
        room.evict(number)
        assert not len(room.evict(number))
    nodes = room.snapshot.nodes
    usable = room.usable
    assert room.free[usable].all()
    assert (room.vcluster[usable] == NO_VCLUSTER).all()
    for column, full in (
        (room.cpus, nodes.kind_table.cpus),
        (room.memory_mb, nodes.kind_table.memory_mb),
        (room.gpus, nodes.kind_table.gpus),
    ):
        assert (column[usable] == full[nodes.kind][usable]).all()
    assert not len(room.holdings().node)
    assert not any(room.present(tenant).any() for tenant in room.snapshot.tenant_names)
    assert [total.used() for total in (room.power, room.storage) if total is not None] == [
        0 for total in (room.power, room.storage) if total is not None
    ]


def test_a_mark_ends_once() -> None:
    world = World()
    world.add_node("n0")
    world.submit()
    room = Room(world.cycle.snapshot(world.observations), world.now)
    outer = room.mark()
    inner = room.mark()
    room.rollback(outer)
    for ended in (outer, inner):
        with pytest.raises(ValueError, match="ended already"):
            room.rollback(ended)
    again = room.mark()
    room.commit(again)
    with pytest.raises(ValueError, match="ended already"):
        room.commit(again)


def test_a_journal_saves_nothing_while_nobody_wants_to_go_back() -> None:
    journal, column = Journal(), np.arange(4)
    rows = np.array([1, 2])
    journal.save(column, rows)
    place = journal.open()
    journal.save(column, rows)
    column[rows] = 9
    journal.undo(place)
    assert column.tolist() == [0, 1, 2, 3]
    journal.close(0)
    column[rows] = 9
    journal.undo(0)
    assert column.tolist() == [0, 9, 9, 3]
