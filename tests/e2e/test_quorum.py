"""Three servers: each answers, the loss of any one loses nothing, and a minority says that it cannot."""

import http.client
import itertools
import secrets
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client, LatticeError, Submission
from tests.conftest import require_program

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

CLIENTS = 20
KILLS = 3
LONGEST_GAP_S = 5.0


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    require_program("etcd")
    with LocalCluster(nodes=2, servers=3) as cluster:
        yield cluster


class Load:
    """Clients that submit one allocation after the other until told to stop, each with the servers in another order."""

    def __init__(self, cluster: LocalCluster, scratch: Path) -> None:
        self._cluster = cluster
        self._scratch = scratch
        self._prefix = secrets.token_hex(4)
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.acknowledged: dict[str, str] = {}
        self.times: list[float] = []
        self.problems: list[str] = []
        self._threads = [threading.Thread(target=self._submit, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _submit(self, number: int) -> None:
        urls = list(self._cluster.urls.values())
        first = number % len(urls)
        with Client(urls[first:] + urls[:first], token=self._cluster.token, retry_for=60) as client:
            for count in itertools.count(1):
                if self._over.wait(0.2):
                    return
                name = f"{self._prefix}-{number}-{count}"
                try:
                    done = client.submit(Submission(entrypoint=f"echo {name} >> {self._scratch}/ran", name=name))
                except LatticeError as error:
                    self.problems.append(f"{name}: {error}")
                    continue
                with self._lock:
                    self.acknowledged[name] = done.id
                    self.times.append(time.monotonic())

    def wait_for_more(self, count: int) -> None:
        goal = len(self.times) + count
        eventually(lambda: len(self.times) >= goal, f"{count} more submissions", within_s=30)

    def longest_gap_s(self) -> float:
        return max((after - before for before, after in itertools.pairwise(self.times)), default=0.0)


def kill_both(cluster: LocalCluster, server: str) -> None:
    cluster.kill("etcd", server)
    cluster.kill("server", server)


def all_allocations(cluster: LocalCluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = cluster.get("/allocations?all=true&limit=1000" + (f"&cursor={cursor}" if cursor else ""))
        found += page["items"]
        cursor = page["next_cursor"]
        if not cursor:
            return found


def check_all_ran_once(cluster: LocalCluster, load: Load, scratch: Path) -> None:
    assert not load.problems
    eventually(
        lambda: cluster.get("/allocations/count?state=Pending,Starting,Running,Stopping")["total"] == 0,
        "everything has ended",
        within_s=60,
    )
    mine = [item for item in all_allocations(cluster) if item["name"] in load.acknowledged]
    assert {item["name"]: item["id"] for item in mine} == load.acknowledged
    assert len(mine) == len(load.acknowledged)
    assert {item["state"] for item in mine} == {"Completed"}
    ran = Counter((scratch / "ran").read_text().split())
    assert set(load.acknowledged) <= set(ran)
    assert set(ran.values()) == {1}


def wait_agreeing(cluster: LocalCluster, count: int = 3) -> dict[str, Any]:
    """The status once so many servers have come equally far, with equal digests."""

    def look() -> dict[str, Any] | None:
        status: dict[str, Any] = cluster.get("/raft/status")
        members = [member for member in status["members"] if member["healthy"]]
        digests = {member["digest"] for member in members}
        indexes = {member["digest_index"] for member in members}
        assert None in digests or len(digests) == 1, status
        return status if len(members) == count and None not in digests and len(indexes) == 1 else None

    return eventually(look, f"{count} servers agree", within_s=60)


def test_every_server_answers_every_request(servers: LocalCluster) -> None:
    token = servers.token
    for here, url in servers.urls.items():
        with Client(url, token=token) as client:
            submitted = client.submit(Submission(entrypoint=f"echo by {here}"))
        for there in servers.urls:
            status, seen = servers.request("GET", f"/allocations/{submitted.id}", server=there)
            assert (status, seen["id"]) == (200, submitted.id)
        done = servers.wait_end(submitted.id)
        assert done["state"] == "Completed"
        for there in servers.urls:
            assert servers.request("GET", f"/allocations/{done['id']}/logs", server=there) == (200, f"by {here}\n")
            status, nodes = servers.request("GET", "/nodes", server=there)
            assert {node["state"] for node in nodes["items"]} == {"Ready"}
    found = wait_agreeing(servers)
    assert found["leader"] in servers.urls
    assert [member["name"] for member in found["members"]] == list(servers.urls)
    assert servers.cli("admin", "raft", "status").stdout.splitlines()[0].split() == ["Leader:", found["leader"]]


def test_a_request_is_carried_out_once_whichever_servers_it_reaches(servers: LocalCluster) -> None:
    body = {"entrypoint": "true", "name": "once"}
    answers = [
        servers.request("POST", "/allocations", body, request_id="the-same", server=server) for server in servers.urls
    ]
    assert len({answer["id"] for _, answer in answers}) == 1
    assert {status for status, _ in answers} == {201}


def test_kills_of_the_leader_under_load_lose_nothing_and_run_nothing_twice(
    servers: LocalCluster, scratch: Path
) -> None:
    with Load(servers, scratch) as load:
        load.wait_for_more(CLIENTS)
        for _ in range(KILLS):
            leader = servers.leader()
            kill_both(servers, leader)
            load.wait_for_more(CLIENTS * 3)
            eventually(lambda: servers.leader() and all_healthy(servers), "all servers are back", within_s=60)
    check_all_ran_once(servers, load, scratch)
    wait_agreeing(servers)
    assert load.longest_gap_s() < LONGEST_GAP_S
    assert {node["state"] for node in servers.nodes().values()} == {"Ready"}


def test_leadership_is_handed_over_without_a_failed_request(servers: LocalCluster, scratch: Path) -> None:
    with Load(servers, scratch) as load:
        load.wait_for_more(CLIENTS)
        leader = servers.leader()
        successor = next(name for name in servers.urls if name != leader)
        assert successor in servers.cli("admin", "raft", "transfer-leader", successor).stdout
        assert servers.leader() == successor
        load.wait_for_more(CLIENTS)
    check_all_ran_once(servers, load, scratch)
    assert load.longest_gap_s() < LONGEST_GAP_S


def test_a_rolling_restart_costs_no_request(servers: LocalCluster, scratch: Path) -> None:
    with Load(servers, scratch) as load:
        load.wait_for_more(CLIENTS)
        for name in servers.urls:
            servers.wait_replaced(servers.kill("server", name, signal.SIGTERM))
            load.wait_for_more(CLIENTS)
            eventually(lambda: servers.leader() and all_healthy(servers), "all servers are back", within_s=60)
    check_all_ran_once(servers, load, scratch)
    wait_agreeing(servers)


def all_healthy(cluster: LocalCluster) -> bool:
    try:
        status, answer = cluster.request("GET", "/raft/status", timeout_s=10)
    except (OSError, http.client.HTTPException):
        return False
    return status == 200 and all(member["healthy"] for member in answer["members"])


def test_a_leader_that_stood_still_writes_nothing_when_it_is_back(servers: LocalCluster, scratch: Path) -> None:
    with Load(servers, scratch) as load:
        load.wait_for_more(CLIENTS)
        leader = servers.leader()
        with servers.stopped("etcd", leader), servers.stopped("server", leader):
            begin = time.monotonic()
            load.wait_for_more(CLIENTS)
            # It has to stand still for longer than any lease.
            while time.monotonic() < begin + 10:
                load.wait_for_more(1)
        load.wait_for_more(CLIENTS)
        assert servers.leader() != leader
    check_all_ran_once(servers, load, scratch)
    wait_agreeing(servers)
    assert {node["state"] for node in servers.nodes().values()} == {"Ready"}


def test_a_minority_refuses_writes_and_serves_old_reads_only_when_asked() -> None:
    require_program("etcd")
    with LocalCluster(nodes=1, servers=3, restart=False) as cluster:
        submitted = cluster.submit("sleep 1000")
        wait_agreeing(cluster)
        alone, *others = sorted(cluster.urls, key=lambda name: name == cluster.leader())
        for server in others:
            kill_both(cluster, server)
        status, answer = cluster.request("POST", "/allocations", {"entrypoint": "true"}, server=alone)
        assert (status, answer["error"]["code"]) == (503, "unavailable")
        assert "request_id" in answer["error"]["hint"]
        path = f"/allocations/{submitted['id']}"
        status, answer = cluster.request("GET", path, server=alone)
        assert (status, answer["error"]["code"]) == (503, "unavailable")
        assert "consistency=stale" in answer["error"]["hint"]
        status, answer = cluster.request("GET", f"{path}?consistency=stale", server=alone)
        assert (status, answer["id"]) == (200, submitted["id"])
        cluster.kill("server", alone, signal.SIGTERM)


def test_a_server_that_lost_what_the_log_no_longer_has_gets_it_from_another() -> None:
    require_program("etcd")
    settings = {"snapshots.every_commands": "30", "archive.after_s": "0"}
    with LocalCluster(nodes=1, servers=3, settings=settings) as cluster:
        first = cluster.run("true", name="first")
        for _ in range(30):
            cluster.submit("true")
        eventually(lambda: cluster.get("/allocations/count")["total"] == 0, "all is archived", within_s=60)
        wait_agreeing(cluster)
        cluster.stop()
        data = cluster.directory / "servers" / "s2" / "data"
        shutil.rmtree(data / "snapshots")
        for file in data.glob("archive.db*"):
            file.unlink()
        cluster.start()
        wait_agreeing(cluster)
        status, seen = cluster.request("GET", f"/allocations/{first['id']}?consistency=stale", server="s2")
        assert (status, seen["name"], seen["state"]) == (200, "first", "Completed")
        assert "from another server" in (cluster.directory / "servers" / "s2.log").read_text()
