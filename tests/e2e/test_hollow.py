"""Hollow nodes: what the server records of many nodes is what was done to them."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import pytest

from lattice.agent.hollow.injections import Injection
from lattice.testing import LocalCluster, eventually
from lattice.testing.hollow import HollowNodes
from lattice_sdk import Client
from lattice_sdk.models.nodes import NodeEvent

pytestmark = pytest.mark.e2e

SOAK_S = float(os.environ.get("LATTICE_SOAK_S", "300"))
INTERVAL_S = 1.0
TIMEOUT_S = 8.0
TIMINGS = {
    "node_agent.heartbeat_interval_s": str(INTERVAL_S),
    "node_agent.heartbeat_timeout_s": str(TIMEOUT_S),
    "node_agent.grace_period_s": "300",
}
UP = ["registered", "confirmed"]


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=0, settings=TIMINGS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(servers: LocalCluster) -> Iterator[Client]:
    with servers.client() as client:
        yield client


def wait_all(client: Client, names: list[str], state: str, *, within_s: float = 60) -> None:
    wanted = set(names)

    def look() -> bool:
        found = Counter(node.state for node in client.list_nodes() if node.id in wanted)
        return found == {state: len(names)}

    eventually(look, f"all {len(names)} nodes {state}", within_s=within_s, every_s=0.5)


def count(client: Client, state: str) -> int:
    return sum(row.count for row in client.node_summary() if row.NodeState == state)


def story_of(client: Client, node: str, injection: Injection | None) -> list[NodeEvent]:
    """Once it has all that follows from the first injection."""
    least = {"silence": 3, "flap": 4}.get(injection.what if injection else "", 2)

    def look() -> list[NodeEvent] | None:
        history = client.node_events(node)
        return history if len(history) >= least else None

    return eventually(look, f"the history of {node}", within_s=60)


def test_hollow_nodes_take_work_and_report_how_it_ended(servers: LocalCluster, client: Client) -> None:
    with HollowNodes(servers, 8, prefix="worker") as nodes:
        wait_all(client, nodes.names, "Ready")
        done = servers.run(["sleep", "1"], within_s=60)
        assert (done["state"], done["exit_code"]) == ("Completed", 0)
        assert set(done["nodes"]) <= set(nodes.names)
        assert servers.run("sleep 0.2; exit 3", within_s=60)["exit_code"] == 3
        late = servers.run(["sleep", "100"], lifecycle={"type": "bounded", "walltime": "1s"}, within_s=60)
        assert late["cause"] == "walltime"
        wide = servers.submit(["sleep", "300"], resources={"nodes": 4})
        assert len(servers.wait_state(wide["id"], "Running", within_s=60)["nodes"]) == 4
        servers.cli("launch", "--alloc", wide["id"], "sleep", "0.2", timeout_s=90)
        servers.cli("cancel", wide["id"])
        assert servers.wait_end(wide["id"], within_s=60)["state"] == "Cancelled"


def test_what_the_server_records_of_many_nodes_is_what_was_done_to_them(servers: LocalCluster, client: Client) -> None:
    faults = f"silence=2%,flap=2%:{2 * TIMEOUT_S}s,slow-boot=2%:5s,drift=1%"
    with HollowNodes(servers, 500, "--fault", faults, "--seed", "7") as nodes:
        expected = {"silence": 10, "flap-over": 10, "slow-boot-over": 10, "drift": 5}

        def injected() -> bool:
            seen = Counter(injection.what for injection in nodes.injections())
            return all(seen[what] >= count for what, count in expected.items())

        eventually(injected, "all faults were injected", within_s=90)
        fate = {injection.node: injection for injection in reversed(nodes.injections())}
        for name in nodes.names:
            _check(story_of(client, name, fate.get(name)), fate.get(name))
        marks = {name: servers.get(f"/nodes/{name}/inventory")["fingerprint"] for name in [*nodes.names[:40], *fate]}
        usual, _ = Counter(marks.values()).most_common(1)[0]
        drifted = {name for name, injection in fate.items() if injection.what == "drift"}
        assert {name for name, mark in marks.items() if mark != usual} == drifted
        nodes.send(signal.SIGSTOP)
        wait_all(client, nodes.names, "Degraded")


def _check(history: list[NodeEvent], injection: Injection | None) -> None:
    told = [event.trigger for event in history]
    match injection.what if injection else "":
        case "silence":
            assert told == [*UP, "silent"]
        case "flap":
            assert told[:4] == [*UP, "silent", "resumed"]
        case "slow-boot":
            assert told == UP
            assert _seconds(history[1]) - _seconds(history[0]) >= 4.9
        case "drift":
            assert told in (UP, [*UP, "drifted"])
        case _:
            assert told == UP
    if injection is not None and "silent" in told:
        silent_for_s = _seconds(history[2]) - injection.at
        assert silent_for_s > TIMEOUT_S - 2 * INTERVAL_S


def _seconds(event: NodeEvent) -> float:
    return datetime.fromisoformat(event.at or "").timestamp()


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_nodes_of_which_one_in_a_hundred_flaps() -> None:
    settings = {
        "node_agent.heartbeat_interval_s": "10",
        "node_agent.heartbeat_timeout_s": "30",
        "node_agent.grace_period_s": "60",
    }
    with (
        LocalCluster(nodes=0, settings=settings) as cluster,
        HollowNodes(cluster, 10_000, "--fault", "flap=1%:60s", "--collectors", "10") as nodes,
        cluster.client() as client,
    ):
        cluster.put("/settings/node.collectors", {"value": ",".join(nodes.names[:10])})
        eventually(lambda: count(client, "Ready") >= 9_900, "all that do not flap are Ready", within_s=180, every_s=1)
        time.sleep(SOAK_S)
        injected: dict[str, list[str]] = {}
        for injection in nodes.injections():
            injected.setdefault(injection.node, []).append({"flap": "silent"}.get(injection.what, "resumed"))
        assert len(injected) == 100
        for name in nodes.names:
            told = [event.trigger for event in client.node_events(name)]
            if name not in injected:
                assert told == UP, name
                continue
            # What was done last may not have shown yet, and may go on meanwhile.
            expected = [*UP, *injected[name]]
            assert told[: len(expected) - 1] == expected[:-1], name
        nodes.send(signal.SIGSTOP)
        # Those that were away already are Down by the time that the last of the others is Degraded.
        eventually(lambda: count(client, "Ready") == 0, "no node is Ready", within_s=240, every_s=2)
        assert count(client, "Degraded") + count(client, "Down") == 10_000


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_the_loss_of_a_collector_takes_no_other_node_with_it(servers: LocalCluster, client: Client) -> None:
    with HollowNodes(servers, 300, "--collectors", "4", prefix="tree") as nodes:
        servers.put("/settings/node.collectors", {"value": ",".join(nodes.names[:4])})
        wait_all(client, nodes.names, "Ready")
        nodes.send(signal.SIGUSR1)
        eventually(nodes.injections, "a collector was cut off", within_s=60)
        wait_all(client, nodes.names[:1], "Degraded")
        time.sleep(3 * TIMEOUT_S)
        wait_all(client, nodes.names[1:], "Ready")
        for name in nodes.names[1:]:
            assert [event.trigger for event in client.node_events(name)] == UP
