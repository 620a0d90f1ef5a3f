"""Sessions over REST: requested, seen, ended, and refused with words that help."""

from msgspec.structs import replace

from lattice.core.machine.commands import SetVcluster
from lattice.core.model.site.tenants import SENSITIVE
from tests.integration.api.world import World, in_world

HOUR = {"lifecycle": {"walltime": "1h"}}


async def session(world: World, **fields: object) -> str:
    answer = await world.call("POST", "/sessions", {**HOUR, **fields})
    assert answer.status == 201, answer.body
    return str(answer.json()["id"])


@in_world
async def test_a_session_is_an_allocation_that_is_never_run_again(world: World) -> None:
    name = await session(world, name="by-hand")
    shown = (await world.call("GET", f"/sessions/{name}")).json()
    told = {key: shown[key] for key in ("id", "allocation", "name", "state", "walltime_s", "terminals")}
    assert told == {
        "id": name,
        "allocation": name,
        "name": "by-hand",
        "state": "Pending",
        "walltime_s": 3600,
        "terminals": [],
    }
    record = (await world.call("GET", f"/allocations/{name}")).json()
    assert (record["session"], record["requeue"], record["lifecycle"]) == (True, "never", "bounded")


@in_world
async def test_a_request_that_is_repeated_gives_the_same_session(world: World) -> None:
    assert await session(world, request_id="one") == await session(world, request_id="one")


@in_world
async def test_sessions_are_listed_without_other_work_and_without_those_that_have_ended(world: World) -> None:
    await world.submit()
    first, second = await session(world), await session(world)
    await world.start_run(int(first[1:]))
    ended = await world.call("DELETE", f"/sessions/{second}")
    assert (ended.status, ended.json()["state"]) == (202, "Cancelled")
    listed = (await world.call("GET", "/sessions")).json()["items"]
    assert [each["id"] for each in listed] == [first]
    everything = (await world.call("GET", "/sessions?all=true")).json()["items"]
    assert [each["id"] for each in everything] == [second, first]
    again = await world.call("DELETE", f"/sessions/{second}")
    assert (again.status, "already Cancelled" in again.error["message"]) == (409, True)


@in_world
async def test_creation_and_end_are_events_that_say_session(world: World) -> None:
    name = await session(world)
    await world.call("DELETE", f"/sessions/{name}")
    changes = [change for change in world.services.feed.read(0, 1000) if change.number == int(name[1:])]
    assert [(change.kind, change.session) for change in changes] == [("submitted", True), ("ended", True)]


@in_world
async def test_what_a_session_cannot_have_is_named(world: World) -> None:
    for body, told in (
        ({**HOUR, "entrypoint": ["true"]}, "entrypoint"),
        ({**HOUR, "script": "#!/bin/sh"}, "script"),
        ({**HOUR, "script_args": ["x"]}, "script_args"),
        ({**HOUR, "tasks": "0-3"}, "tasks"),
        ({**HOUR, "per_node": True}, "per_node"),
        ({**HOUR, "dry_run": True}, "dry_run"),
        ({"lifecycle": {"walltime": "1h", "requeue": "always"}}, "lifecycle.requeue"),
        ({"lifecycle": {"type": "unbounded"}}, "a session is bounded"),
    ):
        answer = await world.call("POST", "/sessions", body)
        assert (answer.status, told in answer.error["message"]) == (400, True), answer.error


@in_world
async def test_sensitive_work_has_no_sessions(world: World) -> None:
    vcluster = world.state.vclusters["default"]
    await world.do(SetVcluster(vcluster=replace(vcluster, scheduler=SENSITIVE)))
    answer = await world.call("POST", "/sessions", HOUR)
    assert (answer.status, "recorded" in answer.error["message"]) == (403, True), answer.error


@in_world
async def test_other_work_is_no_session_and_waiting_ones_have_no_terminal(world: World) -> None:
    name = (await world.submit())["id"]
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/terminal")):
        answer = await world.call(method, f"/sessions/{name}{path}", {} if method == "POST" else None)
        assert (answer.status, "is not a session" in answer.error["message"]) == (409, True), answer.error
        assert "lattice attach" in answer.error["hint"]
    answer = await world.call("POST", f"/sessions/{await session(world)}/terminal", {})
    assert (answer.status, answer.error["current"]) == (409, "Pending")
