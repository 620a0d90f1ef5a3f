"""Data on the hot tier: who wants it, one copy for all, and work that waits until it is there."""

import pytest

from lattice.core.machine import commands as cmd
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.machine.levels import OLDEST
from lattice.core.machine.rules.data.staging import is_settled
from lattice.core.model.data.copies import MAX_SOURCES, Copy, CopyPhase, CopyState, DataUse, folder_of, key_of
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.site.tenants import SENSITIVE
from lattice.core.model.work.allocations import AllocationState, Cause
from tests.unit.core.machine.world import World

SOURCE = "file:///warm/set"
KEY = key_of(SOURCE)
MOVER = "m1"


class Tier(World):
    """Shorthands for what a mover does."""

    def copy(self, key: str = KEY) -> Copy:
        return self.state.staging.copies[key]

    def claim(self, key: str = KEY) -> None:
        self.must(cmd.ClaimCopy(key=key, mover=MOVER))

    def say(self, phase: CopyPhase, key: str = KEY, **fields: object) -> None:
        generation = fields.pop("generation", self.copy(key).next_generation)
        said = cmd.ReportCopy(key=key, mover=MOVER, generation=generation, phase=phase, **fields)  # type: ignore[arg-type]
        self.must(said)

    def sized(self, *, readers: tuple[str, ...] = ("ada",), key: str = KEY, **fields: object) -> None:
        self.say(CopyPhase.SIZED, key, size=100, files=2, readers=readers, **fields)

    def copied(self, **fields: object) -> None:
        self.claim()
        self.sized(**fields)  # type: ignore[arg-type]
        self.say(CopyPhase.READY, size=100, files=2, version="v1")

    def settle(self, *numbers: int) -> None:
        self.must(cmd.SettleData(numbers=numbers))

    def set(self, key: str, value: str) -> None:
        self.must(cmd.SetSetting(key=key, value=value))


def test_work_waits_in_staging_until_its_data_is_there() -> None:
    world = Tier()
    number = world.submit(data=(SOURCE,))
    assert (world[number].state, world.copy().state) == (AllocationState.STAGING, CopyState.WANTED)
    world.settle(number, number + 1)  # there is no such allocation
    assert world[number].state is AllocationState.STAGING
    assert not is_settled(world.state, world[number])
    placed = cmd.PlaceAllocation(number=number, run=1, shares=(Share(node="n1"),))
    assert world.refused(placed).message == f"a{number} is Staging"
    world.copied()
    world.settle(number)
    assert (world[number].state, world[number].data) == (AllocationState.PENDING, (DataUse(KEY, 1),))
    world.settle(number)  # it waits for nodes by now
    world.place(number, "n1")
    assert not world.state.staging.waiting
    assert world.state.staging.is_used(KEY, 1)
    assert not world.state.staging.is_used(KEY, 2)


def test_most_of_the_data_is_enough_to_start() -> None:
    world = Tier()
    number = world.submit(data=(SOURCE,))
    world.claim()
    world.sized()
    world.settle(number)
    assert world[number].state is AllocationState.STAGING
    world.say(CopyPhase.USABLE)
    world.settle(number)
    assert (world[number].state, world[number].data) == (AllocationState.PENDING, (DataUse(KEY, 1),))


def test_several_share_one_copy_and_who_comes_later_has_it_compared() -> None:
    world = Tier()
    first, second = world.submit(data=(SOURCE,)), world.submit(data=(SOURCE,))
    world.claim()
    third = world.submit(data=(SOURCE,))
    world.sized()
    world.say(CopyPhase.READY, size=100, files=2, version="v1")
    assert world.copy().state is CopyState.WANTED  # for the third, which came after the comparison began
    world.settle(first, second, third)
    assert world[first].state is AllocationState.STAGING
    world.claim()
    world.sized()
    world.say(CopyPhase.UNCHANGED)
    world.settle(first, second, third)
    assert {world[each].state for each in (first, second, third)} == {AllocationState.PENDING}
    assert (world.copy().generation, world.copy().old) == (1, ())


def test_a_changed_source_is_another_generation_and_running_work_keeps_its_own() -> None:
    world = Tier()
    first = world.submit(data=(SOURCE,))
    world.copied()
    world.settle(first)
    world.place(first, "n1")
    second = world.submit(data=(SOURCE,))
    world.copied()
    world.settle(second)
    assert (world[first].data, world[second].data) == ((DataUse(KEY, 1),), (DataUse(KEY, 2),))
    assert world.copy().old == (1,)
    world.say(CopyPhase.REMOVED, generation=1)
    assert world.copy().old == ()
    world.say(CopyPhase.REMOVED, generation=1)
    assert world.state.staging.is_used(KEY, 2)


