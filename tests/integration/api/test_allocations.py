"""One allocation: reading, waiting, changing."""

import asyncio

import pytest

from lattice.api.context import Context
from lattice.api.operations.work import allocations
from lattice.core.machine.commands import CancelAllocation, ReportPart
from lattice.core.model.work.allocations import AllocationState, Cause, PartPhase
from tests.integration.api.world import World, in_world, soon


@in_world
async def test_unknown_ids_are_not_found_with_a_hint(world: World) -> None:
    for text in ("a7", "7", "a7_1", "seven", "a", "0", "a" * 500):
        response = await world.call("GET", f"/allocations/{text}")
        assert response.status == 404, text
        assert response.error["code"] == "not_found"
        assert "lattice status" in response.error["hint"]


@in_world
async def test_a_run_shows_its_nodes_times_and_end(world: World) -> None:
    await world.submit()
    world.clock.ms += 1000
    await world.start_run(1)
    world.clock.ms += 12_000
    running = (await world.call("GET", "/allocations/a1")).json()
    assert running["state"] == "Running"
    assert running["nodes"] == ["n1"]
    assert (running["run"], running["elapsed_s"]) == (1, 12)
    world.clock.ms += 1000
    await world.finish(1, exit_code=3)
    ended = (await world.call("GET", "/allocations/a1")).json()
    assert (ended["state"], ended["cause"], ended["exit_code"], ended["signal"]) == ("Failed", "exit", 3, None)
    assert ended["started_at"] == "2026-03-05T08:40:01.000Z"
    assert ended["completed_at"] == "2026-03-05T08:40:14.000Z"
    assert ended["elapsed_s"] == 13


@in_world
async def test_reason_of_a_pending_allocation_is_that_of_the_last_cycle(world: World) -> None:
    await world.submit()
    world.scheduling.reasons[1] = "1 of 2 requested nodes free"
    assert (await world.call("GET", "/allocations/a1")).json()["reason"] == "1 of 2 requested nodes free"
    await world.start_run(1)
    assert (await world.call("GET", "/allocations/a1")).json()["reason"] == ""
    await world.call("DELETE", "/allocations/a1")
    assert (await world.call("GET", "/allocations/a1")).json()["reason"] == "being cancelled"


@in_world
async def test_pending_task_waits_for_the_reason_of_its_group(world: World) -> None:
    await world.submit(tasks="0-3")
    world.scheduling.reasons[1] = "no nodes registered"
    assert (await world.call("GET", "/allocations/a1_2")).json()["reason"] == "no nodes registered"


@in_world
async def test_details_are_for_the_owner_and_the_administrator(world: World) -> None:
    await world.submit(environment={"SECRET": "x"}, cwd="/home/alice")
    path = "/allocations/a1?details=true"
    own = (await world.call("GET", path)).json()
    assert own["details"]["environment"] == {"SECRET": "x"}
    assert own["details"]["entrypoint"] == ["true"]
    assert (await world.call("GET", path, token=world.admin)).json()["details"] is not None
    colleague = await world.call("GET", path, token=world.token("bob"))
    assert colleague.json()["details"] is None
    tenant_admin = await world.call("GET", path, token=world.token("eve", scope="tenant:admin"))
    assert tenant_admin.json()["details"] is None
    assert "details" not in (await world.call("GET", "/allocations/a1")).json()


@in_world
async def test_details_of_an_archived_allocation_are_still_there(world: World) -> None:
    await world.submit(environment={"A": "1"})
    await world.start_run(1)
    await world.finish(1)
    await world.archive(1)
    view = (await world.call("GET", "/allocations/1?details=1")).json()
    assert view["archived"] is True
    assert view["details"]["environment"] == {"A": "1"}


@in_world
async def test_cancel_of_pending_work_ends_it(world: World) -> None:
    await world.submit()
    response = await world.call("DELETE", "/allocations/a1")
    assert response.status == 202
    assert (response.json()["state"], response.json()["cause"]) == ("Cancelled", "cancelled")
    again = await world.call("DELETE", "/allocations/a1")
    assert again.status == 409
    assert "already Cancelled" in again.error["message"]


@in_world
async def test_repeated_cancel_under_one_request_id_is_the_same_answer(world: World) -> None:
    await world.submit()
    headers = {"X-Request-Id": "c-1"}
    first = await world.call("DELETE", "/allocations/a1", headers=headers)
    again = await world.call("DELETE", "/allocations/a1", headers=headers)
    assert (first.status, again.status) == (202, 202)
    assert again.body == first.body


@in_world
async def test_cancel_of_archived_work_is_a_conflict(world: World) -> None:
    await world.submit()
    await world.call("DELETE", "/allocations/a1")
    await world.archive(1)
    response = await world.call("DELETE", "/allocations/a1")
    assert response.status == 409
    assert "already Cancelled" in response.error["message"]


