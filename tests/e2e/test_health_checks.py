"""Health checks on real agents: what failing ones do to their node, and how little bad ones do to anything else."""

import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

WITHIN_S = 60.0
# What a file named after check and node says is wrong, is wrong; `wild` does whatever is in its file.
TROUBLE = """#!/bin/sh
file={folder}/$LATTICE_CHECK-$LATTICE_NODE_ID
if test -e $file; then cat $file; exit 2; fi
echo fine
"""
WILD = """#!/bin/bash
file={folder}/wild-$LATTICE_NODE_ID
if test -e $file; then exec bash $file; fi
echo tame
"""
CHECKS = """
[gate]
argv = ["{folder}/trouble"]
period_s = 1
timeout_s = 30
consequence = "degrade"
required_for_ready = true

[drive]
argv = ["{folder}/trouble"]
period_s = 1
timeout_s = 30
consequence = "drain"

[wild]
argv = ["{folder}/wild"]
period_s = 3600
timeout_s = 3
"""
PIDS = "echo $$ $! >> {folder}/pids"


class Site:
    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder

    def breaks(self, check: str, node: str, text: str) -> Path:
        path = self.folder / f"{check}-{node}"
        draft = path.with_suffix(".draft")
        draft.write_text(text)
        draft.rename(path)
        return path

    def wait(self, node: str, state: str, reason: str = "") -> Any:  # noqa: ANN401 - decoded JSON
        def look() -> Any:  # noqa: ANN401 - decoded JSON
            seen = self.cluster.get(f"/nodes/{node}")
            return seen if seen["state"] == state and (not reason or seen["reason"] == reason) else None

        return eventually(look, f"{node} {state} {reason}", within_s=WITHIN_S)

    def check(self, node: str, name: str) -> Any:  # noqa: ANN401 - decoded JSON
        (found,) = self.cluster.post(f"/nodes/{node}/check", {"checks": [name]})["checks"]
        return found

    def pids(self) -> list[int]:
        return [int(word) for word in (self.folder / "pids").read_text().split()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    for name, text in (("trouble", TROUBLE), ("wild", WILD)):
        (folder / name).write_text(text.format(folder=folder))
        (folder / name).chmod(stat.S_IRWXU)
    (folder / "checks.toml").write_text(CHECKS.format(folder=folder))
    hardware = folder / "hardware"
    hardware.mkdir()
    set_gpus(hardware / "n2.json", 2)
    arguments = ["--checks", str(folder / "checks.toml"), "--hardware-dir", str(hardware)]
    with LocalCluster(nodes=2, arguments=arguments) as cluster:
        yield Site(cluster, folder)


def set_gpus(path: Path, count: int) -> None:
    gpus = [{"index": index, "vendor": "nvidia", "model": "H100"} for index in range(count)]
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({"gpus": gpus}))
    draft.rename(path)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_node_shows_its_checks_and_runs_them_on_request(site: Site) -> None:
    site.wait("n1", "Ready")

    def look() -> Any:  # noqa: ANN401 - decoded JSON
        found = {check["name"]: check for check in site.cluster.get("/nodes/n1")["checks"]}
        return found if all(check["verdict"] != "pending" for check in found.values()) else None

    # A node is Ready before those checks that do not guard it have run.
    shown = eventually(look, "all checks have run", within_s=WITHIN_S)
    assert {"disk_space", "memory_errors", "clock_offset", "fingerprint", "gate", "drive", "wild"} <= set(shown)
    assert shown["gate"]["required_for_ready"]
    assert (shown["drive"]["consequence"], shown["drive"]["verdict"]) == ("drain", "passed")
    told = site.cluster.cli("node", "check", "n1", "--only=gate").stdout.splitlines()
    assert told[0] == "n1 is Ready"
    assert told[2].split()[:3] == ["gate", "passed", "fine"]
    strange = site.cluster.cli("node", "check", "n1", "--only=fans", check=False)
    assert strange.returncode == 4
    assert 'unknown check "fans"' in strange.stderr


def test_a_failing_check_degrades_its_node_and_its_work_goes_on(site: Site) -> None:
    site.wait("n1", "Ready")
    site.wait("n2", "Ready")
    work = site.cluster.submit(f"while ! test -e {site.folder}/enough; do sleep 0.1; done")
    node = site.cluster.wait_state(work["id"], "Running", within_s=WITHIN_S)["nodes"][0]
    trouble = site.breaks("gate", node, "gate is shut\n")
    seen = site.wait(node, "Degraded", "check gate: gate is shut")
    assert seen["reason_by"] == "check/gate"
    assert "gate failed (gate is shut)" in site.cluster.cli("node", "status", node).stdout
    failing = site.cluster.cli("node", "check", node, check=False)
    assert failing.returncode == 1
    trouble.unlink()
    site.wait(node, "Ready")
    (site.folder / "enough").touch()
    assert site.cluster.wait_end(work["id"], within_s=WITHIN_S)["state"] == "Completed"
    with httpx.Client() as web:
        figures = web.get(f"{site.cluster.api_url}/metrics").text
    assert 'lattice_node_check_failures_total{check="gate"} ' in figures


