"""Bounds of the API: rates and streams of one user, bodies, batches, arrays, pages."""

import time
from typing import Any

import pytest

from lattice.api.limits import MAX_BATCH, MAX_BODY_BYTES, MAX_BULK, MAX_PAGE, MAX_REQUEST_ID
from lattice.api.rates import RateLimits
from tests.integration.api.world import World, in_world


@in_world
async def test_too_many_requests_are_told_when_to_come_back(world: World) -> None:
    world.services.limits = RateLimits({"requests_per_second": 1, "requests_burst": 3}, time.monotonic)
    statuses = [(await world.call("GET", "/whoami", token=world.alice)).status for _ in range(3)]
    assert statuses == [200] * 3
    refused = await world.call("GET", "/whoami", token=world.alice)
    assert refused.status == 429
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["error"]["code"] == "too_many"
    assert (await world.call("GET", "/whoami", token=world.admin)).status == 200


@in_world
async def test_streams_of_one_user_are_limited_and_closing_one_makes_room(world: World) -> None:
    world.services.limits = RateLimits({"watch_max_concurrent": 2}, time.monotonic)
    first = await world.open("/events", token=world.alice)
    second = await world.open("/events", token=world.alice)
    refused = await world.call("GET", "/events", token=world.alice)
    assert refused.status == 429
    assert "(2/2). Close an existing session to open a new one." in refused.json()["error"]["message"]
    await first.close()
    third = await world.open("/events", token=world.alice)
    await second.close()
    await third.close()


SUBMISSION: dict[str, Any] = {"entrypoint": ["true"]}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/allocations", {**SUBMISSION, "environment": {"A": "x" * MAX_BODY_BYTES}}, 413),
        ("POST", "/allocations/batch", {"submissions": [SUBMISSION] * (MAX_BATCH + 1)}, 400),
        ("POST", "/allocations", {**SUBMISSION, "tasks": "0-10000000000"}, 400),
        ("POST", "/allocations/cancel", {"ids": ["a1"] * (MAX_BULK + 1)}, 400),
        ("GET", f"/allocations?limit={MAX_PAGE + 1}", None, 400),
        ("GET", f"/audit?limit={MAX_PAGE + 1}", None, 400),
        ("POST", "/allocations", {**SUBMISSION, "request_id": "x" * (MAX_REQUEST_ID + 1)}, 400),
    ],
)
def test_what_is_too_large_is_refused(method: str, path: str, body: object, status: int) -> None:
    @in_world
    async def scenario(world: World) -> None:
        refused = await world.call(method, path, body, token=world.alice)
        assert refused.status == status, refused.json()
        error = refused.json()["error"]
        assert error["message"]
        assert not world.state.allocations

    scenario()
