"""Three servers: each answers, the loss of any one loses nothing, and a minority says that it cannot."""

import shutil
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import httpx
import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client, Submission
from tests.conftest import require_program
from tests.e2e.checked_forward import checked_forward
from tests.e2e.quorum_load import MANY, Load, kill_both, wait_agreeing, wait_healthy
from tests.e2e.web_terminal import socket_at

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

KILLS = 3
LONGEST_GAP_S = 15.0  # the goal is 5 s on an idle machine, which `make bench` measures


@pytest.fixture(scope="module")
def servers() -> Iterator[LocalCluster]:
    require_program("etcd")
    with LocalCluster(nodes=3, servers=3) as cluster:
        yield cluster


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
    assert sum(attached(servers, there) for there in servers.urls) == servers.node_count
    found = wait_agreeing(servers)
    assert found["leader"] in servers.urls
    assert [member["name"] for member in found["members"]] == list(servers.urls)
    assert servers.cli("admin", "raft", "status").stdout.splitlines()[0].split() == ["Leader:", found["leader"]]


def attached(cluster: LocalCluster, server: str) -> int:
    """How many agents have their stream to this server."""
    with urlopen(f"{cluster.urls[server]}/metrics") as answer:  # noqa: S310 - our own server
        lines = answer.read().decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("lattice_agents_attached ")).split()[1]))


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
        load.wait_for_more(MANY)
        for _ in range(KILLS):
            leader = servers.leader()
            load.fault(f"kill {leader}")
            kill_both(servers, leader)
            load.wait_for_more(MANY * 3)
            wait_healthy(servers)
    load.check()
    wait_agreeing(servers)
    assert load.longest_gap_s() < LONGEST_GAP_S
    assert {node["state"] for node in servers.nodes().values()} == {"Ready"}


def test_work_and_streams_of_agents_outlive_the_leader(servers: LocalCluster) -> None:
    """Nobody but the agents of the server that died has to connect anew, and nobody's work is disturbed."""
    running = [servers.submit("sleep 1000") for _ in range(servers.node_count)]
    try:
        for one in running:
            servers.wait_state(one["id"], "Running")
        logs = {log: log.stat().st_size for log in (servers.directory / "agents").glob("*.log")}
        leader = servers.leader()
        died = servers.process("server", leader)
        kill_both(servers, leader)
        wait_healthy(servers)
        eventually(lambda: connected(servers) == set(servers.nodes()), "all nodes are connected to the next leader")
        for one in running:
            seen = servers.allocation(one["id"])
            assert (seen["state"], seen["run"]) == ("Running", 1)
        assert {node["state"] for node in servers.nodes().values()} == {"Ready"}
        assert died is not None
        check_streams({log: log.read_bytes()[size:].decode() for log, size in logs.items()}, died.addresses[1])
    finally:
        for one in running:
            servers.delete(f"/allocations/{one['id']}")
            servers.wait_end(one["id"])


def test_a_terminal_at_a_follower_outlives_the_leader_byte_for_byte(servers: LocalCluster) -> None:
    """Numbered lines are typed into a program that returns them as they are, while the leader is killed twice."""
    running = servers.submit("sleep 1000")
    servers.wait_state(running["id"], "Running")
    lines = [b"line %d of the many that are typed here\n" % number for number in range(2000)]
    wanted = b"ready\n" + b"".join(lines)
    try:
        for _ in range(2):
            leader = servers.leader()
            here = next(name for name in servers.urls if name != leader)
            path, command = f"/allocations/{running['id']}/attach", "stty raw -echo; echo ready; exec cat"
            with socket_at(servers, path, server=here, command=command) as person:
                person.listen(until=b"ready\n")
                for line in lines[:500]:
                    person.socket.send(line)
                person.listen(until=lines[100])
                kill_both(servers, leader)
                for line in lines[500:]:
                    person.socket.send(line)
                assert person.listen(until=lines[-1]) == wanted
                person.say(type="signal", signal="SIGHUP")
                person.listen()
                assert person.last("exit")
            wait_healthy(servers)
    finally:
        servers.delete(f"/allocations/{running['id']}")
        servers.wait_end(running["id"])


def test_a_forward_outlives_the_leader_and_cuts_its_connections_cleanly(servers: LocalCluster, scratch: Path) -> None:
    with checked_forward(servers, scratch) as forward:
        for _ in range(2):
            assert forward.cut(partial(kill_both, servers, servers.leader()))
            forward.check_next()
            wait_healthy(servers)
        forward.check_work(2)


def check_streams(said: dict[Path, str], died: str) -> None:
    for text in said.values():
        if f"no stream to {died}" not in text and "reaches none that does" not in text:
            assert "registering again" in text
            assert "no stream to" not in text


def connected(cluster: LocalCluster) -> set[str]:
    return {name for name, node in cluster.nodes().items() if node["last_heartbeat_s"] is not None}


def test_submit_by_command_line_goes_on_while_the_leader_is_killed(servers: LocalCluster, scratch: Path) -> None:
    journal = scratch / "typed"
    script = scratch / "typed.sh"
    script.write_text(f"#!/bin/sh\necho $LATTICE_ALLOC_ID.$LATTICE_RUN >> {journal}\n")
    done: list[str] = []
    for count in range(6):
        if count == 2:
            kill_both(servers, servers.leader())
        done.append(servers.cli("submit", str(script)).stdout)
    ids = [text.split()[-1] for text in done]
    assert len(set(ids)) == 6
    wait_healthy(servers)
    for one in ids:
        assert servers.wait_end(one)["state"] == "Completed"
    assert sorted(journal.read_text().split()) == sorted(f"{one}.1" for one in ids)


