"""Submitting: what is accepted, what is refused and in which words."""

from typing import Any

import pytest

from lattice.core.model.work.allocations import Hold
from lattice.wire.work.payloads import decode_work
from tests.integration.api.grpc_wire import ask, grpc_of, message_of
from tests.integration.api.world import World, in_world


@in_world
async def test_submission_is_answered_with_the_allocation_and_visible_at_once(world: World) -> None:
    response = await world.call(
        "POST",
        "/allocations",
        {
            "name": "train",
            "entrypoint": ["torchrun", "train.py"],
            "tags": {"b": "2", "a": "1"},
            "resources": {"nodes": 2, "memory": "1G", "cpus": 2},
            "lifecycle": {"walltime": "1h30m", "preemption_class": 7},
        },
    )
    assert response.status == 201
    answer = response.json()
    assert (answer["id"], answer["number"], answer["state"]) == ("a1", 1, "Pending")
    assert answer["walltime_s"] == 5400
    assert answer["tags"] == {"a": "1", "b": "2"}
    assert answer["resources"]["memory_mb"] == 1024
    assert answer["submitted_at"] == "2026-03-05T08:40:00.000Z"
    assert (answer["user"], answer["tenant"], answer["vcluster"]) == ("alice", "default", "default")
    got = await world.call("GET", "/allocations/1")
    assert got.json() == answer


@in_world
async def test_both_prefixes_serve_the_same(world: World) -> None:
    await world.submit()
    short = await world.call("GET", "/allocations/a1", prefix="/v1")
    long = await world.call("GET", "/allocations/a1", prefix="/api/v1")
    assert short.status == 200
    assert short.body == long.body


@in_world
async def test_repeat_under_the_same_request_id_submits_once(world: World) -> None:
    first = await world.submit(request_id="r-1")
    again = await world.submit(request_id="r-1")
    by_header = await world.call("POST", "/allocations", {"entrypoint": ["true"]}, headers={"X-Request-Id": "r-1"})
    assert again == first
    assert by_header.json() == first
    assert by_header.headers["x-request-id"] == "r-1"
    assert len(world.state.allocations) == 1


@in_world
async def test_repeat_is_answered_after_the_allocation_was_archived(world: World) -> None:
    await world.submit(request_id="r-1")
    await world.start_run(1)
    await world.finish(1)
    await world.archive(1)
    again = await world.submit(request_id="r-1")
    assert (again["id"], again["state"], again["archived"]) == ("a1", "Completed", True)


@in_world
async def test_request_ids_of_two_users_are_apart(world: World) -> None:
    await world.submit(request_id="b/x", token=world.token("a"))
    other = await world.submit(request_id="x", token=world.token("a/b"))
    assert other["id"] == "a2"
    assert other["user"] == "a/b"


@in_world
async def test_another_request_under_a_used_id_is_refused(world: World) -> None:
    await world.submit(request_id="r-1")
    response = await world.call("POST", "/allocations", {"entrypoint": ["false"], "request_id": "r-1"})
    assert response.status == 409
    assert "request_id" in response.error["message"]


@in_world
async def test_work_travels_as_it_was_written(world: World) -> None:
    script = "#!/bin/bash\necho 'ü' \"$1\"\n" + "# padding\n" * 200
    await world.submit(
        entrypoint=None,
        script=script,
        script_args=["a b", ""],
        environment={"A": "1\n2", "ÄÖ": "x"},
        cwd="/home/alice",
    )
    work = decode_work(world.state.payloads[1])
    assert work.script == script
    assert work.script_args == ("a b", "")
    assert work.env == {"A": "1\n2", "ÄÖ": "x"}
    assert (work.cwd, work.submit_dir) == ("/home/alice", "/home/alice")


@in_world
async def test_string_runs_under_a_shell_and_a_list_as_it_is(world: World) -> None:
    await world.submit(entrypoint="echo $HOME | wc")
    await world.submit(entrypoint=["echo", "$HOME | wc", ""])
    assert decode_work(world.state.payloads[1]).argv == ("/bin/sh", "-c", "echo $HOME | wc")
    assert decode_work(world.state.payloads[2]).argv == ("echo", "$HOME | wc", "")
    assert [world.state.allocations[n].name for n in (1, 2)] == ["echo", "echo"]


@in_world
async def test_task_group_is_one_answer_with_counts(world: World) -> None:
    answer = await world.submit(tasks="0-99%20")
    assert answer["tasks"] == {
        "size": 100,
        "pending": 100,
        "running": 0,
        "completed": 0,
        "failed": 0,
        "cancelled": 0,
        "concurrency": 20,
        "pending_indices": "0-99",
    }
    task = (await world.call("GET", "/allocations/a1_3")).json()
    assert (task["number"], task["task_index"], task["group_id"]) == (5, 3, "a1")


@in_world
async def test_hold_begin_and_priority_reach_the_record(world: World) -> None:
    await world.submit(hold=True, begin="2026-04-01T12:00:00+02:00", priority="high")
    record = world.state.allocations[1]
    assert record.hold is Hold.USER
    assert record.preemption_class == 8
    view = (await world.call("GET", "/allocations/a1")).json()
    assert view["eligible_at"] == "2026-04-01T10:00:00.000Z"
    assert view["reason"] == "held by its user"


