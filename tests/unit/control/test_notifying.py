"""The loop that sends: in order for each destination, patient with those that fail, once for each notification."""

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from lattice.control.work.notifying import Notifying, NotifyingSettings
from lattice.core.machine.commands import UpdateAllocation
from lattice.core.machine.levels import NEWEST
from lattice.core.model.work.notifications import Notification, Notify, Occasion
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.telemetry import MetricAlert, NodeAlert
from lattice.ports.quorum.log import LogUnavailable
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.site.notifications import DeliveryFailed, Sender, Undeliverable
from lattice.testing import scenario
from tests.unit.control.world import World

MAIL = "mail:ada@example.org"
OTHER = "mail:bob@example.org"
HOOK = "webhook:https://example.org/"


class Recording:
    """A sender that is told what to do with each notification: nothing (it is sent), or raise."""

    def __init__(self) -> None:
        self.sent: list[Notification] = []
        self.tries: Counter[str] = Counter()
        self.failure: Callable[[Notification], Exception | None] = lambda notification: None
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, notification: Notification) -> None:
        self.tries[notification.to] += 1
        await self.gate.wait()
        failure = self.failure(notification)
        if failure is not None:
            raise failure
        self.sent.append(notification)


def notify(*on: Occasion, to: tuple[str, ...] = (MAIL,)) -> Notify:
    return Notify(on=on or (Occasion.BEGIN, Occasion.END), to=to)


def build(world: World, **senders: Sender) -> tuple[Notifying, Counter[tuple[str, str]]]:
    counts: Counter[tuple[str, str]] = Counter()

    def count(channel: str, outcome: str) -> None:
        counts[channel, outcome] += 1

    settings = NotifyingSettings(retry_s=2, longest_retry_s=8, give_up_after_s=100)
    return Notifying(world.replica, world.clock, senders, settings, count), counts


