"""What goes wrong gets an answer in one shape, and nothing else happens."""

import logging
from typing import Any

import pytest

from lattice.api.find.cursors import make_cursor
from lattice.core.machine.commands import AnyCommand
from lattice.core.machine.outcomes import Outcome
from lattice.ports.quorum.log import Conflict, LogFull, LogUnavailable
from lattice.ports.quorum.replica import ReplicaStopped
from lattice.ports.scheduling import CycleReport, VclusterCycle
from tests.integration.api.world import World, in_world

MALFORMED = [
    (b"", "the body is empty"),
    (b"   ", "the body is empty"),
    (b'{"name": "a"\n "b"}', "line 2, column 2"),
    (b'{"name": ', "it ends too early (line 1, column 10)"),
    (b'{"name": "\xc3\xa4" x}', "line 1, column 14"),
    (b"[]", "expected an object, got a list"),
    (b'"x"', "expected an object"),
    (b'{"name": 5}', "name: expected a text, got a whole number"),
    (b'{"script": "\xff"}', "not valid UTF-8 (line 1, column 13)"),
    (b'{"script": "#!/bin/sh\n\xff"}', "not valid UTF-8 (line 2, column 1)"),
    (b'{"script": "#!/bin/sh\ntrue"}', "a line break inside a text (line 1, column 22)"),
    (b'{"script": "\\ud83d\\ude00 \\ud800"}', "half of a surrogate pair (line 1, column 26)"),
    (b'{"script": "\\ud83d\\ude00', "it ends too early"),
    (b"\xef\xbb\xbf{}", "it begins with a byte order mark"),
    (b'{"entrypoint": [1]}', "entrypoint[0]: expected a text"),
    (b'{"tags": {"a": 1}}', "tags"),
    (b'{"resources": ' + b"[" * 5000, "resources: expected an object"),
]


