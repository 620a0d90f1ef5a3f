"""A service that follows its load on a real cluster: one node to four and back, through an update and the loss of a node."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import Json
from tests.e2e.service_load import Load, write_server

pytestmark = pytest.mark.e2e

QUICK = {
    "type": "reactive",
    "min_nodes": 1,
    "max_nodes": 4,
    "metric": "in_flight",
    "target": 1.5,
    "scale_up_window": "1s",
    "scale_down_window": "2s",
    "evaluation_interval": "1s",
    "cooldown_period": "1s",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=5, settings={"node_agent.heartbeat_timeout_s": "60"}) as made:
        yield made


class Web:
    def __init__(
        self, cluster: LocalCluster, folder: Path, name: str, around: Sequence[str] = (), **lifecycle: Json
    ) -> None:
        """`around` is a program that starts the server, and answers requests for checkpoints."""
        self.cluster, self.name = cluster, name
        submitted = cluster.submit(
            [*around, *write_server(folder)],
            **({"checkpoint": {"protocol": "signal"}} if around else {}),
            lifecycle={**QUICK, **lifecycle},
            expose=[{"name": name, "port": 0}],
            environment={"NAMED": name, "WORK_S": "0.2"},
            drain="3s",
        )
        self.id = str(submitted["id"])
        eventually(lambda: self.view()["ready"] == 1, "it begins with one node", within_s=60)

    def view(self) -> Json:
        return self.cluster.allocation(self.id)["service"]

    def has(self, count: int) -> bool:
        seen = self.view()
        return seen["ready"] == count and len(seen["instances"]) == count


@pytest.fixture
def web(cluster: LocalCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Web]:
    made = Web(cluster, tmp_path, f"web{abs(hash(request.node.name)) % 10_000}")
    yield made
    cluster.cli("cancel", made.id)
    cluster.wait_end(made.id)


def test_under_load_it_grows_to_four_is_updated_loses_a_node_and_shrinks_to_one(web: Web) -> None:
    cluster = web.cluster
    first = web.view()["instances"][0]["node"]
    with Load(cluster, web.name, clients=10, pause_s=0) as load:
        eventually(lambda: web.has(4), "four instances", within_s=90)
        sheet = cluster.cli("status", web.id, "--verbose").stdout
        assert "1 to 4 nodes by in_flight, target 1.5" in sheet
        cluster.cli("service", "update", web.id, "--env", "VERSION=2", "--max-unavailable", "2")
        eventually(lambda: set(load.answers[-20:]) == {"2"}, "the update answers", within_s=60)
        assert load.failed == []
        lost = next(each["node"] for each in web.view()["instances"] if each["node"] != first)
        cluster.cli("node", "disable", lost, "--yes", "--reason", "smoke")
        eventually(lambda: web.has(4), "the lost instance is replaced", within_s=60)
        # At most what was in flight on the lost node.
        assert len(load.failed) <= 10, load.failed
        before = len(load.failed)
        cluster.cli("node", "enable", lost)
        cluster.wait_node(lost, "Ready")
    assert len(load.failed) == before
    eventually(lambda: web.has(1), "one instance again", within_s=90)
    assert web.view()["instances"][0]["node"] == first, "the first node stays"
    seen = cluster.allocation(web.id)
    assert (seen["state"], seen["run"]) == ("Running", 1)
    eventually(lambda: "minimum" in web.view()["scaling"]["reason"], "it says why it stays", within_s=30)


@pytest.mark.parametrize("role", ["server", "agent"])
def test_scaling_up_survives_whoever_is_killed(web: Web, role: str) -> None:
    cluster = web.cluster
    with Load(cluster, web.name, clients=10, pause_s=0):
        eventually(lambda: len(web.view()["instances"]) >= 2, "it grows", within_s=60)
        name = None if role == "server" else web.view()["instances"][-1]["node"]
        cluster.wait_replaced(cluster.kill(role, name))
        eventually(lambda: web.has(4), "four instances", within_s=120)
    assert cluster.allocation(web.id)["run"] == 1


def test_a_checkpoint_is_written_before_a_node_is_given_back(cluster: LocalCluster, tmp_path: Path) -> None:
    answers = """
trap asked=1 USR1
"$@" &
while kill -0 $!; do
  wait
  [ "$asked" ] || continue
  asked=
  touch "$(sed 's/.*"path":"\\([^"]*\\)".*/\\1/' "$LATTICE_CHECKPOINT_REQUEST")/.done"
done
"""
    web = Web(cluster, tmp_path, "saved", around=["/bin/bash", "-c", answers, "-"], max_nodes=2)
    with Load(cluster, web.name, clients=6, pause_s=0) as load:
        eventually(lambda: web.has(2), "two instances", within_s=60)
    eventually(lambda: web.has(1), "one instance again", within_s=60)
    assert load.failed == []
    kept = cluster.get(f"/allocations/{web.id}/checkpoints")["items"]
    assert [(each["n"], each["state"], each["nodes"]) for each in kept] == [(1, "complete", 2)]
    cluster.cli("cancel", web.id)
    cluster.wait_end(web.id)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--reactive",), "reactive work needs min_nodes, max_nodes, metric, target"),
        (("--reactive", "--min-nodes=1", "--max-nodes=2", "--scale-target=1"), "needs metric"),
        (("--reactive", "--min-nodes=3", "--max-nodes=2", "--scale-metric=in_flight", "--scale-target=1"), "at most 2"),
        (("--reactive", "--min-nodes=1", "--max-nodes=2", "--scale-metric=luck", "--scale-target=1"), "is no metric"),
        (
            ("--reactive", "--min-nodes=1", "--max-nodes=2", "--scale-metric=x{a='b'}", "--scale-target=1"),
            "this cluster has none",
        ),
        (("--service", "--min-nodes=1"), "for reactive work alone"),
    ],
)
def test_wrong_policies_are_refused_by_name(cluster: LocalCluster, flags: tuple[str, ...], said: str) -> None:
    refused = cluster.cli("submit", *flags, "--", "true", check=False)
    assert refused.returncode != 0
    assert said in refused.stderr
