"""Backups of real clusters: what is restored is the state of the backup, and nobody of the former history disturbs it."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running
from lattice_sdk import Client
from tests.conftest import require_program
from tests.e2e.server_process import PROGRAM, process_of, serving
from tests.e2e.test_membership import NewServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One server, one node; tests that replace its data do so in the order in which they stand here."""
    with LocalCluster(nodes=1, settings={"archive.after_s": "0"}) as cluster:
        yield cluster


def agents_say(cluster: LocalCluster, text: str) -> None:
    """Returns when every agent has written that into its log."""
    logs = [cluster.directory / "agents" / f"{node}.log" for node in cluster.nodes()]
    eventually(lambda: all(text in log.read_text() for log in logs), f'every agent says "{text}"')


def said(cluster: LocalCluster, *words: str) -> dict[str, object]:
    return dict(json.loads(cluster.cli("admin", "backup", *words, "-o", "json").stdout))


def test_a_backup_is_made_listed_and_verified_here_and_there(cluster: LocalCluster, tmp_path: Path) -> None:
    cluster.run("true")
    made = said(cluster, "create")
    listed = json.loads(cluster.cli("admin", "backup", "list", "-o", "json").stdout)
    assert [each["path"] for each in listed] == [made["path"]]
    assert said(cluster, "verify", "--on-server")["digest"] == made["digest"]
    assert said(cluster, "verify", str(made["path"]))["index"] == made["index"]
    status, answer = cluster.request("GET", "/admin/backup/verify")
    assert (status, answer["path"]) == (200, made["path"])
    bad = tmp_path / "bad"
    shutil.copytree(str(made["path"]), bad)
    archive = bytearray((bad / "archive.db").read_bytes())
    archive[len(archive) // 2] ^= 1
    (bad / "archive.db").write_bytes(archive)
    refused = cluster.cli("admin", "backup", "verify", str(bad), check=False)
    assert refused.returncode == 1
    assert "archive.db is damaged" in refused.stderr


def test_only_administrators_touch_backups(cluster: LocalCluster) -> None:
    status, answer = cluster.request("POST", "/admin/backup", {}, token=cluster.agent_token)
    assert (status, answer["error"]["code"]) == (403, "forbidden")


def test_wrong_uses_are_told_apart(cluster: LocalCluster, tmp_path: Path) -> None:
    for words in (["verify"], ["restore", "x"], ["verify", "s3://bucket/raft/snap-latest.bin"]):
        refused = cluster.cli("admin", "backup", *words, check=False)
        assert refused.returncode == 2, refused
    missing = cluster.cli("admin", "backup", "verify", str(tmp_path / "none"), check=False)
    assert (missing.returncode, "No such file" in missing.stderr) == (1, True)
    holds = cluster.cli(
        *("admin", "backup", "restore", str(tmp_path), "--server-config", str(cluster.directory / "server.yaml")),
        check=False,
    )
    assert holds.returncode == 1
    assert "already contains a cluster" in holds.stderr


def test_a_restored_server_has_the_backup_and_its_agent_ends_what_came_later(tmp_path: Path) -> None:
    settings = {"archive.after_s": "0"}
    with LocalCluster(nodes=3, restart=False, settings=settings) as cluster, serving(cluster, settings) as server:
        kept = cluster.submit("sleep 600", name="began before")
        short = cluster.submit(f"while [ ! -e {tmp_path}/end ]; do sleep 0.05; done; exit 3", name="ended later")
        for each in (kept, short):
            cluster.wait_state(each["id"], "Running")
        done = cluster.run("true")
        made = said(cluster, "create", str(tmp_path / "backup"))
        (tmp_path / "end").touch()
        assert cluster.wait_end(short["id"])["exit_code"] == 3
        stale = cluster.submit(f"echo $$ > {tmp_path}/pid; exec sleep 600", name="began after")
        place = cluster.wait_state(stale["id"], "Running")["nodes"][0]
        # Running is said when the process is there, which may be before it wrote.
        written = tmp_path / "pid"
        pid = int(eventually(lambda: written.read_text().strip() if written.exists() else "", "the work began"))
        began = process_of(cluster, kept["id"])

        former = cluster.directory / "former"
        server.stop()
        shutil.move(cluster.directory / "data", former)
        assert said(cluster, "restore", str(made["path"]), *server.config_words)["index"] == made["index"]
        server.start()
        cluster.wait_serving()

        assert cluster.request("GET", f"/allocations/{stale['id']}")[0] == 404
        # The same number again, on the node where the former one runs: it starts when that is gone.
        again = cluster.run(f"kill -0 {pid} && echo both", resources={"nodes": 1, "constraints": {"nodes": place}})
        assert again["id"] == stale["id"]
        assert again["exit_code"] == 1
        assert cluster.logs(again["id"]) == ""
        assert cluster.allocation(kept["id"])["state"] == "Running"
        assert process_of(cluster, kept["id"]) == began
        # Its end was known to nobody but the node.
        assert cluster.wait_end(short["id"])["exit_code"] == 3
        assert cluster.allocation(done["id"])["state"] == "Completed"

        agents_say(cluster, "the cluster was restored")
        server.stop()
        shutil.move(cluster.directory / "data", tmp_path / "restored")
        shutil.move(former, cluster.directory / "data")
        server.start()
        cluster.wait_serving()
        agents_say(cluster, "serves a later history of this cluster")
        cluster.wait_node(place, "Down")
        assert is_running(began)


def test_a_server_that_is_alone_begins_anew_with_a_backup_when_told_to(tmp_path: Path) -> None:
    with LocalCluster(nodes=1) as cluster:
        kept = cluster.run("echo kept")
        made = said(cluster, "create", str(tmp_path / "backup"))
        later = cluster.run("true")
        order = said(cluster, "restore", str(made["path"]), "--at-next-start")
        assert "restart server" in str(order["message"])
        cluster.wait_replaced(cluster.kill("server"))
        cluster.wait_serving()
        assert cluster.allocation(kept["id"])["state"] == "Completed"
        assert cluster.request("GET", f"/allocations/{later['id']}")[0] == 404
        assert cluster.run("true", within_s=60)["state"] == "Completed"
        assert len(list((cluster.directory / "data").glob("replaced-*/log.db"))) == 1


def test_a_backup_of_one_server_is_the_beginning_of_several(cluster: LocalCluster, tmp_path: Path) -> None:
    require_program("etcd")
    kept = cluster.run("true", name="before")
    made = said(cluster, "create", str(tmp_path / "backup"))
    secret, objects = cluster.directory / "secret", cluster.directory / "objects"
    first, second = (NewServer(name, tmp_path, secret=secret, objects=objects) for name in ("s1", "s2"))
    reach = ("--api-url", first.url, "--token-file", str(cluster.directory / "token"))
    try:
        restored = said(cluster, "restore", str(made["path"]), "--server-config", str(first.config))
        assert restored["next"] == "start this server with --bootstrap, the others with --join"
        first.start("--bootstrap")
        first.wait_serving()
        cluster.cli("admin", "raft", "members", "add", "s2", "--out", str(second.token), *reach)
        second.start("--join", "--join-token-file", str(second.token))
        second.wait_serving()
        for server in (first, second):
            with Client(server.url, token=cluster.token) as client:
                assert client.get_allocation(kept["id"]).name == "before"

        def both_are_healthy() -> bool:
            status = json.loads(cluster.cli("admin", "raft", "status", "-o", "json", *reach).stdout)
            return [member["healthy"] for member in status["members"]] == [True, True]

        eventually(both_are_healthy, "both are healthy")  # a server that has just joined may answer late
        refused = cluster.cli("admin", "backup", "restore", str(made["path"]), "--at-next-start", *reach, check=False)
        assert (refused.returncode, "fresh data directories" in refused.stderr) == (1, True)
        again = subprocess.run(
            [PROGRAM, "--config", str(first.config), "--bootstrap", "--recover-from", str(made["path"])],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (again.returncode, "already contains a cluster" in again.stderr) == (2, True)
    finally:
        first.end()
        second.end()