@pytest.mark.parametrize(("body", "message"), MALFORMED)
def test_malformed_body_is_answered_with_the_place(body: bytes, message: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        response = await world.call("POST", "/allocations", body)
        assert (response.status, response.error["code"]) == (400, "invalid")
        assert message in response.error["message"]
        if "malformed" in response.error["message"] or "UTF-8" in response.error["message"]:
            assert response.error["hint"]

    scenario()


@in_world
async def test_deep_nesting_is_refused(world: World) -> None:
    response = await world.call("PATCH", "/allocations/a1", b'{"name": ' + b"[" * 100_000)
    assert response.status == 400


@in_world
async def test_body_above_the_limit_is_refused_and_not_kept(world: World) -> None:
    declared = await world.call("POST", "/allocations", b"{}", headers={"Content-Length": str(5 << 20)})
    assert (declared.status, declared.error["code"]) == (413, "too_large")
    assert declared.headers["connection"] == "close"
    for pieces in (5, 7):
        streamed = await world.call("POST", "/allocations", [b" " * (1 << 20)] * pieces)
        assert (streamed.status, "4,194,304" in streamed.error["limit"]) == (413, True)


@in_world
async def test_body_in_pieces_is_put_together(world: World) -> None:
    response = await world.call("POST", "/allocations", [b'{"entryp', b'oint": ["tr', b'ue"]}'])
    assert response.status == 201


@in_world
async def test_nothing_here_and_wrong_method_are_said_in_the_same_shape(world: World) -> None:
    missing = await world.call("GET", "/jobs")
    assert (missing.status, missing.error["code"]) == (404, "not_found")
    assert missing.error["message"] == "nothing at /api/v1/jobs"
    assert missing.error["hint"] == "/api/v1/openapi.json lists the addresses"
    assert (await world.call("GET", "/", prefix="")).status == 404
    assert (await world.call("GET", "/allocations/")).status == 404
    wrong = await world.call("PUT", "/allocations")
    assert (wrong.status, wrong.error["code"]) == (405, "method_not_allowed")
    assert "POST" in wrong.error["hint"]


@in_world
async def test_parameters_do_not_pass_unread_on_writes(world: World) -> None:
    response = await world.call("POST", "/allocations?wet_run=true", {"entrypoint": ["true"]})
    assert (response.status, "wet_run" in response.error["message"]) == (400, True)
    assert not world.state.allocations


@in_world
async def test_every_answer_has_a_request_id(world: World) -> None:
    made = await world.call("GET", "/whoami")
    other = await world.call("GET", "/whoami")
    assert made.headers["x-request-id"] != other.headers["x-request-id"]
    echoed = await world.call("GET", "/allocations/a1", headers={"X-Request-Id": "x-1"})
    assert (echoed.status, echoed.headers["x-request-id"]) == (404, "x-1")
    strange = await world.call("GET", "/whoami", headers={"X-Request-Id": "a\tb" + "x" * 300})
    assert strange.headers["x-request-id"].startswith("a?b")


FAILURES = [
    (LogFull("no room"), 507, "storage_full"),
    (LogUnavailable("gone"), 503, "unavailable"),
    (Conflict("fenced"), 503, "unavailable"),
    (ReplicaStopped("stopped"), 503, "unavailable"),
    (RuntimeError("a bug with secrets"), 500, "internal"),
]


@pytest.mark.parametrize(("failure", "status", "code"), FAILURES, ids=lambda value: str(value))
def test_failures_inside_have_their_status_and_give_nothing_away(
    failure: Exception, status: int, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    @in_world
    async def scenario(world: World) -> None:
        async def fail(
            command: AnyCommand, *, actor: str, command_id: str = "", based_on: int | None = None
        ) -> Outcome:
            raise failure

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(world.replica, "propose", fail)
            body = {"entrypoint": ["true"], "environment": {"PASSWORD": "hunter2"}}
            response = await world.call("POST", "/allocations", body)
        assert (response.status, response.error["code"]) == (status, code)
        assert "secrets" not in response.error["message"]
        if status in (503, 507):
            assert response.headers["retry-after"] == "1"

    with caplog.at_level(logging.DEBUG, logger="lattice"):
        scenario()
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == 1
    assert "hunter2" not in caplog.text
    assert "eyJ" not in caplog.text, "a token was logged"


@in_world
async def test_recovering_server_says_so(world: World) -> None:
    world.ready = False
    health = await world.call("GET", "/healthz", prefix="", token="")
    assert (health.status, health.json()) == (503, {"status": "recovering"})
    response = await world.call("GET", "/allocations")
    assert (response.status, response.error["code"]) == (503, "unavailable")


def test_requests_are_logged_as_facts_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    @in_world
    async def scenario(world: World) -> None:
        await world.submit(environment={"PASSWORD": "hunter2"}, request_id="r-1")

    with caplog.at_level(logging.DEBUG, logger="lattice.api.rest.endpoint"):
        scenario()
    (record,) = [record for record in caplog.records if record.name == "lattice.api.rest.endpoint"]
    assert (record.__dict__["operation"], record.__dict__["status"]) == ("submit", 201)
    assert "hunter2" not in str(record.__dict__)


@in_world
async def test_metrics_count_requests_work_and_nodes(world: World) -> None:
    await world.submit()
    await world.submit()
    await world.call("GET", "/allocations/a9")
    await world.start_run(1)
    await world.submit()
    await world.call("DELETE", "/allocations/a3")
    world.services.metrics.commit_done(0.001)
    cycle = VclusterCycle(waiting=2, accepted=3, rejected=1, backfilled=1)
    report = CycleReport(seconds=0.002, scoring_s=0.001, vclusters={"default": cycle}, took_part=frozenset({"default"}))
    world.services.metrics.scheduling.note(report)
    text = (await world.call("GET", "/metrics", prefix="", token="")).body.decode()
    lines = set(text.splitlines())
    assert 'lattice_api_requests_total{method="POST",operation="submit",status="201"} 3.0' in lines
    assert 'lattice_api_requests_total{method="GET",operation="get_allocation",status="404"} 1.0' in lines
    assert 'lattice_api_request_duration_seconds_count{method="POST",operation="submit"} 3.0' in lines
    assert 'lattice_allocations_total{state="Cancelled"} 1.0' in lines
    assert "lattice_allocations_active 1.0" in lines
    assert "lattice_allocations_pending 1.0" in lines
    assert 'lattice_nodes_total{state="Ready"} 2.0' in lines
    assert 'lattice_raft_commit_latency_seconds_count{member_id="server"} 1.0' in lines
    assert 'lattice_scheduling_cycle_duration_seconds_count{vcluster="default"} 1.0' in lines
    assert 'lattice_scheduling_cost_function_duration_seconds_sum{vcluster="default"} 0.001' in lines
    assert 'lattice_scheduling_queue_depth{vcluster="default"} 2.0' in lines
    assert 'lattice_scheduling_proposals_total{result="rejected",vcluster="default"} 1.0' in lines
    assert 'lattice_scheduling_backfill_jobs_total{vcluster="default"} 1.0' in lines
    assert "lattice_scheduling_placements_total 3.0" in lines


@in_world
async def test_numbers_and_names_beyond_any_use_are_refused(world: World) -> None:
    def work(**fields: object) -> dict[str, object]:
        return {"entrypoint": ["true"], **fields}

    nodes = {"resources": {"constraints": {"nodes": "x" * 5000 + "[0-99998]"}}}
    for body in (
        *(work(lifecycle={"walltime": text}) for text in ("1" * 5000, "1" * 60 + "x", "9" * 60, "1:" + "9" * 60)),
        work(**nodes),
        work(tasks="0," * 80_000),
    ):
        answer = await world.call("POST", "/allocations", body)
        assert (answer.status, answer.error["code"]) == (400, "invalid"), str(body)[:80]
    for number in (2**63, 10**30):
        cursor = make_cursor(number)
        for path in ("/accounting", "/dags", "/audit"):
            assert (await world.call("GET", f"{path}?cursor={cursor}", token=world.admin)).status in (400, 503)
    events = await world.call("GET", "/events", headers={"Last-Event-ID": "9" * 5000})
    assert events.status == 400


@in_world
async def test_small_values_without_number_are_refused_before_they_are_read(world: World) -> None:
    for body in (
        b'{"submissions": [' + b"{}," * 100_000 + b"{}]}",
        b'{"ids": [' + b'"a",' * 900_000 + b'"a"]}',
        b'{"ids": ' + b"[" * 50_000,
    ):
        path = "/allocations/batch" if b"submissions" in body else "/allocations/cancel"
        answer = await world.call("POST", path, body)
        assert (answer.status, "too many" in answer.error["message"]) == (400, True)
    script = "#!/bin/sh\n" + "echo '{[,\\\"' # {,,,,\n" * 50_000
    assert (await world.call("POST", "/allocations", {"script": script})).status == 201


@in_world
async def test_two_authorization_headers_are_refused(world: World) -> None:
    scope = world._scope("GET", "/api/v1/whoami", None, None)
    scope["headers"] *= 2
    statuses: list[int] = []

    async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
        statuses.extend([message["status"]] if "status" in message else [])

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    await world.app(scope, receive, send)
    assert statuses == [401]


@in_world
async def test_a_few_characters_that_stand_for_very_much_are_refused(world: World) -> None:
    member = {"name": "m", "entrypoint": ["true"], "resources": {"constraints": {"nodes": "n[0-9999]"}}}
    batch = await world.call("POST", "/allocations/batch", {"submissions": [member] * 10})
    dag = await world.call("POST", "/dags", {"allocations": [member] * 10})
    for answer in (batch, dag):
        assert (answer.status, answer.error["limit"]) == (400, "20,000")
    await world.submit(tasks="0-99999")
    pieces = ",".join(str(number) for number in range(0, 1_000, 2))
    many = await world.call("POST", "/allocations/cancel", {"ids": [f"a1_[{pieces}]"] * 20})
    assert (many.status, many.error["limit"]) == (400, "5,000")
    over = await world.call("POST", "/allocations/cancel", {"ids": ["a1_[" + "0-99999:2," * 900 + "1]"]})
    assert over.json()["items"][0]["error"]["limit"] == "60,000"
    assert (await world.call("POST", "/allocations/cancel", {"ids": [f"a1_[{pieces}]"]})).json()["items"][0]["ok"]
