"""Tags change for as long as an allocation lives."""

from lattice.core.machine import commands as cmd
from tests.unit.core.machine.world import World


def test_tags_are_set_and_dropped_in_one_step() -> None:
    world = World()
    number = world.submit(tags=(("a", "1"), ("b", "2")))
    world.must(cmd.UpdateAllocation(number=number, set_tags=(("c", "3"), ("a", "9")), drop_tags=("b", "unknown")))
    assert world[number].tags == (("a", "9"), ("c", "3"))
    world.must(cmd.UpdateAllocation(number=number, name="other"))
    assert world[number].tags == (("a", "9"), ("c", "3"))


def test_tags_of_a_group_hold_for_the_tasks_to_come() -> None:
    world = World()
    group = world.submit(tasks=((0, 3, 1),))
    world.must(cmd.UpdateAllocation(number=group, set_tags=(("a", "1"),)))
    world.place(group + 1, "n1")
    assert world[group + 1].tags == (("a", "1"),)


def test_too_many_tags_are_refused() -> None:
    world = World()
    number = world.submit(tags=tuple((f"k{k:02}", "") for k in range(60)))
    more = tuple((f"m{k:02}", "") for k in range(5))
    refused = world.refused(cmd.UpdateAllocation(number=number, set_tags=more))
    assert (refused.current, refused.requested, refused.limit) == ("60 tags", "65 tags", "64 tags")
