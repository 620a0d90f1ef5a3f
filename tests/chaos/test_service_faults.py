"""Servers, the leader and agents are killed in the middle of an update, of growing and of a drain; then the whole log is judged."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import Json
from tests.chaos.log_walk import WHOLE_LOG, walk
from tests.e2e.service_load import Load, write_server

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

SETTINGS = {**WHOLE_LOG, "node_agent.heartbeat_timeout_s": "60"}


class Trouble:
    """A cluster with a service of three instances and one that follows its load."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self.fixed = self._submit(folder, "fixed", lifecycle={"type": "unbounded"}, resources={"nodes": 3})
        self.grown = self._submit(
            folder,
            "grown",
            lifecycle={
                "type": "reactive",
                "min_nodes": 1,
                "max_nodes": 3,
                "metric": "in_flight",
                "target": 1.5,
                "scale_up_window": "1s",
                "scale_down_window": "600s",
                "evaluation_interval": "1s",
                "cooldown_period": "1s",
            },
        )
        self.wait_ready(self.fixed, 3)
        self.wait_ready(self.grown, 1)

    def _submit(self, folder: Path, name: str, **fields: Json) -> str:
        environment = {"NAMED": name, "WORK_S": "0.2" if name == "grown" else "0.01"}
        connects = f"exec 3<>/dev/tcp/127.0.0.1/$LATTICE_PORT_{name.upper()}"
        probe = {"probe_type": "exec", "command": ["bash", "-c", connects], "period_secs": 1}
        exposed = [{"name": name, "port": 0}]
        made = self.cluster.submit(
            write_server(folder), expose=exposed, environment=environment, drain="2s", readiness_probe=probe, **fields
        )
        return str(made["id"])

    def view(self, alloc: str) -> Json:
        return self.cluster.allocation(alloc)["service"]

    def nodes(self, alloc: str) -> list[str]:
        return [each["node"] for each in self.view(alloc)["instances"]]

    def wait_ready(self, alloc: str, count: int) -> None:
        def is_ready() -> bool:
            seen = self.view(alloc)
            return seen["ready"] == count and len(seen["instances"]) == count

        eventually(is_ready, f"{alloc} has {count} ready instances", within_s=150)

    def kill(self, role: str, node: str) -> None:
        leader = self.cluster.leader() if len(self.cluster.urls) > 1 else None
        gone = self.cluster.kill("agent", node) if role == "agent" else self.cluster.kill("server", leader)
        self.cluster.wait_replaced(gone, within_s=120)
        self.cluster.wait_serving()

    def update(self, role: str) -> None:
        self.cluster.cli("service", "update", self.fixed, "--env", f"VERSION={role}", "--no-wait")
        path = f"/allocations/{self.fixed}/revisions"
        eventually(lambda: self.cluster.get(path)["rollout"]["updated"] >= 1, "the first instance", within_s=60)
        self.kill(role, self.nodes(self.fixed)[-1])
        eventually(lambda: self.cluster.get(path)["rollout"]["state"] == "done", "the update is done", within_s=150)
        self.wait_ready(self.fixed, 3)
        assert len({each["revision"] for each in self.view(self.fixed)["instances"]}) == 1

    def grow(self, role: str) -> None:
        with Load(self.cluster, "grown", clients=10, pause_s=0):
            eventually(lambda: len(self.nodes(self.grown)) >= 2, "it grows", within_s=120)
            self.kill(role, self.nodes(self.grown)[-1])
            self.wait_ready(self.grown, 3)

    def drain(self, role: str) -> None:
        """The instance of a node that is drained urgently moves to another one."""
        left = self.nodes(self.fixed)[0]
        self.cluster.cli("node", "drain", left, "--urgent", "--yes", "--reason", "fan")
        eventually(lambda: self.has_moved(left), "it begins to leave", within_s=60)
        self.kill(role, left)
        eventually(lambda: left not in self.nodes(self.fixed), "it has left", within_s=120)
        self.wait_ready(self.fixed, 3)
        self.cluster.wait_node(left, "Drained", within_s=120)
        self.cluster.cli("node", "undrain", left)
        self.cluster.wait_node(left, "Ready")

    def has_moved(self, node: str) -> bool:
        return all(each["node"] != node or each["phase"] != "running" for each in self.view(self.fixed)["instances"])


@pytest.fixture(scope="module", params=[1, 3], ids=["one server", "three servers"])
def trouble(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trouble]:
    with LocalCluster(nodes=8, servers=request.param, settings=SETTINGS) as cluster:
        yield Trouble(cluster, tmp_path_factory.mktemp("service"))


@pytest.mark.parametrize("role", ["server", "agent"])
def test_services_and_their_registry_outlive_whoever_is_killed(trouble: Trouble, role: str) -> None:
    steps: tuple[Callable[[str], None], ...] = (trouble.update, trouble.drain)
    for step in steps:
        step(role)
    if role == "server":
        trouble.grow(role)
    for alloc in (trouble.fixed, trouble.grown):
        seen = trouble.cluster.allocation(alloc)
        assert (seen["state"], seen["run"]) == ("Running", 1)
    walked = walk(trouble.cluster)
    assert walked.violations == []
    # A walk over a log in which nothing happened proves nothing.
    assert walked.entries > 20
    assert walked.registered >= 2
    status = trouble.cluster.get("/services")
    assert {each["name"] for each in status["items"]} == {"fixed", "grown"}