@asynccontextmanager
async def running(loop: Notifying) -> AsyncIterator[None]:
    task = asyncio.create_task(loop.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def until(look: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not look():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.001)


async def begun(world: World, node: str, notify: Notify, walltime_s: int = 0) -> int:
    """The number of an allocation that runs on the node."""
    number = await world.submit(notify=notify, walltime_s=walltime_s)
    await world.place(number, node)
    await world.started(number, node)
    return number


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def has_tried(mail: Recording, tries: int) -> bool:
    return mail.tries[MAIL] == tries


def waiting(world: World) -> list[int]:
    return list(world.state.notifications.waiting)


@scenario
async def test_what_comes_up_is_sent_in_order_and_leaves_the_state() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    loop, counts = build(world, mail=mail)
    async with running(loop):
        number = await begun(world, "n1", notify=notify())
        await world.ended(number, "n1")
        await until(lambda: not waiting(world))
    assert [sent.occasion for sent in mail.sent] == ["begin", "end"]
    assert counts == {("mail", "delivered"): 2}


@scenario
async def test_what_waited_before_the_start_is_sent_and_nothing_twice() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    number = await begun(world, "n1", notify=notify())
    await world.ended(number, "n1")
    loop, _ = build(world, mail=mail)
    async with running(loop):
        await until(lambda: not waiting(world))
        await turns()
    again, _ = build(world, mail=mail)
    async with running(again):
        await turns()
    assert len(mail.sent) == 2


@scenario
async def test_a_destination_that_fails_is_asked_later_and_later_and_delays_no_other() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    mail.failure = lambda n: DeliveryFailed("busy") if n.to == MAIL else None
    loop, counts = build(world, mail=mail)
    async with running(loop):
        await begun(world, "n1", notify=notify(Occasion.BEGIN, to=(MAIL, OTHER)))
        await until(lambda: mail.sent)
        await until(lambda: mail.tries[MAIL] == 1)
        for pause_s, tries in ((2, 2), (4, 3), (8, 4), (8, 5)):
            world.clock.pass_s(pause_s - 0.5)
            loop._alarm.ring()
            await turns()
            assert mail.tries[MAIL] == tries - 1
            world.clock.pass_s(0.5)
            loop._alarm.ring()
            await until(functools.partial(has_tried, mail, tries))
        mail.failure = lambda n: None
        world.clock.pass_s(8)
        loop._alarm.ring()
        await until(lambda: not waiting(world))
    assert [sent.to for sent in mail.sent] == [OTHER, MAIL]
    assert counts["mail", "failed"] == 5


@scenario
async def test_a_sender_that_fails_unexpectedly_is_asked_later_and_later_and_given_up() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    mail.failure = lambda n: AttributeError("'Group' object has no attribute 'local_part'") if n.to == MAIL else None
    loop, counts = build(world, mail=mail)
    async with running(loop):
        await begun(world, "n1", notify=notify(Occasion.BEGIN, to=(MAIL, OTHER)))
        await until(lambda: mail.sent)
        await until(lambda: mail.tries[MAIL] == 1)
        await turns()
        assert mail.tries[MAIL] == 1, "not at once"
        world.clock.pass_s(2)
        loop._alarm.ring()
        await until(functools.partial(has_tried, mail, 2))
        world.clock.pass_s(200)
        loop._alarm.ring()
        await until(lambda: not waiting(world))
    assert counts["mail", "given_up"] == 1
    assert [sent.to for sent in mail.sent] == [OTHER]


@scenario
async def test_destinations_take_turns() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    number = await begun(world, "n1", notify=notify(to=(MAIL, OTHER)))
    await world.ended(number, "n1")
    loop = Notifying(world.replica, world.clock, {"mail": mail}, NotifyingSettings(at_once=1))
    async with running(loop):
        await until(lambda: not waiting(world))
    assert [sent.to for sent in mail.sent] == [MAIL, OTHER, MAIL, OTHER]


@scenario
async def test_what_is_too_old_or_refused_for_good_is_given_up() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1", "n2")
    mail.failure = lambda n: Undeliverable("no such mailbox") if n.to == MAIL else DeliveryFailed("busy")
    loop, counts = build(world, mail=mail)
    async with running(loop):
        await begun(world, "n1", notify=notify(Occasion.BEGIN))
        await until(lambda: not waiting(world))
        assert counts == {("mail", "given_up"): 1}
        await begun(world, "n2", notify=notify(Occasion.BEGIN, to=(OTHER,)))
        await until(lambda: counts["mail", "failed"] == 1)
        world.clock.pass_s(101)
        loop._alarm.ring()
        await until(lambda: not waiting(world))
    assert counts["mail", "given_up"] == 2
    assert mail.sent == []


@scenario
async def test_what_the_site_has_no_sender_for_is_dropped_at_once() -> None:
    world = World()
    await world.prepare("n1")
    loop, counts = build(world)
    async with running(loop):
        await begun(world, "n1", notify=notify(Occasion.BEGIN, to=(MAIL, HOOK)))
        await until(lambda: not waiting(world))
    assert counts == {("mail", "off"): 1, ("webhook", "off"): 1}


@scenario
async def test_what_was_sent_is_not_sent_again_because_the_log_was_away() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    loop, _ = build(world, mail=mail)
    mail.gate.clear()
    async with running(loop):
        await begun(world, "n1", notify=notify(Occasion.BEGIN))
        await until(lambda: mail.tries[MAIL] == 1)
        world.replica.failure = LogUnavailable("later")
        mail.gate.set()
        await until(lambda: not waiting(world))
    assert mail.tries == {MAIL: 1}


@scenario
async def test_a_server_that_is_no_leader_any_more_leaves_it_to_the_next() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    loop, _ = build(world, mail=mail)
    mail.gate.clear()
    async with running(loop):
        await begun(world, "n1", notify=notify(Occasion.BEGIN))
        await until(lambda: mail.tries[MAIL] == 1)
        world.replica.failure = ReplicaStopped("another leads")
        mail.gate.set()
        await until(lambda: mail.sent)
        await turns()
    assert len(waiting(world)) == 1


@scenario
async def test_what_is_being_sent_when_the_loop_ends_is_finished() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    loop, _ = build(world, mail=mail)
    mail.gate.clear()
    async with running(loop):
        await begun(world, "n1", notify=notify(Occasion.BEGIN))
        await until(lambda: mail.tries[MAIL] == 1)
        asyncio.get_running_loop().call_later(0.02, mail.gate.set)
    assert waiting(world) == []


@scenario
async def test_limits_that_come_near_are_noted_once_each() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    loop, _ = build(world, mail=mail)
    near_limits = notify(Occasion.TIME_LIMIT_50, Occasion.TIME_LIMIT_90)
    number = await begun(world, "n1", walltime_s=100, notify=near_limits)
    world.clock.pass_s(49)
    assert await loop.note_limits() == 0
    world.clock.pass_s(1)
    assert await loop.note_limits() == 1
    assert await loop.note_limits() == 0
    await world.do(UpdateAllocation(number=number, walltime_s=200))
    world.clock.pass_s(45)  # 95 s: neither half nor nine tenths of 200
    assert await loop.note_limits() == 0
    later, _ = build(world, mail=mail)  # another server, after both have passed
    world.clock.pass_s(100)
    assert await later.note_limits() == 1
    assert [n.occasion for n in world.state.notifications.waiting.values()] == ["time_limit_50", "time_limit_90"]


@scenario
async def test_limits_of_work_that_has_ended_are_not_noted() -> None:
    world, mail = World(), Recording()
    await world.prepare("n1")
    loop, _ = build(world, mail=mail)
    number = await begun(world, "n1", walltime_s=100, notify=notify(Occasion.TIME_LIMIT_50))
    await world.ended(number, "n1")
    world.clock.pass_s(80)
    assert await loop.note_limits() == 0


@scenario
async def test_trouble_that_a_node_names_is_told_to_the_subscribers_of_its_work() -> None:
    world = World()
    sender = Recording()
    loop, _ = build(world, mail=sender)
    world.state.level = NEWEST
    await world.prepare("n1", "n2")
    number = await begun(world, "n1", notify=notify(Occasion.ALERT))

    def said(node: str, key: RunKey | None, *, is_over: bool = False, rule: str = "gpu_idle") -> None:
        told = MetricAlert(rule=rule, at_ms=1, metric="gpu_utilization", value=2.0, is_over=is_over)
        loop.alerted(node, [NodeAlert(key=key, alert=told)])

    said("n1", RunKey(number, 1), is_over=True)
    said("n1", RunKey(number, 2))
    said("n1", RunKey(number + 9, 1))
    said("n9", None)
    said("n1", RunKey(number, 1), rule="made up")
    assert await loop.note_alerts() == 0
    said("n1", RunKey(number, 1))
    said("n1", None)
    assert await loop.note_alerts() == 1, "of the run and of its node: the same trouble"
    said("n1", RunKey(number, 1))
    assert await loop.note_alerts() == 0, "it is known"
    (waiting,) = world.state.notifications.waiting.values()
    assert (waiting.occasion, "GPU use below" in waiting.message) == (Occasion.ALERT, True)
