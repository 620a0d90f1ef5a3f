"""DAGs over REST: answers, refusals, permissions, repeats, drawings, and the archive."""

import random

import pytest

from lattice.core.machine.commands import FoldTasks, SetTenant
from lattice.core.model.site.tenants import Tenant
from tests.integration.api.world import World, in_world

FLOW = {
    "name": "flow",
    "allocations": [
        {"id": "a", "entrypoint": "true", "nodes": 1, "walltime": "5m"},
        {"id": "b", "entrypoint": "true", "depends_on": [{"ref": "a", "condition": "success"}]},
        {"id": "c", "entrypoint": "true", "depends_on": "a:failure"},
    ],
}


@in_world
async def test_a_dag_is_answered_with_all_its_members(world: World) -> None:
    made = await world.call("POST", "/dags", FLOW)
    assert made.status == 201
    dag = made.json()
    assert (dag["state"], dag["counts"]["size"], dag["counts"]["pending"]) == ("Running", 3, 3)
    assert [member["ref"] for member in dag["allocations"]] == ["a", "b", "c"]
    assert dag["allocations"][1]["reason"] == "waiting for a to complete"
    assert dag["allocations"][1]["depends_on"] == "a:success"
    first = (await world.call("GET", f"/allocations/{dag['allocations'][0]['id']}")).json()
    assert (first["dag_id"], first["walltime_s"]) == (dag["id"], 300)
    listed = (await world.call("GET", "/dags?state=running")).json()["items"]
    assert [item["id"] for item in listed] == [dag["id"]]
    assert "allocations" not in listed[0]
    assert (await world.call("GET", "/dags?state=failed")).json()["items"] == []


@in_world
async def test_a_repeat_makes_no_second_dag(world: World) -> None:
    body = {**FLOW, "request_id": "one"}
    first = (await world.call("POST", "/dags", body)).json()
    again = (await world.call("POST", "/dags", body)).json()
    assert again["id"] == first["id"]
    assert len((await world.call("GET", "/dags")).json()["items"]) == 1


@in_world
async def test_others_see_or_touch_only_what_they_may(world: World) -> None:
    dag_id = (await world.call("POST", "/dags", FLOW)).json()["id"]
    colleague, stranger = world.token("bert"), world.token("zoe", tenants=("other",))
    assert (await world.call("GET", f"/dags/{dag_id}", token=colleague)).status == 200
    assert (await world.call("DELETE", f"/dags/{dag_id}", token=colleague)).status == 403
    assert (await world.call("GET", f"/dags/{dag_id}", token=stranger)).status == 404
    assert (await world.call("POST", "/dags", FLOW, token=world.token("rolf", scope="readonly"))).status == 403
    cancelled = await world.call("DELETE", f"/dags/{dag_id}")
    assert (cancelled.status, cancelled.json()["state"]) == (202, "Cancelled")
    assert (await world.call("DELETE", f"/dags/{dag_id}")).status == 409
    for wrong in ("d999", "a1", "x"):
        assert (await world.call("GET", f"/dags/{wrong}")).status == 404


