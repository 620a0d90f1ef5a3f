"""The watched stream against the log: whatever people see change comes through, once and in order, whatever commands there are."""

from collections.abc import Callable
from typing import get_args

import pytest

from lattice.api.streams.changes import ALLOCATION_EVENTS, SILENT, Change, ChangeRing, OfAllocation, Shown
from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.apply import apply
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from lattice.ports.quorum.replica import Subscriber
from lattice.wire.work.allocations import group_state
from tests.properties.commands_generator import CommandGenerator

SEEDS = range(6)
COMMANDS = 1_500
Seen = dict[tuple[str, int | str], str]


class Playback:
    """As much of a replica as the ring needs: every command is an entry of its own."""

    def __init__(self) -> None:
        self.state = State.empty()
        self.applied_index = 0
        self.subscribers: list[Subscriber] = []

    def subscribe(self, callback: Subscriber, of: tuple[type, ...] = ()) -> Callable[[], None]:
        self.subscribers.append(callback)
        return lambda: self.subscribers.remove(callback)

    def do(self, envelope: cmd.Envelope) -> None:
        outcome = apply(self.state, envelope)
        index = self.applied_index + 1
        if isinstance(outcome, Accepted) and outcome.events:
            for callback in self.subscribers:
                callback(index, envelope, outcome.events)
        self.applied_index = index

    def seen(self) -> Seen:
        """The states that people see now."""
        state = self.state
        found: Seen = {("allocation", number): record.state for number, record in state.allocations.items()}
        found |= {("allocation", number): group_state(group) for number, group in state.groups.items()}
        found |= {("node", name): node.state for name, node in state.nodes.items()}
        return found | {("dag", number): dag.state for number, dag in state.dependencies.dags.items()}


def key_of(change: Change) -> tuple[str, int | str]:
    return change.what, change.number or change.label


def test_every_event_is_shown_or_known_to_be_no_change_of_state() -> None:
    shown, silent = set(get_args(Shown)), set(SILENT)
    assert set(get_args(ev.AnyEvent)) == shown | silent
    assert not shown & silent


def test_every_event_of_an_allocation_has_a_name_in_the_stream() -> None:
    assert set(ALLOCATION_EVENTS) == set(get_args(OfAllocation))


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_changes_is_told_with_the_state_it_has_afterwards(seed: int) -> None:
    replica = Playback()
    ring = ChangeRing(replica)  # type: ignore[arg-type]
    generator = CommandGenerator(seed, replica.state)
    for envelope in generator.founding():
        replica.do(envelope)
    for _ in range(COMMANDS):
        before, place, envelope = replica.seen(), ring.end, generator.next()
        replica.do(envelope)
        told = {key_of(change): change.state for change in ring.read(place, 10_000)}
        after = replica.seen()
        for key, state in after.items():
            is_task_released = key not in before and state == "Pending" and key[0] == "allocation"
            if before.get(key) != state and not is_task_released:
                assert told.get(key) == state, (envelope, key, before.get(key), state, told)


def test_places_are_those_of_the_log_also_in_the_ring_of_another_server() -> None:
    first, second = Playback(), Playback()
    rings = [ChangeRing(replica) for replica in (first, second)]  # type: ignore[arg-type]
    generator = CommandGenerator(7, first.state)
    envelopes = [*generator.founding()]
    for envelope in envelopes:
        first.do(envelope)
    for _ in range(300):
        envelopes.append(generator.next())
        first.do(envelopes[-1])
    for envelope in envelopes:
        second.do(envelope)
    for index in (0, 1, 57, 299):
        places = [ring.place_after(index) for ring in rings]
        assert places[0][1]
        assert places[1][1]
        assert rings[0].read(places[0][0], 10_000) == rings[1].read(places[1][0], 10_000)


def test_a_ring_that_begins_later_says_what_it_has_not_seen() -> None:
    replica = Playback()
    generator = CommandGenerator(3, replica.state)
    for envelope in generator.founding():
        replica.do(envelope)
    ring = ChangeRing(replica)  # type: ignore[arg-type]
    begun = replica.applied_index
    assert ring.place_after(begun) == (0, True)
    assert ring.place_after(begun - 1) == (0, False)
