"""Conformance on live agents: a component of a node changes, and everything that follows from it, for ordinary and sensitive nodes."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, NotInTime, eventually
from lattice.testing.hollow import HollowNodes
from lattice.testing.local_cluster import Json
from tests.state_manager import StateManager, serving

pytestmark = pytest.mark.e2e

NODES = ("n1", "n2", "n3", "n4", "n5")
LONG_S = 60.0
# Nobody is to be lost here, however busy the machine is.
PATIENT = {
    "node_agent.heartbeat_interval_s": "1",
    "node_agent.heartbeat_timeout_s": "60",
    "node_agent.grace_period_s": "60",
}
FLEETS, FLEET_SIZE, WIDTH = 4, 25, 8


def write_hardware(file: Path, version: str) -> None:
    """What the node says of itself from now on, whatever machine this is."""
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps({"software": {"base_image": version}}))
    draft.replace(file)


class Machine:
    """A cluster, the files that say what its nodes are made of, and the system that manages them."""

    def __init__(self, cluster: LocalCluster, hardware: Path, manager: StateManager) -> None:
        self.cluster = cluster
        self.manager = manager
        self._hardware = hardware

    def change(self, node: str, version: str = "2.0") -> None:
        write_hardware(self._hardware / f"{node}.json", version)

    def groups(self) -> dict[str, list[str]]:
        """Nodes by fingerprint, as the server groups them."""
        return {group["fingerprint"]: group["nodes"] for group in self.cluster.get("/conformance")["groups"]}

    def drift(self, node: str) -> Json:
        found = self.cluster.get("/conformance")["drifted"]
        return next((each for each in found if each["node"] == node), None)

    def wait_drift(self, node: str) -> Json:
        return eventually(lambda: self.drift(node), f"{node} has drifted", within_s=LONG_S)

    def wait_right(self, node: str) -> None:
        eventually(lambda: self.drift(node) is None, f"{node} is right again", within_s=LONG_S)

    def wait_flag(self, node: str, flag: str) -> None:
        eventually(lambda: self.manager.components[node]["Flag"] == flag, f"{node} is flagged {flag}", within_s=LONG_S)

    def long_work(self, node: str) -> str:
        work = self.cluster.submit("sleep 300", resources={"nodes": 1, "constraints": {"nodes": node}})
        self.cluster.wait_state(work["id"], "Running", within_s=LONG_S)
        return str(work["id"])

    def cancel(self, work: str) -> None:
        self.cluster.cli("cancel", work)
        self.cluster.wait_end(work, within_s=LONG_S)

    def audited(self, node: str) -> list[str]:
        entries = json.loads(self.cluster.cli("audit", "query", "--node", node, "-o", "json").stdout)
        return [entry["type"] for entry in entries]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    hardware = tmp_path_factory.mktemp("hardware")
    for node in NODES:
        write_hardware(hardware / f"{node}.json", "1.0")
    with (
        serving(StateManager(*NODES)) as manager,
        LocalCluster(
            nodes=len(NODES),
            settings={**PATIENT, "openchami.url": manager.url},
            arguments=["--hardware-dir", str(hardware)],
        ) as cluster,
    ):
        found = Machine(cluster, hardware, manager)
        eventually(lambda: [len(each) for each in found.groups().values()] == [5], "all alike", within_s=LONG_S)
        cluster.cli("admin", "vcluster", "create", "hospital", "--scheduler=sensitive-reservation", "--nodes=n5")
        cluster.cli("admin", "conformance", "baseline", "set", "hospital", "--node=n5")
        yield found


def test_a_node_that_changed_is_avoided_and_its_work_goes_on(machine: Machine) -> None:
    cluster = machine.cluster
    running = machine.long_work("n2")
    machine.change("n2")
    drift = machine.wait_drift("n2")
    assert [(each["component"], each["expected"], each["actual"]) for each in drift["differences"]] == [
        ("base_image", "1.0", "2.0")
    ]
    assert sorted(map(len, machine.groups().values())) == [1, 4]
    assert cluster.allocation(running)["state"] == "Running"
    machine.wait_flag("n2", "Warning")
    machine.cancel(running)
    for _ in range(2):
        assert "n2" not in cluster.run("true", resources={"nodes": 3}, within_s=LONG_S)["nodes"]
    alike = cluster.submit("true", resources={"nodes": 5, "constraints": {"require_conformance": True}})
    reason = "insufficient conformance group: 4 of 5 requested nodes are alike"
    eventually(
        lambda: reason in (cluster.allocation(alike["id"])["reason"] or ""), "the reason with figures", within_s=LONG_S
    )
    different = cluster.cli("node", "diff", "n1", "n2", check=False)
    assert (different.returncode, different.stdout.split()) == (
        1,
        ["COMPONENT", "n1", "n2", "base_image", "1.0", "2.0"],
    )
    assert cluster.run("true", resources={"nodes": 5}, within_s=LONG_S)["state"] == "Completed"
    machine.change("n2", "1.0")
    machine.wait_right("n2")
    assert cluster.wait_end(alike["id"], within_s=LONG_S)["state"] == "Completed"
    machine.wait_flag("n2", "OK")
    assert cluster.cli("node", "diff", "n1", "n2").returncode == 0


def test_a_sensitive_node_drains_is_recorded_and_returns_by_approval_alone(machine: Machine) -> None:
    cluster = machine.cluster
    running = machine.long_work("n5")
    machine.change("n5")
    cluster.wait_node("n5", "Draining", within_s=LONG_S)
    assert cluster.allocation(running)["state"] == "Running"
    assert "conformance.drift" in machine.audited("n5")
    machine.cancel(running)
    cluster.wait_node("n5", "Drained", within_s=LONG_S)
    refused = cluster.cli("node", "undrain", "n5", check=False)
    assert refused.returncode == 1
    assert "still differs from the baseline of vCluster hospital: base_image 2.0 (expected 1.0)" in refused.stderr
    assert cluster.cli("admin", "node", "approve", "n5", check=False).returncode == 1
    machine.change("n5", "1.0")
    eventually(lambda: machine.drift("n5")["verified_at"], "n5 waits for approval", within_s=LONG_S)
    assert cluster.nodes()["n5"]["state"] == "Drained"
    assert "waits for approval" in cluster.cli("admin", "conformance", "status").stdout
    cluster.cli("admin", "node", "approve", "n5")
    cluster.wait_node("n5", "Ready", within_s=LONG_S)
    assert {"conformance.drift", "conformance.verified", "node.approve"} <= set(machine.audited("n5"))


def test_a_sensitive_node_that_changes_without_a_baseline_drains_until_its_change_is_approved(machine: Machine) -> None:
    cluster = machine.cluster
    cluster.cli("admin", "vcluster", "create", "ward", "--scheduler=sensitive-reservation", "--nodes=n3")
    eventually(lambda: "conformance.accepted" in machine.audited("n3"), "n3 was taken in as it is", within_s=LONG_S)
    machine.change("n3")
    drift = machine.wait_drift("n3")
    assert (drift["vcluster"], drift["is_sensitive"]) == ("ward", True)
    cluster.wait_node("n3", "Drained", within_s=LONG_S)
    assert "conformance.drift" in machine.audited("n3")
    refused = cluster.cli("node", "undrain", "n3", check=False)
    assert (refused.returncode, "base_image 2.0 (expected 1.0)" in refused.stderr) == (1, True)
    cluster.cli("admin", "node", "approve", "n3")
    cluster.wait_node("n3", "Ready", within_s=LONG_S)
    assert machine.drift("n3") is None
    assert machine.audited("n3")[-2:].count("conformance.accepted") == 1
    # What it was before is a change as well now.
    machine.change("n3", "1.0")
    cluster.wait_node("n3", "Drained", within_s=LONG_S)
    cluster.cli("admin", "node", "approve", "n3")
    cluster.wait_node("n3", "Ready", within_s=LONG_S)


def test_a_node_not_remedied_in_time_is_down_until_an_operator_takes_it_back(machine: Machine) -> None:
    cluster = machine.cluster
    cluster.cli("admin", "config", "set", "conformance.drift_remediation_timeout_s", "1")
    machine.change("n4")
    found = cluster.wait_node("n4", "Down", within_s=LONG_S)
    assert found["down_cause"] == "drift"
    machine.wait_flag("n4", "Alert")
    assert cluster.cli("node", "undrain", "n4", check=False).returncode == 1
    machine.change("n4", "1.0")
    eventually(lambda: machine.drift("n4")["verified_at"], "n4 waits for an operator", within_s=LONG_S)
    assert cluster.nodes()["n4"]["state"] == "Down"
    cluster.cli("node", "undrain", "n4")
    cluster.wait_node("n4", "Ready", within_s=LONG_S)
    cluster.cli("admin", "config", "set", "conformance.drift_remediation_timeout_s", "86400")


def test_a_baseline_is_declared_shown_and_taken_back(machine: Machine) -> None:
    cluster = machine.cluster
    words = ("admin", "conformance", "baseline")
    shown = json.loads(cluster.cli(*words, "show", "default", "-o", "json").stdout)
    assert (shown["source"], shown["components"]["base_image"]) == ("majority", "1.0")
    declared = json.loads(cluster.cli(*words, "set", "default", "--node=n1", "-o", "json").stdout)
    assert (declared["source"], declared["fingerprint"]) == ("declared", shown["fingerprint"])
    assert json.loads(cluster.cli(*words, "unset", "default", "-o", "json").stdout)["source"] == "majority"
    answer = json.loads(cluster.cli("admin", "conformance", "refresh", "n[1-2]", "-o", "json").stdout)
    assert answer == {"asked": ["n1", "n2"], "unreachable": []}


class Update:
    """When each fleet was updated: begun, and known to the server."""

    def __init__(self) -> None:
        self.begun = [float("inf")] * FLEETS
        self.known = [float("inf")] * FLEETS

    def versions(self, nodes: list[str], since: float, until: float) -> set[str]:
        """What the nodes certainly were during that time."""
        fleets = {int(node[5]) for node in nodes}
        new = {"new" for fleet in fleets if self.known[fleet] < since}
        old = {"old" for fleet in fleets if self.begun[fleet] > until}
        return new | old


def moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def keep_submitting(cluster: LocalCluster, stop: threading.Event, ids: list[str]) -> None:
    """A steady stream of work on several nodes, all of which must be alike; a few at a time."""
    wanted = {"nodes": WIDTH, "constraints": {"require_conformance": True}}
    with cluster.client() as client:
        while not stop.is_set():
            work = cluster.submit(["sleep", "0.2"], vcluster="rolling", resources=wanted)
            ids.append(work["id"])
            stop.wait(0.05)
            if len(ids) > 20:
                client.wait(ids[-20], timeout=LONG_S)


@pytest.mark.timeout(600)
def test_a_rolling_update_never_starves_work_and_never_mixes_what_must_be_alike(
    machine: Machine, tmp_path: Path
) -> None:
    cluster, update, stop = machine.cluster, Update(), threading.Event()
    ids: list[str] = []
    files = [tmp_path / f"fleet{number}.json" for number in range(FLEETS)]
    with ExitStack() as stack:
        fleets: list[HollowNodes] = []
        for number, file in enumerate(files):
            write_hardware(file, "1.0")
            words = ("--hardware", str(file), "--cpus", "8")
            fleets.append(stack.enter_context(HollowNodes(cluster, FLEET_SIZE, *words, prefix=f"fleet{number}-")))
        names = [name for fleet in fleets for name in fleet.names]
        wait_begun(machine, fleets)
        cluster.cli("admin", "vcluster", "create", "rolling", f"--nodes={','.join(names)}")
        submitting = threading.Thread(target=keep_submitting, args=(cluster, stop, ids))
        submitting.start()
        try:
            for number, file in enumerate(files):
                update.begun[number] = time.time()
                write_hardware(file, "2.0")
                wait_updated(machine, (number + 1) * FLEET_SIZE, len(names))
                update.known[number] = time.time()
        finally:
            stop.set()
            submitting.join()
        ended = [cluster.wait_end(each, within_s=LONG_S) for each in ids]
    assert {each["state"] for each in ended} == {"Completed"}
    mixed = [
        each["nodes"]
        for each in ended
        if len(update.versions(each["nodes"], moment(each["submitted_at"]), moment(each["started_at"]))) > 1
    ]
    assert mixed == []
    assert max(moment(each["started_at"]) - moment(each["submitted_at"]) for each in ended) < LONG_S
    assert len(ended) > FLEETS
    eventually(lambda: turned(cluster), "the majority is the baseline", within_s=LONG_S)


def wait_begun(machine: Machine, fleets: list[HollowNodes]) -> None:
    """All nodes are there and alike; what the fleets have to say when they are not."""
    total = sum(len(fleet.names) for fleet in fleets)
    try:
        eventually(lambda: known(machine, "fleet") == [total], f"{total} nodes alike", within_s=2 * LONG_S)
    except NotInTime as error:
        said = "\n".join(fleet.log.read_text()[-1000:] for fleet in fleets)
        raise AssertionError(f"{error}\n{said}") from error


def turned(cluster: LocalCluster) -> bool:
    baseline = cluster.get("/conformance/baselines/rolling")
    return (baseline["source"], baseline["components"].get("base_image")) == ("majority", "2.0")


def wait_updated(machine: Machine, done: int, total: int) -> None:
    sizes = sorted(size for size in (done, total - done) if size)
    eventually(lambda: known(machine, "fleet") == sizes, f"{done} of {total} are new", within_s=LONG_S)


def known(machine: Machine, prefix: str) -> list[int]:
    """Sizes of the groups of nodes called so, smallest first."""
    sizes = [sum(node.startswith(prefix) for node in nodes) for nodes in machine.groups().values()]
    return sorted(size for size in sizes if size)
