"""Services on a real cluster: instances restart where they run, also without a server, and are replaced when their node is lost."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import Json

pytestmark = pytest.mark.e2e

OUTAGE_S = 30.0

# Says who it is, then serves for ever.
SERVE = "echo $$ > {folder}/$LATTICE_NODE_ID.new; mv {folder}/$LATTICE_NODE_ID.new {folder}/$LATTICE_NODE_ID; exec sleep 600"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    patient = {"node_agent.heartbeat_timeout_s": "60"}  # a server that is stopped must not lose its nodes
    with LocalCluster(nodes=3, settings=patient) as made:
        yield made


class Service:
    """A service whose instances write down their pids."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        submitted = cluster.submit(SERVE.format(folder=folder), lifecycle={"type": "unbounded"}, resources={"nodes": 2})
        self.id = str(submitted["id"])
        eventually(lambda: self.view()["ready"] == 2, "both instances are ready", within_s=60)

    def view(self) -> Json:
        return self.cluster.allocation(self.id)["service"]

    def instance(self, node: str) -> Json:
        return next((each for each in self.view()["instances"] if each["node"] == node), None)

    def pid(self, node: str) -> int:
        return int(eventually(lambda: self._read(node), f"a pid on {node}", within_s=30))

    def _read(self, node: str) -> str:
        file = self.folder / node
        return file.read_text().strip() if file.exists() else ""

    def kill(self, node: str) -> float:
        """Kills the instance and returns when another one runs in its place, with the seconds that this took."""
        old = self.pid(node)
        began = time.monotonic()
        os.kill(old, signal.SIGKILL)
        eventually(lambda: self.pid(node) != old, f"another process on {node}", within_s=30)
        return time.monotonic() - began


@pytest.fixture
def service(cluster: LocalCluster, tmp_path: Path) -> Iterator[Service]:
    made = Service(cluster, tmp_path)
    yield made
    cluster.cli("cancel", made.id)
    cluster.wait_end(made.id)


def test_an_instance_that_is_killed_restarts_where_it_was_and_the_others_go_on(service: Service) -> None:
    first, second = (each["node"] for each in service.view()["instances"])
    other = service.pid(second)
    service.kill(first)
    eventually(
        lambda: service.instance(first)["restarts"] == 1 and service.view()["ready"] == 2, "restarted", within_s=30
    )
    told = service.instance(first)
    assert (told["last_cause"], told["last_signal"]) == ("signal", 9)
    assert service.pid(second) == other
    seen = service.cluster.allocation(service.id)
    assert (seen["state"], seen["run"], seen["requeue_count"]) == ("Running", 1, 0)
    sheet = service.cluster.cli("status", service.id, "--verbose").stdout
    assert "2/2, 1 restart, restart=always" in sheet
    assert "last ended by signal 9" in sheet


def test_instances_restart_and_back_off_without_a_server_and_the_counts_are_right_afterwards(service: Service) -> None:
    nodes = [each["node"] for each in service.view()["instances"]]
    with service.cluster.stopped("server"):
        over = time.monotonic() + OUTAGE_S
        took = [service.kill(node) for _ in range(4) for node in nodes]  # one more, and an instance would have to move
        time.sleep(max(0.0, over - time.monotonic()))  # an outage lasts, whatever restarts meanwhile
    assert min(took[-2:]) > 3.0, "the fourth restart waits for 4 s"
    counts = dict.fromkeys(nodes, 4)
    eventually(
        lambda: {node: service.instance(node)["restarts"] for node in nodes} == counts, "all is known", within_s=60
    )
    eventually(lambda: service.view()["ready"] == 2, "both are ready", within_s=60)
    seen = service.cluster.allocation(service.id)
    assert (seen["state"], seen["run"], seen["requeue_count"]) == ("Running", 1, 0)
    assert (service.view()["restarts"], sorted(seen["nodes"])) == (8, sorted(nodes))


