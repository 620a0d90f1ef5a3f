"""Every field of the published requests has an effect that can be seen, or is refused by name. A new field fails until it has a row."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lattice.core.machine.commands import PlaceAllocation
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import PartPhase
from lattice.wire.work.payloads import decode_work
from tests.integration.api.test_slurm_steps import Desk
from tests.integration.api.world import Response, World, in_world

OPENAPI = Path(__file__).parents[3] / "docs" / "reference" / "openapi.json"
DOCUMENT: dict[str, Any] = json.loads(OPENAPI.read_bytes())
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
LATER = "2099-01-01T00:00:00Z"

# A field, and a value for it that is not its default.
SUBMISSION: dict[str, Any] = {
    "name": "other",
    "tenant": "physics",
    "project": "p1",
    "vcluster": "second",
    "tags": {"a": "b"},
    "entrypoint": ["false"],
    "script": "#!/bin/sh\n",
    "script_args": ["x"],
    "environment": {"A": "1"},
    "uenv": f"/store/x.squashfs@sha256:{'0' * 64}:/user-environment",  # refused: no node here mounts images
    "view": "default",
    "tools_uenv": f"/store/x.squashfs@sha256:{'0' * 64}:/user-tools",
    "scratch": "1G",  # refused: no node here can bound scratch
    "image": f"/store/x.squashfs@sha256:{'0' * 64}",  # refused: no node here has a runtime
    "container": {"writable": True},
    "cwd": "/srv",
    "submit_dir": "/srv",
    "umask": 0o027,
    "priority": "high",
    "per_node": True,
    "hold": True,
    "begin": LATER,
    "tasks": "0-3",
    "summary": True,
    "output": {"stdout": "/tmp/o"},
    "signal": "USR1@90",
    "on_quota": "queue",
    "idle_end": "2h",
    "expose": [{"name": "web", "port": 80}],
    "telemetry": {"mode": "debug", "duration": "1h"},
    "notify": {"on": ["end"], "to": ["mail:a@b.org"]},
    "depends_on": "a1",
    "mutex": "m",
    "deadline": LATER,
    "keep_on_invalid_dependency": True,
    "checkpoint": {"protocol": "signal"},  # refused: there is no place for checkpoints here
    "resume_from": "a1",  # refused: it has none
    "data": {"mounts": [{"source": "/warm/set", "target": "/data/set"}]},  # refused: this cluster has no tier
    "liveness_probe": {"probe_type": "tcp", "port": 80},
    "readiness_probe": {"probe_type": "http", "port": 80, "path": "/ok"},
    "startup_probe": {"probe_type": "tcp", "port": 80},
    "drain": "5s",
}
OF_SERVICES = {"liveness_probe", "readiness_probe", "startup_probe", "drain"}
RESOURCES = {
    **{"nodes": 2, "max_nodes": 2, "cpus": 2, "memory": "1G", "gpus": 1, "exclusive": True},
    "constraints": {"features": ["fast"]},
}
CONSTRAINTS = {
    **{"gpu_type": "h100", "gpu_count": 1, "memory_gb": 1, "features": ["fast"], "topology": "tight", "nodes": "n1"},
    **{"exclude": "n1", "require_unified_memory": True, "allow_cxl_memory": True, "require_conformance": True},
    **{"prefer_same_numa": True, "prefer_local_memory": True, "storage_gbps": 1},
    "memory_policy": "bind:0",
}
LIFECYCLE = {
    **{"type": "unbounded", "walltime": "5m", "preemption_class": 7, "requeue": "always", "max_requeue": 1},
    "no_preempt": True,
    "restart": "never",  # refused: it is no service
    # Refused: it is not reactive.
    **{"min_nodes": 1, "max_nodes": 2, "metric": "in_flight", "target": 2, "scale_down_threshold": 0.2},
    **{"scale_up_window": "5s", "scale_down_window": "5s", "evaluation_interval": "5s", "cooldown_period": "5s"},
    "scale_policy": {"min": 1, "max": 2, "metric": "in_flight", "target": 2},
}
STEP: dict[str, Any] = {
    **{"argv": ["other"], "programs": [{"ranks": "0-1", "argv": ["x"]}], "tasks": 3, "nodes": 1, "tasks_per_node": 2},
    **{
        "cpus_per_task": 2,
        "node_list": ["n1"],
        "distribution": "cyclic",
        "overcommit": True,
        "environment": {"A": "1"},
    },
    **{
        "inherit_environment": False,
        "cwd": "/srv",
        "input": "none",
        "output": "/tmp/o",
        "error": "/tmp/e",
        "pty": True,
    },
    **{"rows": 24, "columns": 80, "no_kill": True, "overlap": True, "immediate": True, "time": "5m"},
    **{"pmi": "pmi2", "fence_timeout": "5m", "cpu_bind": "map:0,2", "gpu_bind": "closest", "gpus_per_task": 1},
    "task_prologue": "/site/prologue",
    **{"image": f"/srv/x.squashfs@sha256:{'d' * 64}", "container": {"name": "tools"}},
}
VCLUSTER: dict[str, Any] = {
    **{"scheduler": "ml-training", "tenants": ["physics"], "nodes": ["n1"], "node_sharing": "shared"},
    **{"fencing": "strict", "default_walltime": "5m", "default_walltime_s": 300, "max_walltime": "2h"},
    **{"max_walltime_s": 7200, "max_nodes": 1, "up": False, "profile": "responsive", "weights": {"energy": 1}},
    **{"backfill_depth": 3, "default_uenv": "greeter/1.0:v1", "require_signed": True, "confinement": "strict"},
    **{"preemption": "never", "lends": "idle", "lend_to": ["default"], "max_lent": 1, "lend_after": "5m"},
    **{"borrows": True, "max_borrowed": 1, "borrow_priority": 3, "max_borrow_duration": "1h", "return_grace": "2m"},
    **{"read_mb_s": 200, "write_mb_s": 100},
    **{"backfill_depth": 3, "idle_end": "2h", "idle_end_s": 3600},
}
TENANT: dict[str, Any] = {
    **{"max_nodes": 1, "max_concurrent_allocations": 1, "max_class": 3, "on_quota": "queue"},
    **{"max_running_per_user": 1, "max_pending_per_user": 1, "gpu_hours_budget": 1, "node_hours_budget": 1},
    **{"fair_share_target": 0.5, "burst_allowance": 1.5, "members": ["eve"], "admins": ["eve"], "visibility": "tenant"},
}

RESERVATION: dict[str, Any] = {
    **{"start": "2098-01-01T00:00:00Z", "end": LATER, "duration": "3h", "nodes": ["n1"], "tenants": ["physics"]},
    **{"users": ["eve"], "repeat": "7d", "until": "2099-02-01T00:00:00Z", "reason": "a course"},
}
UPDATE: dict[str, Any] = {
    **{"walltime": "5m", "priority": "high", "preemption_class": 7, "name": "other", "concurrency": 1},
    **{"tags": {"a": "c"}, "untag": ["a"]},
    **{"vcluster": "second", "nodes": 2, "max_nodes": 2, "cpus": 2, "memory": "1G", "gpus": 1},
    **{"begin": LATER, "depends_on": "a1", "comment": "x", "telemetry": {"mode": "debug"}},
}
DAG: dict[str, Any] = {"name": "flow", "tenant": "physics", "project": "p1", "vcluster": "second", "cwd": "/srv"}


@pytest.mark.parametrize(
    ("schema", "rows", "elsewhere"),
    [
        ("Submission", SUBMISSION, {"request_id", "dry_run", "resources", "lifecycle"}),
        ("Resources", RESOURCES, set()),
        ("Constraints", CONSTRAINTS, set()),
        ("LifecycleRequest", LIFECYCLE, set()),
        ("StepSubmission", STEP, {"id", "request_id"}),
        ("VclusterFields", VCLUSTER, {"name", "request_id"}),
        ("TenantFields", TENANT, {"name", "request_id"}),
        ("ProjectFields", {"max_nodes": 3}, {"name", "tenant", "request_id"}),
        ("ReservationFields", RESERVATION, {"name", "request_id"}),
        ("DagSubmission", DAG, {"request_id", "allocations"}),
        ("DagAllocation", SUBMISSION, {"request_id", "dry_run", "resources", "lifecycle", "id", "nodes", "walltime"}),
    ],
)
def test_every_published_field_has_a_row(schema: str, rows: dict[str, Any], elsewhere: set[str]) -> None:
    assert set(SCHEMAS[schema]["properties"]) - elsewhere == set(rows)


def test_every_published_field_of_an_update_has_a_row() -> None:
    body = DOCUMENT["paths"]["/api/v1/allocations/{id}"]["patch"]["requestBody"]["content"]["application/json"][
        "schema"
    ]
    assert set(body["properties"]) - {"request_id"} == set(UPDATE)


def check_visible(field: str, before: object, after: object, answer: Response) -> None:
    if answer.status >= 400:
        named = "uenv" if field == "tools_uenv" else field.split("_")[0]
        assert named in json.dumps(answer.error), f"{field} is refused without its name: {answer.error}"
        assert answer.status < 500
    else:
        assert before != after or "warnings" in answer.json(), f"{field} is accepted and changes nothing"


async def furnish(world: World) -> None:
    """What the rows name: another vCluster, a project, work to depend on."""
    await world.submit(name="first", hold=True)
    await world.call("POST", "/vclusters", {"name": "second"}, token=world.admin)


async def submitted(world: World, body: dict[str, Any], token: str) -> tuple[Response, object]:
    answer = await world.call("POST", "/allocations", body, token=token)
    if answer.status >= 400:
        return answer, None
    number = answer.json()["number"]
    group = world.state.groups.get(number)
    record = world.state.allocations[number] if group is None else group.template
    plain = msgspec.structs.replace(record, number=0, submitted_at=0)
    return answer, (plain, decode_work(world.state.payload_of(record)), group is None)


@pytest.mark.parametrize("field", [*SUBMISSION, *(f"resources.{n}" for n in RESOURCES)])
def test_a_field_of_a_submission_is_seen_or_refused(field: str) -> None:
    head, _, tail = field.partition(".")
    value = {tail: RESOURCES[tail]} if tail else SUBMISSION[head]
    check_submission(tail or head, {head: value})


@pytest.mark.parametrize("field", CONSTRAINTS)
def test_a_constraint_is_seen_or_refused(field: str) -> None:
    check_submission(field, {"resources": {"constraints": {field: CONSTRAINTS[field]}}})


@pytest.mark.parametrize("field", LIFECYCLE)
def test_a_field_of_the_lifecycle_is_seen_or_refused(field: str) -> None:
    check_submission(field, {"lifecycle": {field: LIFECYCLE[field]}})


# What this changes is not kept in the record of the allocation; it has a test of its own.
JUDGED_AT_ONCE = {"on_quota"}


def check_submission(field: str, more: dict[str, Any]) -> None:
    @in_world
    async def check(world: World) -> None:
        await furnish(world)
        token = world.token("alice", tenants=("default", "physics"))
        base: dict[str, Any] = {"entrypoint": ["true"]}
        if field in ("script", "script_args"):
            base = {"script": "#!/bin/sh\ntrue\n"}
        if field in OF_SERVICES:
            base["lifecycle"] = {"type": "unbounded"}
        _, before = await submitted(world, base, token)
        answer, after = await submitted(world, {**base, **more}, token)
        if field not in JUDGED_AT_ONCE:
            check_visible(field, before, after, answer)

    check()


@in_world
async def test_a_submission_that_may_wait_for_quota_is_taken(world: World) -> None:
    await world.call("PUT", "/tenants/default", {"max_concurrent_allocations": 1}, token=world.admin)
    await world.submit()
    await world.start_run(1)
    assert (await world.call("POST", "/allocations", {"entrypoint": ["true"]})).error["code"] == "quota"
    queued = await world.call("POST", "/allocations", {"entrypoint": ["true"], "on_quota": "queue"})
    assert queued.status == 201


@pytest.mark.parametrize("field", STEP)
def test_a_field_of_a_launch_is_seen_or_refused(field: str) -> None:
    @in_world
    async def check(world: World) -> None:
        made = await world.submit(resources={"nodes": 2})
        await world.do(PlaceAllocation(number=made["number"], run=1, shares=(Share(node="n1"), Share(node="n2"))))
        await world.report(made["number"], PartPhase.RUNNING)
        service = Desk()
        world.services.steps = service
        base: dict[str, Any] = {"argv": ["true"]}
        for body in (base, {**base, field: STEP[field]}):
            answer = await world.call("POST", f"/allocations/{made['id']}/steps", body)
        kept = [msgspec.structs.replace(each, launch_id="") for each in service.asked]
        check_visible(field, kept[0], kept[-1] if len(kept) > 1 else None, answer)

    check()


@pytest.mark.parametrize(
    ("path", "field", "value"),
    [
        *(("/vclusters", name, value) for name, value in VCLUSTER.items()),
        *(("/tenants", name, value) for name, value in TENANT.items()),
    ],
)
def test_a_field_of_administration_is_seen_or_refused(path: str, field: str, value: object) -> None:
    @in_world
    async def check(world: World) -> None:
        plain = await world.call("POST", path, {"name": "x"}, token=world.admin)
        assert plain.status == 201
        other = await world.call("POST", path, {"name": "y", field: value}, token=world.admin)
        before, after = (
            {name: said for name, said in answer.json().items() if name not in ("name", "created_at")}
            for answer in (plain, other)
        )
        check_visible(field, before, after, other)

    check()


@pytest.mark.parametrize("field", [*SUBMISSION, *DAG, "nodes", "walltime"])
def test_a_field_of_a_dag_is_seen_or_refused(field: str) -> None:
    """As a field of one of its allocations; those of the DAG itself are what its allocations get, and its own name."""

    @in_world
    async def check(world: World) -> None:
        await furnish(world)
        token = world.token("alice", tenants=("default", "physics"))
        work: dict[str, Any] = (
            {"script": "#!/bin/sh\ntrue\n"} if field.startswith("script") else {"entrypoint": ["true"]}
        )
        value = {**SUBMISSION, "nodes": 2, "walltime": "5m", "depends_on": [{"ref": "a0"}], **DAG}[field]
        before: list[object] = []
        after: list[object] = []
        for more, kept in (({}, before), ({field: value}, after)):
            members = [{"id": "a0", "entrypoint": ["true"]}, {"id": "a", **work, **({} if field in DAG else more)}]
            answer = await world.call(
                "POST", "/dags", {"allocations": members, **(more if field in DAG else {})}, token=token
            )
            kept += seen_of(world, answer)
        if field not in JUDGED_AT_ONCE:
            check_visible(field, before, after, answer)

    check()


def seen_of(world: World, answer: Response) -> list[object]:
    """All that a DAG left in the state, without numbers and times."""
    if answer.status >= 400:
        return [None]
    number = answer.json()["allocations"][-1]["number"]
    group = world.state.groups.get(number)
    record = world.state.allocations[number] if group is None else group.template
    plain = msgspec.structs.replace(record, number=0, submitted_at=0, dag=0, depends_on=(), waits_for=())
    needs = len(record.depends_on)
    return [answer.json()["name"], plain, decode_work(world.state.payload_of(record)), group is None, needs]


@pytest.mark.parametrize("field", RESERVATION)
def test_a_field_of_a_reservation_is_seen_or_refused(field: str) -> None:
    @in_world
    async def check(world: World) -> None:
        base: dict[str, Any] = {"start": "2097-01-01T00:00:00Z", "duration": "2h", "nodes": ["n2"]}
        given = {**base, field: RESERVATION[field]}
        if field == "end":
            del given["duration"]
        if field == "until":
            base, given = ({**each, "repeat": "7d"} for each in (base, given))
        shown = []
        for name, body in (("x", base), ("y", given)):
            answer = await world.call("POST", "/reservations", {"name": name, **body}, token=world.admin)
            shown.append({key: said for key, said in answer.json().items() if key not in ("name", "created_at")})
        check_visible(field, shown[0], shown[1], answer)

    check()


@pytest.mark.parametrize("field", UPDATE)
def test_a_field_of_an_update_is_seen_or_refused(field: str) -> None:
    @in_world
    async def check(world: World) -> None:
        await furnish(world)
        more = {"tasks": "0-3"} if field == "concurrency" else {}
        made = await world.submit(tags={"a": "b"}, hold=True, **more)
        before = (await world.call("GET", f"/allocations/{made['id']}")).json()
        answer = await world.call("PATCH", f"/allocations/{made['id']}", {field: UPDATE[field]})
        after = (await world.call("GET", f"/allocations/{made['id']}")).json()
        check_visible(field, before, after, answer)

    check()
