"""Data of a server that are gone or damaged when it starts: taken from elsewhere, or refused by name."""

import signal
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client
from lattice_sdk.errors import NotFound
from tests.e2e.server_process import Server, all_serving, serving

pytestmark = pytest.mark.e2e

SHORT = {"archive.after_s": "1", "snapshots.every_commands": "60", "snapshots.keep": "2"}


def work(cluster: LocalCluster, count: int) -> set[str]:
    asked = [cluster.submit("true")["id"] for _ in range(count)]
    return {cluster.wait_end(each, within_s=60)["id"] for each in asked}


def unknown(cluster: LocalCluster, asked: set[str]) -> set[str]:
    return {each for each in asked if cluster.request("GET", f"/allocations/{each}")[0] != 200}


def warning(cluster: LocalCluster) -> str:
    return str(cluster.get("/raft/status")["members"][0]["warning"])


def has_snapshots(data: Path) -> bool:
    return len(list((data / "snapshots").glob("[0-9]*"))) >= 2


def started_again(cluster: LocalCluster, server: Server, *words: str) -> None:
    server.start(*words)
    cluster.wait_serving(within_s=60)


def remove(data: Path, name: str) -> None:
    for path in data.glob(f"{name}*"):
        path.unlink()


def test_a_single_server_mends_its_archive_from_a_backup_and_names_what_it_cannot() -> None:
    with LocalCluster(nodes=2, restart=False, settings=SHORT) as cluster, serving(cluster, SHORT) as server:
        data = cluster.directory / "data"
        all_of_them = work(cluster, 40)
        eventually(lambda: has_snapshots(data), "snapshots are taken", within_s=60)
        cluster.cli("admin", "backup", "create")
        all_of_them |= work(cluster, 5)

        server.stop(signal.SIGKILL)
        remove(data, "archive.db")
        started_again(cluster, server)
        assert unknown(cluster, all_of_them) == set()
        assert warning(cluster) == ""

        server.stop(signal.SIGKILL)
        archive = (data / "archive.db").read_bytes()
        (data / "archive.db").write_bytes(archive[: len(archive) // 2])
        started_again(cluster, server)
        assert unknown(cluster, all_of_them) == set()
        assert (data / "archive.db.damaged").exists()

        server.stop(signal.SIGKILL)
        remove(data, "log.db")
        said = server.refused()
        assert "log.db is missing or empty" in said
        assert "--accept-loss" in said
        assert "log.db is missing or empty" in server.refused()  # and again: the refusal changed nothing
        started_again(cluster, server, "--accept-loss")
        assert "log.db is missing or empty" in warning(cluster)
        assert cluster.run("true", within_s=60)["state"] == "Completed"


def test_a_disk_of_another_cluster_is_refused_and_stays_as_it_was() -> None:
    named = {"slurm.cluster_name": "alps"}
    with LocalCluster(nodes=0, restart=False, settings=named) as cluster, serving(cluster, named) as server:
        data = cluster.directory / "data"
        server.stop(signal.SIGKILL)
        before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
        for more in ((), ("--check-config",)):
            said = server.refused("--set", "slurm.cluster_name=daint", *more)
            assert f"data_dir: {data} has the data of cluster alps, and this is cluster daint" in said
            assert "Traceback" not in said
        assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
        started_again(cluster, server)


def test_one_of_three_with_a_damaged_newest_snapshot_takes_one_from_another() -> None:
    with (
        LocalCluster(nodes=1, servers=3, restart=False, settings=SHORT) as cluster,
        all_serving(cluster, SHORT) as servers,
    ):
        work(cluster, 30)
        data = cluster.directory / "servers" / "s3" / "data"
        eventually(lambda: has_snapshots(data), "the log is trimmed", within_s=60)
        servers["s3"].stop()
        for whole in (data / "snapshots").glob("[0-9]*"):
            for part in whole.iterdir():
                part.write_bytes(part.read_bytes()[:-3])
        servers["s3"].start()

        def is_back() -> bool:
            members = {member["name"]: member for member in cluster.get("/raft/status")["members"]}
            return bool(members["s3"]["healthy"]) and members["s3"]["digest"] == members["s1"]["digest"]

        eventually(is_back, "s3 has everything again", within_s=60)


def test_an_archive_that_is_gone_comes_back_from_the_object_store() -> None:
    settings = {**SHORT, "snapshots.to_object_store": "true", "snapshots.every": "1s"}
    with LocalCluster(nodes=2, restart=False, settings=settings) as cluster, serving(cluster, settings) as server:
        data, objects = cluster.directory / "data", cluster.directory / "objects" / "raft"
        all_of_them = work(cluster, 40)
        eventually(lambda: has_snapshots(data), "snapshots are taken", within_s=60)
        known = len(list(objects.glob("snap-*")))
        eventually(lambda: len(list(objects.glob("snap-*"))) > known, "a copy of now is elsewhere", within_s=60)
        server.stop(signal.SIGKILL)
        remove(data, "archive.db")
        assert not (data / "backups").exists()
        started_again(cluster, server)
        assert "restoring the archive from from-object-store" in server.log.read_text()
        assert unknown(cluster, all_of_them) == set()
        assert warning(cluster) == ""


def test_an_archive_that_is_gone_comes_back_from_another_server() -> None:
    with (
        LocalCluster(nodes=1, servers=3, restart=False, settings=SHORT) as cluster,
        all_serving(cluster, SHORT) as servers,
    ):
        all_of_them = work(cluster, 30)
        data = cluster.directory / "servers" / "s3" / "data"
        eventually(lambda: has_snapshots(data), "the log is trimmed", within_s=60)
        servers["s3"].stop()
        remove(data, "archive.db")
        servers["s3"].start()

        def lacking() -> set[str]:
            """What s3 does not know by itself."""
            with Client(cluster.urls["s3"], token=cluster.token, stale=True, retry_for=30) as client:
                return {each for each in all_of_them if not is_known(client, each)}

        eventually(lambda: lacking() == set(), "s3 knows everything again", within_s=60)


def is_known(client: Client, allocation: str) -> bool:
    try:
        return client.get_allocation(allocation).id == allocation
    except NotFound:
        return False