def test_a_restart_survives_the_agent(service: Service) -> None:
    node = service.view()["instances"][0]["node"]
    old = service.pid(node)
    gone = service.cluster.kill("agent", node)
    os.kill(old, signal.SIGKILL)
    service.cluster.wait_replaced(gone)
    eventually(lambda: service.pid(node) != old, "the next agent starts it again", within_s=60)
    eventually(lambda: service.instance(node)["restarts"] == 1, "and tells it", within_s=60)


def test_an_instance_whose_node_is_lost_is_replaced_and_the_others_go_on(service: Service) -> None:
    cluster = service.cluster
    lost, kept = (each["node"] for each in service.view()["instances"])
    other = service.pid(kept)
    (free,) = set(cluster.nodes()) - {lost, kept}
    cluster.cli("node", "disable", lost, "--yes", "--reason", "smoke")
    try:
        eventually(
            lambda: service.instance(free) is not None and service.view()["ready"] == 2, "it is replaced", within_s=60
        )
        assert service.pid(kept) == other
        seen = cluster.allocation(service.id)
        assert (seen["state"], seen["run"], sorted(seen["nodes"])) == ("Running", 1, sorted((kept, free)))
    finally:
        cluster.cli("node", "enable", lost)
        cluster.wait_node(lost, "Ready")


def test_an_instance_that_fails_five_times_moves_and_the_service_says_how_many_are_ready(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    script = f"test $LATTICE_NODE_ID != n1 || exit 7; {SERVE.format(folder=tmp_path)}"
    where = {"nodes": 2, "constraints": {"nodes": ["n1", "n2"]}}
    number = cluster.submit(script, lifecycle={"type": "unbounded"}, resources=where)["id"]

    def is_told() -> bool:
        reason = cluster.allocation(number)["reason"]
        return "ready 1/2" in reason and "n1" in reason

    eventually(is_told, "1/2, for n1", within_s=60)
    moved = eventually(lambda: cluster.allocation(number)["requeue_count"] >= 1, "it moves", within_s=90)
    assert moved
    assert cluster.allocation(number)["state"] == "Running", "the other instance goes on"
    cluster.cli("cancel", number)
    cluster.wait_end(number)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_probes_decide_on_readiness_and_restarts(cluster: LocalCluster, tmp_path: Path) -> None:
    port = free_port()
    often = {"probe_type": "http", "port": port, "period_secs": 1, "timeout_secs": 2, "failure_threshold": 2}
    (tmp_path / "alive").touch()
    submitted = cluster.submit(
        [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", "--directory", str(tmp_path), str(port)],
        lifecycle={"type": "unbounded"},
        readiness_probe={**often, "path": "/ready"},
        liveness_probe={**often, "path": "/alive", "initial_delay_secs": 1},
        startup_probe={"probe_type": "exec", "command": ["test", "-e", str(tmp_path / "begun")], "period_secs": 1},
    )
    number = submitted["id"]

    def view() -> Json:
        return cluster.allocation(number)["service"]

    eventually(lambda: "have not passed yet" in view()["reason"], "its startup probe has not passed", within_s=30)
    (tmp_path / "begun").touch()

    def failed() -> bool:
        reason = view()["reason"]
        return "readiness probe failed" in reason and "404" in reason

    eventually(failed, "not ready", within_s=60)
    assert (cluster.allocation(number)["state"], view()["ready"]) == ("Running", 0)
    (tmp_path / "ready").touch()
    eventually(lambda: view()["ready"] == 1, "ready", within_s=30)
    (tmp_path / "alive").unlink()
    eventually(lambda: view()["restarts"] >= 1, "restarted", within_s=60)
    assert view()["instances"][0]["last_cause"] == "probe"
    (tmp_path / "alive").touch()
    eventually(lambda: view()["ready"] == 1, "ready again", within_s=60)
    cluster.cli("cancel", number)
    assert cluster.wait_end(number)["state"] == "Cancelled"
