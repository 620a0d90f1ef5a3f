"""How closely an allocation is measured is state: set with the submission or later, checked, and new with level 2."""

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import OLDEST
from lattice.core.model.telemetry.modes import Mode, Telemetry
from tests.unit.core.machine.world import World

DEBUG = Telemetry(mode=Mode.DEBUG, duration_s=600)


def test_a_mode_that_is_asked_for_while_it_runs_counts_from_then_on() -> None:
    world = World()
    number = world.submit()
    world.must(cmd.UpdateAllocation(number=number, telemetry=DEBUG))
    waiting = world[number].telemetry
    assert waiting is not None
    assert waiting.since_ms == 0, "of work that waits it counts from the start"
    world.place(number, "n1")
    world.must(cmd.UpdateAllocation(number=number, telemetry=DEBUG))
    running = world[number].telemetry
    assert running is not None
    assert running.since_ms > 0
    world.must(cmd.UpdateAllocation(number=number, name="other"))
    assert world[number].telemetry == running


def test_a_submission_may_say_it() -> None:
    world = World()
    assert world[world.submit(telemetry=DEBUG)].telemetry == DEBUG
    group = world.submit(tasks=((0, 3, 1),), telemetry=DEBUG)
    world.place(group + 1, "n1")
    assert world[group + 1].telemetry == DEBUG


def test_what_cannot_be_is_refused() -> None:
    world = World()
    number = world.submit()
    for bad in (Telemetry(mode=Mode.AUDIT), Telemetry(mode=Mode.DEBUG, duration_s=90_000)):
        assert world.refused(cmd.UpdateAllocation(number=number, telemetry=bad)).code == "invalid"
        assert world.refused(world.submission(telemetry=bad)).code == "invalid"
    assert world[number].telemetry is None


def test_below_its_level_it_is_refused_by_name() -> None:
    world = World(level=OLDEST)
    number = world.submit()
    refused = world.refused(cmd.UpdateAllocation(number=number, telemetry=DEBUG))
    assert "telemetry" in refused.message
