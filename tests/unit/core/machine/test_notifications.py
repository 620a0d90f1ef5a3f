"""Who is told of what: made by the command that changed it, kept until it was sent."""

import pytest
from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine import events as ev
from lattice.core.machine.checks.invariants import check
from lattice.core.machine.codec import decode_state_chunks, encode_state_chunks
from lattice.core.model.work.allocations import Cause, RequeuePolicy
from lattice.core.model.work.notifications import MAX_WAITING_PER_USER, Notification, Notify, NotifyDefault, Occasion
from tests.unit.core.machine.world import World

MAIL = "mail:ada@example.org"
HOOK = "webhook:https://example.org/hook"
ENDS = (Occasion.BEGIN, Occasion.END, Occasion.FAIL)


def notify(*on: Occasion, to: tuple[str, ...] = (MAIL,), each_task: bool = False) -> Notify:
    return Notify(on=on, to=to, each_task=each_task)


def waiting(world: World) -> list[Notification]:
    return list(world.state.notifications.waiting.values())


def told(world: World) -> list[tuple[str, int]]:
    return [(notification.occasion, notification.allocation) for notification in waiting(world)]


def default(*on: Occasion, to: tuple[str, ...] = (MAIL,), user: str = "ada") -> cmd.SetNotifyDefault:
    return cmd.SetNotifyDefault(default=NotifyDefault(user=user, notify=Notify(on=on, to=to)))


def test_begin_and_end_are_told_to_each_destination() -> None:
    world = World()
    number = world.running("n1", notify=notify(Occasion.BEGIN, Occasion.END, to=(MAIL, HOOK)))
    world.ended(number, "n1", exit_code=0)
    assert [(n.occasion, n.to) for n in waiting(world)] == [
        ("begin", MAIL),
        ("begin", HOOK),
        ("end", MAIL),
        ("end", HOOK),
    ]
    begin, end = waiting(world)[0], waiting(world)[2]
    assert (begin.state, begin.nodes, begin.run) == ("Running", ("n1",), 1)
    assert (end.state, end.cause, end.exit_code, end.node_count) == ("Completed", "exit", 0, 1)
    assert len({n.id for n in waiting(world)}) == 4


def test_of_an_end_one_thing_is_told() -> None:
    world = World()
    both = world.running("n1", notify=notify(*ENDS))
    only_end = world.running("n2", notify=notify(Occasion.END))
    nothing = world.running("n3", notify=notify(Occasion.FAIL))
    world.ended(both, "n1", exit_code=3)
    world.ended(only_end, "n2", exit_code=3)
    world.ended(nothing, "n3", exit_code=0)
    assert told(world) == [("begin", both), ("fail", both), ("end", only_end)]


def test_the_end_of_walltime_is_told_to_those_who_asked_for_that_alone() -> None:
    world = World()
    number = world.running("n1", notify=notify(Occasion.TIME_LIMIT))
    world.ended(number, "n1", cause=Cause.WALLTIME)
    other = world.running("n1", notify=notify(Occasion.TIME_LIMIT))
    world.ended(other, "n1", exit_code=1)
    assert told(world) == [("time_limit", number)]


def test_work_that_ended_before_its_start_was_noticed_did_begin() -> None:
    world = World()
    number = world.submit(notify=notify(Occasion.BEGIN, Occasion.END))
    world.place(number, "n1")
    world.ended(number, "n1", seq=1)
    assert told(world) == [("begin", number), ("end", number)]


def test_cancelling_what_waits_is_an_end_and_no_beginning() -> None:
    world = World()
    number = world.submit(notify=notify(*ENDS))
    world.must(cmd.CancelAllocation(number=number))
    assert told(world) == [("end", number)]
    assert waiting(world)[0].state == "Cancelled"


def test_a_requeue_tells_of_the_run_that_is_over() -> None:
    world = World()
    number = world.running("n1", notify=notify(Occasion.REQUEUE, Occasion.BEGIN), requeue=RequeuePolicy.ALWAYS)
    world.ended(number, "n1", exit_code=3)
    assert told(world) == [("begin", number), ("requeue", number)]
    requeued = waiting(world)[1]
    assert (requeued.state, requeued.run, requeued.nodes) == ("Pending", 1, ("n1",))


def test_a_group_is_told_of_as_a_whole() -> None:
    world = World()
    group = world.submit(tasks=((0, 2, 1),), notify=notify(*ENDS))
    for place, exit_code in ((1, 0), (2, 3)):
        world.place(group + place, "n1")
        world.started(group + place, "n1")
        world.ended(group + place, "n1", exit_code=exit_code)
    assert told(world) == [("begin", group)]
    world.must(cmd.CancelAllocation(number=group))
    assert told(world) == [("begin", group), ("fail", group)]
    end = waiting(world)[1]
    assert (end.state, end.tasks, end.exit_code) == ("Failed", (1, 1, 1), 3)


