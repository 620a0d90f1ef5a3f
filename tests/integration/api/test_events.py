"""The event stream: framing, resuming, what each caller sees."""

import asyncio

import pytest

from lattice.api.rest import events as rest_events
from lattice.api.streams.waiting import Feed
from lattice.core.machine.commands import DrainNode
from tests.integration.api.world import Event, World, in_world, soon


@in_world
async def test_changes_come_as_they_happen(world: World) -> None:
    stream = await world.open("/events")
    await world.submit(name="train")
    await world.start_run(1)
    await world.finish(1, exit_code=2)
    seen = [await stream.next() for _ in range(4)]
    assert [event.data["kind"] for event in seen if event] == ["submitted", "placed", "started", "ended"]
    assert [event.data["state"] for event in seen if event] == ["Pending", "Starting", "Running", "Failed"]
    last = seen[-1]
    assert last is not None
    assert last.data["id"] == "a1"
    assert (last.data["cause"], last.data["exit_code"], last.data["nodes"]) == ("exit", 2, ["n1"])
    assert last.id == str(last.data["index"])
    await stream.close()


@in_world
async def test_frames_are_lines_of_id_and_data(world: World) -> None:
    stream = await world.open("/events")
    await world.submit()
    await stream.next()
    first, position, frame, rest = stream.raw.split(b"\n\n")
    assert first == b": stream"
    assert [line.partition(b": ")[0] for line in position.split(b"\n")] == [b"event", b"id", b"data"]
    assert rest == b""
    names = [line.partition(b": ")[0] for line in frame.split(b"\n")]
    assert names == [b"id", b"data"]
    await stream.close()


@in_world
async def test_stream_resumes_where_it_was_left(world: World) -> None:
    await world.submit()
    stream = await world.open("/events")
    await world.submit()
    second = await stream.next()
    assert second is not None
    await stream.close()
    await world.submit()
    await world.submit()
    again = await world.open("/events", headers={"Last-Event-ID": second.id})
    resumed = [await again.next(), await again.next()]
    assert [event.data["id"] for event in resumed if event] == ["a3", "a4"]
    await again.close()
    by_parameter = await world.open(f"/events?since={second.id}")
    event = await by_parameter.next()
    assert event is not None
    assert event.data["id"] == "a3"
    await by_parameter.close()


@in_world
async def test_resuming_in_the_middle_of_one_log_entry_loses_nothing(world: World) -> None:
    stream = await world.open("/events")
    await asyncio.gather(*(world.submit() for _ in range(50)))
    seen: list[Event] = []
    while len(seen) < 50:
        event = await stream.next()
        assert event is not None
        seen.append(event)
    await stream.close()
    assert len({event.data["index"] for event in seen}) < 50, "several changes must share a log entry"
    for left_at in (0, 1, 17, 48):
        again = await world.open("/events", headers={"Last-Event-ID": seen[left_at].id})
        missing = {event.data["id"] for event in seen[left_at + 1 :]}
        while missing:
            resumed = await again.next()
            assert resumed is not None
            missing.discard(resumed.data["id"])
        await again.close()


def forget_soon(world: World) -> None:
    """Keeps only the last two changes."""
    world.services.feed.close()
    world.services.feed = Feed(world.replica, kept=2)


@in_world
async def test_gap_is_told_when_old_changes_are_gone(world: World) -> None:
    forget_soon(world)
    index = world.replica.applied_index
    for _ in range(4):
        await world.submit()
    stream = await world.open(f"/events?since={index}")
    events = [await stream.next() for _ in range(3)]
    assert [event.event or event.data["id"] for event in events if event] == ["gap", "a3", "a4"]
    await stream.close()
    complete = await world.open(f"/events?since={index + 3}")
    event = await complete.next()
    assert event is not None
    assert event.data["id"] == "a4"
    await complete.close()


@in_world
async def test_changes_from_before_this_server_started_are_a_gap(world: World) -> None:
    for _ in range(3):
        await world.submit()
    forget_soon(world)
    stream = await world.open("/events?since=1")
    event = await stream.next()
    assert event is not None
    assert event.event == "gap"
    await stream.close()


