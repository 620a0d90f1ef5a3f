"""Collectors with real agents, after the lists of tests of 2001: with and without collectors, various counts, and what happens when
collectors and plain nodes fail."""

import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from lattice.testing.hollow import HollowNodes
from lattice.testing.local_cluster import LocalCluster
from lattice.testing.waiting import eventually

pytestmark = pytest.mark.e2e

NODES = [f"n{number}" for number in range(1, 7)]
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    settings = {"node_agent.heartbeat_timeout_s": "4", "node_agent.grace_period_s": "3"}
    with LocalCluster(nodes=len(NODES), settings=settings, restart=False) as cluster:
        for node in NODES:
            cluster.wait_node(node, "Ready", within_s=WITHIN_S)
        yield cluster


def choose(cluster: LocalCluster, collectors: str) -> None:
    cluster.cli("admin", "config", "set", "node.collectors", collectors)


def ways(cluster: LocalCluster) -> dict[str, str]:
    """Each node and through whom its last heartbeat came."""
    return {name: str(node["reports_through"]) for name, node in cluster.nodes().items()}


def wait_ways(cluster: LocalCluster, collectors: set[str], members: set[str], what: str) -> None:
    """All of the members report through the collectors, in shares that differ by one at most."""

    def look() -> bool:
        now = ways(cluster)
        sizes = Counter(now[member] for member in members)
        shares = [sizes[collector] for collector in collectors]
        return set(sizes) <= collectors and max(shares) - min(shares) <= 1

    eventually(look, what, within_s=WITHIN_S)


def went_down(cluster: LocalCluster) -> set[str]:
    """Nodes that were Down at any time."""
    return {node for node in NODES if any(_is_down(entry) for entry in cluster.get(f"/nodes/{node}/events")["items"])}


def _is_down(entry: dict[str, Any]) -> bool:
    return "Down" in entry.values()


def test_manager_with_and_without_collectors_of_various_counts(cluster: LocalCluster) -> None:
    assert set(ways(cluster).values()) == {""}
    for count in (1, 2, 5, 3):
        collectors = set(NODES[:count])
        choose(cluster, f"n[1-{count}]")
        wait_ways(cluster, collectors, set(NODES) - collectors, f"shares of {count} collectors")
        wait_ways(cluster, {""}, collectors, "collectors report themselves")
    sheet = cluster.cli("nodes", "n6").stdout
    assert "Reports through" in sheet
    choose(cluster, "")
    eventually(lambda: set(ways(cluster).values()) == {""}, "everybody reports directly", within_s=WITHIN_S)
    assert went_down(cluster) == set()


def test_collectors_of_collectors(cluster: LocalCluster) -> None:
    cluster.cli("admin", "config", "set", "node.collector_fan_out", "2")
    choose(cluster, "n[1-3]")
    eventually(lambda: ways(cluster)["n3"] in ("n1", "n2"), "a collector below another", within_s=WITHIN_S)
    wait_ways(cluster, {"n1", "n2", "n3"}, {"n4", "n5", "n6"}, "shares of three collectors in two levels")
    assert went_down(cluster) == set()


def test_the_loss_of_a_collector_among_many_nodes_and_levels_takes_nobody_with_it(cluster: LocalCluster) -> None:
    cluster.cli("admin", "config", "set", "node.collector_fan_out", "2")
    with HollowNodes(cluster, 60, "--collectors", "8") as nodes:
        collectors, plain = set(nodes.names[:8]), set(nodes.names[8:])
        choose(cluster, ",".join(nodes.names[:8]))
        everybody = plain | collectors
        eventually(lambda: cluster.nodes().keys() >= everybody, "all have registered", within_s=WITHIN_S)
        eventually(lambda: {ways(cluster)[name] for name in plain} == collectors, "all collectors", within_s=WITHIN_S)
        assert sum(not ways(cluster)[name] for name in collectors) <= 2
        nodes.send(signal.SIGUSR1)
        lost = eventually(lambda: {each.node for each in nodes.injections()}, "a collector is cut off")
        left = collectors - lost
        eventually(lambda: {ways(cluster)[name] for name in plain} == left, "those that are left", within_s=WITHIN_S)
        states = {node["state"] for name, node in cluster.nodes().items() if name not in lost}
        assert "Down" not in states
        # The real nodes of the cluster cannot reach a collector that is none: they report themselves.
        assert {ways(cluster)[name] for name in NODES} == {""}
    choose(cluster, "")
    cluster.cli("admin", "config", "set", "node.collector_fan_out", "64")


def test_a_collector_that_hangs_loses_its_share_and_gets_one_again_when_it_goes_on(cluster: LocalCluster) -> None:
    choose(cluster, "n[1-2]")
    members = {"n3", "n4", "n5", "n6"}
    wait_ways(cluster, {"n1", "n2"}, members, "shares of two collectors")
    with cluster.stopped("agent", "n1"):
        wait_ways(cluster, {"n2"}, members, "all through the one that is left")
    cluster.wait_node("n1", "Ready", within_s=WITHIN_S)
    wait_ways(cluster, {"n1", "n2"}, members, "a share for the collector that returned")
    assert went_down(cluster) <= {"n1"}


def test_a_collector_and_a_plain_node_that_die_take_nobody_with_them(cluster: LocalCluster) -> None:
    choose(cluster, "n[1-2]")
    wait_ways(cluster, {"n1", "n2"}, {"n3", "n4", "n5", "n6"}, "shares of two collectors")
    before = went_down(cluster)
    cluster.kill("agent", "n2")
    cluster.kill("agent", "n6")
    wait_ways(cluster, {"n1"}, {"n3", "n4", "n5"}, "all that live through the collector that is left")
    cluster.wait_node("n2", "Down", within_s=WITHIN_S)
    cluster.wait_node("n6", "Down", within_s=WITHIN_S)
    assert went_down(cluster) == before | {"n2", "n6"}
    for node in ("n1", "n3", "n4", "n5"):
        cluster.wait_node(node, "Ready", within_s=WITHIN_S)


@pytest.mark.parametrize("wrong", ["n[3-1]", "n[1", "n1;n2"])
def test_collectors_that_cannot_be_read_are_refused(cluster: LocalCluster, wrong: str) -> None:
    refused = cluster.cli("admin", "config", "set", "node.collectors", wrong, check=False)
    assert refused.returncode != 0
    assert "node.collectors" in refused.stderr