def test_a_gpu_that_is_lost_degrades_the_node_that_declared_it(site: Site) -> None:
    assert site.wait("n2", "Ready")["gpus"] == 2
    assert site.check("n2", "gpu_count")["text"] == "2 GPUs"
    set_gpus(site.folder / "hardware" / "n2.json", 1)
    eventually(lambda: site.check("n2", "gpu_count")["verdict"] == "failed", "the loss is noticed", within_s=WITHIN_S)
    site.wait("n2", "Degraded", "check gpu_count: 1 of 2 GPUs found")
    set_gpus(site.folder / "hardware" / "n2.json", 2)
    eventually(lambda: site.check("n2", "gpu_count")["verdict"] == "passed", "it is found again", within_s=WITHIN_S)
    site.wait("n2", "Ready")


def test_a_check_that_drains_keeps_the_node_until_it_passes_and_an_operator_says_so(site: Site) -> None:
    site.wait("n2", "Ready")
    trouble = site.breaks("drive", "n2", "drive 3 is bad\n")
    site.wait("n2", "Drained", "check drive: drive 3 is bad")
    refused = site.cluster.cli("node", "undrain", "n2", check=False)
    assert refused.returncode == 1
    assert "node n2 is not fit: check drive: drive 3 is bad" in refused.stderr
    trouble.unlink()
    assert site.check("n2", "drive")["verdict"] == "passed"
    assert site.cluster.get("/nodes/n2")["state"] == "Drained"
    site.cluster.cli("node", "undrain", "n2")
    site.wait("n2", "Ready")
    history = site.cluster.get("/nodes/n2/events")["items"]
    assert ("check/drive", "check drive: drive 3 is bad") in [(entry["by"], entry["reason"]) for entry in history]


def test_a_node_stays_booting_and_says_why_until_the_checks_that_guard_it_pass(site: Site) -> None:
    site.cluster.cli("node", "disable", "n2", "--yes")
    site.wait("n2", "Down")
    trouble = site.breaks("gate", "n2", "gate is shut\n")
    # Told as soon as the agent, which registers again and again meanwhile, has run it.
    process = site.cluster.kill("agent", "n2")
    site.cluster.wait_replaced(process, within_s=WITHIN_S)
    site.cluster.cli("node", "enable", "n2")
    seen = site.wait("n2", "Booting", "check gate: gate is shut")
    assert [check["verdict"] for check in seen["checks"] if check["name"] == "gate"] == ["failed"]
    trouble.unlink()
    site.wait("n2", "Ready")


@pytest.mark.root
@pytest.mark.parametrize(
    ("script", "text"),
    [
        ('trap "" TERM; setsid sleep 600 & {pids}; while :; do sleep 600; done', "took longer than 3 s"),
        ("echo $$ > {folder}/pids; bomb() {{ bomb | bomb & }}; while :; do bomb; done", "took longer than 3 s"),
        ("setsid sleep 600 & {pids}; head -c 5000000 /dev/urandom", "wrote more than 1 MiB"),
        ("setsid sleep 600 & {pids}; printf '\\033[2J\\001\\377nothing'; exit 2", "\\x1b[2J\\x01\\xffnothing"),
    ],
    ids=["hangs", "multiplies", "floods", "lies"],
)
def test_a_bad_check_is_contained(site: Site, script: str, text: str) -> None:
    (site.folder / "pids").unlink(missing_ok=True)
    site.wait("n1", "Ready")
    work = site.cluster.submit("trap 'exit 5' TERM; echo up; while :; do sleep 0.1; done")
    node = site.cluster.wait_state(work["id"], "Running", within_s=WITHIN_S)["nodes"][0]
    pids = PIDS.format(folder=site.folder)
    trouble = site.breaks("wild", node, script.format(folder=site.folder, pids=pids))
    try:
        found = site.check(node, "wild")
    finally:
        trouble.unlink()
    assert (found["verdict"], found["text"][: len(text)]) == ("failed", text)
    left = site.pids()
    assert left
    eventually(lambda: not any(map(alive, left)), f"{left} are gone", within_s=WITHIN_S)
    eventually(lambda: site.check(node, "wild")["text"] == "tame", "a check that is run again", within_s=WITHIN_S)
    assert site.cluster.allocation(work["id"])["state"] == "Running"
    site.cluster.cli("cancel", work["id"])
    assert site.cluster.wait_end(work["id"], within_s=WITHIN_S)["state"] == "Cancelled"


@pytest.mark.root
def test_the_check_of_an_agent_that_was_killed_is_ended_by_the_next(site: Site) -> None:
    (site.folder / "pids").unlink(missing_ok=True)
    site.wait("n1", "Ready")
    trouble = site.breaks("wild", "n1", f"{PIDS.format(folder=site.folder)}; while :; do sleep 600; done")
    asked = threading.Thread(target=site.cluster.request, args=("POST", "/nodes/n1/check", {"checks": ["wild"]}))
    asked.start()
    eventually(lambda: (site.folder / "pids").exists() and site.pids(), "the check runs", within_s=WITHIN_S)
    site.cluster.kill("agent", "n1")
    trouble.unlink()
    asked.join()
    left = site.pids()
    eventually(lambda: not any(map(alive, left)), f"{left} are gone", within_s=WITHIN_S)
    site.wait("n1", "Ready")
