"""Output: live from the node, stored after the end, followed to the end."""

import asyncio
import base64

from lattice.core.machine.commands import ReportPart, RequeueAllocation
from lattice.core.model.work.allocations import Cause, PartPhase
from lattice.ports.site.retention import LogRetention
from lattice.wire.files.chunks import Place, pack
from lattice.wire.text.times import rfc3339
from tests.integration.api.world import World, in_world, soon


async def text(world: World, query: str = "", number: int = 1) -> bytes:
    response = await world.call("GET", f"/allocations/{number}/logs{query}")
    assert response.status == 200, response.body
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    return response.body


async def end_run(world: World, number: int, run: int = 1, node: str = "n1") -> None:
    world.links.end(number, run)
    await world.finish(number, node=node, run=run)


@in_world
async def test_output_of_running_work_comes_from_its_node(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"one\ntwo\n\xff\xfe\n")
    world.links.write("n1", 1, 1, "stderr", b"oops\n")
    assert await text(world) == b"one\ntwo\n\xff\xfe\n"
    assert await text(world, "?stream=stderr") == b"oops\n"
    assert await text(world, "?tail=1&stream=stdout") == b"\xff\xfe\n"
    assert await text(world, "?tail=0") == b""


@in_world
async def test_pending_work_has_no_output_and_says_so(world: World) -> None:
    await world.submit()
    response = await world.call("GET", "/allocations/a1/logs")
    assert response.status == 409
    assert "not started" in response.error["message"]
    await world.call("DELETE", "/allocations/a1")
    assert await text(world) == b""


