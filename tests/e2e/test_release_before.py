"""From the release before to this one and back, on a live cluster of three servers and four agents with work: the real sources of both.

Every process is ended by kill -9 in the step that replaces it, so that nothing is handed over in an orderly way.
"""

import json
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.e2e.quorum_load import LOOK_EVERY_S, MANY, Load, kill_both, raft_status
from tests.e2e.two_releases import BEFORE, NOW, TwoReleases

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(1800)]

REFUSED = "this server reads up to"  # 0.1.0 knows no levels: it names the format of the entry
# As a node that was given up for a while on a busy machine counts as a loss of work, the time-outs are those of a real cluster.
SETTINGS = {"node_agent.heartbeat_timeout_s": "20", "node_agent.grace_period_s": "40"}


@pytest.fixture(scope="module")
def releases() -> Iterator[TwoReleases]:
    require_program("etcd")
    with tempfile.TemporaryDirectory(prefix="lattice-releases-") as folder:
        yield TwoReleases(Path(folder))


@pytest.fixture(scope="module")
def cluster(releases: TwoReleases) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=4, servers=3, settings=SETTINGS, program=releases.cli_before) as cluster:
        yield cluster


def wait_agreeing(cluster: LocalCluster) -> None:
    """All three servers have the same state. 0.1.0 may tell a digest from the middle of an entry: a real difference stays."""

    def look() -> bool:
        status = raft_status(cluster)
        members = [] if status is None else [member for member in status["members"] if member["healthy"]]
        digests = {member["digest"] for member in members}
        return len(members) == 3 and len(digests) == 1 and None not in digests

    eventually(look, "three servers agree", within_s=90, every_s=LOOK_EVERY_S)


class Walk:
    """Replaces processes by another release, one at a time, under load."""

    def __init__(self, cluster: LocalCluster, releases: TwoReleases, load: Load) -> None:
        self.cluster, self.releases, self.load = cluster, releases, load

    def agents(self, release: str, names: Sequence[str] = ("n1", "n2", "n3", "n4")) -> None:
        for name in names:
            self.releases.want(name, release)
            self.load.fault(f"agent {name} is killed and comes back with {release}")
            self.cluster.wait_replaced(self.cluster.kill("agent", name))
            self.cluster.wait_node(name, "Ready")

    def servers(self, release: str, *, leader_first: bool = False) -> None:
        leader = self.cluster.leader() or ""
        order = sorted(self.cluster.urls, key=lambda name: ((name == leader) != leader_first, name))
        for name in order:
            self.releases.want(name, release)
            self.load.fault(f"server {name} is killed with its member and comes back with {release}")
            kill_both(self.cluster, name)
            wait_agreeing(self.cluster)
            self.load.wait_for_more(3)


def test_there_and_back_with_every_order_that_is_allowed(
    cluster: LocalCluster, releases: TwoReleases, tmp_path: Path
) -> None:
    waits = ["sh", "-c", f"while [ ! -e {tmp_path}/go ]; do sleep 0.2; done"]
    long = cluster.submit(waits, lifecycle={"walltime": "1h"})["id"]
    assert cluster.wait_state(long, "Running")["run"] == 1
    with Load(cluster, tmp_path, clients=3) as load:
        load.wait_for_more(MANY)
        walk = Walk(cluster, releases, load)
        walk.agents(NOW)
        walk.servers(NOW)
        assert level(cluster) == 1
        walk.servers(BEFORE)  # back, the leader last
        walk.agents(BEFORE, ("n2", "n4"))  # releases mixed among the agents
        walk.servers(NOW, leader_first=True)
        walk.agents(BEFORE, ("n1", "n3"))  # every agent older than every server
        walk.servers(BEFORE)
        walk.agents(NOW, ("n1",))
        load.wait_for_more(MANY)
    (tmp_path / "go").touch()
    assert cluster.wait_end(long)["state"] == "Completed"
    load.check(within_s=120)


def test_after_the_level_was_raised_the_release_before_is_refused(
    cluster: LocalCluster, releases: TwoReleases, tmp_path: Path
) -> None:
    with Load(cluster, tmp_path, clients=3) as load:
        walk = Walk(cluster, releases, load)
        first = sorted(cluster.urls)[0]
        releases.want(first, NOW)
        kill_both(cluster, first)
        wait_agreeing(cluster)
        # 0.1.0 knows no levels, so the question is for a leader of this release.
        LocalCluster(directory=cluster.directory).cli("admin", "raft", "transfer-leader", first)
        refused = admin(cluster, "finalize", check=False)
        assert refused.returncode != 0
        assert "supports level 1 at most; upgrade it first" in refused.stderr
        walk.servers(NOW)
        walk.agents(NOW)
        assert json.loads(admin(cluster, "finalize").stdout)["level"] == 2
    load.check(within_s=120)
    releases.want(first, BEFORE)
    kill_both(cluster, first)
    log = cluster.directory / "servers" / f"{first}.log"
    eventually(lambda: REFUSED in log.read_text(), "the release before stops with a sentence")
    releases.want(first, NOW)
    wait_agreeing(cluster)


def admin(cluster: LocalCluster, verb: str, *, check: bool = True) -> "subprocess.CompletedProcess[str]":
    """By the commands of this release; 0.1.0 has none for upgrades."""
    now = LocalCluster(directory=cluster.directory)
    return now.cli("admin", "upgrade", verb, "-o", "json", check=check)


def level(cluster: LocalCluster) -> int:
    return int(json.loads(admin(cluster, "status").stdout)["level"])