@in_world
async def test_cancel_many_says_of_each_what_became_of_it(world: World) -> None:
    await world.submit()
    await world.submit(token=world.token("bob"))
    response = await world.call("POST", "/allocations/cancel", {"ids": ["a1", "2", "a9"]})
    assert response.status == 200
    first, second, third = response.json()["items"]
    assert first == {"id": "a1", "ok": True}
    assert (second["ok"], second["error"]["code"]) == (False, "forbidden")
    assert (third["ok"], third["error"]["code"]) == (False, "not_found")


@in_world
async def test_a_group_that_has_ended_says_how_as_an_allocation_does(world: World) -> None:
    await world.submit(tasks="0-1", lifecycle={"requeue": "never"})
    for task, node in ((2, "n1"), (3, "n2")):
        await world.start_run(task, node)
    running = (await world.call("GET", "/allocations/a1")).json()
    assert (running["state"], running["cause"], running["exit_code"]) == ("Running", None, None)
    assert running["started_at"] is not None
    world.clock.ms += 5000
    await world.finish(2, exit_code=0, node="n1")
    await world.finish(3, exit_code=6, node="n2")
    ended = (await world.call("GET", "/allocations/a1")).json()
    assert (ended["state"], ended["cause"], ended["exit_code"]) == ("Failed", "exit", 6)
    assert ended["elapsed_s"] == 5
    await world.submit(tasks="0-1")
    await world.call("DELETE", "/allocations/a4")
    cancelled = (await world.call("GET", "/allocations/a4")).json()
    assert (cancelled["state"], cancelled["cause"], cancelled["exit_code"]) == ("Cancelled", "cancelled", None)


@in_world
async def test_cancel_of_all_mine_knows_no_bound_and_that_of_ids_does(world: World) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocations, "MAX_BULK", 2)
        for _ in range(3):
            await world.submit()
        refusal = await world.call("POST", "/allocations/cancel", {"ids": ["a1", "a2", "a3"]})
        assert (refusal.status, refusal.error["current"], refusal.error["limit"]) == (400, "3", "2")
        assert "all_mine" in refusal.error["hint"]
        answer = await world.call("POST", "/allocations/cancel", {"all_mine": True})
        assert [item["ok"] for item in answer.json()["items"]] == [True] * 3


@in_world
async def test_cancel_of_all_mine_is_silent_about_what_ended_meanwhile(world: World) -> None:
    for _ in range(2):
        await world.submit()

    async def listed_too_early(context: Context, states: list[str]) -> list[str]:
        await world.do(CancelAllocation(number=1))
        return ["a1", "a2"]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocations, "_mine", listed_too_early)
        answer = await world.call("POST", "/allocations/cancel", {"all_mine": True})
    assert answer.json()["items"] == [{"id": "a2", "ok": True}]


@in_world
async def test_cancel_of_all_mine_leaves_others_alone(world: World) -> None:
    await world.submit()
    await world.submit(tasks="0-9")
    await world.submit()
    await world.submit(token=world.token("bob"))
    await world.start_run(13)
    response = await world.call("POST", "/allocations/cancel", {"states": ["pending"], "all_mine": True})
    assert [item["id"] for item in response.json()["items"]] == ["a2", "a1"]
    states = (await world.call("GET", "/allocations/count")).json()["states"]
    assert states == {"Cancelled": 2, "Running": 1, "Pending": 1}


@pytest.mark.parametrize("body", [{}, {"ids": ["a1"], "all_mine": True}, {"states": ["pending"]}])
def test_cancel_many_needs_to_know_what(body: dict[str, object]) -> None:
    @in_world
    async def scenario(world: World) -> None:
        assert (await world.call("POST", "/allocations/cancel", body)).status == 400

    scenario()


@in_world
async def test_hold_and_release(world: World) -> None:
    await world.submit()
    held = await world.call("POST", "/allocations/a1/hold")
    assert (held.status, held.json()["hold"]) == (200, "user")
    released = await world.call("POST", "/allocations/a1/release", {})
    assert released.json()["hold"] == ""


@in_world
async def test_hold_by_an_administrator_is_not_released_by_the_owner(world: World) -> None:
    await world.submit()
    held = await world.call("POST", "/allocations/a1/hold", token=world.admin)
    assert held.json()["hold"] == "operator"
    assert (await world.call("POST", "/allocations/a1/release")).status == 403
    released = await world.call("POST", "/allocations/a1/release", token=world.admin)
    assert released.json()["hold"] == ""


@in_world
async def test_requeue_keeps_the_id_and_counts_the_restart(world: World) -> None:
    await world.submit()
    assert (await world.call("POST", "/allocations/a1/requeue")).status == 409
    await world.start_run(1)
    stopping = (await world.call("POST", "/allocations/a1/requeue")).json()
    assert (stopping["state"], stopping["reason"]) == ("Stopping", "being stopped to run again")
    ended = ReportPart(
        number=1, run=1, node="n1", seq=3, phase=PartPhase.ENDED, cause=Cause.SIGNAL, signal=15, stopped=True
    )
    await world.do(ended)
    again = (await world.call("GET", "/allocations/a1")).json()
    assert (again["state"], again["restart_count"]) == ("Pending", 1)