@in_world
async def test_the_graph_comes_as_data_as_text_and_as_a_picture(world: World) -> None:
    dag_id = (await world.call("POST", "/dags", FLOW)).json()["id"]
    graph = (await world.call("GET", f"/dags/{dag_id}/graph")).json()
    assert [(edge["source"], edge["target"], edge["condition"]) for edge in graph["edges"]] == [
        ("a", "b", "success"),
        ("a", "c", "failure"),
    ]
    assert [node["depth"] for node in graph["allocations"]] == [0, 1, 1]
    text = await world.call("GET", f"/dags/{dag_id}/graph?format=text")
    assert text.body.decode() == "a [Pending] → b [Pending]\n            ↘(failure) c [Pending]\n"
    picture = await world.call("GET", f"/dags/{dag_id}/graph?format=svg")
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.body.startswith(b"<svg")
    assert (await world.call("GET", f"/dags/{dag_id}/graph?format=pdf")).status == 400


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([], "the DAG has no allocations"),
        ([{"entrypoint": "true"}], "needs a name"),
        ([{"id": "a"}], 'allocation "a": the submission has nothing to run'),
        ([{"id": "a", "entrypoint": "true", "nodes": "2-4"}], "not a number of nodes"),
        ([{"id": "a", "entrypoint": "true", "dry_run": True}], "are for single submissions"),
        ([{"id": "a", "entrypoint": "true", "depends_on": "b"}], 'depends on "b", which is not in the DAG'),
        ([{"id": "a", "entrypoint": "true", "unknown": 1}], "unknown"),
        ([{"id": "a", "entrypoint": "true", "depends_on": "a77:any"}], 'no allocation "a77"'),
        ([{"id": "a", "entrypoint": "true", "depends_on": "d77:any"}], 'no DAG "d77"'),
        ([{"id": "a", "entrypoint": "true", "image": "x"}], "no node of this cluster has a container runtime"),
        ([{"id": "a", "entrypoint": "true", "uenv": "x"}], 'allocation "a": uenv: this cluster has no image registry'),
    ],
)
def test_what_cannot_be_submitted_is_refused(members: list[dict[str, object]], said: str) -> None:
    @in_world
    async def scene(world: World) -> None:
        refused = await world.call("POST", "/dags", {"allocations": members})
        assert refused.status in {400, 404, 422}
        assert said in refused.error["message"]
        assert (await world.call("GET", "/allocations?all=true")).json()["items"] == []

    scene()


@in_world
async def test_a_single_submission_may_depend_on_what_has_ended(world: World) -> None:
    first = (await world.submit())["id"]
    await world.call("DELETE", f"/allocations/{first}")
    good = await world.submit(depends_on=f"{first}:any")
    assert (good["state"], good["depends_on"]) == ("Pending", f"{first}:any")
    bad = await world.submit(depends_on=[{"ref": first}])
    assert (bad["state"], bad["cause"]) == ("Cancelled", "dependency")


@in_world
async def test_a_dry_run_says_what_would_be_waited_for(world: World) -> None:
    first = (await world.submit())["id"]
    for more in ({}, {"tasks": "0-3"}):
        body = {"entrypoint": "true", "depends_on": first, "dry_run": True, **more}
        answer = await world.call("POST", "/allocations", body)
        assert (answer.status, answer.json()["reason"]) == (200, f"waiting for {first} to complete")


@in_world
async def test_a_dag_too_large_for_one_entry_of_the_log_is_refused(world: World) -> None:
    noise = [random.Random(place).randbytes(300_000).hex() for place in range(6)]
    members = [{"id": f"m{place}", "script": text} for place, text in enumerate(noise)]
    refused = await world.call("POST", "/dags", {"allocations": members})
    assert (refused.status, "too large together" in refused.error["message"]) == (400, True)
    assert refused.error["limit"] == "1,400,000 bytes after compression"


@in_world
async def test_what_members_ask_for_and_will_not_get_is_said(world: World) -> None:
    members = [{"id": "a", "entrypoint": "true", "notify": {"on": ["end"], "to": ["mail:a@b.example"]}}]
    made = (await world.call("POST", "/dags", {"allocations": members})).json()
    assert made["warnings"][0].startswith("a: ")


@in_world
async def test_a_misspelt_field_of_a_member_is_told_with_what_is_known(world: World) -> None:
    refused = await world.call("POST", "/dags", {"allocations": [{"id": "a", "entrypoint": "true", "walltme": "1h"}]})
    assert (refused.status, refused.error["hint"]) == (400, 'did you mean "walltime"?')