@in_world
async def test_stored_output_serves_after_the_end_and_after_archiving(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.objects.put("logs/1/1/n1.stdout", b"a\nb\nc")
    await end_run(world, 1)
    world.links.lose("n1")
    assert await text(world) == b"a\nb\nc"
    await world.archive(1)
    assert await text(world, "?tail=2") == b"b\nc"
    assert await text(world, "?tail=3") == b"a\nb\nc"
    assert await text(world, "?tail=1") == b"c"
    assert await text(world, "?tail=9") == b"a\nb\nc"
    assert await text(world, "?stream=stderr") == b""


async def put_chunk(world: World, offset: int, line: int, at_ms: int, data: bytes, run: int = 1) -> None:
    place = Place(offset=offset, line=line, at_ms=at_ms)
    name = f"default/-/a1/logs/run-{run}/stdout/n1/{place.name}"
    await world.objects.put(name, pack(place, data, [(offset, at_ms)]))


@in_world
async def test_what_is_stored_comes_before_what_the_node_still_has(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"one\ntwo\nthree\n")
    await put_chunk(world, 0, 0, 1000, b"ONE\n")
    await put_chunk(world, 4, 1, 2000, b"TWO\n")
    assert await text(world) == b"ONE\nTWO\nthree\n"
    await end_run(world, 1)
    assert await text(world) == b"ONE\nTWO\nthree\n", "what could not be stored is still on the node"
    world.links.lose("n1")
    assert await text(world) == b"ONE\nTWO\n"
    stream = await world.open("/allocations/a1/logs/stream", headers={"Last-Event-ID": "2"})
    rest = [await stream.next(), await stream.next()]
    assert [each and each.data["data"] for each in rest] == ["E\n", "TWO\n"]
    await stream.close()


@in_world
async def test_chunks_have_the_last_lines_and_tell_of_gaps(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await put_chunk(world, 0, 0, 1000, b"a\nb\n")
    await put_chunk(world, 4, 2, 2000, b"c")
    await put_chunk(world, 4, 2, 2000, b"c\nd\n")
    await put_chunk(world, 7, 3, 2500, b"\ne\nf")
    await put_chunk(world, 100, 5, 3000, b"\ng\n")
    await end_run(world, 1)
    world.links.lose("n1")
    assert await text(world) == b"a\nb\nc\nd\ne\nf\ng\n", "bytes that are in two chunks come once"
    for lines, last in ((1, b"g\n"), (2, b"f\ng\n"), (3, b"e\nf\ng\n"), (50, b"a\nb\nc\nd\ne\nf\ng\n")):
        assert await text(world, f"?tail={lines}") == last
    await world.objects.put("default/-/a1/logs/run-1/stdout/n1/000000000000000-0-1000.log.zst", b"rubbish")
    damaged = await world.call("GET", "/allocations/a1/logs")
    assert (damaged.status, "is damaged" in damaged.error["message"]) == (503, True)


@in_world
async def test_lines_are_chosen_by_their_time_and_stamped(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    minute = 1_772_360_400_000  # 2026-03-01T10:20:00Z
    for index, line in enumerate((b"a\n", b"b\n", b"c\n")):
        await put_chunk(world, index * 2, index, minute + index * 60_000, line)
    await end_run(world, 1)
    world.links.lose("n1")
    assert await text(world, "?since=2026-03-01T10:21:00Z") == b"b\nc\n"
    assert await text(world, "?until=2026-03-01T10:21:00Z") == b"a\nb\n"
    assert await text(world, "?since=2026-03-01T10:20:30Z&until=2026-03-01T10:21:30Z&timestamps=true") == (
        b"2026-03-01T10:21:00.000Z b\n"
    )
    assert await text(world, "?since=2026-03-02") == b""
    assert await text(world, "?offset=2&limit=3") == b"b\nc"
    assert await text(world, "?offset=1") == b"\nb\nc\n"
    assert await text(world, "?limit=0") == b""
    stream = await world.open("/allocations/a1/logs/stream?since=2026-03-01T10:21:30Z&timestamps=true")
    event = await stream.next()
    assert event is not None
    assert (event.data["data"], event.data["offset"]) == ("2026-03-01T10:22:00.000Z c\n", 4)
    await stream.close()
    for query, shown in (
        ("until=2026-03-01T10:21:00Z", "ab"),
        ("offset=2", "bc"),
        ("limit=3", "a\nb"),
        ("offset=2&limit=1", "b"),
    ):
        assert await followed(world, query) == ([*shown.replace("\n", "")], "Completed"), query


async def followed(world: World, query: str) -> tuple[list[str], str]:
    """The lines of a stream, and the state in which it left the work."""
    stream, text = await world.open(f"/allocations/a1/logs/stream?{query}"), ""
    while (event := await stream.next()) is not None and event.event != "end":
        text += event.data["data"]
    assert event is not None
    assert await stream.next() is None
    return text.split(), event.data["state"]


@in_world
async def test_a_stream_ends_with_the_part_that_is_asked_for_though_the_work_goes_on(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    minute = 1_772_360_400_000  # 2026-03-01T10:20:00Z
    await put_chunk(world, 0, 0, minute, b"a\n")
    await put_chunk(world, 2, 1, minute + 60_000, b"b\n")
    world.links.write("n1", 1, 1, "stdout", b"a\nb\n")
    assert await followed(world, "until=2026-03-01T10:20:00Z") == (["a"], "Running")
    assert await followed(world, "limit=3") == (["a", "b"], "Running")
    assert await followed(world, "offset=2&limit=2") == (["b"], "Running")
    asked = rfc3339(world.clock.ms + 100)
    following = asyncio.create_task(followed(world, f"until={asked}"))
    await asyncio.wait((following,), timeout=0.3)
    assert not following.done()
    world.clock.ms += 100
    assert await following == (["a", "b"], "Running")


@in_world
async def test_wrong_parts_of_output_are_refused_with_a_hint(world: World) -> None:
    await world.submit(resources={"nodes": 2}, per_node=True)
    await world.place(1, "n1", "n2")
    for query, told, hint in (
        ("since=2026-03-02&until=2026-03-01", "is after until", "exchange"),
        ("since=yesterday", 'cannot read "yesterday"', "2026-03-01"),
        ("offset=-1&node=n1", "-1 is not possible", ""),
        ("offset=5&tail=3&node=n1", "counts bytes of the whole output", "leave out tail"),
        ("limit=5&timestamps=true&node=n1", "counts bytes of the whole output", "timestamps"),
        ("offset=5", "2 nodes have output of their own", "node=n1"),
    ):
        answer = await world.call("GET", f"/allocations/1/logs?{query}")
        assert (answer.status, told in answer.error["message"]) == (400, True), answer.error
        assert hint in answer.error.get("hint", "")


@in_world
async def test_output_of_the_first_release_has_no_times_to_choose_by(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.objects.put("logs/1/1/n1.stdout", b"a\n")
    await end_run(world, 1)
    answer = await world.call("GET", "/allocations/1/logs?since=2026-03-01")
    assert (answer.status, "without times" in answer.error["message"]) == (409, True)
    assert await text(world, "?timestamps=true") == b"-".ljust(25) + b"a\n"


@in_world
async def test_stored_output_of_finished_work_can_be_deleted(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"secret\n")
    await put_chunk(world, 0, 0, 1000, b"sec")
    early = await world.call("DELETE", "/allocations/1/logs")
    assert (early.status, "may still write" in early.error["message"]) == (409, True)
    await end_run(world, 1)
    assert await text(world) == b"secret\n"
    assert (await world.call("DELETE", "/allocations/1/logs?run=2")).status == 404
    assert (await world.call("DELETE", "/allocations/1/logs", token=world.token("bert"))).status in (403, 404)
    gone = await world.call("DELETE", "/allocations/1/logs?run=1")
    assert (gone.status, gone.json()) == (200, {"id": "a1", "objects": 1})
    assert await text(world) == b"", "though the node still has it"
    again = await world.call("DELETE", "/allocations/1/logs")
    assert (again.status, again.json()["objects"]) == (200, 0)


@in_world
async def test_output_past_its_retention_is_refused_by_that_name(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await end_run(world, 1)
    world.links.lose("n1")
    assert await text(world) == b""
    world.services.log_retention = LogRetention(default_s=60.0)
    world.clock.pass_s(120)
    answer = await world.call("GET", "/allocations/1/logs")
    assert (answer.status, "past its retention" in answer.error["message"]) == (404, True)


@in_world
async def test_nodes_come_in_order_of_time_with_timestamps(world: World) -> None:
    await world.submit(resources={"nodes": 2}, per_node=True)
    await world.place(1, "n2", "n1")
    for node, at_ms, line in (("n1", 2000, b"second\n"), ("n2", 1000, b"first\n"), ("n2", 3000, b"third\n")):
        place = Place(offset=0 if line != b"third\n" else 6, at_ms=at_ms)
        name = f"default/-/a1/logs/run-1/stdout/{node}/{place.name}"
        await world.objects.put(name, pack(place, line, [(place.offset, at_ms)]))
    found = await text(world, "?timestamps=true")
    assert [line[25:] for line in found.splitlines()] == [b"first", b"second", b"third"]


@in_world
async def test_earlier_runs_are_read_from_their_chunks(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await put_chunk(world, 0, 0, 1000, b"first run\n")
    await _requeue(world)
    await world.start_run(1, "n2", run=2)
    world.links.lose("n1")
    assert await text(world, "?run=1") == b"first run\n"


@in_world
async def test_output_whose_beginning_was_dropped_says_so_and_keeps_its_places(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.objects.put("logs/1/1/n1.stdout.base", b"1000")
    await world.objects.put("logs/1/1/n1.stdout", b"a\nb\n")
    await end_run(world, 1)
    whole = await world.call("GET", "/allocations/a1/logs")
    assert (whole.body, whole.headers["x-lattice-dropped-bytes"]) == (b"a\nb\n", "1000")
    tail = await world.call("GET", "/allocations/a1/logs?tail=1")
    assert tail.body == b"b\n"
    assert "x-lattice-dropped-bytes" not in tail.headers
    stream = await world.open("/allocations/a1/logs/stream", headers={"Last-Event-ID": "1002"})
    rest = await stream.next()
    assert rest is not None
    assert (rest.data["data"], rest.data["offset"]) == ("b\n", 1002)
    await stream.close()


@in_world
async def test_large_stored_output_is_read_in_pieces_and_tailed_by_blocks(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    lines = b"".join(b"%08d\n" % number for number in range(100_000))
    await world.objects.put("logs/1/1/n1.stdout", lines)
    await end_run(world, 1)
    assert await text(world) == lines
    assert await text(world, "?tail=20000") == lines[-20_000 * 9 :]


@in_world
async def test_several_nodes_come_in_their_order_or_one_by_one(world: World) -> None:
    await world.submit(resources={"nodes": 2}, per_node=True)
    await world.place(1, "n2", "n1")
    world.links.write("n1", 1, 1, "stdout", b"first\n")
    world.links.write("n2", 1, 1, "stdout", b"second\n")
    assert await text(world) == b"second\nfirst\n"
    assert await text(world, "?node=n1") == b"first\n"
    other = await world.call("GET", "/allocations/a1/logs?node=n3")
    assert (other.status, "n1" in other.error["hint"]) == (404, True)


@in_world
async def test_node_that_is_away_is_said_unless_others_have_output(world: World) -> None:
    await world.submit(resources={"nodes": 2}, per_node=True)
    await world.place(1, "n1", "n2")
    world.links.lose("n1")
    world.links.write("n2", 1, 1, "stdout", b"here\n")
    assert await text(world) == b"here\n"
    response = await world.call("GET", "/allocations/a1/logs?node=n1")
    assert response.status == 503
    assert "n1" in response.error["message"]


@in_world
async def test_earlier_runs_are_read_from_the_store(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.objects.put("logs/1/1/n1.stdout", b"first run\n")
    await _requeue(world)
    await world.start_run(1, "n2", run=2)
    world.links.write("n2", 1, 2, "stdout", b"second run\n")
    assert await text(world) == b"second run\n"
    assert await text(world, "?run=1") == b"first run\n"
    assert (await world.call("GET", "/allocations/a1/logs?run=3")).status == 404


async def _requeue(world: World, run: int = 1) -> None:
    await world.do(RequeueAllocation(number=1))
    await world.do(
        ReportPart(
            number=1, run=run, node="n1", seq=3, phase=PartPhase.ENDED, cause=Cause.SIGNAL, signal=15, stopped=True
        )
    )


@in_world
async def test_output_of_others_is_not_shown(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    for path in ("/allocations/a1/logs", "/allocations/a1/logs/stream"):
        assert (await world.call("GET", path, token=world.token("bob"))).status == 403
        assert (await world.call("GET", path, token=world.token("x", tenants=("physics",)))).status == 404


@in_world
async def test_group_asks_for_one_of_its_tasks(world: World) -> None:
    await world.submit(tasks="7-9")
    response = await world.call("GET", "/allocations/a1/logs")
    assert (response.status, "a1_7" in response.error["hint"]) == (400, True)


@in_world
async def test_follow_shows_output_as_it_is_written_until_the_end(world: World) -> None:
    await world.submit()
    stream = await world.open("/allocations/a1/logs/stream")
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"one\n")
    first = await stream.next()
    assert first is not None
    assert first.data == {"node": "n1", "stream": "stdout", "offset": 0, "data": "one\n"}
    assert first.id == "4"
    world.links.write("n1", 1, 1, "stdout", b"two\n")
    second = await stream.next()
    assert second is not None
    assert (second.data["offset"], second.data["data"], second.id) == (4, "two\n", "8")
    await end_run(world, 1)
    end = await stream.next()
    assert end is not None
    assert (end.event, end.data) == ("end", {"state": "Completed", "exit_code": 0})
    assert await stream.next() is None


@in_world
async def test_follow_resumes_by_the_last_event_id(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"one\ntwo\n")
    stream = await world.open("/allocations/a1/logs/stream", headers={"Last-Event-ID": "4"})
    event = await stream.next()
    assert event is not None
    assert (event.data["offset"], event.data["data"]) == (4, "two\n")
    await stream.close()
    bad = await world.call("GET", "/allocations/a1/logs/stream", headers={"Last-Event-ID": "x=y"})
    assert bad.status == 400


@in_world
async def test_bytes_that_are_no_text_and_split_characters_arrive_whole(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    stream = await world.open("/allocations/a1/logs/stream")
    euro = "€".encode()
    world.links.write("n1", 1, 1, "stdout", b"a" + euro[:2])
    first = await stream.next()
    world.links.write("n1", 1, 1, "stdout", euro[2:] + b"b")
    second = await stream.next()
    world.links.write("n1", 1, 1, "stdout", b"\xff\x00z")
    third = await stream.next()
    world.links.write("n1", 1, 1, "stdout", b"end" + euro[:1])
    fourth = await stream.next()
    await end_run(world, 1)
    last = await stream.next()
    assert first is not None
    assert second is not None
    assert third is not None
    assert fourth is not None
    assert last is not None
    assert (first.data["data"], first.id) == ("a", "1")
    assert (second.data["data"], second.data["offset"]) == ("€b", 1)
    assert base64.b64decode(third.data["data_b64"]) == b"\xff\x00z"
    assert fourth.data["data"] == "end"
    assert base64.b64decode(last.data["data_b64"]) == euro[:1]
    assert last.id == "12"


@in_world
async def test_follow_survives_a_broken_connection_to_the_node(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"one\n")
    stream = await world.open("/allocations/a1/logs/stream")
    assert await stream.next() is not None
    world.links.lose("n1")
    await soon(lambda: len(world.links.reads) > 1)
    world.links.open.add("n1")
    world.links.write("n1", 1, 1, "stdout", b"two\n")
    second = await stream.next()
    assert second is not None
    assert second.data["data"] == "two\n"
    await stream.close()


@in_world
async def test_follow_takes_the_rest_from_the_store_when_the_node_is_gone(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"one\n")
    stream = await world.open("/allocations/a1/logs/stream")
    assert await stream.next() is not None
    await world.objects.put("logs/1/1/n1.stdout", b"one\ntwo\n")
    world.links.lose("n1")
    await world.finish(1)
    second = await stream.next()
    assert second is not None
    assert (second.data["data"], second.data["offset"]) == ("two\n", 4)
    end = await stream.next()
    assert end is not None
    assert end.event == "end"


@in_world
async def test_follow_goes_on_with_the_next_run(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.links.write("n1", 1, 1, "stdout", b"first\n")
    stream = await world.open("/allocations/a1/logs/stream")
    assert await stream.next() is not None
    world.links.end(1, 1)
    await _requeue(world)
    await world.start_run(1, "n2", run=2)
    world.links.write("n2", 1, 2, "stdout", b"second\n")
    restart = await stream.next()
    assert restart is not None
    assert (restart.event, restart.data) == ("restart", {"run": 2})
    second = await stream.next()
    assert second is not None
    assert (second.data["data"], second.data["offset"], second.id) == ("second\n", 0, "r2:7")
    await end_run(world, 1, run=2, node="n2")
    end = await stream.next()
    assert end is not None
    assert end.event == "end"


@in_world
async def test_follow_over_several_nodes_resumes_each_where_it_was(world: World) -> None:
    await world.submit(resources={"nodes": 2}, per_node=True)
    await world.place(1, "n1", "n2")
    stream = await world.open("/allocations/a1/logs/stream")
    world.links.write("n1", 1, 1, "stdout", b"one\n")
    await stream.next()
    world.links.write("n2", 1, 1, "stdout", b"two\n")
    event = await stream.next()
    assert event is not None
    assert event.id == "n1=4,n2=4"
    await stream.close()
    world.links.write("n1", 1, 1, "stdout", b"more\n")
    again = await world.open("/allocations/a1/logs/stream", headers={"Last-Event-ID": event.id})
    resumed = await again.next()
    assert resumed is not None
    assert (resumed.data["node"], resumed.data["data"]) == ("n1", "more\n")
    await again.close()


@in_world
async def test_follow_of_finished_work_shows_all_and_ends(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.objects.put("logs/1/1/n1.stdout", b"done\n")
    await end_run(world, 1)
    await world.archive(1)
    stream = await world.open("/allocations/a1/logs/stream?tail=1")
    piece, end = await stream.next(), await stream.next()
    assert piece is not None
    assert end is not None
    assert (piece.data["data"], end.event) == ("done\n", "end")


@in_world
async def test_follower_who_hangs_up_stops_reading_at_the_node(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    before = len(asyncio.all_tasks())
    stream = await world.open("/allocations/a1/logs/stream")
    await soon(lambda: len(world.links.reads) == 1)
    await stream.close()
    await soon(lambda: len(asyncio.all_tasks()) <= before)


@in_world
async def test_what_is_kept_is_listed_beside_an_object_that_nobody_can_read(world: World) -> None:
    await world.submit()
    assert (await world.call("POST", "/retention/keep", {"id": "a1"})).status == 200
    world.objects.stored |= {"_retention/kept/a7": b"{", "_retention/ended/a7": b"{", "_retention/ended/a1": b"[]"}
    answer = await world.call("GET", "/retention")
    assert (answer.status, [each["id"] for each in answer.json()["items"]]) == (200, ["a1"])
    assert (await world.call("POST", "/retention/keep", {"id": "a1", "keep": False})).status == 200