def times_led(cluster: LocalCluster) -> int:
    """How often any server began to lead."""
    return sum(log.read_text().count("is the leader in epoch") for log in (cluster.directory / "servers").glob("*.log"))


def test_leadership_is_handed_over_without_a_failed_request(servers: LocalCluster, scratch: Path) -> None:
    with Load(servers, scratch) as load:
        load.wait_for_more(MANY)
        leader = servers.leader()
        successor = next(name for name in servers.urls if name != leader)
        assert successor in servers.cli("admin", "raft", "transfer-leader", successor).stdout
        assert servers.leader() == successor
        # To nobody in particular, asked through a server that follows: once, and not by the next leader again.
        terms = times_led(servers)
        status, answer = servers.request("POST", "/raft/transfer-leader", {}, server=leader)
        assert status == 200, answer
        assert answer["leader"] not in ("", successor)
        assert times_led(servers) == terms + 1
        load.wait_for_more(MANY)
    load.check()
    assert load.longest_gap_s() < LONGEST_GAP_S


PAGE = (
    "import http.server as h, os; "
    "h.ThreadingHTTPServer(('127.0.0.1', int(os.environ['LATTICE_PORT_WEB'])), h.SimpleHTTPRequestHandler).serve_forever()"
)


def answer_of(address: str) -> int | None:
    """None while no server leads."""
    status = httpx.get(address, timeout=20).status_code
    return None if status in (502, 503) else status


def test_pages_and_forwards_are_served_by_every_server_and_sessions_outlive_the_leader(servers: LocalCluster) -> None:
    submitted = servers.submit([sys.executable, "-c", PAGE], expose=[{"name": "web", "port": 0}])
    alloc = str(submitted["id"])
    servers.wait_state(alloc, "Running")
    eventually(lambda: "web" in servers.cli("forward", alloc).stdout, "it listens", within_s=30)
    former = servers.leader()
    opened = servers.cli("open", alloc, "web").stdout.split()[-1]
    first = httpx.get(opened)
    assert first.status_code == 303
    session = {"cookie": first.headers["set-cookie"].split(";")[0]}
    page = f"{opened.partition('/proxy/')[0]}/proxy/{alloc}/web/"
    assert httpx.get(page, headers=session).status_code == 200
    successor = next(name for name in servers.urls if name != former)
    unused = servers.cli("open", alloc, "web").stdout.split()[-1]
    servers.cli("admin", "raft", "transfer-leader", successor)
    eventually(lambda: servers.leader() == successor, "the next leader")
    tries = [eventually(partial(answer_of, each), "an answer of the next leader") for each in (opened, unused, unused)]
    assert tries == [403, 303, 403], "a ticket is good once, whoever led when it was made or used"
    eventually(lambda: httpx.get(page, headers=session, timeout=20).status_code == 200, "the page, by a follower")
    token = {"Authorization": f"Bearer {servers.token}"}
    with httpx.Client(timeout=20) as browser:
        assert [browser.get(page, headers=token).status_code for _ in range(3)] == [200, 200, 200]
        assert browser.get(page).status_code == 401
        body = browser.get(page, headers=session).content
        assert len(body) > 0
    ticket = servers.cli("open", alloc, "web").stdout.split()[-1]
    moved = ticket.replace(ticket.partition("/proxy/")[0], opened.partition("/proxy/")[0])
    assert httpx.get(moved, timeout=20).status_code == 303, "a ticket of the leader, at a follower"
    assert httpx.get(ticket).status_code == 403, "and it is used up"
    servers.cli("cancel", alloc)


def test_a_rolling_restart_costs_no_request(servers: LocalCluster, scratch: Path) -> None:
    with Load(servers, scratch) as load:
        load.wait_for_more(MANY)
        for name in servers.urls:
            servers.wait_replaced(servers.kill("server", name, signal.SIGTERM))
            load.wait_for_more(MANY)
            wait_healthy(servers)
    load.check()
    wait_agreeing(servers)


def test_a_leader_that_stood_still_writes_nothing_when_it_is_back(servers: LocalCluster, scratch: Path) -> None:
    with Load(servers, scratch) as load:
        load.wait_for_more(MANY)
        leader = servers.leader()
        load.fault(f"{leader} stands still")
        with servers.stopped("etcd", leader), servers.stopped("server", leader):
            begin = time.monotonic()
            load.wait_for_more(MANY)
            # It has to stand still for longer than any lease.
            while time.monotonic() < begin + 10:
                load.wait_for_more(1)
        load.wait_for_more(MANY)
        assert servers.leader() != leader
    load.check()
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
        path = f"/allocations/{submitted['id']}"
        # Each waits for a leader as long as one could still be elected: both at once.
        with ThreadPoolExecutor() as threads:
            write = threads.submit(cluster.request, "POST", "/allocations", {"entrypoint": "true"}, server=alone)
            read = threads.submit(cluster.request, "GET", path, server=alone)
            for asked, hint in ((write, "request_id"), (read, "consistency=stale")):
                status, answer = asked.result()
                assert (status, answer["error"]["code"]) == (503, "unavailable")
                assert hint in answer["error"]["hint"]
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
