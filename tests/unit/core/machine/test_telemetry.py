"""How closely an allocation is measured is state: set with the submission or later, checked, and new with level 2."""

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import OLDEST
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.telemetry.modes import ACCESS_FEATURE, Mode, Telemetry
from lattice.core.model.work.allocations import Request
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


AUDIT = Telemetry(mode=Mode.AUDIT)
WATCHED = Request(nodes=1, features=(ACCESS_FEATURE,))


def test_mode_audit_is_for_sensitive_work_on_nodes_that_can_carry_it_out() -> None:
    world = World(scheduler=SENSITIVE)
    world.add_node("n4", features=(ACCESS_FEATURE,))
    assert "feature" in world.refused(world.submission(telemetry=AUDIT)).message
    number = world.submit(telemetry=AUDIT, request=WATCHED)
    world.place(number, "n4")
    refused = world.refused(cmd.UpdateAllocation(number=number, telemetry=DEBUG))
    assert refused.code == "conflict"
    assert "until it ends" in refused.message
    world.must(cmd.UpdateAllocation(number=number, telemetry=AUDIT))


def test_running_work_gets_into_mode_audit_where_its_nodes_can_carry_it_out() -> None:
    world = World(scheduler=SENSITIVE)
    number = world.submit()
    assert "no nodes" in world.refused(cmd.UpdateAllocation(number=number, telemetry=AUDIT)).message
    world.place(number, "n1")
    assert "n1" in world.refused(cmd.UpdateAllocation(number=number, telemetry=AUDIT)).message
    world.add_node("n4", features=(ACCESS_FEATURE,))
    other = world.submit()
    world.place(other, "n4")
    world.must(cmd.UpdateAllocation(number=other, telemetry=AUDIT))
    assert world[other].request.features == (ACCESS_FEATURE,), "a later run needs such a node, too"


def test_other_work_cannot_be_in_mode_audit() -> None:
    world = World()
    world.add_node("n4", features=(ACCESS_FEATURE,))
    refused = world.refused(world.submission(telemetry=AUDIT, request=WATCHED))
    assert (refused.code, "sensitive" in refused.message) == ("invalid", True)
