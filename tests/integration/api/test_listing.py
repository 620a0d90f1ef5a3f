"""Lists: filters, pages, what is archived, counts, the queue."""

import math
import time

import msgspec
import pytest
from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.find.lookup import Found, view_of
from lattice.api.kept_listings import MIN_KEPT_ROWS
from lattice.api.operations.work import listing
from lattice.core.machine.commands import RecordSteps, ReportPart, SetVcluster
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import PartPhase
from lattice.core.model.work.steps import StepRecord
from lattice.wire.work.allocations import AllocationView
from tests.integration.api.world import World, in_world


async def ids(world: World, query: str = "", token: str | None = None) -> list[str]:
    response = await world.call("GET", f"/allocations{query}", token=token)
    assert response.status == 200, response.body
    return [item["id"] for item in response.json()["items"]]


@in_world
async def test_newest_come_first(world: World) -> None:
    for _ in range(3):
        await world.submit()
    assert await ids(world) == ["a3", "a2", "a1"]


@in_world
async def test_pages_are_followed_by_cursor_to_the_end(world: World) -> None:
    for _ in range(5):
        await world.submit()
    seen, cursor = [], ""
    for _ in range(3):
        page = (await world.call("GET", f"/allocations?limit=2{cursor}")).json()
        seen += [item["id"] for item in page["items"]]
        await world.submit()  # what comes in between does not disturb the pages
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == ["a5", "a4", "a3", "a2", "a1"]
    assert page["next_cursor"] is None


