"""Updates of services on a real cluster: node by node, under load, taken back when an instance is not ready, whoever is killed."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import Json
from tests.e2e.service_load import Load, write_server

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=3, settings={"node_agent.heartbeat_timeout_s": "60"}) as made:
        yield made


class Web:
    """A service of three instances with a readiness probe."""

    def __init__(self, cluster: LocalCluster, folder: Path, name: str) -> None:
        self.cluster, self.name = cluster, name
        words = write_server(folder)
        submitted = cluster.submit(
            words,
            lifecycle={"type": "unbounded"},
            resources={"nodes": 3},
            expose=[{"name": name, "port": 0}],
            environment={"NAMED": name},
            drain="2s",
            readiness_probe={"probe_type": "http", "port_name": name, "path": "/ready", "period_secs": 1},
        )
        self.id = str(submitted["id"])
        eventually(lambda: self.view()["ready"] == 3, "three instances are ready", within_s=60)

    def view(self) -> Json:
        return self.cluster.allocation(self.id)["service"]

    def revisions(self) -> Json:
        return self.cluster.get(f"/allocations/{self.id}/revisions")

    def has_all(self, revision: int) -> bool:
        seen = self.view()
        return seen["ready"] == 3 and {each["revision"] for each in seen["instances"]} == {revision}


@pytest.fixture
def web(cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Web]:
    made = Web(cluster, tmp_path, f"web{abs(hash(request.node.name)) % 10_000}")
    yield made
    cluster.cli("cancel", made.id)
    cluster.wait_end(made.id)


def test_an_update_under_load_fails_no_request_and_can_be_rolled_back(web: Web) -> None:
    with Load(web.cluster, web.name) as load:
        done = web.cluster.cli("service", "update", web.id, "--env", "VERSION=2")
        assert "revision 2 runs: 3 of 3 instances have it" in done.stdout
        eventually(lambda: set(load.answers[-20:]) == {"2"}, "the new version answers", within_s=30)
        web.cluster.cli("service", "rollback", web.id)
        eventually(lambda: set(load.answers[-20:]) == {"1"}, "the old one answers again", within_s=30)
    assert load.failed == []
    history = web.cluster.cli("service", "history", web.id).stdout
    assert "environment (VERSION)" in history
    assert "revision 1 again" in history
    seen = web.cluster.allocation(web.id)
    assert (seen["run"], seen["requeue_count"], seen["state"]) == (1, 0, "Running")


def test_what_does_not_start_is_taken_back_and_the_command_says_why(web: Web) -> None:
    with Load(web.cluster, web.name) as load:
        refused = web.cluster.cli("service", "update", web.id, "--env", "VERSION=broken", check=False)
        assert refused.returncode == 1
        assert "was not updated to revision 2" in refused.stderr
        assert "exit code 3" in refused.stderr
        eventually(lambda: web.has_all(1), "the first revision runs", within_s=60)
    assert load.failed == []
    assert set(load.answers) == {"1"}
    states = {each["revision"]: each["state"] for each in web.revisions()["revisions"]}
    assert states == {1: "current", 2: "taken_back"}


def test_what_is_not_ready_in_time_is_taken_back_everywhere(web: Web) -> None:
    words = ("--env", "VERSION=unready", "--ready-within", "3s", "--max-unavailable", "2")
    # Nothing listens on port 1.
    refused = web.cluster.cli("service", "update", web.id, *words, "--readiness-probe", "tcp:1,period=1", check=False)
    assert refused.returncode == 1
    assert "was not ready within 3 s" in refused.stderr
    assert web.revisions()["rollout"]["state"] == "taken_back"
    eventually(lambda: web.has_all(1), "the first revision runs", within_s=60)


@pytest.mark.parametrize("role", ["server", "agent"])
def test_an_update_survives_whoever_is_killed_in_its_middle(web: Web, role: str) -> None:
    cluster = web.cluster
    with Load(cluster, web.name) as load:
        cluster.cli("service", "update", web.id, "--env", "VERSION=2", "--no-wait")
        eventually(lambda: web.revisions()["rollout"]["updated"] >= 1, "the first instance", within_s=30)
        gone = cluster.kill(role, None if role == "server" else "n2")
        cluster.wait_replaced(gone)
        eventually(lambda: web.has_all(2), "all have the new revision", within_s=120)
        eventually(lambda: web.revisions()["rollout"]["state"] == "done", "it is over", within_s=30)
    if role == "agent":
        assert load.failed == []
    assert cluster.allocation(web.id)["run"] == 1


def test_wrong_updates_are_refused_and_change_nothing(web: Web) -> None:
    cli = web.cluster.cli
    assert "changes nothing" in cli("service", "update", web.id, check=False).stderr
    bounded = web.cluster.submit(["sleep", "30"], resources={"constraints": {"nodes": ["n1"]}})["id"]
    assert "is no service" in cli("service", "update", bounded, "--env", "A=1", check=False).stderr
    cli("cancel", bounded)
    assert "is not set" in cli("service", "update", web.id, "--unset-env", "NOPE", check=False).stderr
    assert "no earlier revision" in cli("service", "rollback", web.id, check=False).stderr
    waiting = threading.Thread(target=cli, args=("service", "update", web.id, "--env", "VERSION=2"))
    waiting.start()
    eventually(lambda: web.revisions()["revision"] == 2, "an update has begun", within_s=30)
    refused = cli("service", "update", web.id, "--env", "VERSION=3", check=False)
    assert "is being updated" in refused.stderr or web.revisions()["rollout"]["state"] == "done"
    waiting.join(60)
    assert web.has_all(2) or web.revisions()["revision"] == 3
