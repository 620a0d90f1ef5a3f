"""A rolling upgrade of three real servers under load: in the order that is allowed, with its leader killed, and back."""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.e2e.quorum_load import MANY, Load, wait_healthy
from tests.e2e.release_site import NEW, OLD, ReleaseSite, all_run, server_releases, upgrade, wait_phase
from tests.e2e.steady_submissions import Steady

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def site() -> Iterator[tuple[LocalCluster, ReleaseSite]]:
    require_program("etcd")
    directory = Path(tempfile.mkdtemp(prefix="lattice-"))
    site = ReleaseSite(directory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(site.folder))
        with LocalCluster(nodes=2, servers=3, settings=site.settings, directory=directory) as cluster:
            yield cluster, site
    shutil.rmtree(directory, ignore_errors=True)


def test_servers_before_agents_are_refused_and_nothing_is_told(site: tuple[LocalCluster, ReleaseSite]) -> None:
    cluster, releases = site
    refused = cluster.cli("admin", "upgrade", "start", "--to", NEW, "--servers", check=False)
    assert refused.returncode != 0
    assert "agents are upgraded before servers, and 2 of 2 in service run an older release: n1, n2" in refused.stderr
    assert releases.told() == []


def test_agents_and_then_servers_are_upgraded_under_load_and_the_leader_is_last(
    site: tuple[LocalCluster, ReleaseSite], tmp_path: Path
) -> None:
    cluster, releases = site
    upgrade(cluster, "start", "--to", NEW, "--observe", "0s")
    wait_phase(cluster, "done")
    assert all_run(cluster, NEW)
    first = cluster.leader()
    with Load(cluster, tmp_path, clients=4) as load:
        load.wait_for_more(MANY)
        upgrade(cluster, "start", "--to", NEW, "--servers", "--observe", "0s")
        load.fault("the servers are upgraded")
        wait_phase(cluster, "done", within_s=240)
        load.wait_for_more(MANY)
    load.check()
    told = [each["servers"][0]["server"] for each in releases.told() if each["servers"]]
    assert (sorted(told), told[-1]) == (sorted(cluster.urls), first)
    assert server_releases(cluster) == {NEW}


def _was_called(releases: ReleaseSite, times: int) -> bool:
    return len(releases.told()) >= times


def test_a_rollback_whose_leader_is_killed_is_continued_by_the_next_one(
    site: tuple[LocalCluster, ReleaseSite], tmp_path: Path
) -> None:
    cluster, releases = site
    refused = cluster.cli("admin", "upgrade", "rollback", "--to", "0.1.0", check=False)
    assert "a rollback does not lead to 0.1.0" in refused.stderr
    before = len(releases.told())
    with Load(cluster, tmp_path, clients=4) as load:
        upgrade(cluster, "rollback", "--to", OLD, "--servers", "--reason", "as a test")
        for count in (1, 2):
            eventually(partial(_was_called, releases, before + count), "the program was called")
            leader = cluster.leader()
            if leader:
                load.fault(f"kill -9 of the leader {leader}")
                cluster.kill("server", leader)
        wait_phase(cluster, "rolled_back", within_s=240)
        load.wait_for_more(MANY)
    wait_healthy(cluster)
    load.check()
    assert server_releases(cluster) == {OLD}


def test_a_program_that_fails_for_the_first_server_leaves_the_old_release(
    site: tuple[LocalCluster, ReleaseSite],
) -> None:
    cluster, releases = site
    releases.refuse(is_refusing=True)
    upgrade(cluster, "start", "--to", NEW, "--servers", "--observe", "0s")
    found = wait_phase(cluster, "rolled_back")
    releases.refuse(is_refusing=False)
    assert "no package 0.2.1" in found["reason"]
    assert server_releases(cluster) == {OLD}


@pytest.mark.soak
def test_no_request_fails_at_a_hundred_submissions_a_second(site: tuple[LocalCluster, ReleaseSite]) -> None:
    cluster, _ = site
    steady = Steady(cluster, per_second=100, clients=10)
    upgrade(cluster, "start", "--to", NEW, "--observe", "0s")
    wait_phase(cluster, "done")
    with steady:
        upgrade(cluster, "start", "--to", NEW, "--servers", "--observe", "0s")
        wait_phase(cluster, "done", within_s=300)
    figure = (
        f"{len(steady.answered)} submissions, {len(steady.failed)} failed, longest gap {steady.longest_gap_s():.2f} s"
    )
    sys.stdout.write(f"{figure}\n")
    assert steady.failed == []
    assert server_releases(cluster) == {NEW}