@pytest.mark.parametrize(("cancel", "state"), [(False, "Completed"), (True, "Cancelled")])
def test_the_end_of_a_group_says_how_it_ended(cancel: bool, state: str) -> None:
    world = World()
    group = world.submit(tasks=((0, 0, 1),), notify=notify(Occasion.END))
    if cancel:
        world.must(cmd.CancelAllocation(number=group))
    else:
        world.place(group + 1, "n1")
        world.started(group + 1, "n1")
        world.ended(group + 1, "n1")
    assert [(n.occasion, n.allocation, n.state) for n in waiting(world)] == [("end", group, state)]


def test_each_task_is_told_of_where_that_was_asked_for() -> None:
    world = World()
    group = world.submit(tasks=((4, 5, 1),), notify=notify(*ENDS, each_task=True))
    world.place(group + 1, "n1")
    world.started(group + 1, "n1")
    world.ended(group + 1, "n1")
    world.must(cmd.CancelAllocation(number=group))
    assert told(world) == [("begin", group + 1), ("end", group + 1)]
    assert (waiting(world)[0].group, waiting(world)[0].task_index) == (group, 4)


def test_without_a_wish_nobody_is_told() -> None:
    world = World()
    number = world.running("n1")
    world.ended(number, "n1")
    group = world.submit(tasks=((0, 1, 1),))
    world.must(cmd.CancelAllocation(number=group))
    assert waiting(world) == []


# defaults


def test_a_users_default_holds_for_what_says_nothing_and_fills_up_what_names_nobody() -> None:
    world = World()
    world.must(default(Occasion.END))
    by_default = world.submit()
    elsewhere = world.submit(notify=notify(Occasion.FAIL, to=()))
    named = world.submit(notify=notify(Occasion.FAIL, to=(HOOK,)))
    declined = world.submit(notify=Notify())
    of_another = world.submit(user="bob")
    requests = [world[n].notify for n in (by_default, elsewhere, named, declined, of_another)]
    assert requests == [notify(Occasion.END), notify(Occasion.FAIL), notify(Occasion.FAIL, to=(HOOK,)), None, None]


def test_a_default_can_be_replaced_and_taken_back() -> None:
    world = World()
    world.must(default(Occasion.END))
    world.must(default(Occasion.FAIL, to=(HOOK,)))
    assert world.state.notifications.defaults["ada"].notify == notify(Occasion.FAIL, to=(HOOK,))
    digest = World().state.digest()
    world.must(default(to=()))
    assert world.state.notifications.defaults == {}
    assert world.state.digest() != digest  # time has passed, nothing else
    assert world[world.submit()].notify is None


def test_a_default_that_names_nobody_or_nothing_asks_for_nothing() -> None:
    world = World()
    world.must(default(to=(MAIL,)))
    assert world[world.submit()].notify is None
    world.must(default(Occasion.END, to=()))
    assert world[world.submit()].notify is None


def test_notifications_to_nobody_or_to_too_many_are_refused() -> None:
    world = World()
    nobody = world.refused(world.submission(notify=notify(Occasion.END, to=())))
    assert nobody.code == "invalid"
    assert "lattice notify set" in nobody.hint
    many = tuple(f"mail:u{k}@example.org" for k in range(5))
    too_many = world.refused(world.submission(notify=notify(Occasion.END, to=many)))
    assert (too_many.requested, too_many.limit) == ("5 destinations", "4 destinations")
    assert world.refused(default(Occasion.END, to=many)).code == "invalid"


# time limits


def near(world: World, number: int, percent: int, **changes: int) -> tuple[ev.AnyEvent, ...]:
    return world.must(cmd.NoteTimeLimit(**{"number": number, "run": 1, "percent": percent, **changes}))


def test_a_limit_that_is_near_is_told_once_for_each_run() -> None:
    world = World()
    near_limits = notify(Occasion.TIME_LIMIT_50, Occasion.TIME_LIMIT_90)
    number = world.running("n1", walltime_s=100, notify=near_limits, requeue=RequeuePolicy.ALWAYS)
    assert near(world, number, 50) == ()  # too early
    world.at += 60_000
    assert near(world, number, 50, run=2) == ()
    assert near(world, number, 80) == ()  # nobody asked
    assert near(world, number, 70) == ()
    assert near(world, number, 50)[0] == ev.TimeLimitNeared(number=number, percent=50)
    assert near(world, number, 50) == ()
    assert told(world) == [("time_limit_50", number)]
    world.ended(number, "n1", exit_code=1)
    assert world[number].limit_noted == 0
    assert near(world, number, 50) == ()


def test_a_new_walltime_may_be_neared_anew() -> None:
    world = World()
    number = world.running("n1", walltime_s=100, notify=notify(Occasion.TIME_LIMIT_50))
    world.at += 60_000
    near(world, number, 50)
    world.must(cmd.UpdateAllocation(number=number, name="other"))
    assert world[number].limit_noted == 50
    world.must(cmd.UpdateAllocation(number=number, walltime_s=1_000))
    assert world[number].limit_noted == 0
    assert near(world, number, 50) == ()
    world.at += 600_000
    assert near(world, number, 50) != ()