def test_a_copy_that_was_compared_lately_needs_no_comparison() -> None:
    world = Tier()
    world.set("staging.recheck_s", "60")
    first = world.submit(data=(SOURCE,))
    world.copied()
    world.settle(first)
    second = world.submit(data=(SOURCE,))
    assert (world[second].state, world[second].data) == (AllocationState.PENDING, (DataUse(KEY, 1),))
    other = world.submit(data=(SOURCE,), user="bob", account="bob")
    assert (world[other].state, world.copy().state) == (AllocationState.STAGING, CopyState.WANTED)
    world.claim()
    late = world.submit(data=(SOURCE,), user="eve", account="eve")
    world.sized(readers=("bob",))
    world.say(CopyPhase.UNCHANGED)
    assert world.copy().state is CopyState.WANTED  # whether eve may is not known yet
    world.claim()
    world.sized(readers=("bob", "eve"))
    world.say(CopyPhase.UNCHANGED)
    world.settle(other, late)
    assert world[late].state is AllocationState.PENDING


def test_who_may_not_read_the_source_never_runs() -> None:
    world = Tier()
    number = world.submit(data=(SOURCE,))
    group = world.submit(data=(SOURCE,), tasks=((0, 2, 1),))
    world.claim()
    world.sized(readers=(), denied=(("ada", "ada may not read it"),))
    world.settle(number, group)
    ended = world[number]
    assert (ended.state, ended.cause, ended.message) == (
        AllocationState.FAILED,
        Cause.LAUNCH,
        f"{SOURCE}: ada may not read it",
    )
    assert world.state.groups[group].failed == 3
    task = world.state.find(group + 1)
    assert task is not None
    assert (task.state, task.cause) == (AllocationState.FAILED, Cause.LAUNCH)


def test_who_may_not_read_the_source_does_not_keep_others_from_it() -> None:
    world = Tier()
    number = world.submit(data=(SOURCE,))
    world.claim()
    late = world.submit(data=(SOURCE,), user="bob", account="bob")
    world.sized(readers=(), denied=(("ada", "ada may not read it"),))
    assert (world.copy().state, world.copy().is_claimed) == (CopyState.WANTED, False)
    world.settle(number, late)
    assert (world[number].state, world[late].state) == (AllocationState.FAILED, AllocationState.STAGING)
    world.copied(readers=("bob",))
    world.settle(late)
    again = world.submit(data=(SOURCE,))
    world.claim()
    world.sized(readers=(), denied=(("ada", "ada may not read it"),))
    assert (world.copy().state, world.copy().generation) == (CopyState.READY, 1)
    world.settle(again)
    assert world[again].state is AllocationState.FAILED


def test_three_failures_let_work_start_and_say_why() -> None:
    world = Tier()
    number = world.submit(data=(SOURCE,))
    for _ in range(3):
        world.at = max(world.at, world.copy().retry_at)
        world.claim()
        world.say(CopyPhase.FAILED, reason="the source is gone")
        assert world.refused(cmd.ClaimCopy(key=KEY, mover=MOVER)).code == "stale"
    world.settle(number)
    assert world[number].state is AllocationState.PENDING
    assert world[number].message == f"{SOURCE} could not be staged after 3 tries: the source is gone"
    again = world.submit(data=(SOURCE,))
    assert (world.copy().state, world.copy().tries) == (CopyState.WANTED, 0)
    assert world[again].state is AllocationState.STAGING


def test_a_full_tier_and_a_lost_mover_count_as_no_failure() -> None:
    world = Tier()
    world.submit(data=(SOURCE,))
    world.claim()
    world.say(CopyPhase.FULL, reason="the hot tier is full")
    assert (world.copy().tries, world.copy().reason) == (0, "the hot tier is full")
    world.at = world.copy().retry_at
    world.claim()
    world.say(CopyPhase.RELEASED, reason="mover m1 is not heard")
    assert (world.copy().state, world.copy().tries) == (CopyState.WANTED, 0)


def test_reports_of_others_and_of_another_generation_change_nothing() -> None:
    world = Tier()
    world.submit(data=(SOURCE,))
    world.claim()
    for mover, generation in (("m2", 1), (MOVER, 2)):
        said = cmd.ReportCopy(key=KEY, mover=mover, generation=generation, phase=CopyPhase.READY)
        assert world.refused(said).code == "stale"
    assert world.must(cmd.ReportCopy(key="none", mover=MOVER, generation=1, phase=CopyPhase.READY)) == ()


