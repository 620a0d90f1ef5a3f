"""Servers of two releases in one cluster: the level waits for the older one, and afterwards it cannot come back."""

import json
import subprocess
import sys
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.e2e.quorum_load import wait_healthy
from tests.e2e.server_process import Server, all_serving, serving

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]

SETTINGS = {"upgrade.auto_finalize": "false"}
# A release that supports level 1 alone, as 0.1.0 does: everything else of it is this one.
OLD_RELEASE = "import lattice.core.machine.levels as levels; levels.NEWEST = 1; from lattice.daemons.programs.server import main; main()"


class OldServer(Server):
    """A server whose release supports no level but the first."""

    program = (sys.executable, "-c", OLD_RELEASE)


def upgrade(cluster: LocalCluster, verb: str, *, check: bool = True) -> "subprocess.CompletedProcess[str]":
    return cluster.cli("admin", "upgrade", verb, "-o", "json", check=check)


def status(cluster: LocalCluster) -> dict[str, Any]:
    return dict(json.loads(upgrade(cluster, "status").stdout))


def test_a_server_that_supports_less_keeps_the_level_down_and_cannot_come_back_afterwards() -> None:
    require_program("etcd")
    with (
        LocalCluster(nodes=1, servers=3, settings=SETTINGS, restart=False) as cluster,
        all_serving(cluster, SETTINGS) as servers,
    ):
        name = sorted(servers)[-1]
        old = OldServer(cluster, name, servers[name].config, SETTINGS)
        servers[name].stop()
        refused = upgrade(cluster, "finalize", check=False)
        assert refused.returncode != 0
        assert f"what server {name} supports is not known" in refused.stderr
        try:
            old.start()
            wait_healthy(cluster)
            levels = {server["name"]: server["newest_level"] for server in status(cluster)["servers"]}
            assert levels == {**dict.fromkeys(servers, 2), name: 1}
            refused = upgrade(cluster, "finalize", check=False)
            assert f"server {name} supports level 1 at most; upgrade it first" in refused.stderr
            assert status(cluster)["level"] == 1
            old.stop()
            servers[name].start()
            wait_healthy(cluster)
            assert json.loads(upgrade(cluster, "finalize").stdout)["level"] == 2
            cluster.cli("submit", "--", "true")
            servers[name].stop()
            said = old.refused()
            assert "needs level 2, and this release supports levels 1 to 1" in said
            assert "upgrade this server" in said
        finally:
            old.close()


def test_a_single_server_is_finalized_and_its_data_refused_by_the_release_before() -> None:
    with LocalCluster(nodes=1, settings=SETTINGS, restart=False) as cluster, serving(cluster, SETTINGS) as server:
        assert status(cluster)["level"] == 1
        cluster.cli("submit", "--", "true")
        server.stop()
        older = OldServer(cluster, "server", server.config, SETTINGS)
        try:
            older.start()
            eventually(lambda: upgrade(cluster, "status", check=False).returncode == 0, "the older release serves")
            older.stop()
        finally:
            older.close()
        server.start()
        eventually(lambda: upgrade(cluster, "status", check=False).returncode == 0, "this release serves again")
        assert json.loads(upgrade(cluster, "finalize").stdout)["level"] == 2
        server.stop()
        assert "needs level 2" in OldServer(cluster, "server", server.config, SETTINGS).refused()


def test_a_new_cluster_begins_at_the_newest_level() -> None:
    with LocalCluster(nodes=1) as cluster:
        shown = status(cluster)
        assert (shown["level"], shown["next_level"]) == (2, None)
        assert eventually(lambda: status(cluster)["agents"], "the agent is counted") == [{"protocol": 2, "nodes": 1}]