@in_world
async def test_account_comes_from_the_token(world: World) -> None:
    await world.submit(token=world.token("alice@example.org", account="alice"))
    assert world.state.allocations[1].account == "alice"


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"entrypoint": None}, "nothing to run", "entrypoint"),
    ({"script": "#!/bin/sh\n"}, "both an entrypoint and a script", ""),
    ({"entrypoint": []}, "entrypoint", ""),
    ({"entrypoint": "  "}, "entrypoint", ""),
    ({"entrypoint": ["a\0b"]}, "NUL", ""),
    ({"entrypoint": ["x" * 200_000]}, "too long", ""),
    ({"lifecycle": {"walltime": "soon"}}, "walltime", ""),
    ({"lifecycle": {"walltime": 0}}, "walltime", ""),
    ({"lifecycle": {"type": "eternal"}}, "lifecycle.type", "bounded, unbounded, reactive"),
    ({"lifecycle": {"type": "reactive"}}, "reactive work needs min_nodes, max_nodes, metric, target", "--scale-metric"),
    (
        {"lifecycle": {"type": "reactive", "scale_policy": {"min": 2, "max": 1, "metric": "in_flight", "target": 1}}},
        "at most 1",
        "",
    ),
    ({"lifecycle": {"preemption_class": 11}}, "lifecycle.preemption_class", ""),
    ({"lifecycle": {"no_preempt": True}}, "class 5 can be preempted", "7"),
    ({"priority": "urgent"}, "priority", "low, normal, high"),
    ({"resources": {"nodes": 0}}, "resources.nodes", ""),
    ({"resources": {"nodes": "two"}}, "resources.nodes: expected a whole number", ""),
    ({"resources": {"nodes": {"min": 4, "max": 2}}}, "resources.max_nodes", ""),
    ({"resources": {"memory": "lots"}}, "resources.memory", ""),
    ({"resources": {"gpus": 2, "constraints": {"gpu_count": 3}}}, "resources.gpus", ""),
    ({"resources": {"constraints": {"topology": "round"}}}, "topology", "tight"),
    ({"resources": {"node": 1}}, 'resources: unknown field "node"', '"nodes"'),
    ({"walltme": "1h"}, 'unknown field "walltme"', ""),
    ({"name": "a\nb"}, "name", ""),
    ({"name": "x" * 129}, "name", ""),
    ({"environment": {"A=B": "1"}}, "environment", ""),
    ({"environment": {"A": "\0"}}, "environment.A", ""),
    ({"cwd": "home"}, "cwd", "/"),
    ({"tags": {"k": "v" * 2000}}, "tags.k", ""),
    ({"begin": "tomorrow"}, "begin", "2026"),
    ({"begin": "2026-04-01T12:00:00"}, "time zone", ""),
    ({"tasks": "5-1"}, "tasks", ""),
    ({"tasks": "0-100000"}, "tasks", ""),
    ({"tasks": "1,1"}, "twice", ""),
    ({"on_quota": "beg"}, "on_quota", "reject, queue"),
    ({"request_id": "x" * 129}, "request_id", ""),
]


@pytest.mark.parametrize(("fields", "message", "hint"), REFUSED)
def test_bad_submission_is_refused_by_field_and_changes_nothing(
    fields: dict[str, Any], message: str, hint: str
) -> None:
    @in_world
    async def scenario(world: World) -> None:
        body = {"entrypoint": ["true"], **fields}
        response = await world.call("POST", "/allocations", body)
        assert response.status == 400, response.body
        assert response.error["code"] == "invalid"
        assert message in response.error["message"]
        assert hint in response.error.get("hint", "")
        assert not world.state.allocations

    scenario()


@in_world
async def test_payload_above_its_bound_is_refused_with_both_figures(world: World) -> None:
    import random

    noise = random.Random(1).randbytes(1_200_000).hex()
    response = await world.call("POST", "/allocations", {"script": "#!/bin/sh\n# " + noise[:2_400_000]})
    assert response.status == 400
    assert "after compression" in response.error["current"]
    assert "1,048,576" in response.error["limit"]


@in_world
async def test_unknown_vcluster_and_tenant_name_the_known_ones(world: World) -> None:
    vcluster = await world.call("POST", "/allocations", {"entrypoint": ["true"], "vcluster": "gpu"})
    assert vcluster.status == 404
    assert "default" in vcluster.error["hint"]
    tenant = await world.call("POST", "/allocations", {"entrypoint": ["true"], "tenant": "chem"}, token=world.admin)
    assert tenant.status == 404
    assert "physics" in tenant.error["hint"]


@in_world
async def test_tenant_of_others_is_refused_and_own_ones_are_named(world: World) -> None:
    body = {"entrypoint": ["true"], "tenant": "physics"}
    response = await world.call("POST", "/allocations", body)
    assert response.status == 403
    assert "default" in response.error["hint"]
    by_header = await world.call(
        "POST", "/allocations", {"entrypoint": ["true"]}, headers={"X-Lattice-Tenant": "physics"}
    )
    assert by_header.status == 403