@pytest.mark.parametrize("query", ["limit=0", "limit=10001", "limit=x", "cursor=abc", "cursor=!!!", "cursor=WyJhIl0"])
def test_bad_page_is_refused(query: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        assert (await world.call("GET", f"/allocations?{query}")).status == 400

    scenario()


@in_world
async def test_filters_pick_what_they_say(world: World) -> None:
    await world.submit(name="x", tags={"k": "v", "l": "w"})
    await world.submit(name="y", token=world.token("bob"))
    await world.submit(project="p1")
    await world.start_run(2)
    assert await ids(world, "?name=x") == ["a1"]
    assert await ids(world, "?user=bob") == ["a2"]
    assert await ids(world, "?state=RUNNING") == ["a2"]
    assert await ids(world, "?state=running,pending") == ["a3", "a2", "a1"]
    assert await ids(world, "?state=running&state=failed") == ["a2"]
    assert await ids(world, "?tag=k=v&tag=l=w") == ["a1"]
    assert await ids(world, "?tag=k=other") == []
    assert await ids(world, "?project=p1") == ["a3"]
    assert await ids(world, "?vcluster=default&tenant=default") == ["a3", "a2", "a1"]


@in_world
async def test_bad_filters_name_what_is_known(world: World) -> None:
    state = await world.call("GET", "/allocations?state=asleep")
    assert "Pending" in state.error["hint"]
    vcluster = await world.call("GET", "/allocations?vcluster=gpu")
    assert (vcluster.status, "default" in vcluster.error["hint"]) == (404, True)
    misspelt = await world.call("GET", "/allocations?stat=running")
    assert (misspelt.status, misspelt.error["hint"]) == (400, 'did you mean "state"?')
    assert (await world.call("GET", "/allocations?tag=k")).status == 400
    assert (await world.call("GET", "/allocations?since=yesterday")).status == 400
    assert (await world.call("GET", "/allocations?name=a&name=b")).status == 400
    assert (await world.call("GET", "/allocations?all=maybe")).status == 400


@in_world
async def test_users_see_their_tenants_and_the_administrator_all(world: World) -> None:
    await world.submit()
    await world.submit(token=world.token("paul", tenants=("physics",)))
    both = world.token("bob", tenants=("physics", "default"))
    assert await ids(world) == ["a1"]
    assert await ids(world, token=both) == ["a2", "a1"]
    assert await ids(world, token=world.admin) == ["a2", "a1"]
    assert (await world.call("GET", "/allocations?tenant=physics")).status == 403
    chosen = await world.call("GET", "/allocations", token=both, headers={"X-Lattice-Tenant": "physics"})
    assert [item["id"] for item in chosen.json()["items"]] == ["a2"]


@in_world
async def test_unknown_tenant_names_the_known_ones(world: World) -> None:
    by_filter = await world.call("GET", "/allocations?tenant=chem", token=world.admin)
    by_header = await world.call("GET", "/allocations", token=world.admin, headers={"X-Lattice-Tenant": "chem"})
    for response in (by_filter, by_header):
        assert (response.status, response.error["hint"]) == (404, "known: default, physics")


@in_world
async def test_token_without_a_tenant_sees_nothing(world: World) -> None:
    await world.submit()
    assert await ids(world, "?all=true", token=world.token("zoe", tenants=())) == []


@in_world
async def test_groups_are_folded_unless_tasks_are_asked_for(world: World) -> None:
    await world.submit()
    await world.submit(tasks="0-3")
    await world.start_run(4)
    assert await ids(world) == ["a2", "a1"]
    assert await ids(world, "?tasks=true") == ["a6", "a5", "a4", "a3", "a1"]
    assert await ids(world, "?tasks=true&limit=2") == ["a6", "a5"]
    assert await ids(world, "?group=a2&state=running") == ["a4"]
    assert await ids(world, "?group=a2&state=pending") == ["a6", "a5", "a3"]
    counted = (await world.call("GET", "/allocations/count?group=a2")).json()
    assert counted == {"total": 4, "states": {"Pending": 3, "Running": 1}}


@in_world
async def test_pages_run_through_pending_tasks(world: World) -> None:
    await world.submit(tasks="0-99")
    await world.start_run(50)
    seen, query = [], "?tasks=true&limit=30"
    cursor = None
    while True:
        page = (await world.call("GET", f"/allocations{query}{f'&cursor={cursor}' if cursor else ''}")).json()
        seen += [item["number"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == list(range(101, 1, -1))


@in_world
async def test_archived_ones_join_when_asked_for(world: World) -> None:
    for _ in range(4):
        await world.submit()
    for number in (1, 3):
        await world.call("DELETE", f"/allocations/{number}")
    await world.archive(1, 3)
    assert await ids(world) == ["a4", "a2"]
    assert await ids(world, "?all=true") == ["a4", "a3", "a2", "a1"]
    assert await ids(world, "?all=true&state=cancelled&limit=1") == ["a3"]
    page = (await world.call("GET", "/allocations?all=true&limit=3")).json()
    rest = (await world.call("GET", f"/allocations?all=true&limit=3&cursor={page['next_cursor']}")).json()
    assert [item["id"] for item in rest["items"]] == ["a1"]
    assert rest["items"][0]["archived"] is True
    counted = (await world.call("GET", "/allocations/count?all=true")).json()
    assert counted == {"total": 4, "states": {"Pending": 2, "Cancelled": 2}}


@in_world
async def test_archived_groups_are_folded_too(world: World) -> None:
    await world.submit(tasks="0-1")
    for number in (2, 3):
        await world.start_run(number)
        await world.finish(number)
    await world.archive(2, 3)
    await world.archive(1)
    assert await ids(world, "?all=true") == ["a1"]
    assert await ids(world, "?all=true&tasks=true") == ["a3", "a2"]
    assert await ids(world, "?all=true&group=1") == ["a3", "a2"]


@in_world
async def test_history_shows_what_has_ended_hot_or_archived(world: World) -> None:
    for _ in range(3):
        await world.submit()
    await world.call("DELETE", "/allocations/1")
    await world.archive(1)
    world.clock.ms += 3_600_000
    await world.start_run(2)
    await world.finish(2)
    history = (await world.call("GET", "/accounting")).json()
    assert [item["id"] for item in history["items"]] == ["a2", "a1"]
    since = (await world.call("GET", "/accounting?since=2026-03-05T09:00:00Z")).json()
    assert [item["id"] for item in since["items"]] == ["a2"]
    until = (await world.call("GET", "/accounting?until=2026-03-05T09:00:00Z")).json()
    assert [item["id"] for item in until["items"]] == ["a1"]
    assert (await world.call("GET", "/accounting?state=running")).json()["items"] == []


@in_world
async def test_queue_is_in_the_order_of_consideration(world: World) -> None:
    await world.submit()
    await world.submit(priority="high")
    await world.submit(tasks="0-3")
    await world.submit(priority="low")
    await world.submit(tasks="0-1")
    await world.start_run(10)
    await world.start_run(11, "n2")
    page = (await world.call("GET", "/vclusters/default/queue?limit=3")).json()
    assert [item["id"] for item in page["items"]] == ["a2", "a1", "a3"]
    rest = (await world.call("GET", f"/vclusters/default/queue?cursor={page['next_cursor']}")).json()
    assert ([item["id"] for item in rest["items"]], rest["next_cursor"]) == (["a8"], None)
    assert (await world.call("GET", "/vclusters/gpu/queue")).status == 404


@in_world
async def test_ten_thousand_are_listed_quickly(world: World) -> None:
    await world.submit()
    pattern = world.state.allocations[1]
    for number in range(2, 10_001):
        world.state.allocations[number] = msgspec.structs.replace(pattern, number=number)
    started = time.process_time()
    full = await world.call("GET", "/allocations?limit=10000")
    whole_s = time.process_time() - started
    assert len(full.json()["items"]) == 10_000
    started = time.process_time()
    page = await world.call("GET", "/allocations?limit=1000")
    page_s = time.process_time() - started
    assert len(page.json()["items"]) == 1000
    # Processor time, which a busy machine does not stretch; docs/performance.md has the figures.
    assert whole_s < 2.0
    assert page_s < 0.25


@in_world
async def test_figures_that_are_no_numbers_are_shown_as_none_at_all(world: World) -> None:
    """Releases before 0.2 took what nodes reported as it came; their records must not break a listing."""
    await world.submit()
    await world.start_run(1)
    step = StepRecord(step=0, run=1, name="s", nodes=("n1",), tasks=1, started_at=1, ended_at=2, cpu_s=math.nan)
    await world.do(RecordSteps(number=1, steps=(step,)))
    await world.do(
        ReportPart(number=1, run=1, node="n1", seq=9, phase=PartPhase.ENDED, cpu_s=math.nan, elapsed_s=math.inf)
    )
    await world.do(SetVcluster(vcluster=Vcluster(name="old", default_walltime_s=60), create=True))
    old = world.services.replica.state.vclusters["old"]
    world.services.replica.state.vclusters["old"] = replace(old, weights=(("priority", math.nan), ("age", 1.0)))
    shown = (await world.call("GET", "/allocations/a1")).json()
    assert (shown["cpu_s"], shown["cpu_efficiency"]) == (0.0, None)
    assert (await world.call("GET", "/allocations/a1/steps")).json()["items"][0]["cpu_s"] == 0.0
    report = await world.call("GET", "/reports/usage", token=world.admin)
    assert b'"cpu_hours":null' not in report.body
    assert (await world.call("GET", "/vclusters/old")).json()["weights"] == {"age": 1.0}
    for argv in (["--json"], ["-o", "jobid,cputimeraw,avecpu,totalcpu"]):
        answer = await world.call("POST", "/slurm/commands", {"program": "sacct", "argv": argv})
        assert (answer.status, answer.json().get("stderr", "")) == (200, ""), argv


@in_world
async def test_a_long_page_is_written_once_for_all_who_see_the_same(world: World) -> None:
    count = MIN_KEPT_ROWS
    await world.submit(tasks=f"0-{count - 1}", token=world.token("ada"))
    asked = f"?tasks=true&limit={count}"
    written: list[int] = []

    def counted(context: Context, found: Found) -> AllocationView:
        written.append(found.number)
        return view_of(context, found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listing, "view_of", counted)
        first = await ids(world, asked, world.token("ada"))
        assert len(first) == len(written) == count
        assert await ids(world, asked, world.token("ada")) == first
        assert len(written) == count
        assert await ids(world, asked, world.token("eve", tenants=("other",))) == []
        await world.call("DELETE", f"/allocations/{first[0]}", token=world.token("ada"))
        assert await ids(world, f"{asked}&state=pending", world.token("ada")) == first[1:]
        await ids(world, asked, world.token("ada"))
        assert len(written) > 2 * count
