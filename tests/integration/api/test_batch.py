"""Many submissions in one call."""

from lattice.api.limits import MAX_BATCH
from tests.integration.api.world import World, in_world


def batch(*names: str, **more: object) -> dict[str, object]:
    return {"submissions": [{"entrypoint": ["true"], "name": name} for name in names], **more}


@in_world
async def test_each_submission_has_its_own_answer_in_order(world: World) -> None:
    wanted = {"submissions": [{"entrypoint": ["true"], "name": "one"}, {"name": "nothing to run"}, {"entrypoint": "x"}]}
    response = await world.call("POST", "/allocations/batch", wanted)
    assert response.status == 200
    first, second, third = response.json()["items"]
    assert (first["ok"], first["allocation"]["name"]) == (True, "one")
    assert second["ok"] is False
    assert second["error"]["code"] == "invalid"
    assert "nothing to run" in second["error"]["message"]
    assert third["allocation"]["id"] == "a2"
    assert len(world.state.allocations) == 2


@in_world
async def test_a_batch_is_one_entry_of_the_log(world: World) -> None:
    before = world.replica.applied_index
    response = await world.call("POST", "/allocations/batch", batch(*(f"n{place}" for place in range(MAX_BATCH))))
    assert all(item["ok"] for item in response.json()["items"])
    assert len(world.state.allocations) == MAX_BATCH
    assert world.replica.applied_index == before + 1


@in_world
async def test_a_repeated_batch_submits_nothing_again(world: World) -> None:
    for wanted, headers in ((batch("a", "b", request_id="r"), {}), (batch("c", "d"), {"X-Request-Id": "h"})):
        ids = []
        for _ in range(2):
            response = await world.call("POST", "/allocations/batch", wanted, headers=headers)
            ids.append([item["allocation"]["id"] for item in response.json()["items"]])
        assert ids[0] == ids[1]
        assert len(set(ids[0])) == 2
    assert len(world.state.allocations) == 4


@in_world
async def test_a_submission_keeps_its_own_request_id(world: World) -> None:
    own = {"entrypoint": ["true"], "request_id": "mine"}
    response = await world.call("POST", "/allocations/batch", {"submissions": [own], "request_id": "batch"})
    again = await world.submit(request_id="mine")
    assert again["id"] == response.json()["items"][0]["allocation"]["id"]


@in_world
async def test_batches_have_bounds(world: World) -> None:
    for wanted in (
        batch(),
        batch(*["x"] * (MAX_BATCH + 1)),
        {"submissions": [{"entrypoint": ["true"], "dry_run": True}]},
    ):
        response = await world.call("POST", "/allocations/batch", wanted)
        assert response.status == 400
        assert response.error["message"].startswith("submissions")
    assert not world.state.allocations


@in_world
async def test_a_submission_of_another_tenant_is_refused_alone(world: World) -> None:
    wanted = {"submissions": [{"entrypoint": ["true"], "tenant": "physics"}, {"entrypoint": ["true"]}]}
    first, second = (await world.call("POST", "/allocations/batch", wanted)).json()["items"]
    assert first["error"]["code"] == "forbidden"
    assert second["ok"]
