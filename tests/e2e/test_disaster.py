"""All servers lost at once, a disk that is full, a server that comes back from the past: what docs/runbooks promises."""

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.e2e.full_disks import fill_up
from tests.e2e.server_process import all_serving, process_of, serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

TO_STORE = {"snapshots.to_object_store": "true", "snapshots.every": "1s"}


def status_of(cluster: LocalCluster, server: str = "") -> dict[str, dict[str, object]]:
    """The servers as `raft status` shows them, by name; empty while nobody answers."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        code, answer = cluster.request("GET", "/raft/status", server=server, timeout_s=10)
        if code == 200:
            return {member["name"]: member for member in answer["members"]}
    return {}


def agree(cluster: LocalCluster) -> bool:
    members = status_of(cluster).values()
    return len(members) == 3 and all(m["healthy"] for m in members) and len({m["digest"] for m in members}) == 1


def test_all_servers_lost_come_back_from_the_object_store(tmp_path: Path) -> None:
    require_program("etcd")
    with (
        LocalCluster(nodes=2, servers=3, restart=False, settings=TO_STORE) as cluster,
        all_serving(cluster, TO_STORE) as servers,
    ):
        kept = cluster.submit("sleep 600", name="runs through it all")
        pid = process_of(cluster, cluster.wait_state(kept["id"], "Running")["id"])
        store = cluster.directory / "objects" / "raft"
        later = len(list(store.glob("snap-*.bin"))) + 2
        eventually(lambda: len(list(store.glob("snap-*.bin"))) >= later, "snapshots go to the object store")
        for server in servers.values():
            server.stop(signal.SIGKILL)
        newest = max(store.glob("snap-*.bin"))
        newest.write_bytes(newest.read_bytes()[:-100])
        former = cluster.directory / "servers" / "s1" / "former"
        for name in servers:
            data = cluster.directory / "servers" / name / "data"
            if name == "s1":
                shutil.copytree(data, former)
            for lost in ("etcd", "archive.db", "snapshots", "servers.json"):
                path = data / lost
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)

        for server in servers.values():
            server.start("--bootstrap", "--from-object-store")
        eventually(lambda: agree(cluster), "three servers agree again", within_s=60)
        assert "trying the previous one" in servers["s1"].log.read_text()
        cluster.wait_state(kept["id"], "Running")  # the snapshot may be of the moment before
        done = cluster.run("echo goes on", within_s=60)
        assert done["state"] == "Completed"
        assert process_of(cluster, kept["id"]) == pid

        # A member of the former cluster comes back with its old data: it can neither join nor write.
        servers["s1"].stop()
        shutil.rmtree(cluster.directory / "servers" / "s1" / "data" / "etcd")
        shutil.copytree(former / "etcd", cluster.directory / "servers" / "s1" / "data" / "etcd")
        before = next(m for m in status_of(cluster, "s2").values() if m["name"] == "s2")["applied_index"]
        servers["s1"].start()
        refused = {"entrypoint": "true", "name": "into the past"}
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert cluster.request("POST", "/allocations", refused, server="s1", timeout_s=20)[0] >= 500
        members = status_of(cluster, "s2")
        assert not members["s1"]["healthy"]
        assert cluster.request("POST", "/allocations", {"entrypoint": "true"}, server="s2")[0] == 201
        assert before <= status_of(cluster, "s2")["s2"]["applied_index"]  # type: ignore[operator]
        names = {each["name"] for each in cluster.request("GET", "/allocations", server="s2")[1]["items"]}
        assert "into the past" not in names


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path]:
    """A file system of its own for a folder, whose content stays; yields the file that takes all its room."""
    aside = folder.with_name(f"{folder.name}-before")
    folder.rename(aside)
    folder.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=700", "tmpfs", folder], check=True)
    try:
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        yield folder / "ballast"
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.root
def test_a_full_disk_of_the_only_server_refuses_and_loses_nothing() -> None:
    with LocalCluster(nodes=1, restart=False) as cluster, serving(cluster, {}) as server:
        server.stop()
        with small_disk(cluster.directory / "data", 8) as ballast:
            server.start()
            cluster.wait_serving()
            accepted = [cluster.submit("true")["id"]]
            fill_up(ballast)
            payload = os.urandom(40_000).hex()
            code, answer = 201, dict[str, dict[str, str]]()
            for _ in range(200):
                code, answer = cluster.request("POST", "/allocations", {"entrypoint": f": {payload}"})
                if code != 201:
                    break
                accepted.append(str(answer["id"]))
            assert code == 507, answer
            assert answer["error"]["code"] == "storage_full"
            assert "disk is full" in answer["error"]["message"]
            assert answer["error"]["hint"]
            for each in accepted:
                assert cluster.allocation(each)["id"] == each
            ballast.unlink()
            accepted.append(eventually(lambda: submitted(cluster), "it goes on when there is room"))
            server.stop(signal.SIGKILL)
            server.start()
            cluster.wait_serving()
            for each in accepted:
                assert cluster.wait_end(each)["state"] == "Completed"
            server.stop()


def submitted(cluster: LocalCluster) -> str:
    code, answer = cluster.request("POST", "/allocations", {"entrypoint": "true"})
    return str(answer["id"]) if code == 201 else ""


@pytest.mark.root
def test_a_full_disk_of_the_leader_stops_nobody_else_and_is_shown() -> None:
    require_program("etcd")
    with LocalCluster(nodes=1, servers=3, restart=False) as cluster, all_serving(cluster, {}) as servers:
        leader = cluster.leader()
        sick = next(name for name in servers if name != leader)
        well = next(name for name in servers if name not in (leader, sick))
        servers[sick].stop()
        with small_disk(cluster.directory / "servers" / sick / "data", 300) as ballast:
            servers[sick].start()
            eventually(lambda: agree(cluster), "all three are well", within_s=60)
            cluster.cli("admin", "raft", "transfer-leader", sick)
            fill_up(ballast)
            payload = os.urandom(60_000).hex()
            for _ in range(20):
                code, answer = cluster.request("POST", "/allocations", {"entrypoint": f": {payload}"}, server=well)
                assert code == 201, answer
            member = eventually(lambda: unhealthy(cluster, well, sick), f"{sick} is shown as unhealthy", within_s=60)
            assert "is full" in str(member["problem"])
            eventually(lambda: is_shown_full(cluster, sick), "raft status says that its disk is full", within_s=30)
            eventually(lambda: leader_seen_by(cluster, well) in (well, leader), "one that has room leads", within_s=30)
            ballast.unlink()
            eventually(lambda: agree(cluster), "all three are well again", within_s=60)
            servers[sick].stop()


def is_shown_full(cluster: LocalCluster, name: str) -> bool:
    shown = cluster.cli("admin", "raft", "status").stdout
    return f"{name}:" in shown and "is full" in shown


def leader_seen_by(cluster: LocalCluster, asked: str) -> str:
    return str(cluster.request("GET", "/raft/status", server=asked, timeout_s=10)[1].get("leader", ""))


def unhealthy(cluster: LocalCluster, asked: str, name: str) -> dict[str, object] | None:
    member = status_of(cluster, asked).get(name)
    return member if member is not None and not member["healthy"] else None
