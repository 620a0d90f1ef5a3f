"""Advance reservations and the weights of a vCluster over REST."""

import math

import grpc
import pytest

from tests.integration.api.grpc_wire import ask, grpc_of
from tests.integration.api.world import NOW_MS, World, in_world

HOUR_MS = 3_600_000
UPKEEP = {"name": "upkeep", "start": "2026-03-05T10:00:00Z", "duration": "4h", "reason": "new firmware"}


@in_world
async def test_an_operator_keeps_nodes_and_everybody_sees_it(world: World) -> None:
    operator = world.token("olga", scope="operator")
    made = await world.call("POST", "/reservations", {**UPKEEP, "nodes": "n[1-2]"}, token=operator)
    assert made.status == 201
    assert made.json() == {
        "name": "upkeep",
        "start": "2026-03-05T10:00:00.000Z",
        "end": "2026-03-05T14:00:00.000Z",
        "nodes": ["n1", "n2"],
        "tenants": [],
        "users": [],
        "repeat_s": 0,
        "until": None,
        "reason": "new firmware",
        "created_by": "olga",
        "created_at": "2026-03-05T08:40:00.000Z",
        "state": "upcoming",
        "next_start": "2026-03-05T10:00:00.000Z",
        "next_end": "2026-03-05T14:00:00.000Z",
    }
    world.clock.ms = NOW_MS + 2 * HOUR_MS
    listed = (await world.call("GET", "/reservations")).json()["items"]
    assert [(item["name"], item["state"]) for item in listed] == [("upkeep", "active")]
    world.clock.ms = NOW_MS + 24 * HOUR_MS
    shown = (await world.call("GET", "/reservations/upkeep")).json()
    assert (shown["state"], shown["next_start"]) == ("over", None)


@in_world
async def test_a_repeated_reservation_shows_its_next_window(world: World) -> None:
    body = {**UPKEEP, "repeat": "7d", "until": "2026-03-15T00:00:00Z"}
    await world.call("POST", "/reservations", body, token=world.admin)
    world.clock.ms = NOW_MS + 24 * HOUR_MS
    shown = (await world.call("GET", "/reservations/upkeep")).json()
    assert (shown["state"], shown["next_start"]) == ("upcoming", "2026-03-12T10:00:00.000Z")
    world.clock.ms += 7 * 24 * HOUR_MS
    assert (await world.call("GET", "/reservations/upkeep")).json()["state"] == "over"


@in_world
async def test_users_may_not_keep_nodes(world: World) -> None:
    for token in (world.alice, world.token("tina", scope="tenant:admin"), world.token("rolf", scope="readonly")):
        assert (await world.call("POST", "/reservations", UPKEEP, token=token)).status == 403
        assert (await world.call("DELETE", "/reservations/upkeep", token=token)).status == 403


@in_world
async def test_a_reservation_is_deleted_once_and_a_repeat_is_harmless(world: World) -> None:
    await world.call("POST", "/reservations", UPKEEP, token=world.admin)
    again = await world.call("POST", "/reservations", UPKEEP, token=world.admin)
    assert (again.status, again.error["code"]) == (409, "already_exists")
    for _ in range(2):
        headers = {"X-Request-Id": "drop-it"}
        gone = await world.call("DELETE", "/reservations/upkeep", token=world.admin, headers=headers)
        assert (gone.status, gone.json()) == (200, {"name": "upkeep"})
    missing = await world.call("DELETE", "/reservations/upkeep", token=world.admin)
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    assert (await world.call("GET", "/reservations/upkeep")).status == 404


def _bad(*fields: tuple[str, object]) -> dict[str, object]:
    return {**UPKEEP, **dict(fields)}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (_bad(("start", "tomorrow")), "start: cannot read"),
        (_bad(("duration", None)), "neither an end nor a duration"),
        (_bad(("end", "2026-03-05T12:00:00Z")), "both an end and a duration"),
        (_bad(("duration", "0s")), "duration:"),
        (_bad(("duration", None), ("end", "2026-03-05T09:00:00Z")), "must end after it starts"),
        (_bad(("start", "2026-03-01T10:00:00Z")), "lies in the past"),
        (_bad(("until", "2026-04-01")), "until: only a reservation that repeats"),
        (_bad(("repeat", "1h")), "cannot repeat before it has ended"),
        (_bad(("nodes", ["n9"])), 'unknown node "n9"'),
        (_bad(("nodes", "n[1-")), "as names of nodes"),
        (_bad(("tenants", ["nobody"])), 'unknown tenant "nobody"'),
        (_bad(("name", "")), "name: is empty"),
        (_bad(("name", "a/b")), "cannot be part of an address"),
        (_bad(("name", "..")), "cannot be part of an address"),
        (_bad(("color", "red")), 'unknown field "color"'),
    ],
)
def test_a_reservation_that_makes_no_sense_is_refused(body: dict[str, object], said: str) -> None:
    @in_world
    async def check(world: World) -> None:
        refused = await world.call("POST", "/reservations", body, token=world.admin)
        assert refused.status in (400, 404)
        assert said in refused.error["message"]
        assert world.state.reservations == {}

    check()


@in_world
async def test_weights_are_laid_over_and_taken_away(world: World) -> None:
    async def put(body: dict[str, object]) -> dict[str, object]:
        answer = await world.call("PUT", "/vclusters/default", body, token=world.admin)
        assert answer.status == 200, answer.body
        return answer.json()

    first = await put({"weights": {"wait_time": 1, "priority": 0.5}, "profile": "responsive", "backfill_depth": 7})
    assert (first["profile"], first["backfill_depth"]) == ("responsive", 7)
    assert first["weights"] == {"priority": 0.5, "wait_time": 1.0}
    assert (await put({"weights": {"priority": None, "energy": 2}}))["weights"] == {"wait_time": 1.0, "energy": 2.0}
    assert (await put({"max_nodes": 3}))["weights"] == {"wait_time": 1.0, "energy": 2.0}
    last = await put({"weights": None, "profile": None})
    assert (last["weights"], last["profile"]) == ({}, "")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"weights": {"speed": 1}}, 'unknown factor "speed"'),
        ({"weights": {"priority": -1}}, "weight of priority must be"),
        ({"weights": {"priority": 0, "wait_time": 0}}, "at least one weight"),
        ({"profile": "fancy"}, 'unknown profile "fancy"'),
        ({"backfill_depth": -1}, "backfill_depth"),
    ],
)
def test_weights_that_make_no_sense_are_refused(body: dict[str, object], said: str) -> None:
    @in_world
    async def check(world: World) -> None:
        refused = await world.call("PUT", "/vclusters/default", body, token=world.admin)
        assert refused.status == 400
        assert said in refused.error["message"]

    check()


@in_world
async def test_weights_that_only_grpc_can_carry_are_refused_too(world: World) -> None:
    before = world.state.vclusters["default"], world.state.tenants["default"]
    async with grpc_of(world.services) as channel:
        for figure in (math.nan, math.inf, -math.inf):
            for operation, fields in (
                ("update_vcluster", {"weights": {"priority": figure}}),
                ("update_tenant", {"fair_share_target": figure}),
                ("update_tenant", {"burst_allowance": figure}),
                ("update_tenant", {"gpu_hours_budget": figure}),
            ):
                answer = await ask(channel, operation, {"name": "default", **fields}, token=world.admin)
                assert answer.status is grpc.StatusCode.INVALID_ARGUMENT, (operation, fields)
    assert (world.state.vclusters["default"], world.state.tenants["default"]) == before