@in_world
async def test_work_may_wait_for_a_whole_dag(world: World) -> None:
    dag = (await world.call("POST", "/dags", {"allocations": [{"id": "a", "entrypoint": "true"}]})).json()
    waiting = await world.submit(depends_on=f"{dag['id']}:failure")
    assert waiting["depends_on"] == f"{dag['id']}:failure"
    assert waiting["reason"] == f"waiting for {dag['id']} to fail"
    member = {"id": "x", "entrypoint": "true", "depends_on": [{"ref": dag["id"], "condition": "any"}]}
    following = (await world.call("POST", "/dags", {"allocations": [member]})).json()
    assert following["allocations"][0]["reason"] == f"waiting for {dag['id']} to end"
    await world.start_run(2)
    await world.finish(2)
    ended = (await world.call("GET", f"/allocations/{waiting['id']}")).json()
    assert (ended["cause"], ended["message"]) == ("dependency", f"{dag['id']} was to end with failure, it completed")
    assert (await world.call("GET", f"/dags/{following['id']}")).json()["allocations"][0]["reason"] == ""
    assert (await world.submit(depends_on=f"{dag['id']}"))["state"] == "Pending"


@in_world
async def test_what_a_dag_cannot_be_waited_for_with_is_refused(world: World) -> None:
    dag = (await world.call("POST", "/dags", FLOW, token=world.token("ada"))).json()
    for condition in ("after", "corresponding"):
        refused = await world.call(
            "POST", "/allocations", {"entrypoint": "x", "depends_on": f"{dag['id']}:{condition}"}
        )
        assert (refused.status, refused.error["requested"]) == (400, f"{dag['id']}:{condition}")
    await world.do(SetTenant(tenant=Tenant(name="other"), create=True))
    stranger = world.token("zoe", tenants=("other",))
    body = {"entrypoint": "true", "depends_on": dag["id"], "tenant": "other"}
    refused = await world.call("POST", "/allocations", body, token=stranger)
    assert (refused.status, refused.error["message"]) == (404, f'unknown dependency: there is no DAG "{dag["id"]}"')
    shown = await world.call("GET", f"/allocations/{dag['id']}")
    assert (shown.status, shown.error["hint"]) == (404, f"`lattice dag status {dag['id']}` shows a DAG")


@in_world
async def test_tasks_follow_those_of_a_group_that_is_archived(world: World) -> None:
    await world.submit(tasks="0-2")
    for number, code in ((2, 0), (3, 1), (4, 0)):
        await world.start_run(number)
        await world.finish(number, exit_code=code)
    hot = await world.submit(tasks="0-3", depends_on="a1:corresponding", hold=True)
    await world.do(FoldTasks(numbers=(2, 3, 4)))
    await world.archive(1)
    cold = await world.submit(tasks="0-3", depends_on="a1:corresponding", hold=True)
    for group in (hot, cold):
        assert (group["tasks"]["pending"], group["tasks"]["cancelled"]) == (3, 1)
        lost = (await world.call("GET", f"/allocations/{group['id']}_1")).json()
        assert (lost["state"], lost["cause"]) == ("Cancelled", "dependency")


@in_world
async def test_dags_are_listed_page_by_page_wherever_they_lie(world: World) -> None:
    made = [(await world.call("POST", "/dags", FLOW)).json()["number"] for _ in range(5)]
    for number in made[:4]:
        await world.call("DELETE", f"/dags/d{number}")
        await world.archive(number + 1, number + 2, number + 3)
    await world.archive(made[0], made[2], made[3])
    seen: list[int] = []
    cursor = ""
    while True:
        page = (await world.call("GET", f"/dags?limit=2&cursor={cursor}")).json()
        seen += [item["number"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == sorted(made, reverse=True)
    gone = (await world.call("GET", "/dags?state=cancelled&limit=4")).json()
    assert [item["number"] for item in gone["items"]] == made[3::-1]
    assert [item["archived"] for item in gone["items"]] == [True, True, False, True]
    assert {item["counts"]["cancelled"] for item in gone["items"]} == {3}
