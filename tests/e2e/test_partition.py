"""The leader is cut off from the other servers, with a node beside it: it acknowledges nothing, the others go on, afterwards all agree."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import eventually
from tests.conftest import require_program
from tests.e2e.quorum_load import MANY, Load, all_allocations, wait_agreeing, wait_healthy
from tests.e2e.server_hosts import HostCluster

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.timeout(480)]

CUT_OFF_S = 9.0
LONGEST_GAP_S = 15.0  # the goal is 5 s on an idle machine
# Long enough that nobody is given up who finds another server, short enough to see that one beside the old leader is.
PATIENCE = {
    "node_agent.heartbeat_timeout_s": "4",
    "node_agent.grace_period_s": "4",
}


@pytest.fixture(scope="module")
def hosts() -> Iterator[HostCluster]:
    require_program("etcd")
    require_program("nsenter")
    with HostCluster(settings=PATIENCE) as cluster:
        yield cluster


def leader_beside(cluster: HostCluster, name: str) -> str | None:
    """Who leads as `name` sees it."""
    status, answer = cluster.request("GET", "/raft/status", server=name, timeout_s=10)
    return answer["leader"] if status == 200 else None


def refused_by(cluster: HostCluster, server: str, name: str) -> str:
    body = {"entrypoint": "true", "name": name}
    status, answer = cluster.request("POST", "/allocations", body, server=server, timeout_s=30)
    assert (status, answer["error"]["code"]) == (503, "unavailable"), answer
    assert "majority" in answer["error"]["message"]
    return name


def test_a_leader_that_is_cut_off_writes_nothing_and_the_majority_goes_on(hosts: HostCluster, scratch: Path) -> None:
    old = hosts.leader()
    others = [name for name in hosts.names if name != old]
    # Nodes that reach all servers keep their work, whichever server they are attached to.
    kept = [hosts.submit("sleep 1000", resources={"constraints": {"nodes": node}}) for node in hosts.free]
    for one in kept:
        hosts.wait_state(one["id"], "Running")
    refused: list[str] = []
    with Load(hosts, scratch, pause_s=0.5) as load:
        load.wait_for_more(MANY)
        load.fault(f"cut off {old}", loses_work=True)
        with hosts.cut_off(old):
            begin = time.monotonic()
            while time.monotonic() < begin + CUT_OFF_S:
                refused.append(refused_by(hosts, old, f"minority-{len(refused)}"))
            load.wait_for_more(MANY)
            assert eventually(lambda: leader_beside(hosts, others[0]), "a new leader") in others
        wait_healthy(hosts)
        load.wait_for_more(MANY)
    for one in kept:
        seen = hosts.allocation(one["id"])
        assert (seen["state"], seen["run"]) == ("Running", 1)
        hosts.delete(f"/allocations/{one['id']}")
    assert load.longest_gap_s() < LONGEST_GAP_S
    load.check()
    wait_agreeing(hosts)
    assert refused
    assert not {item["name"] for item in all_allocations(hosts)} & set(refused)
    for node in hosts.nodes():
        hosts.wait_node(node, "Ready")


def test_the_minority_serves_old_reads_only_when_asked(hosts: HostCluster) -> None:
    wait_healthy(hosts)
    done = hosts.run("true", name="before")
    wait_agreeing(hosts)
    old = hosts.leader()
    with hosts.cut_off(old):
        path = f"/allocations/{done['id']}"
        status, answer = hosts.request("GET", path, server=old, timeout_s=30)
        assert (status, answer["error"]["code"]) == (503, "unavailable"), answer
        assert "consistency=stale" in answer["error"]["hint"]
        status, answer = hosts.request("GET", f"{path}?consistency=stale", server=old)
        assert (status, answer["name"]) == (200, "before")
        majority = next(name for name in hosts.names if name != old)
        eventually(
            lambda: hosts.request("GET", path, server=majority, timeout_s=30)[0] == 200, "the majority answers reads"
        )
    wait_healthy(hosts)