@in_world
async def test_update_changes_what_is_named(world: World) -> None:
    await world.submit()
    response = await world.call("PATCH", "/allocations/a1", {"walltime": "2h", "priority": "low", "name": "x"})
    view = response.json()
    assert (view["walltime_s"], view["preemption_class"], view["name"]) == (7200, 2, "x")
    assert (await world.call("PATCH", "/allocations/a1", {})).status == 400
    assert (await world.call("PATCH", "/allocations/a1", {"walltime": "x"})).status == 400
    assert (await world.call("PATCH", "/allocations/a1", {"id": "a2", "name": "y"})).status == 400
    unknown = await world.call("PATCH", "/allocations/a1", {"wall": "1h"})
    assert 'unknown field "wall"' in unknown.error["message"]


@in_world
async def test_wait_answers_the_moment_it_ends(world: World) -> None:
    await world.submit()
    waiting = asyncio.create_task(world.call("GET", "/allocations/a1/wait?timeout=60"))
    await world.start_run(1)
    await soon(lambda: world.state.allocations[1].state is AllocationState.RUNNING)
    assert not waiting.done()
    await world.finish(1)
    answer = (await waiting).json()
    assert (answer["state"], answer["exit_code"]) == ("Completed", 0)


@in_world
async def test_wait_that_is_over_tells_the_present_state(world: World) -> None:
    await world.submit()
    answer = await world.call("GET", "/allocations/a1/wait?timeout=0.05")
    assert (answer.status, answer.json()["state"]) == (200, "Pending")
    assert (await world.call("GET", "/allocations/a1/wait?timeout=61")).status == 400
    assert (await world.call("GET", "/allocations/a1/wait?timeout=soon")).status == 400


@in_world
async def test_wait_for_a_group_lasts_until_its_last_task(world: World) -> None:
    await world.submit(tasks="0-1")
    waiting = asyncio.create_task(world.call("GET", "/allocations/a1/wait?timeout=60"))
    await world.start_run(2, "n1")
    await world.start_run(3, "n2")
    await world.finish(2)
    await world.finish(3, node="n2", exit_code=1)
    answer = (await waiting).json()
    assert answer["state"] == "Failed"
    assert (answer["tasks"]["completed"], answer["tasks"]["failed"]) == (1, 1)


@in_world
async def test_wait_for_a_pending_task_ends_with_the_cancelled_group(world: World) -> None:
    await world.submit(tasks="0-4")
    waiting = asyncio.create_task(world.call("GET", "/allocations/a1_4/wait?timeout=60"))
    await asyncio.sleep(0)
    await world.call("DELETE", "/allocations/a1")
    answer = (await waiting).json()
    assert (answer["state"], answer["task_index"]) == ("Cancelled", 4)


@in_world
async def test_wait_on_archived_work_answers_at_once(world: World) -> None:
    await world.submit()
    await world.call("DELETE", "/allocations/a1")
    await world.archive(1)
    answer = (await world.call("GET", "/allocations/a1/wait?timeout=60")).json()
    assert (answer["state"], answer["archived"]) == ("Cancelled", True)


@in_world
async def test_stopping_server_ends_every_wait(world: World) -> None:
    await world.submit()
    waiting = asyncio.create_task(world.call("GET", "/allocations/a1/wait?timeout=60"))
    await asyncio.sleep(0)
    world.services.feed.close()
    assert (await waiting).json()["state"] == "Pending"


@in_world
async def test_task_of_an_archived_group_is_found_by_index_and_number(world: World) -> None:
    await world.submit(tasks="5-6")
    await world.start_run(2)
    await world.finish(2)
    await world.call("DELETE", "/allocations/a1")
    await world.archive(2)
    await world.archive(1)
    ran = (await world.call("GET", "/allocations/a1_5")).json()
    assert (ran["number"], ran["state"], ran["archived"]) == (2, "Completed", True)
    never_ran = (await world.call("GET", "/allocations/3")).json()
    assert (never_ran["task_index"], never_ran["state"]) == (6, "Cancelled")
    group = (await world.call("GET", "/allocations/a1")).json()
    assert (group["state"], group["tasks"]["cancelled"]) == ("Cancelled", 1)


@in_world
async def test_the_umask_of_a_submission_is_kept_and_bounded(world: World) -> None:
    await world.submit(umask=0o077)
    shown = (await world.call("GET", "/allocations/a1?details=true")).json()
    assert shown["details"]["umask"] == "0077"
    for wrong in (-1, 0o1000):
        refused = await world.call("POST", "/allocations", {"entrypoint": ["true"], "umask": wrong})
        assert (refused.status, "umask" in refused.error["message"]) == (400, True)
