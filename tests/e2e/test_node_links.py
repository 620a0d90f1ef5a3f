"""Nodes behind links that are cut and healed, and drains that outlive everybody: real agents on hosts of their own."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import eventually
from lattice.testing.local_cluster import is_running
from tests.conftest import require_program
from tests.e2e.node_hosts import NodeHosts
from tests.e2e.quorum_load import wait_healthy

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.timeout(480)]

# Nobody who is heard again is given up, however busy the machine is; the test of that shortens it.
PATIENCE = {"node_agent.heartbeat_timeout_s": "3", "node_agent.grace_period_s": "60"}
LONG_S = 60.0
# Writes its process id, then the time again and again, until a file says that it may end.
BEATING = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
with (folder / f"beats.{os.environ['LATTICE_RUN']}").open("a", buffering=1) as beats:
    print(os.getpid(), file=beats)
    while not (folder / "go").exists():
        print(time.time_ns() // 1_000_000, file=beats)
        time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def hosts() -> Iterator[NodeHosts]:
    require_program("etcd")
    require_program("nsenter")
    with NodeHosts(settings=PATIENCE) as cluster:
        yield cluster


class Beating:
    """An allocation that shows by a file per run when it lived."""

    def __init__(self, hosts: NodeHosts, folder: Path) -> None:
        self._hosts = hosts
        self._folder = folder
        asked = {"type": "bounded", "walltime": "5m", "requeue": "on_node_failure"}
        self.id = hosts.submit([sys.executable, "-c", BEATING, str(folder)], lifecycle=asked)["id"]
        self.node = str(self.running(1)["nodes"][0])

    def running(self, run: int) -> Any:  # noqa: ANN401 - JSON
        """The allocation, once this run of it is Running and beats."""

        def look() -> Any:  # noqa: ANN401 - JSON
            seen = self._hosts.allocation(self.id)
            return seen if (seen["state"], seen["run"]) == ("Running", run) and len(self._lines(run)) > 1 else None

        return eventually(look, f"run {run} of {self.id} beats", within_s=LONG_S)

    def _lines(self, run: int) -> list[str]:
        path = self._folder / f"beats.{run}"
        # The last line may be half written.
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def pid(self, run: int) -> int:
        return int(self._lines(run)[0])

    def last_beat(self, run: int) -> int:
        """In milliseconds since 1970."""
        return int(self._lines(run)[-1])

    def wait_beats_after(self, run: int, moment: int) -> None:
        eventually(lambda: self.last_beat(run) > moment, f"run {run} beats on", within_s=LONG_S)

    def end(self) -> None:
        (self._folder / "go").touch()
        assert self._hosts.wait_end(self.id, within_s=LONG_S)["state"] == "Completed"


@contextmanager
def grace_of(hosts: NodeHosts, *, seconds: int) -> Iterator[None]:
    """The grace period is another inside."""
    hosts.put("/settings/node.grace_s", {"value": str(seconds)})
    try:
        yield
    finally:
        hosts.put("/settings/node.grace_s", {"value": "60"})


def moment(entry: dict[str, object]) -> int:
    """When an entry of a history was, in milliseconds since 1970."""
    return round(datetime.fromisoformat(str(entry["at"])).timestamp() * 1000)


def since_degraded(history: list[dict[str, object]]) -> list[dict[str, object]]:
    """What followed the silence that made the node Down."""
    down = max(place for place, entry in enumerate(history) if entry["state"] == "Down")
    return history[down - 1 :]


def test_a_cut_node_is_given_up_and_its_stale_run_is_dead_before_it_is_ready_again(
    hosts: NodeHosts, scratch: Path
) -> None:
    work = Beating(hosts, scratch)
    with hosts.unplugged(work.node):
        hosts.wait_node(work.node, "Degraded", within_s=LONG_S)
        assert hosts.allocation(work.id)["run"] == 1
        with grace_of(hosts, seconds=1):
            hosts.wait_node(work.node, "Down", within_s=LONG_S)
        again = work.running(2)
        assert work.node not in again["nodes"]
        assert again["requeue_count"] == 1
        work.wait_beats_after(1, moment(hosts.history(work.node)[-1]))  # nobody could have told it to end
    hosts.wait_node(work.node, "Ready", within_s=LONG_S)
    degraded, down, booting, ready = since_degraded(hosts.history(work.node))[:4]
    assert [entry["state"] for entry in (degraded, down, booting, ready)] == ["Degraded", "Down", "Booting", "Ready"]
    assert down["allocations"] == [work.id]
    assert not is_running(work.pid(1))
    assert work.last_beat(1) < moment(ready)
    work.wait_beats_after(2, moment(ready))
    work.end()


def test_a_cut_that_heals_inside_the_grace_period_disturbs_nothing(hosts: NodeHosts, scratch: Path) -> None:
    work = Beating(hosts, scratch)
    before = len(hosts.history(work.node))
    with hosts.unplugged(work.node):
        hosts.wait_node(work.node, "Degraded", within_s=LONG_S)
    hosts.wait_node(work.node, "Ready", within_s=LONG_S)
    history = hosts.history(work.node)
    assert {entry["state"] for entry in history[before:]} == {"Degraded", "Ready"}
    work.wait_beats_after(1, moment(history[-1]))
    seen = hosts.allocation(work.id)
    assert (seen["state"], seen["run"], seen["requeue_count"], seen["nodes"]) == ("Running", 1, 0, [work.node])
    work.end()
    assert not (scratch / "beats.2").exists()


def test_a_drain_outlives_agent_server_and_leader(hosts: NodeHosts, scratch: Path) -> None:
    work = Beating(hosts, scratch)
    hosts.post(f"/nodes/{work.node}/drain", {"reason": "new filters"})

    def check(state: str) -> None:
        seen = hosts.wait_node(work.node, state, within_s=LONG_S)
        assert seen["reason"] == "new filters"
        assert hosts.history(work.node)[-1]["state"] == state

    check("Draining")
    hosts.restart_agent(work.node)
    check("Draining")
    killed = hosts.leader()
    hosts.kill_server(killed)
    hosts.wait_back(killed)
    wait_healthy(hosts)
    check("Draining")
    next_one = next(name for name in hosts.names if name != hosts.leader())
    hosts.post("/raft/transfer-leader", {"to": next_one})
    eventually(lambda: hosts.leader() == next_one, "another server leads", within_s=LONG_S)
    wait_healthy(hosts)
    check("Draining")
    assert (work.running(1)["run"], is_running(work.pid(1))) == (1, True)
    work.end()
    check("Drained")
    hosts.restart_agent(work.node)
    check("Drained")
    hosts.post(f"/nodes/{work.node}/undrain", {})
    hosts.wait_node(work.node, "Ready", within_s=LONG_S)


def test_a_reboot_is_carried_out_by_the_site(hosts: NodeHosts) -> None:
    assert [item["ok"] for item in hosts.post("/nodes/drain", {"nodes": "h[1-2]"})["items"]] == [True, True]
    hosts.wait_node("h1", "Drained", within_s=LONG_S)
    answers = hosts.post("/nodes/reboot", {"nodes": "h[1-3]", "reason": "new kernel"})["items"]
    assert [(item["ok"], item.get("note", "")) for item in answers] == [(True, ""), (True, ""), (False, "")]
    eventually(lambda: set(hosts.rebooted) == {"h1", "h2"}, "the program was told", within_s=LONG_S)
    hosts.restart_agent("h1")
    # Not by another agent on the same boot of the machine.
    assert {hosts.nodes()[node]["state"] for node in ("h1", "h2")} == {"Booting"}
    assert hosts.history("h1")[-1]["reason"] == "new kernel"
