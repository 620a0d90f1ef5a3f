"""Each operation asks what the API documents, and answers become records."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lattice_sdk
from lattice_sdk import (
    AllocationFilter,
    ApiError,
    BadAnswer,
    Client,
    Conflict,
    Constraints,
    Forbidden,
    Invalid,
    LifecycleRequest,
    NotAuthenticated,
    NotFound,
    Refused,
    ResourceRequest,
    ServerFault,
    Submission,
    WaitTimedOut,
)
from lattice_sdk.errors import WrongVersion
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply, refusal

ALLOCATION = {"id": "a17", "number": 17, "name": "train", "state": "Running", "submitted_at": "2026-03-05T10:00:00Z"}
NODE = {"id": "n1", "state": "Ready", "cpus": 4, "memory_mb": 4096}
TENANT = {"name": "physics", "max_nodes": 200}
VCLUSTER = {"name": "gpu"}
PROJECT = {"tenant": "physics", "name": "lhc"}

PUBLIC_NAMES = Path(__file__).with_name("public_names.txt")

Call = Callable[[Client], object]

OPERATIONS: list[tuple[str, str, Any, Call]] = [
    ("GET", "/allocations/count", {"total": 0}, lambda c: c.count_allocations()),
    ("GET", "/allocations/a17", ALLOCATION, lambda c: c.get_allocation("a17")),
    ("DELETE", "/allocations/a17", ALLOCATION, lambda c: c.cancel("a17")),
    ("POST", "/allocations/cancel", {"items": []}, lambda c: c.cancel_many(["a17"])),
    ("POST", "/allocations/a17/hold", ALLOCATION, lambda c: c.hold("a17")),
    ("POST", "/allocations/a17/release", ALLOCATION, lambda c: c.release("a17")),
    ("POST", "/allocations/a17/requeue", ALLOCATION, lambda c: c.requeue("a17")),
    ("PATCH", "/allocations/a17", ALLOCATION, lambda c: c.update("a17", {"walltime": "2h"})),
    ("GET", "/accounting", {"items": [ALLOCATION]}, lambda c: c.history()),
    ("GET", "/nodes", {"items": [NODE]}, lambda c: c.list_nodes()),
    ("GET", "/nodes/n1", NODE, lambda c: c.get_node("n1")),
    ("POST", "/nodes/n1/drain", NODE, lambda c: c.drain_node("n1", "fan")),
    ("POST", "/nodes/n1/undrain", NODE, lambda c: c.undrain_node("n1")),
    ("POST", "/nodes/n1/disable", NODE, lambda c: c.disable_node("n1")),
    ("POST", "/nodes/n1/enable", NODE, lambda c: c.enable_node("n1")),
    ("GET", "/tenants", {"items": [TENANT]}, lambda c: c.list_tenants()),
    ("POST", "/tenants", TENANT, lambda c: c.create_tenant({"name": "physics"})),
    ("GET", "/tenants/physics", TENANT, lambda c: c.get_tenant("physics")),
    ("PUT", "/tenants/physics", TENANT, lambda c: c.update_tenant("physics", {"max_nodes": None})),
    ("GET", "/tenants/physics/usage", {"node_hours": 1.5}, lambda c: c.tenant_usage("physics", 30)),
    ("GET", "/usage", {"node_hours": 2}, lambda c: c.user_usage("alice", 30)),
    ("GET", "/reports/usage", {"by": "tenant"}, lambda c: c.usage_report("tenant", since="2026-03-01T00:00:00Z")),
    ("GET", "/vclusters", {"items": [VCLUSTER]}, lambda c: c.list_vclusters()),
    ("POST", "/vclusters", VCLUSTER, lambda c: c.create_vcluster({"name": "gpu"})),
    ("GET", "/vclusters/gpu", VCLUSTER, lambda c: c.get_vcluster("gpu")),
    ("PUT", "/vclusters/gpu", VCLUSTER, lambda c: c.update_vcluster("gpu", {"up": False})),
    ("GET", "/vclusters/gpu/queue", {"items": [ALLOCATION]}, lambda c: c.vcluster_queue("gpu")),
    ("GET", "/projects", {"items": [PROJECT]}, lambda c: c.list_projects()),
    ("POST", "/projects", PROJECT, lambda c: c.create_project(PROJECT)),
    ("PUT", "/projects/physics/lhc", PROJECT, lambda c: c.update_project("physics", "lhc", {})),
    ("GET", "/allocations/a17/explanation", {"id": "a17", "rank": 1}, lambda c: c.explain("a17")),
    ("POST", "/allocations", {"rank": None}, lambda c: c.dry_run(Submission(entrypoint=["true"]))),
    ("GET", "/reservations", {"items": [{"name": "upkeep"}]}, lambda c: c.list_reservations()),
    ("GET", "/reservations/upkeep", {"name": "upkeep"}, lambda c: c.get_reservation("upkeep")),
    ("POST", "/reservations", {"name": "upkeep"}, lambda c: c.create_reservation({"name": "upkeep"})),
    ("GET", "/settings", {"items": [{"key": "a", "value": "1"}]}, lambda c: c.list_settings()),
    ("GET", "/settings/a", {"key": "a", "value": "1"}, lambda c: c.get_setting("a")),
    ("PUT", "/settings/a", {"key": "a", "value": "2"}, lambda c: c.set_setting("a", "2")),
    ("GET", "/scheduler", {"server": "s1", "cycles": 3}, lambda c: c.scheduler_status()),
    ("GET", "/whoami", {"user": "u", "roles": ["User"]}, lambda c: c.whoami()),
    ("GET", "/healthz", {"status": "ok"}, lambda c: c.is_healthy()),
]


@pytest.mark.parametrize(
    ("method", "path", "answer", "call"), OPERATIONS, ids=[f"{row[0]} {row[1]}" for row in OPERATIONS]
)
def test_an_operation_reaches_its_route(
    method: str, path: str, answer: object, call: Call, api: FakeApi, client: Client
) -> None:
    api.on(method, path, answer)
    call(client)
    assert api.last().headers["authorization"] == "Bearer secret"
    assert ("x-request-id" in api.last().headers) == (method != "GET")


def test_a_submission_sends_only_what_was_asked_for(api: FakeApi, client: Client) -> None:
    api.on("POST", "/allocations", Reply(status=201, json=ALLOCATION))
    client.submit(
        Submission(
            name="train",
            entrypoint=["echo", "a b"],
            resources=ResourceRequest(nodes=2, constraints=Constraints(gpu_type="GH200")),
            lifecycle=LifecycleRequest(walltime="2h"),
        )
    )
    assert api.last().json == {
        "name": "train",
        "entrypoint": ["echo", "a b"],
        "resources": {"nodes": 2, "constraints": {"gpu_type": "GH200"}},
        "lifecycle": {"walltime": "2h"},
    }


def test_fields_of_a_newer_server_are_ignored(api: FakeApi, client: Client) -> None:
    api.on("GET", "/allocations/a17", {**ALLOCATION, "colour": "green", "resources": {"nodes": 2, "qubits": 1}})
    allocation = client.get_allocation("a17")
    assert (allocation.name, allocation.resources.nodes) == ("train", 2)


def test_what_only_some_have_is_left_out_when_it_is_written_again(api: FakeApi, client: Client) -> None:
    api.on("GET", "/allocations/a17", ALLOCATION)
    assert "tasks" not in msgspec.to_builtins(client.get_allocation("a17"))
    api.on("GET", "/allocations/a17", {**ALLOCATION, "tasks": {"size": 3, "running": 2}})
    group = client.get_allocation("a17")
    assert group.task_counts is not None
    assert msgspec.to_builtins(group)["tasks"]["running"] == 2


def test_filters_become_parameters(api: FakeApi, client: Client) -> None:
    api.on("GET", "/allocations", {"items": []})
    wanted = AllocationFilter(
        states=("running", "pending"), user="alice", tags=("a=1", "b=2"), is_archive_included=True, is_unfolded=True
    )
    client.list_allocations(wanted, limit=7)
    assert sorted(api.last().query) == [
        ("all", "true"),
        ("limit", "7"),
        ("state", "running,pending"),
        ("tag", "a=1"),
        ("tag", "b=2"),
        ("tasks", "true"),
        ("user", "alice"),
    ]


def test_iteration_follows_the_cursors(api: FakeApi, client: Client) -> None:
    pages = {None: ([17, 16], "c1"), "c1": ([15], "c2"), "c2": ([], None)}

    def page(asked: Asked) -> Reply:
        numbers, cursor = pages[asked.parameter("cursor")]
        items = [{"id": f"a{number}", "number": number} for number in numbers]
        return Reply(json={"items": items, "next_cursor": cursor})

    api.on("GET", "/allocations", page)
    assert [allocation.number for allocation in client.iter_allocations()] == [17, 16, 15]


def test_an_id_cannot_leave_its_place_in_the_path(api: FakeApi, client: Client) -> None:
    with pytest.raises(NotFound):
        client.get_allocation("../nodes/n1?x=1")
    assert api.last().path == "/api/v1/allocations/..%2Fnodes%2Fn1%3Fx%3D1"
    with pytest.raises(Invalid):
        client.get_allocation("..")
    with pytest.raises(Invalid):
        client.get_node("")


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "invalid", Invalid),
        (401, "unauthenticated", NotAuthenticated),
        (403, "forbidden", Forbidden),
        (404, "not_found", NotFound),
        (409, "conflict", Conflict),
        (413, "too_large", Invalid),
        (422, "quota", Refused),
        (500, "internal", ServerFault),
    ],
)
def test_a_refusal_keeps_the_words_of_the_server(
    status: int, code: str, kind: type[ApiError], api: FakeApi, client: Client
) -> None:
    figures = {"current": "195 nodes", "requested": "10", "limit": "200", "hint": "wait"}
    api.on("GET", "/allocations/a1", refusal(status, code, "no: really", **figures))
    with pytest.raises(kind) as caught:
        client.get_allocation("a1")
    error = caught.value
    assert (str(error), error.code, error.status) == ("no: really", code, status)
    assert (error.current, error.requested, error.limit, error.hint) == tuple(figures.values())


@pytest.mark.parametrize(
    ("speaks", "hint"),
    [
        ("8-9; more", "upgrade lattice-hpc-sdk: it speaks protocol versions 1 to 2, the server 8 to 9"),
        (
            "0-0",
            "use the lattice-hpc-sdk of the server's release, or upgrade the server: it speaks protocol versions 0 to 0",
        ),
        ("", ""),
        ("none of them", ""),
    ],
)
def test_a_server_of_another_version_says_which_side_to_upgrade(
    speaks: str, hint: str, api: FakeApi, client: Client
) -> None:
    api.on("GET", "/allocations/a1", refusal(426, "unsupported_version", "nothing in common", current=speaks))
    with pytest.raises(WrongVersion, match="nothing in common") as caught:
        client.get_allocation("a1")
    assert caught.value.hint.startswith(hint)
    assert bool(caught.value.hint) == bool(hint)
    assert api.last().headers["x-lattice-protocol"] == "1-2"


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=404, raw=b"<html>nothing here</html>"),
        Reply(status=302, headers={"Location": "/login"}, raw=b""),
        Reply(raw=b"<html>hello</html>"),
        Reply(json={"no": "allocation"}),
    ],
)
def test_somebody_elses_server_is_told_apart(reply: Reply, api: FakeApi, client: Client) -> None:
    api.on("GET", "/allocations/a1", reply)
    with pytest.raises(BadAnswer):
        client.get_allocation("a1")


def test_a_tenant_that_could_not_stand_in_a_header_is_refused(api: FakeApi) -> None:
    with Client(api.url, token="t", tenant="a\r\nX-Evil: 1") as client, pytest.raises(Invalid):
        client.whoami()
    assert api.asked == []


def test_waiting_polls_until_the_end(api: FakeApi, client: Client) -> None:
    ended = {**ALLOCATION, "state": "Completed", "exit_code": 0}
    api.on("GET", "/allocations/a17/wait", ALLOCATION, Reply(is_cut=True), ALLOCATION, ended)
    assert client.wait("a17").state == "Completed"
    assert api.last().parameter("timeout") == "30"


def test_waiting_ends_with_its_own_error_when_the_time_is_over(api: FakeApi, client: Client) -> None:
    api.on("GET", "/allocations/a17/wait", ALLOCATION)
    with pytest.raises(WaitTimedOut, match="a17 is still Running"):
        client.wait("a17", timeout=0)


def test_a_dag_is_waited_for_by_its_allocations(api: FakeApi, client: Client) -> None:
    member = {"ref": "a", "id": "a22", "number": 22, "state": "Running"}
    dag = {"id": "d21", "number": 21, "state": "Running", "allocations": [member]}
    api.on("GET", "/dags/d21", dag, {**dag, "state": "Completed"})
    api.on("GET", "/allocations/a22/wait", ALLOCATION)
    assert client.wait_dag("d21").state == "Completed"
    api.on("GET", "/dags/d21", dag)
    with pytest.raises(WaitTimedOut, match="d21 is still Running"):
        client.wait_dag("d21", timeout=0)


def test_logs_are_bytes(api: FakeApi, client: Client) -> None:
    api.on("GET", "/allocations/a17/logs", Reply(raw=b"\xff\x00line\n"))
    assert client.logs("a17", stream="stderr", tail=0, node="n1") == b"\xff\x00line\n"
    assert sorted(api.last().query) == [("node", "n1"), ("stream", "stderr"), ("tail", "0")]


def test_the_environment_says_where_the_cluster_is(api: FakeApi, tmp_path: object) -> None:
    path = f"{tmp_path}/token"
    with open(path, "w") as file:
        file.write("from-file")
    api.on("GET", "/whoami", {"user": "u"})
    variables = {"LATTICE_API_URL": api.url, "LATTICE_TOKEN_FILE": path, "LATTICE_TENANT": "physics"}
    with Client.from_environment(variables) as client:
        client.whoami()
    assert api.last().headers["authorization"] == "Bearer from-file"
    assert api.last().headers["x-lattice-tenant"] == "physics"


def test_the_public_names_are_these_and_no_others() -> None:
    assert sorted(lattice_sdk.__all__) == sorted(PUBLIC_NAMES.read_text().split())
    assert all(hasattr(lattice_sdk, name) for name in lattice_sdk.__all__)


def test_a_batch_of_any_length_is_sent_in_parts(api: FakeApi) -> None:
    def answer(asked: Asked) -> Reply:
        named = [each["name"] for each in asked.json["submissions"]]
        made = [{"ok": True, "allocation": {**ALLOCATION, "name": name}} for name in named]
        return Reply(json={"items": made})

    api.on("POST", "/allocations/batch", answer)
    wanted = [Submission(name=f"n{at}", entrypoint="true") for at in range(1201)]
    with Client(api.url, token="secret") as client:
        outcomes = client.submit_batch(wanted, request_id="mine")
    assert [each.allocation.name for each in outcomes if each.allocation] == [each.name for each in wanted]
    assert [len(asked.json["submissions"]) for asked in api.asked] == [500, 500, 201]
    assert [asked.headers["x-request-id"] for asked in api.asked] == ["mine", "mine-500", "mine-1000"]