@in_world
async def test_each_sees_only_what_may_be_seen(world: World) -> None:
    physicist = world.token("paul", tenants=("physics",))
    own, all_of_it = await world.open("/events", token=physicist), await world.open("/events", token=world.admin)
    await world.submit()
    await world.submit(token=physicist)
    await world.do(DrainNode(node="n1", reason="dust"))
    event = await own.next()
    assert event is not None
    assert event.data["id"] == "a2"
    everything = [await all_of_it.next() for _ in range(3)]
    assert [event.data["id"] for event in everything if event] == ["a1", "a2", "n1"]
    node = everything[-1]
    assert node is not None
    assert (node.data["kind"], node.data["state"], node.data["reason"]) == ("node", "Draining", "dust")
    await own.close()
    await all_of_it.close()


@in_world
async def test_stream_of_some_ids_shows_these_and_tasks_of_these(world: World) -> None:
    await world.submit()
    await world.submit(tasks="0-1")
    await world.submit()
    stream = await world.open("/events?ids=a1,a2")
    await world.call("DELETE", "/allocations/a5")
    await world.start_run(3)
    await world.call("DELETE", "/allocations/a1")
    seen = [await stream.next() for _ in range(4)]
    assert [(event.data["id"], event.data["kind"]) for event in seen if event] == [
        ("a3", "placed"),
        ("a2", "started"),
        ("a3", "started"),
        ("a1", "ended"),
    ]
    assert seen[0] is not None
    assert (seen[0].data["group_id"], seen[0].data["task_index"]) == ("a2", 0)
    assert seen[1] is not None
    assert "task_index" not in seen[1].data
    await stream.close()
    assert (await world.call("GET", "/events?ids=a99")).status == 404
    assert (await world.call("GET", "/events?since=x")).status == 400
    bad = await world.call("GET", "/events", headers={"Last-Event-ID": "x"})
    assert bad.status == 400


@in_world
async def test_stream_ends_with_its_token(world: World) -> None:
    token = world.token("alice", lifetime_s=60)
    stream = await world.open("/events", token=token)
    world.clock.ms += 60_000
    await world.submit()
    event = await stream.until(lambda event: event.event == "error")
    assert event.data["code"] == "unauthenticated"
    assert await stream.next() is None


@in_world
async def test_silent_stream_is_kept_alive(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rest_events, "KEEP_ALIVE_S", 0.02)
        stream = await world.open("/events")
        waiting = asyncio.create_task(stream.next())
        await soon(lambda: b": keep-alive\n\n" in stream.raw)
        await world.submit()
        assert await waiting is not None
        await stream.close()


@in_world
async def test_reader_who_falls_behind_is_told_so_and_goes_on(world: World) -> None:
    forget_soon(world)
    stream = await world.open("/events")
    await asyncio.gather(*(world.submit() for _ in range(10)))
    events: list[Event] = []
    while not events or events[-1].data.get("id") != "a10":
        event = await stream.next()
        assert event is not None
        events.append(event)
    assert [event.event for event in events].count("gap") == 1
    assert len(events) <= 4
    await stream.close()


@in_world
async def test_stopping_server_ends_the_streams(world: World) -> None:
    stream = await world.open("/events")
    world.services.feed.close()
    assert await stream.next() is None


@in_world
async def test_caller_who_hangs_up_leaves_nothing_behind(world: World) -> None:
    before = len(asyncio.all_tasks())
    streams = [await world.open("/events") for _ in range(5)]
    for stream in streams:
        await stream.close()
    await soon(lambda: len(asyncio.all_tasks()) <= before)


@in_world
async def test_callers_who_hung_up_leave_nothing_behind(world: World) -> None:
    for _ in range(5):
        stream = await world.open("/events")
        await soon(lambda: world.services.feed.waiting > 0)
        await stream.close()
    assert world.services.feed.waiting == 0
