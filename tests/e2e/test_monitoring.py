"""A cluster, and the programs that watch it: what they read, and whom they call."""

import getpass
import json
import math
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lattice.observe.dashboards.panels import DASHBOARDS
from lattice.testing import LocalCluster, NotInTime, eventually
from tests.e2e import truth
from tests.e2e.truth import peer_host
from tests.hooks import Hooks
from tests.mailbox import Mailbox
from tests.monitoring_stack import Stack, fetch
from tests.s3_server import free_port

pytestmark = pytest.mark.e2e
PROGRAMS = Path(sys.executable).parent


PLANTED = ("planted-in-a-file-of-the-configuration", "planted-in-environment", "planted-in-a-script")


class Site(NamedTuple):
    cluster: LocalCluster
    stack: Stack
    hooks: Hooks
    letters: Mailbox
    store: str
    traces: Hooks
    agent: "subprocess.Popen[bytes]"
    agent_page: str


def monitoring_token(cluster: LocalCluster) -> str:
    """As an administrator makes one for Prometheus."""
    return made_token(cluster, "prometheus", "--scope", "readonly", "--no-tenant")


def made_token(cluster: LocalCluster, user: str, *more: str) -> str:
    words = ["--user-token", user, *more]
    made = subprocess.run(
        [PROGRAMS / "lattice-server", "--config", cluster.directory / "server.yaml", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return made.stdout.strip()


def start_agent(
    cluster: LocalCluster, folder: Path, page: str, write: str, node: str = "watched"
) -> "subprocess.Popen[bytes]":
    """One that no supervisor starts again, that shows its metrics and sends what it measures."""
    words: list[str | Path] = [
        "--node-id",
        node,
        "--state-dir",
        folder / node,
        "--servers",
        cluster.file.grpc,
    ]
    words += [
        "--token-file",
        cluster.directory / "agent-token",
        "--cpus",
        "2",
        "--metrics-listen",
        page,
        "--tsdb-endpoint",
        write,
        "--allow-user",
        getpass.getuser(),
    ]
    with (folder / f"{node}.log").open("wb") as log:
        return subprocess.Popen([PROGRAMS / "lattice-agent", *words], stdout=log, stderr=log)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    page = f"127.0.0.1:{free_port()}"
    secret = folder / "webhook"
    secret.touch(mode=0o600)
    secret.write_text(PLANTED[0])
    port = free_port()
    store = f"http://127.0.0.1:{port}"
    settings = {"snapshots.every_commands": "20", "notifications.webhook.secret": f"file://{secret}"}
    settings["telemetry.tsdb_endpoint"] = store
    with (
        Hooks() as hooks,
        Mailbox() as letters,
        Hooks() as traces,
        LocalCluster(nodes=1, settings={**settings, "tracing.otlp_endpoint": traces.url}) as cluster,
    ):
        agent = start_agent(cluster, folder, page, f"{store}/api/v1/write")
        others: list[subprocess.Popen[bytes]] = []
        try:
            server = cluster.api_url.removeprefix("http://")
            token, smarthost = monitoring_token(cluster), f"127.0.0.1:{letters.port}"
            with Stack(folder, [server], token, [page], hooks.url, smarthost=smarthost, store=port) as stack:
                eventually(lambda: "watched" in cluster.nodes(), "the agent's registration")
                cluster.wait_node("watched", "Ready")
                # One store is Prometheus, which takes figures itself as VictoriaMetrics does.
                others.append(start_agent(cluster, folder, "off", stack.prometheus_write, "pushing"))
                eventually(lambda: "pushing" in cluster.nodes(), "the second agent's registration")
                cluster.wait_node("pushing", "Ready")
                yield Site(cluster, stack, hooks, letters, store, traces, agent, page)
        finally:
            for each in (agent, *others):
                each.kill()
                each.wait()
            for file in folder.glob("*/shim.pid"):  # shims outlive their agents
                with suppress(ProcessLookupError):
                    os.kill(int(file.read_text()), signal.SIGKILL)


def calls_of(site: Site, alert: str) -> list[str]:
    """The receivers that were called about an alert."""
    return [
        call.path.rpartition("/")[2]
        for call in list(site.hooks.calls)
        for each in call.json["alerts"]
        if each["labels"]["alertname"] == alert
    ]


def test_the_agent_shows_how_long_starts_take(site: Site) -> None:
    site.cluster.run(["true"], resources={"constraints": {"nodes": "watched"}})

    def page() -> str:
        return fetch(f"http://{site.agent_page}/metrics")

    assert 'lattice_agent_allocation_startup_seconds_count{node_id="watched"} 1' in page()
    eventually(
        lambda: 'lattice_agent_heartbeat_latency_seconds_count{node_id="watched"} 1' in page(), "an answer to a ping"
    )
    told = site.cluster.cli("admin", "prometheus-targets")
    assert told.stdout.strip() == "[]"
    assert "left out: 1 node (watched): shows its metrics to its own machine only" in told.stderr
    assert "--metrics-listen off" in told.stderr


def test_tenants_reach_the_store_and_not_the_public_page(site: Site) -> None:
    eventually(lambda: site.stack.store('lattice_quota_used_nodes{tenant="default"}'), "the page of tenants")
    assert "tenant=" not in fetch(f"{site.cluster.api_url}/metrics")


VALUES = {
    "$vcluster": "default",
    "$member": "server",
    "$node": "watched",
    "$tenant": "default",
    "$__rate_interval": "30s",
}


# Where the work runs whose figures each store is sent.
SENDS = {"prometheus": "pushing", "store": "watched"}


def filled(expr: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr


def has_data(found: list[dict[str, Any]]) -> bool:
    return any(not math.isnan(float(each["value"][1])) for each in found)


def asked_of(site: Site, name: str, expr: str, work: dict[str, str]) -> list[dict[str, Any]]:
    """As a dashboard asks it, of the node and the work that this store is told of."""
    is_pushed = "lattice_node_" in expr or "lattice_allocation_" in expr
    values = VALUES | {"$allocation": work[name]} | ({"$node": SENDS[name]} if is_pushed else {})
    ask = {"prometheus": site.stack.prometheus, "store": site.stack.store}
    return ask[name](filled(expr, values))


def panels() -> set[tuple[str, str]]:
    """Every expression that has data here, for each store."""
    boards = (panel for board in DASHBOARDS for panel in board.panels if not panel.waits_for)
    return {(name, line.expr) for panel in boards for line in panel.lines for name in SENDS}


@contextmanager
def scripted_work(site: Site) -> Iterator[dict[str, str]]:
    """An allocation for each store, on the node that sends to it, which computes, holds memory, reads and writes."""
    site.cluster.run(["true"], resources={"constraints": {"nodes": "watched"}})  # before the node has other work
    words = [
        "sh",
        "-c",
        "while :; do dd if=/dev/zero of=./written bs=64k count=16 conv=fsync 2>/dev/null; cat ./written; done",
    ]
    work = {
        name: site.cluster.submit(
            words,
            cwd=str(site.cluster.directory),
            resources={"constraints": {"nodes": node}},
            telemetry={"mode": "debug"},
            lifecycle={"walltime": "2h"},  # longer than the hour of the long form, which is the default
        )["id"]
        for name, node in SENDS.items()
    }
    try:
        yield work
    finally:
        for name in work.values():
            site.cluster.cli("cancel", name)


def wait_for_panels(site: Site, work: dict[str, str], within_s: float) -> None:
    waiting = panels()

    def all_answered() -> bool:
        site.cluster.run(["true"], resources={"constraints": {"nodes": "n1"}})
        for name, expr in sorted(waiting):
            if has_data(asked_of(site, name, expr, work)):
                waiting.discard((name, expr))
        return not waiting

    try:
        eventually(all_answered, "data for every panel", within_s=within_s, every_s=0.5)
    except NotInTime:
        raise AssertionError(f"no data: {sorted(waiting)}") from None


def test_every_dashboard_shows_data_after_some_work_or_names_what_it_waits_for(site: Site) -> None:
    with scripted_work(site) as work:
        wait_for_panels(site, work, 120)


@pytest.mark.soak
@pytest.mark.timeout(4500)
def test_every_dashboard_goes_on_showing_data_for_an_hour(site: Site) -> None:
    """Also while work comes and goes: each expression is asked of both stores again every minute."""
    until_s = time.monotonic() + float(os.environ.get("LATTICE_SOAK_S", "3600"))
    with scripted_work(site) as work:
        wait_for_panels(site, work, 120)
        while time.monotonic() < until_s:
            wait_for_panels(site, work, 60)
            time.sleep(min(60.0, max(0.0, until_s - time.monotonic())))


def texts_of(bundle: Path) -> dict[str, str]:
    """Its files by name."""
    with tarfile.open(bundle) as archive:
        members = {member.name.partition("/")[2]: member for member in archive.getmembers()}
        read = {name: archive.extractfile(member) for name, member in members.items()}
        return {name: file.read().decode() for name, file in read.items() if file is not None}


def test_a_bundle_has_what_is_needed_and_no_secret(site: Site, tmp_path: Path) -> None:
    cluster = site.cluster
    cluster.run(["sh", "-c", f"echo {PLANTED[2]}"], environment={"PASSWORD": PLANTED[1]})
    path = tmp_path / "case.tar.gz"
    made = cluster.cli(
        "admin", "diag-bundle", "--node", "watched", "--node", "n1", "--since", "30m", "--file", str(path)
    )
    assert made.stdout.strip() == str(path)
    assert path.stat().st_mode & 0o077 == 0
    texts = texts_of(path)
    for name in ("raft.json", "nodes.json", "allocations.json", "scheduler.json", "servers/1/metrics.json"):
        assert name in texts, made.stderr
    assert "registered with" in texts["nodes/watched/agent.log"], "without a shell on the node"
    assert "lattice" in texts["servers/1/server.log"] or texts["servers/1/server.log"].count("\n") >= 1
    assert "webhook" in texts["servers/1/configuration.yaml"]
    assert "version:" in texts["servers/1/about.yaml"]
    secrets = [*PLANTED, cluster.token, cluster.agent_token, (cluster.directory / "secret").read_text().strip()]
    for secret in secrets:
        assert [name for name, text in texts.items() if secret in text] == []
    again = cluster.cli("admin", "diag-bundle", "--file", str(path), check=False)
    assert (again.returncode, "exists" in again.stderr) == (1, True)
    unknown = cluster.cli("admin", "diag-bundle", "--node", "nowhere", "--file", str(tmp_path / "b.tar.gz"))
    assert 'unknown node "nowhere"' in unknown.stderr


TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_a_trace_reaches_the_work_and_its_spans_the_collector(site: Site) -> None:
    traced = {**site.cluster.environment(), "TRACEPARENT": f"00-{TRACE}-b7ad6b7169203331-01"}
    words: list[str | Path] = [PROGRAMS / "lattice", "run", "--", "printenv", "TRACEPARENT"]
    ran = subprocess.run(words, env=traced, capture_output=True, text=True, timeout=90, check=True)
    version, trace, span, flags = ran.stdout.split()[-1].split("-")
    assert (version, trace, flags) == ("00", TRACE, "01")

    def spans() -> dict[str, dict[str, Any]]:
        return {
            each["name"]: each
            for call in list(site.traces.calls)
            for resource in call.json["resourceSpans"]
            for scope in resource["scopeSpans"]
            for each in scope["spans"]
            if each["traceId"] == TRACE
        }

    wanted = {"lattice.api submit", "lattice.queued", "lattice.start", "lattice.run"}
    eventually(lambda: wanted <= spans().keys(), "the spans of the run")
    found = spans()
    assert found["lattice.api submit"]["parentSpanId"] == "b7ad6b7169203331"
    assert found["lattice.api submit"]["spanId"] == span, "the work continues where its submission was"
    for name in ("lattice.queued", "lattice.start", "lattice.run"):
        assert found[name]["parentSpanId"] == span
        assert int(found[name]["endTimeUnixNano"]) >= int(found[name]["startTimeUnixNano"])
    assert site.traces.calls[0].path.endswith("/v1/traces")
    for call in site.traces.calls:
        assert b"tenant" not in call.body
        assert getpass.getuser().encode() not in call.body.replace(b"lattice", b"")


def test_two_tenants_see_nothing_of_each_other(site: Site, tmp_path: Path) -> None:
    cluster = site.cluster
    for name in ("aurora", "borealis"):
        status, made = cluster.request("POST", "/tenants", {"name": name})
        assert status in (200, 201), made
    tokens = {name: made_token(cluster, f"user-{name}", "--tenant", name) for name in ("aurora", "borealis")}
    work = {"entrypoint": ["sleep", "300"], "name": "secret-of-aurora", "telemetry": {"mode": "debug"}}
    resources = {"constraints": {"nodes": "watched"}}
    admin = {**work, "tenant": "aurora", "resources": resources}
    status, made = cluster.request("POST", "/allocations", admin)
    assert status == 201, made
    name = made["id"]
    try:
        eventually(
            lambda: site.stack.store(f'lattice_allocation_cpus_used{{allocation="{name}",tenant="aurora"}}'),
            "the store knows whose it is",
        )
        stranger = tokens["borealis"]
        for path in ("metrics", "metrics/stream", "diagnostics", "diagnostics/network", "diagnostics/storage"):
            assert cluster.request("GET", f"/allocations/{name}/{path}", token=stranger)[0] == 404, path
        assert cluster.request("GET", f"/compare?ids={name},{name}", token=stranger)[0] == 404
        listed = cluster.request("GET", "/allocations/metrics?all=true", token=stranger)[1]
        assert listed["items"] == []
        of_node = cluster.request("GET", "/nodes/watched/metrics", token=stranger)[1]
        for text in (json.dumps(of_node), fetch(f"{cluster.api_url}/metrics")):
            assert "aurora" not in text
            assert name not in text
        for path in ("/metrics/tenants", "/admin/diagnostics", "/metrics/history", "/nodes/watched/log"):
            status, said = cluster.request("GET", path, token=stranger)
            assert status in (403, 404), path
            assert "aurora" not in json.dumps(said)
        for call in site.traces.calls:
            assert b"aurora" not in call.body
        seen = {}
        for reader, token in (("administrator", cluster.token), ("stranger", stranger)):
            bundle = tmp_path / f"{reader}.tar.gz"
            words: list[str | Path] = [
                PROGRAMS / "lattice",
                "admin",
                "diag-bundle",
                "--node",
                "watched",
                "--file",
                bundle,
            ]
            variables = cluster.environment() | {"LATTICE_TOKEN": token}
            subprocess.run(words, env=variables, capture_output=True, timeout=90, check=True)
            seen[reader] = "\n".join(texts_of(bundle).values())
        assert "secret-of-aurora" in seen["administrator"]
        for word in ("aurora", f'"{name}"'):
            assert word not in seen["stranger"]
    finally:
        cluster.request("DELETE", f"/allocations/{name}")


def test_what_a_run_does_is_shown_within_five_percent_by_top_watch_and_store(site: Site, tmp_path: Path) -> None:
    """A moment of the middle of the run, in windows of a second, against what the program itself counted."""
    with peer_host(tmp_path) as address:
        variables = {"FOLDER": str(tmp_path), "PEER": address}
        constraint = {"constraints": {"nodes": "watched"}}
        telemetry = {"mode": "debug", "duration": "10m"}
        words = [sys.executable, "-S", "-c", truth.WORK]
        name = site.cluster.submit(words, environment=variables, resources=constraint, telemetry=telemetry)["id"]
        client = site.cluster.client()
        try:
            eventually(lambda: len(truth.notes(tmp_path)) > 100, "the program works", within_s=60)
            watched: dict[str, list[truth.Point]] = {}
            stream = client.stream_metrics(name, truth.METRICS)
            for event in stream:
                truth.collect(watched, event)
                if len(watched.get("cpus_used", [])) >= truth.SECONDS:
                    break
            stream.close()
            end_s = watched["cpus_used"][-1].at_s
            shown = eventually(lambda: truth.from_top(client, name, end_s), "the store has it", within_s=60, every_s=2)
        finally:
            client.cancel(name)
            client.wait(name)
            client.close()
    stored = truth.from_store(site.store, name, end_s)
    expected = truth.expected(truth.notes(tmp_path), end_s)
    for source, found in (("watch", watched), ("top", shown), ("store", stored)):
        for metric in truth.METRICS:
            assert truth.mean(found[metric], end_s) == pytest.approx(expected[metric], rel=0.05), (source, metric)


def test_a_killed_agent_becomes_a_call_to_the_person_on_call(site: Site) -> None:
    eventually(lambda: site.stack.prometheus('lattice_nodes_total{state="Ready"} == 3'), "three nodes in Prometheus")
    site.agent.kill()
    site.cluster.wait_node("watched", "Down")
    eventually(lambda: calls_of(site, "NodeGivenUp"), "a call", within_s=60)
    assert set(calls_of(site, "NodeGivenUp")) == {"pagerduty-oncall"}
    eventually(lambda: site.letters.of("pagerduty-oncall@example.org"), "a mail", within_s=60)
    subjects = [str(letter.message["Subject"]) for letter in site.letters.of("pagerduty-oncall@example.org")]
    assert any("NodeGivenUp" in subject for subject in subjects), subjects
    (alert,) = {
        (each["labels"]["severity"], each["annotations"]["runbook"])
        for call in site.hooks.calls
        for each in call.json["alerts"]
        if each["labels"]["alertname"] == "NodeGivenUp"
    }
    assert alert == ("critical", "docs/runbooks/alerts.md#nodegivenup")
    assert site.stack.prometheus('lattice_agent_last_heartbeat_timestamp{node_id="watched"}')