def test_what_nobody_needs_leaves_and_comes_back_when_it_is_wanted() -> None:
    world = Tier()
    number = world.submit(data=(SOURCE,))
    assert world.refused(cmd.EvictCopy(key=KEY)).code == "conflict"
    world.copied()
    world.settle(number)
    world.must(cmd.CancelAllocation(number=number))
    world.must(cmd.EvictCopy(key=KEY))
    assert (world.copy().state, world.copy().old) == (CopyState.LEAVING, (1,))
    assert world.must(cmd.EvictCopy(key=KEY)) == ()
    world.submit(data=(SOURCE,))
    assert world.copy().state is CopyState.WANTED
    world.must(cmd.CancelAllocation(number=number + 1))
    world.must(cmd.EvictCopy(key=KEY))
    world.say(CopyPhase.REMOVED, generation=1)
    assert not world.state.staging.copies
    assert world.must(cmd.EvictCopy(key=KEY)) == ()


def test_data_can_be_wanted_without_work_and_evicted_before_it_is_there() -> None:
    world = Tier()
    wanted = cmd.WantCopy(source=SOURCE, tenant="physics", user="ada", account="ada")
    world.must(wanted)
    assert (world.copy().asked_by, world.copy().state) == ("ada", CopyState.WANTED)
    world.must(cmd.EvictCopy(key=KEY))
    assert not world.state.staging.copies
    world.must(wanted)
    world.copied()
    assert (world.copy().asked_by, world.copy().state) == ("", CopyState.READY)


def test_a_group_waits_as_one_and_its_tasks_have_the_data() -> None:
    world = Tier()
    group = world.submit(data=(SOURCE,), tasks=((0, 1, 1),))
    task = world.state.find(group + 1)
    assert task is not None
    assert task.state is AllocationState.STAGING
    world.copied()
    world.settle(group)
    world.place(group + 1, "n1")
    assert world[group + 1].data == (DataUse(KEY, 1),)
    assert world.state.staging.is_used(KEY, 1)


def test_members_of_a_dag_bring_their_data() -> None:
    world = Tier()
    members = tuple(cmd.DagMember(ref=ref, submission=world.submission(data=(SOURCE,))) for ref in ("a", "b"))
    events = world.must(cmd.SubmitDag(name="d", user="ada", tenant="physics", members=members))
    assert len(world.state.staging.waiting) == 2
    assert sum(type(event).__name__ == "CopyChanged" for event in events) == 1


def test_what_is_refused() -> None:
    world = Tier()
    many = tuple(f"file:///warm/{place}" for place in range(MAX_SOURCES + 1))
    assert world.refused(world.submission(data=many)).code == "invalid"
    assert Tier(scheduler=SENSITIVE).refused(world.submission(data=(SOURCE,))).code == "forbidden"
    old = Tier(level=OLDEST)
    assert "level 2" in old.refused(old.submission(data=(SOURCE,))).message


def test_the_tier_holds_a_bounded_number_of_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Tier()
    monkeypatch.setattr("lattice.core.machine.rules.data.staging.MAX_COPIES", 1)
    world.submit(data=(SOURCE,))
    world.submit(data=(SOURCE,))
    assert world.refused(world.submission(data=("file:///warm/other",))).code == "conflict"
    wanted = cmd.WantCopy(source="file:///warm/other", tenant="physics", user="ada", account="ada")
    assert world.refused(wanted).code == "conflict"


def test_a_deadline_and_a_cancel_end_what_stages() -> None:
    world = Tier()
    number = world.submit(data=(SOURCE,), walltime_s=60, deadline_at=world.at + 100_000)
    world.must(cmd.HoldAllocation(number=number))
    world.must(cmd.ReleaseAllocation(number=number))
    world.at += 100_000
    world.must(cmd.EnforceDeadline(number=number))
    assert world[number].cause is Cause.DEADLINE
    assert not world.state.staging.users


def test_snapshots_keep_copies() -> None:
    world = Tier()
    world.submit(data=(SOURCE,))
    world.copied()
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.digest() == world.state.digest()
    assert loaded.staging.copies == world.state.staging.copies
    assert loaded.staging.waiting == world.state.staging.waiting
    assert folder_of(KEY, 1) == f"{KEY}.1"


def test_only_the_second_cancel_ends_the_copying_of_results() -> None:
    world = World()
    plain, copying = world.running("n1"), world.running("n2", stages_out=True)
    for number in (plain, copying):
        world.must(cmd.CancelAllocation(number=number))
        assert not world[number].abandons
        world.must(cmd.CancelAllocation(number=number))
    assert (world[plain].abandons, world[copying].abandons) == (False, True)
    world.must(cmd.CancelAllocation(number=copying))
    assert world[copying].abandons


def test_a_requeued_run_is_cancelled_once_before_its_results_are_given_up() -> None:
    world = World()
    number = world.running("n1", stages_out=True)
    world.must(cmd.RequeueAllocation(number=number))
    world.must(cmd.CancelAllocation(number=number))
    assert not world[number].abandons


def test_stage_out_needs_the_coming_level() -> None:
    world = World(level=OLDEST)
    assert "stages_out" in world.refused(world.submission(stages_out=True)).message