@in_world
async def test_header_chooses_among_own_tenants(world: World) -> None:
    both = world.token("alice", tenants=("default", "physics"))
    response = await world.call(
        "POST",
        "/allocations",
        {"entrypoint": ["true"]},
        token=both,
        headers={"X-Lattice-Tenant": "physics"},
    )
    assert response.json()["tenant"] == "physics"


@in_world
async def test_more_nodes_than_exist_is_infeasible(world: World) -> None:
    response = await world.call("POST", "/allocations", {"entrypoint": ["true"], "resources": {"nodes": 3}})
    assert response.status == 422
    assert response.error["code"] == "infeasible"


@in_world
async def test_a_container_image_is_refused_where_no_node_has_a_runtime_wherever_it_stands(world: World) -> None:
    work = {"entrypoint": "echo hi"}
    for body in ({**work, "environment": {"image": "debian:12"}}, {**work, "image": "debian:12"}):
        for path, whole in (("/allocations", body), ("/dags", {"allocations": [{"id": "a", **body}]})):
            refused = await world.call("POST", path, whole)
            text = refused.error["message"]
            assert (refused.status, "no node of this cluster has a container runtime" in text) == (422, True), text
    assert world.state.allocations == {}


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"intent": "train"}, "intent"),
        ({"connectivity": {}}, "connectivity"),
    ],
)
def test_what_is_not_done_yet_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    @in_world
    async def check(world: World) -> None:
        refused = await world.call("POST", "/allocations", {"entrypoint": ["true"], **fields})
        text = refused.error["message"]
        assert (refused.status, named in text, "not supported" in text) == (400, True, True), text

    check()


@in_world
async def test_grpc_has_no_field_for_what_is_not_done_yet(world: World) -> None:
    async with grpc_of(world.services) as channel:
        group = await ask(channel, "submit", {"entrypoint": ["true"], "tasks": "0-3%2"}, token=world.alice)
        assert (group.error, world.state.groups[1].size, world.state.groups[1].concurrency) == (None, 4, 2)
    published = {*message_of("SubmitRequest", {}).DESCRIPTOR.fields_by_name}
    assert not published & {
        "allocation",
        "dag",
        "intent",
        "connectivity",
    }


@in_world
async def test_a_submission_may_stand_inside_allocation(world: World) -> None:
    body = {"allocation": {"entrypoint": ["true"], "name": "inner"}, "request_id": "once"}
    first = await world.call("POST", "/allocations", body)
    assert (first.status, first.json()["name"]) == (201, "inner")
    assert (await world.call("POST", "/allocations", body)).json()["id"] == first.json()["id"]
    stray = await world.call("POST", "/allocations", {"allocation": {"entrypoint": ["true"]}, "hold": True})
    assert (stray.status, "hold" in stray.error["message"]) == (400, True)
    astray = await world.call("POST", "/allocations", {"dag": {"allocations": [{"id": "a", "entrypoint": ["true"]}]}})
    assert (astray.status, "POST /api/v1/dags" in astray.json()["error"]["hint"]) == (400, True)
    astray = await world.call("POST", "/dags", {"allocation": {"entrypoint": ["true"]}})
    assert (astray.status, "POST /api/v1/allocations" in astray.json()["error"]["hint"]) == (400, True)
    typo = await world.call("POST", "/allocations", {"allocation": {"entrypoint": ["true"], "nme": "x"}})
    assert (typo.status, "nme" in typo.error["message"]) == (400, True)


@in_world
async def test_a_task_group_may_be_a_template_with_a_range(world: World) -> None:
    group = {
        "type": "task_group",
        "template": {"entrypoint": "echo ${INDEX}", "resources": {"nodes": 1}},
        "range": {"start": 0, "end": 99},
        "concurrency": 20,
    }
    for body in ({"allocation": group}, group):
        made = await world.call("POST", "/allocations", body)
        assert made.status == 201, made.body
        record = world.state.groups[made.json()["number"]]
        assert (record.indices, record.concurrency) == (((0, 99, 1),), 20)
    for broken in ({**group, "type": "service"}, {"type": "task_group", "template": group["template"]}):
        refused = await world.call("POST", "/allocations", broken)
        assert refused.status == 400, refused.body


@in_world
async def test_a_dag_may_stand_inside_dag(world: World) -> None:
    dag = {
        "allocations": [
            {"id": "stage", "entrypoint": "true"},
            {"id": "train", "entrypoint": "true", "depends_on": [{"ref": "stage", "condition": "success"}]},
        ]
    }
    made = await world.call("POST", "/dags", {"dag": dag, "name": "flow"})
    assert (made.status, made.json()["name"]) == (201, "flow")
    assert [each["ref"] for each in made.json()["allocations"]] == ["stage", "train"]


@in_world
async def test_tasks_are_launched_at_either_address(world: World) -> None:
    made = await world.submit()
    answers = [
        await world.call("POST", f"/allocations/{made['id']}/{word}", {"argv": ["true"]}) for word in ("steps", "tasks")
    ]
    assert answers[0].status == answers[1].status == 409
    assert answers[0].error == answers[1].error
