"""`lattice service` and ports by name, in memory: what is asked and what is printed."""

import pytest

from tests.unit.cli.runner import Cli, allocation
from tests.unit.sdk.fake_api import FakeApi, Reply

ENDPOINTS = [
    {"id": "a1", "run": 1, "node": "n1", "port": 8080, "ready": True},
    {"id": "a2", "run": 1, "node": "n2", "port": 8080, "ready": False},
]
WEB = {"name": "web", "tenant": "physics", "user": "ada", "allocations": ["a1", "a2"], "ready": 1, "size": 2}
LOOKUP = {**WEB, "endpoints": ENDPOINTS, "shared": True, "version": "v1"}


def test_services_are_listed_with_how_many_are_ready(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/services", Reply(json={"items": [WEB], "next_cursor": None}))
    outcome = cli("service", "list")
    assert outcome.code == 0
    assert outcome.out.splitlines()[1].split() == ["web", "ada", "1/2", "a1,a2"]


def test_a_lookup_prints_an_endpoint_on_each_line(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/services/web", Reply(json=LOOKUP))
    assert cli("service", "lookup", "web").out == "n1:8080\nn2:8080\n"
    assert cli("service", "lookup", "web", "--ready").out == "n1:8080\n"
    shown = cli("service", "show", "web").out
    assert "n2:8080 of a2 not ready" in shown
    api.on("GET", "/services/cold", Reply(json={**LOOKUP, "endpoints": ENDPOINTS[1:], "ready": 0, "size": 1}))
    outcome = cli("service", "lookup", "cold", "--ready")
    assert (outcome.code, "no endpoint that is ready" in outcome.err) == (1, True)


def test_a_lookup_waits_for_an_endpoint_that_is_ready(api: FakeApi, cli: Cli) -> None:
    missing = Reply(status=404, json={"error": {"code": "not_found", "message": "no service"}})
    cold = Reply(json={**LOOKUP, "endpoints": ENDPOINTS[1:], "version": "v0"})
    api.on("GET", "/services/web", missing, cold, Reply(json=LOOKUP))
    assert cli("service", "lookup", "web", "--ready", "--wait").out == "n1:8080\n"
    assert [dict(each.query).get("version", "") for each in api.asked] == ["", "", "v0"]


def test_a_page_of_a_service_is_opened(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/services/web/open", Reply(status=201, json={"url": "https://gate/x", "expires_in_s": 60}))
    assert cli("service", "open", "web", "--path", "/docs").out == "https://gate/x\n"
    assert api.last().json["path"] == "/docs"
    assert cli("service", "open", "web", "--path", "docs").code == 2


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("8080", {"port": 8080}),
        ("web:8080/tcp", {"port": 8080, "name": "web", "protocol": "tcp"}),
        ("web:0,share=tenant", {"port": 0, "name": "web", "share": ["tenant"]}),
        ("web:1,share=ada,bob", {"port": 1, "name": "web", "share": ["ada", "bob"]}),
        ("web:1,share=ada,share=bob", {"port": 1, "name": "web", "share": ["ada", "bob"]}),
    ],
)
def test_expose_is_sent_as_it_is_meant(text: str, sent: dict[str, object], api: FakeApi, cli: Cli) -> None:
    cli("submit", "--expose", text, "--", "true")
    assert api.last().json["expose"] == [sent]


@pytest.mark.parametrize(
    "text", ["", "x", "web:", ":80", "80/", "web:70000", "80,ada", "80,share=", "80,who=ada", "-1"]
)
def test_an_expose_that_cannot_be_read_is_refused(text: str, api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", f"--expose={text}", "--", "true")
    assert (outcome.code, "--expose" in outcome.err, api.asked) == (2, True, [])


def test_forward_says_what_listens_when_a_name_does_not(api: FakeApi, cli: Cli) -> None:
    port = {"port": 20001, "node": "n1", "address": "127.0.0.1", "program": "python3", "pid": 7, "name": "web"}
    api.on("GET", "/allocations/a1/ports", Reply(json={"items": [port], "next_cursor": None}))
    assert "web" in cli("forward", "a1").out
    outcome = cli("forward", "a1", "metrics")
    assert (outcome.code, '"metrics"' in outcome.err, "20001 (web)" in outcome.err) == (1, True, True)


def test_what_was_exposed_is_exposed_again(api: FakeApi, cli: Cli) -> None:
    ports = [{"name": "web", "port": 0, "protocol": "tcp", "share": ["tenant", "bob"]}]
    details = {"entrypoint": ["true"], "environment": {}, "cwd": "/srv", "submit_dir": "/srv"}
    api.on("GET", "/allocations/a17", Reply(json=allocation(expose=ports, details=details)))
    api.on("POST", "/allocations", Reply(status=201, json=allocation(state="Pending")))
    outcome = cli("resubmit", "a17")
    assert outcome.code == 0, outcome.err
    assert api.last().json["expose"] == [{"port": 0, "name": "web", "share": ["tenant", "bob"]}]


def test_resubmit_repeats_probes_restarts_drain_and_the_exact_target(api: FakeApi, cli: Cli) -> None:
    numbers = {"period_s": 5, "initial_delay_s": 0, "timeout_s": 2, "failure_threshold": 4, "success_threshold": 1}
    probes = [
        {"kind": "readiness", "type": "http", "port": 8080, "path": "/ok,period=7", **numbers},
        {"kind": "liveness", "type": "tcp", "port": 8081, "path": "", **numbers},
    ]
    scaling = {
        "min_nodes": 1,
        "max_nodes": 4,
        "metric": "memory_used",
        "target": 8589934593.5,
        "scale_down_threshold": 0.5,
    }
    details = {"entrypoint": ["true"], "environment": {}, "cwd": "/", "submit_dir": "/", "drain_s": 7, "probes": probes}
    service = {"restart": "on_failure", "wanted": 1, "scaling": scaling}
    old = allocation(lifecycle="reactive", service=service, details=details)
    api.on("GET", "/allocations/a17", Reply(json=old))
    api.on("POST", "/allocations", Reply(status=201, json=allocation(state="Pending")))
    outcome = cli("resubmit", "a17")
    assert outcome.code == 0, outcome.err
    sent = api.last().json
    asked = {"period_secs": 5, "initial_delay_secs": 0, "timeout_secs": 2, "failure_threshold": 4}
    assert sent["readiness_probe"] == {"probe_type": "http", "port": 8080, "path": "/ok,period=7", **asked}
    assert sent["liveness_probe"] == {"probe_type": "tcp", "port": 8081, **asked}
    assert sent["drain"] == "7s"
    assert sent["lifecycle"]["restart"] == "on_failure"
    assert sent["lifecycle"]["target"] == "8589934593.5"
