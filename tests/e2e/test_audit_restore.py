"""A restored backup takes the audit chain back, and everybody can see that: who did it, and what was given up."""

import json
import shutil
from pathlib import Path

import pytest

from lattice.testing import LocalCluster
from lattice_sdk import Client
from tests.conftest import require_program
from tests.e2e.server_process import serving
from tests.e2e.test_membership import NewServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


def backup(cluster: LocalCluster, path: Path) -> None:
    cluster.cli("admin", "backup", "create", str(path))


def entries(cluster: LocalCluster, kind: str = "") -> list[dict[str, object]]:
    words = ("--type", kind) if kind else ()
    return list(json.loads(cluster.cli("audit", "query", *words, "-o", "json").stdout))


def exported(cluster: LocalCluster, path: Path) -> str:
    cluster.cli("audit", "export", "--to", str(path))
    return str(path)


def test_who_restores_is_the_first_entry_and_the_chain_shows_that_it_was_taken_back(tmp_path: Path) -> None:
    with LocalCluster(nodes=0) as cluster:
        cluster.cli("admin", "tenant", "create", "alpha")
        before = exported(cluster, tmp_path / "before.jsonl")
        backup(cluster, tmp_path / "backup")
        cluster.cli("admin", "tenant", "create", "mallory")
        given_up = exported(cluster, tmp_path / "given-up.jsonl")
        head = json.loads(cluster.cli("audit", "verify", given_up, "-o", "json").stdout)
        keys = tmp_path / "keys"
        keys.write_text(cluster.cli("audit", "keys", "-q").stdout)
        cluster.cli("admin", "backup", "restore", str(tmp_path / "backup"), "--at-next-start")
        replaced = entries(cluster)[-1]
        assert replaced["type"] == "backup.restore"
        cluster.wait_replaced(cluster.kill("server"))
        cluster.wait_serving()

        (told,) = entries(cluster, "backup.restored")
        assert told["actor"] == replaced["actor"]
        assert told["subject"] == str(tmp_path / "backup")
        assert told["seq"] == entries(cluster, "backup.create")[-1]["seq"] + 1  # type: ignore[operator]
        assert f"replaces the chain up to entry {replaced['seq']}, link " in str(told["detail"])
        after = exported(cluster, tmp_path / "after.jsonl")
        trusted = ("--key", str(keys))
        good = json.loads(cluster.cli("audit", "verify", after, "--after", before, *trusted, "-o", "json").stdout)
        assert good["restores"] == [told["seq"]]
        assert good["epoch"] > head["epoch"] > 0
        for earlier in (given_up, f"{head['last']}:{head['link']}"):
            refused = cluster.cli("audit", "verify", after, "--after", earlier, *trusted, check=False)
            assert refused.returncode == 1
            assert "the chain was taken back" in refused.stderr
            assert f"by {told['actor']}" in refused.stderr
        # What the backup lacks is kept, and verifies by itself.
        (kept,) = (cluster.directory / "objects").glob("audit-replaced/*.jsonl")
        tail = json.loads(cluster.cli("audit", "verify", str(kept), *trusted, "-o", "json").stdout)
        assert (tail["last"], f"link {tail['link']}," in str(told["detail"])) == (replaced["seq"], True)
        assert '"subject":"mallory"' in kept.read_text()


def test_a_restore_without_a_server_names_the_account_and_the_former_data(tmp_path: Path) -> None:
    with LocalCluster(nodes=0, restart=False) as cluster, serving(cluster, {}) as server:
        backup(cluster, tmp_path / "backup")
        cluster.cli("admin", "tenant", "create", "mallory")
        last = entries(cluster)[-1]["seq"]
        server.stop()
        shutil.move(cluster.directory / "data", tmp_path / "former")
        words = (str(tmp_path / "backup"), *server.config_words, "--replaces", str(tmp_path / "former"))
        cluster.cli("admin", "backup", "restore", *words)
        server.start()
        cluster.wait_serving()
        (told,) = entries(cluster, "backup.restored")
        assert str(told["actor"]).startswith("os:")
        assert f"replaces the chain up to entry {last}, link " in str(told["detail"])
        (kept,) = (cluster.directory / "objects").glob("audit-replaced/*.jsonl")
        cluster.cli("audit", "verify", str(kept))
        assert '"subject":"mallory"' in kept.read_text()


def test_several_servers_begin_with_the_entry_of_their_restore(tmp_path: Path) -> None:
    require_program("etcd")
    with LocalCluster(nodes=0) as cluster:
        backup(cluster, tmp_path / "backup")
        secret, objects = cluster.directory / "secret", cluster.directory / "objects"
        first = NewServer("s1", tmp_path, secret=secret, objects=objects)
        cluster.cli("admin", "backup", "restore", str(tmp_path / "backup"), "--server-config", str(first.config))
        try:
            first.start("--bootstrap")
            first.wait_serving()
            with Client(first.url, token=cluster.token) as client:
                kinds = [entry.type for entry in client.query_audit()]
        finally:
            first.end()
        assert kinds.index("backup.restored") == kinds.index("backup.create") + 1
