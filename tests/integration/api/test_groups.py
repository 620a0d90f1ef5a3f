"""Task groups over the API: several tasks in one order, lists that unfold them, and what they used."""

from tests.integration.api.world import World, in_world


@in_world
async def test_several_tasks_are_changed_by_one_order_and_one_command(world: World) -> None:
    await world.submit(tasks="0-99:2", hold=True)
    before = len(world.state.recent)
    answer = await world.call("DELETE", "/allocations/a1_[0-9,50]?request_id=once")
    assert answer.status == 202
    assert answer.json()["tasks"] == {
        "size": 50,
        "pending": 44,
        "running": 0,
        "completed": 0,
        "failed": 0,
        "cancelled": 6,
        "concurrency": 0,
        "pending_indices": "10-48:2,52-98:2",
    }
    again = await world.call("DELETE", "/allocations/a1_[0-9,50]?request_id=once")
    assert (again.status, len(world.state.recent)) == (202, before + 1)
    assert (await world.call("DELETE", "/allocations/a1_[0-9,50]")).status == 409
    assert world.state.allocations == {}
    assert (await world.call("GET", "/allocations/a1_50")).json()["state"] == "Cancelled"
    released = await world.call("POST", "/allocations/a1_[10-20]/release")
    assert released.status == 200
    held = (await world.call("GET", "/allocations?group=a1_[20,22]")).json()["items"]
    assert [(task["task_index"], task["hold"]) for task in held] == [(22, "user"), (20, "")]


@in_world
async def test_tasks_that_are_not_there_and_work_that_is_no_group_are_refused(world: World) -> None:
    await world.submit(tasks="0-4")
    await world.submit()
    cases = {
        ("DELETE", "/allocations/a1_[7-9]"): (400, "a1 has no task 7-9"),
        ("DELETE", "/allocations/a1_[7-"): (400, 'cannot read "a1_[7-"'),
        ("POST", "/allocations/a7_[0-3]/hold"): (400, "a7 is not a task group"),
        ("POST", "/allocations/a99_[0-3]/hold"): (404, 'no allocation "a99"'),
        ("GET", "/allocations/a1_[0-3]"): (400, "names several tasks"),
        ("GET", "/allocations/a1_0-3/logs"): (400, "names several tasks"),
        ("POST", "/allocations/a1_[0-3]/requeue"): (409, "none of these tasks is running"),
    }
    for (method, path), (status, message) in cases.items():
        answer = await world.call(method, path)
        assert answer.status == status, (path, answer.body)
        assert message in answer.json()["error"]["message"]
    strange = await world.call("DELETE", "/allocations/a1_[0-3]", token=world.token("bob"))
    assert strange.status == 403


@in_world
async def test_bulk_cancel_takes_ranges(world: World) -> None:
    await world.submit(tasks="0-9")
    answer = await world.call("POST", "/allocations/cancel", {"ids": ["a1_[0-3]", "a1_[4-5]", "a1_[0-3]", "a1_[77]"]})
    items = answer.json()["items"]
    assert [(item["id"], item["ok"]) for item in items] == [
        ("a1_[0-3]", True),
        ("a1_[4-5]", True),
        ("a1_[0-3]", False),
        ("a1_[77]", False),
    ]
    assert world.state.groups[1].cancelled == 6


@in_world
async def test_rows_are_listed_counted_and_archived_like_records(world: World) -> None:
    await world.submit(tasks="0-5")
    for number, code in ((2, 0), (3, 4)):
        await world.start_run(number)
        world.clock.ms += 2000
        await world.finish(number, exit_code=code)
    await world.call("DELETE", "/allocations/a1_[4-5]")
    before = (await world.call("GET", "/allocations?group=a1")).json()["items"]
    counted = (await world.call("GET", "/allocations/count?tasks=true")).json()["states"]
    await world.archive(2, 3)
    assert world.state.allocations == {}
    assert (await world.call("GET", "/allocations?group=a1")).json()["items"] == before
    assert (await world.call("GET", "/allocations/count?tasks=true")).json()["states"] == counted
    assert counted == {"Pending": 2, "Completed": 1, "Failed": 1, "Cancelled": 2}
    named = (await world.call("GET", "/allocations/count?tasks=true&name=true&state=failed")).json()
    assert named == {"total": 1, "states": {"Failed": 1}}
    await world.call("DELETE", "/allocations/a1")
    await world.archive(1)
    archived = (await world.call("GET", "/allocations?group=a1&all=true&limit=3")).json()
    assert [task["task_index"] for task in archived["items"]] == [5, 4, 3]
    rest = (await world.call("GET", f"/allocations?group=a1&all=true&cursor={archived['next_cursor']}")).json()
    assert [task["task_index"] for task in rest["items"]] == [2, 1, 0]
    ended = {task["task_index"]: task for task in before}
    for task in rest["items"][1:]:
        assert task == {**ended[task["task_index"]], "archived": True}
    assert (await world.call("GET", "/allocations?group=a1_[0,3]&all=true")).json()["items"][0]["task_index"] == 3


@in_world
async def test_the_number_of_tasks_at_once_is_changed_for_groups_alone(world: World) -> None:
    await world.submit(tasks="0-9%2")
    await world.submit()
    assert (await world.call("PATCH", "/allocations/a1", {"concurrency": 5})).json()["tasks"]["concurrency"] == 5
    assert (await world.call("PATCH", "/allocations/a12", {"concurrency": 5})).status == 400
    assert (await world.call("PATCH", "/allocations/a1", {"concurrency": -5})).status == 400


@in_world
async def test_a_group_may_be_written_as_an_object(world: World) -> None:
    group = await world.submit(tasks={"start": 10, "end": 20, "step": 5, "concurrency": 2})
    assert (group["tasks"]["size"], group["tasks"]["pending_indices"]) == (3, "10-20:5")
    wrong = await world.call("POST", "/allocations", {"entrypoint": "true", "tasks": {"start": 3, "end": 1}})
    assert wrong.status == 400
