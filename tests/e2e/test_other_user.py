"""A cluster of somebody who is not root: no cgroups, own work only, and still nothing left behind."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually
from lattice.testing.local_cluster import is_running
from tests.e2e.open_programs import NOBODY, open_programs
from tests.e2e.site_authority import SiteAuthority

pytestmark = [pytest.mark.e2e, pytest.mark.root]


@pytest.fixture(scope="module")
def programs() -> Iterator[Path]:
    with open_programs() as folder:
        yield folder


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder that the other user can reach; those of pytest are its owner's alone."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-scratch-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def cluster(programs: Path) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1, program=programs / "lattice", user=NOBODY) as cluster:
        yield cluster


def test_work_runs_as_the_user_and_its_output_comes_back(cluster: LocalCluster) -> None:
    done = cluster.run(["id", "-u"])
    assert (done["state"], cluster.logs(done["id"]).strip()) == ("Completed", str(NOBODY))
    assert cluster.get("/whoami")["user"] == "nobody"


def test_cancel_reaches_processes_in_other_sessions(cluster: LocalCluster, scratch: Path) -> None:
    submitted = cluster.submit(f"trap '' TERM; setsid sleep 300 & echo $! > {scratch}/pid; wait; sleep 300")
    eventually(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text(), "the work began")
    cluster.delete(f"/allocations/{submitted['id']}")
    assert cluster.wait_end(submitted["id"])["state"] == "Cancelled"
    assert not is_running(int((scratch / "pid").read_text()))


def test_down_ends_work_whose_shim_was_killed(programs: Path, scratch: Path) -> None:
    cluster = LocalCluster(nodes=1, program=programs / "lattice", user=NOBODY)
    try:
        cluster.start()
        cluster.submit(f"setsid sleep 300 & echo $! > {scratch}/pid; sleep 300")
        eventually(lambda: (scratch / "pid").exists() and (scratch / "pid").read_text(), "the work began")
        for role in ("supervisor", "agent", "shim"):
            cluster.kill(role)
        cluster.stop()
        assert not is_running(int((scratch / "pid").read_text()))
    finally:
        cluster.remove()


def test_a_stranger_cannot_read_the_cluster(cluster: LocalCluster) -> None:
    stranger = 65533
    for name in ("secret", "token", "agent-token", "cluster.json"):
        outcome = subprocess.run(["cat", cluster.directory / name], user=stranger, capture_output=True, check=False)
        assert outcome.returncode != 0
    assert os.stat(cluster.directory / "token").st_uid == NOBODY


def test_a_key_that_this_user_may_not_read_is_told_with_its_line(programs: Path, scratch: Path) -> None:
    certificate, key = SiteAuthority(scratch).issue("server")  # of root, closed to others
    certificate.chmod(0o644)
    secret = scratch / "secret"
    secret.write_text("s" * 32)
    secret.chmod(0o600)
    os.chown(secret, NOBODY, NOBODY)
    file = scratch / "server.yaml"
    file.write_text(
        f"data_dir: {scratch}/data\n"
        f"api:\n  hmac_secret: file://{secret}\n  rest_listen: 127.0.0.1:0\n  grpc_listen: 127.0.0.1:0\n"
        f"  tls:\n    certificate: {certificate}\n    key: {key}\n"
    )
    for more in ((), ("--check-config",)):
        told = _refused(programs / "lattice-server", "--config", file, *more)
        assert told.startswith(f"lattice-server: {file}:8:10: api.tls.key: nobody (uid {NOBODY}) may not read {key}; ")
    os.chown(secret, 0, 0)
    for more in ((), ("--check-config",)):
        told = _refused(programs / "lattice-server", "--config", file, *more)
        assert told.startswith(f"lattice-server: {file}:3:16: api.hmac_secret: cannot read {secret}: Permission denied")
    agent = scratch / "agent.yaml"
    agent.write_text(f"node_id: n1\nstate_dir: {scratch}/state\nservers: [127.0.0.1:9]\ntoken_file: {secret}\n")
    for more in ((), ("--check-config",)):
        told = _refused(programs / "lattice-agent", "--config", agent, *more)
        assert told.startswith(f'lattice-agent: {agent}:4:13: "token_file": cannot read the token file: {secret}: ')
    assert not (scratch / "data").exists()
    assert not (scratch / "state").exists()


def _refused(*words: str | Path) -> str:
    done = subprocess.run(
        words,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False), done.stderr
    return done.stderr
