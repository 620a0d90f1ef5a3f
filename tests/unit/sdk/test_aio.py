"""The asynchronous client: the same operations, several servers, streams that are taken up again."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from lattice_sdk import (
    AllocationFilter,
    AllocationSpec,
    Conflict,
    Event,
    LatticeAuthError,
    LatticeClient,
    LatticeError,
    LatticeNotFoundError,
    Unreachable,
    WaitTimedOut,
)
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply, refusal

T = TypeVar("T")
ALLOCATION = {"id": "a17", "number": 17, "name": "train", "state": "Running"}
ENDED = {**ALLOCATION, "state": "Completed"}


def run(api: FakeApi, ask: Callable[[LatticeClient], Awaitable[T]], **options: object) -> T:
    async def inside() -> T:
        async with LatticeClient("127.0.0.1", api.port, token="secret", **options) as client:  # type: ignore[arg-type]
            return await ask(client)

    return asyncio.run(inside())


async def collected(items: AsyncIterator[T], most: int = 100) -> list[T]:
    found: list[T] = []
    async for item in items:
        found.append(item)
        if len(found) == most:
            break
    return found


def test_hundreds_of_submissions_at_once_are_sent_a_few_at_a_time(api: FakeApi) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def answer(_asked: Asked) -> Reply:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        try:
            return Reply(json=ALLOCATION)
        finally:
            with lock:
                now -= 1

    api.on("POST", "/allocations", answer)

    async def ask(client: LatticeClient) -> int:
        spec = AllocationSpec(entrypoint="true")
        return len(await asyncio.gather(*(client.submit(spec) for _ in range(300))))

    assert run(api, ask, retry_for=0.0) == 300
    assert most <= 32
    assert api.connections <= 64  # kept open and used again


def test_waiting_keeps_no_submission_from_being_sent(api: FakeApi) -> None:
    api.on("POST", "/allocations", ALLOCATION)
    released = threading.Event()

    def patient(_asked: Asked) -> Reply:
        released.wait(20)
        return Reply(json=ENDED)

    api.on("GET", "/allocations/a17/wait", patient)

    async def ask(client: LatticeClient) -> str:
        waits = [asyncio.create_task(client.wait("a17")) for _ in range(40)]
        submitted = await client.submit(AllocationSpec(entrypoint="true"))
        released.set()
        await asyncio.gather(*waits)
        return submitted.id

    assert run(api, ask) == "a17"


def test_a_submission_has_a_request_id_and_becomes_an_allocation(api: FakeApi) -> None:
    api.on("POST", "/allocations", Reply(status=201, json=ALLOCATION))
    spec = AllocationSpec(entrypoint="true", nodes=(2, 8), walltime="1h", constraints={"gpu_type": "GH200"})
    assert run(api, lambda client: client.submit(spec)).id == "a17"
    asked = api.last()
    assert asked.json["resources"] == {"nodes": 2, "max_nodes": 8, "constraints": {"gpu_type": "GH200"}}
    assert asked.json["lifecycle"] == {"walltime": "1h"}
    assert asked.headers["authorization"] == "Bearer secret"
    assert len(asked.headers["x-request-id"]) == 32


def test_a_repeated_write_keeps_its_request_id(api: FakeApi) -> None:
    api.on("DELETE", "/allocations/a17", refusal(503, "unavailable", "electing"), Reply(is_cut=True), ALLOCATION)
    assert run(api, lambda client: client.cancel("a17")).id == "a17"
    assert len(api.asked) == 3
    assert len({asked.headers["x-request-id"] for asked in api.asked}) == 1


def test_the_next_server_is_asked_when_one_is_gone(api: FakeApi) -> None:
    api.on("GET", "/whoami", {"user": "u"})

    async def ask() -> str:
        async with LatticeClient(["http://127.0.0.1:9", api.url], token="t") as client:
            return (await client.whoami()).user

    assert asyncio.run(ask()) == "u"


def test_nobody_answers_within_the_time_allowed() -> None:
    async def ask() -> None:
        async with LatticeClient("127.0.0.1", 9, token="t", retry_for=0.2) as client:
            await client.whoami()

    with pytest.raises(Unreachable, match="cannot reach"):
        asyncio.run(ask())


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(404, "not_found", LatticeNotFoundError), (401, "unauthenticated", LatticeAuthError), (409, "conflict", Conflict)],
)
def test_a_refusal_is_an_exception_with_its_status(
    api: FakeApi, status: int, code: str, kind: type[LatticeError]
) -> None:
    api.on("GET", "/allocations/a1", refusal(status, code, "no", hint="try another"))
    with pytest.raises(kind) as caught:
        run(api, lambda client: client.status("a1"))
    assert caught.value.status_code == status


def test_lists_follow_their_cursors(api: FakeApi) -> None:
    pages = ({"items": [ALLOCATION], "next_cursor": "c"}, {"items": [ENDED], "next_cursor": None})
    api.on("GET", "/allocations", *pages)
    states = [each.state for each in run(api, lambda client: client.list_allocations(state="running,completed"))]
    assert states == ["Running", "Completed"]
    assert api.asked[0].parameter("state") == "running,completed"
    assert api.asked[1].parameter("cursor") == "c"
    api.on("GET", "/allocations", *pages)
    assert len(run(api, lambda client: client.list_allocations(AllocationFilter(user="u"), limit=1))) == 1


def test_waiting_asks_again_until_the_end(api: FakeApi) -> None:
    api.on("GET", "/allocations/a17/wait", ALLOCATION, ENDED)
    assert run(api, lambda client: client.wait("a17")).state == "Completed"
    api.on("GET", "/allocations/a17/wait", ALLOCATION)
    with pytest.raises(WaitTimedOut):
        run(api, lambda client: client.wait("a17", timeout=0))


def test_a_watch_says_how_it_stands_and_ends_with_what_is_watched(api: FakeApi) -> None:
    api.on("GET", "/allocations/a17", ALLOCATION)
    first = 'id: 4\ndata: {"index": 4, "kind": "stopping", "id": "a17", "state": "Stopping"}\n\n'
    last = 'id: 5\ndata: {"index": 5, "kind": "ended", "id": "a17", "state": "Completed"}\n\n'
    api.on("GET", "/events", Reply(events=(first,)), Reply(events=(last,)))
    events: list[Event] = run(api, lambda client: collected(client.watch("a17")))
    assert [event.state for event in events] == ["Running", "Stopping", "Completed"]
    resumed = [asked for asked in api.asked if asked.path.endswith("/events")][1]
    assert resumed.headers["last-event-id"] == "4"


def test_a_watch_over_what_has_ended_ends_at_once(api: FakeApi) -> None:
    api.on("GET", "/allocations/a17", ENDED)
    api.on("GET", "/events", Reply(events=(": stream\n\n",)))
    assert [event.state for event in run(api, lambda client: collected(client.watch(["a17"])))] == ["Completed"]


def test_output_comes_line_by_line_over_broken_connections(api: FakeApi) -> None:
    def piece(offset: int, text: str) -> str:
        data = text.replace("\n", "\\n")
        return f'id: {offset}\ndata: {{"node": "n1", "stream": "stdout", "offset": 0, "data": "{data}"}}\n\n'

    api.on(
        "GET",
        "/allocations/a17/logs/stream",
        Reply(events=(piece(5, "one\ntw"),)),
        Reply(events=(piece(9, "o\nthree"), "event: end\ndata: {}\n\n")),
    )
    found = run(api, lambda client: collected(client.stream_logs("a17")))
    assert [line.message for line in found] == ["one", "two", "three"]
    assert api.last().headers["last-event-id"] == "5"


def test_output_as_it_is(api: FakeApi) -> None:
    api.on("GET", "/allocations/a17/logs", Reply(raw=b"\xff\x00", headers={"X-Lattice-Dropped-Bytes": "7"}))
    dropped: list[int] = []

    async def ask(client: LatticeClient) -> bytes:
        return b"".join(await collected(client.iter_logs("a17", dropped=dropped.append)))

    assert run(api, ask) == b"\xff\x00"
    assert dropped == [7]
    assert run(api, lambda client: client.logs("a17", tail=3)) == b"\xff\x00"


def test_one_client_serves_one_loop_after_the_other(api: FakeApi) -> None:
    api.on("GET", "/whoami", {"user": "u"})
    client = LatticeClient(api.url, token="t", headers={"X-Tenant": "physics"})

    async def ask() -> str:
        async with client:
            return (await client.whoami()).user

    assert [asyncio.run(ask()), asyncio.run(ask())] == ["u", "u"]
    assert api.last().headers["x-lattice-tenant"] == "physics"


def test_many_tasks_share_one_client(api: FakeApi) -> None:
    api.on("GET", "/allocations/a17", ALLOCATION)

    async def ask(client: LatticeClient) -> list[str]:
        return [each.id for each in await asyncio.gather(*(client.status("a17") for _ in range(20)))]

    assert run(api, ask) == ["a17"] * 20


def test_the_environment_says_where_the_cluster_is(api: FakeApi) -> None:
    api.on("GET", "/whoami", {"user": "u"})
    variables = {"LATTICE_API_URL": api.url, "LATTICE_TOKEN": "t", "LATTICE_TENANT": "physics"}

    async def ask() -> str:
        async with LatticeClient.from_environment(variables) as client:
            return (await client.whoami()).user

    assert asyncio.run(ask()) == "u"


def test_a_client_that_takes_old_answers_says_so_with_every_read(api: FakeApi) -> None:
    async def scenario(client: LatticeClient) -> None:
        await client.get_allocation("a17")
        assert api.last().query == [("consistency", "stale")]
        await client.cancel("a17")
        assert api.last().query == []

    api.on("GET", "/allocations/a17", ALLOCATION)
    api.on("DELETE", "/allocations/a17", ALLOCATION)
    run(api, scenario, stale=True)
