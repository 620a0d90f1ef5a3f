"""Servers whose clocks are wrong, with real processes: the machine's clock is shifted for one server at a time."""

import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually
from tests.e2e.server_process import Server, all_serving, serving

pytestmark = pytest.mark.e2e

HOUR_S = 3600
Json = Any

# Read by the interpreter before anything else: what it is to add to the time of day lies in a file.
SHIFTED = """
import time
_now = time.time_ns
def time_ns():
    with open({file!r}) as file:
        return _now() + int(float(file.read() or 0) * 1_000_000_000)
time.time_ns = time_ns
time.time = lambda: time_ns() / 1e9
"""


class Shift:
    """The clock of one server, from its next start on."""

    def __init__(self, server: Server, folder: Path) -> None:
        folder.mkdir()
        self._file = folder / "seconds"
        self.set(0)
        (folder / "sitecustomize.py").write_text(SHIFTED.format(file=str(self._file)))
        server.variables["PYTHONPATH"] = str(folder)

    def set(self, seconds: float) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(str(seconds))
        draft.replace(self._file)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_server_whose_clock_was_an_hour_ahead_goes_on_with_everything(tmp_path: Path) -> None:
    with LocalCluster(nodes=1, restart=False) as cluster, serving(cluster, {}) as server:
        shift = Shift(server, tmp_path / "clock")
        server.stop()
        shift.set(HOUR_S)
        server.start()
        cluster.wait_serving()
        fast = cluster.run("true")
        assert moment(fast["submitted_at"]) > time.time() + HOUR_S - 60
        server.stop()
        shift.set(0)
        server.start()
        cluster.wait_serving()
        first = cluster.submit("sleep 2")
        second = cluster.submit("true", depends_on=[{"ref": first["id"], "condition": "success"}])
        assert cluster.wait_end(second["id"])["state"] == "Completed"
        done = cluster.allocation(first["id"])
        assert 1.5 < moment(done["completed_at"]) - moment(done["started_at"]) < 10
        again = cluster.submit("exit 1", lifecycle={"requeue": "always", "max_requeue": 1})
        assert cluster.wait_end(again["id"])["requeue_count"] == 1


def status(cluster: LocalCluster, server: str) -> dict[str, Json]:
    answer = cluster.request("GET", "/raft/status", server=server)[1]
    return {member["name"]: member for member in answer["members"]}


def test_a_leader_whose_clock_jumps_lets_another_lead_and_stamps_nothing_wrong(tmp_path: Path) -> None:
    with LocalCluster(nodes=1, servers=3, restart=False) as cluster, all_serving(cluster, {}) as servers:
        shifts = {}
        for name, server in servers.items():
            shifts[name] = Shift(server, tmp_path / name)
            server.stop()
        for server in servers.values():
            server.start()
        leader = cluster.leader(within_s=60)
        cluster.run("true", within_s=60)
        shifts[leader].set(HOUR_S)
        eventually(lambda: cluster.leader() != leader, "another server leads", within_s=30)
        done = cluster.run("true")
        assert abs(moment(done["completed_at"]) - time.time()) < 60
        other = cluster.leader()
        said = eventually(lambda: status(cluster, other)[leader].get("problem"), "the problem is told", within_s=30)
        assert "clock" in said
        assert "lost leadership: its clock jumped ahead by 3600" in servers[leader].log.read_text()
        shifts[leader].set(0)
        eventually(lambda: not status(cluster, other)[leader].get("problem"), "its clock is right", within_s=30)
        assert cluster.run("true")["state"] == "Completed"