def test_limits_of_unknown_quiet_or_endless_work_are_nobodys_business() -> None:
    world = World()
    quiet = world.running("n1")
    endless = world.running("n2", notify=notify(Occasion.TIME_LIMIT_50), lifecycle="unbounded", per_node=False)
    world.at += 10_000_000
    assert near(world, 99, 50) == ()
    assert near(world, quiet, 50) == ()
    assert near(world, endless, 50) == ()


# leaving the state


def test_what_was_sent_or_given_up_leaves_once() -> None:
    world = World()
    number = world.running("n1", notify=notify(Occasion.BEGIN, Occasion.END, to=(MAIL, HOOK)))
    world.ended(number, "n1")
    first, second, third, _ = world.state.notifications.waiting
    events = world.must(cmd.SettleNotifications(delivered=(first, first, 99), given_up=(first, second)))
    assert events == (ev.NotificationsSettled(delivered=(first,), given_up=(second,)),)
    assert world.must(cmd.SettleNotifications(delivered=(first,))) == ()
    assert min(world.state.notifications.waiting) == third
    assert world.state.notifications.per_user == {"ada": 2}


def test_numbers_are_not_given_twice() -> None:
    world = World()
    for _ in range(2):
        number = world.running("n1", notify=notify(Occasion.BEGIN))
        world.ended(number, "n1")
        world.must(cmd.SettleNotifications(delivered=tuple(world.state.notifications.waiting)))
    assert world.state.notifications.next_number == 3
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.notifications.next_number == 3
    assert loaded.digest() == world.state.digest()


def test_too_many_for_one_user_are_dropped_and_said_to_be() -> None:
    world = World()
    registry = world.state.notifications
    number = world.running("n1", notify=notify(Occasion.BEGIN, Occasion.END, to=(MAIL, HOOK)))
    pattern = waiting(world)[0]
    for extra in range(10, 10 + MAX_WAITING_PER_USER - 3):
        registry.put(replace(pattern, number=extra))
    events = world.ended(number, "n1")
    kinds = [type(event) for event in events]
    assert kinds.count(ev.NotificationQueued) == 1
    assert kinds.count(ev.NotificationDropped) == 1
    assert registry.per_user == {"ada": MAX_WAITING_PER_USER}


def test_a_snapshot_holds_what_waits_and_what_users_want() -> None:
    world = World()
    world.must(default(Occasion.END))
    world.ended(world.running("n1"), "n1")
    loaded = decode_state_chunks(encode_state_chunks(world.state.frozen_view()))
    assert loaded.notifications.waiting == world.state.notifications.waiting
    assert loaded.notifications.defaults == world.state.notifications.defaults
    assert loaded.notifications.per_user == {"ada": 1}


def test_the_invariants_see_a_book_that_is_wrong() -> None:
    world = World()
    world.ended(world.running("n1", notify=notify(Occasion.END)), "n1")
    registry = world.state.notifications
    pattern = waiting(world)[0]
    for extra in range(10, 12 + MAX_WAITING_PER_USER):
        registry.put(replace(pattern, number=extra))
    registry.next_number = 5
    registry.per_user = {"ada": 1}
    findings = check(world.state)
    assert len([text for text in findings if "notification" in text]) == 3


# trouble


def trouble(world: World, number: int, rule: str = "gpu_idle", **changes: object) -> tuple[ev.AnyEvent, ...]:
    said = {"number": number, "run": 1, "rule": rule, "node": "n1", "value": 3.14159, **changes}
    return world.must(cmd.NoteAlert(**said))  # type: ignore[arg-type]


def test_trouble_is_told_once_for_each_run_and_rule() -> None:
    world = World()
    number = world.running("n1", walltime_s=100, notify=notify(Occasion.ALERT), requeue=RequeuePolicy.ALWAYS)
    assert trouble(world, number, run=2) == ()
    assert trouble(world, number, rule="made_up") == ()
    assert trouble(world, number, node="n2") == (), "a node that does not have it"
    assert trouble(world, number) != ()
    assert trouble(world, number) == ()
    assert trouble(world, number, rule="network_errors") != ()
    assert told(world) == [("alert", number), ("alert", number)]
    (first, _) = world.state.notifications.waiting.values()
    assert first.message.endswith("3.142 % on node n1")
    assert "GPU use below 10 %" in first.message
    world.ended(number, "n1", exit_code=1)
    assert world[number].alerted == (), "a later run may be in trouble, too"


def test_trouble_is_told_to_those_who_asked() -> None:
    world = World()
    quiet = world.running("n1", notify=notify(Occasion.END))
    assert trouble(world, quiet) == ()
