"""Work that can write checkpoints is asked for one before its nodes are taken: preemption, urgent drain, requeue.

The programs write for as long as the test wants, so that everything can be killed in each step.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lattice.testing import LocalCluster, eventually

Json = Any
pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "checkpoints.md"
SLURM = Path(sys.prefix) / "libexec" / "slurm"


@pytest.fixture(autouse=True)
def eager(cluster: LocalCluster) -> Iterator[None]:
    """Work may be taken as soon as it runs."""
    cluster.put("/settings/preemption.min_runtime_s", {"value": "0"})
    yield
    cluster.wait_serving()
    cluster.put("/settings/preemption.min_runtime_s", {"value": "300"})


def written(folder: Path, name: str) -> list[str]:
    """Work that says what happens to it, and that goes on in each step when a file allows it."""
    script = f"""
cd {folder}
say() {{ echo "{name} $*" >>{folder}/told; }}
trap 'asked=1' USR1
trap 'say term; while [ ! -e {name}.end ]; do sleep 0.02; done; exit 1' TERM
say began run $LATTICE_RUN from $(basename "${{LATTICE_RESUME_FROM:-none}}")
while :; do
  sleep 0.02
  [ "$asked" ] || continue
  asked=
  say hint
  while [ ! -e {name}.write ]; do sleep 0.02; done
  path=$(sed 's/.*"path":"\\([^"]*\\)".*/\\1/' "$LATTICE_CHECKPOINT_REQUEST")
  echo state >"$path/state"; touch "$path/.done"
done
"""
    return ["/bin/bash", "-c", script]


def told(folder: Path, line: str) -> int:
    path = folder / "told"
    return path.read_text().splitlines().count(line) if path.exists() else 0


def begun(cluster: LocalCluster, folder: Path, name: str, **fields: Json) -> str:
    life = {"preemption_class": 3, "walltime": "2h", **fields.pop("lifecycle", {})}
    made = cluster.submit(written(folder, name), lifecycle=life, checkpoint={"protocol": "signal"}, **fields)
    eventually(lambda: told(folder, f"{name} began run 1 from none") == 1, f"{name} has set its traps")
    cluster.wait_state(made["id"], "Running")
    return str(made["id"])


def preemptor(cluster: LocalCluster, folder: Path, nodes: int) -> str:
    script = f"echo high began >>{folder}/told; sleep 3600"
    life = {"preemption_class": 9, "walltime": "4h"}
    return str(cluster.submit(["sh", "-c", script], lifecycle=life, resources={"nodes": nodes})["id"])


def restarted(cluster: LocalCluster, what: str, node: str = "") -> None:
    old = cluster.kill(what, node) if node else cluster.kill(what)
    cluster.wait_replaced(old)
    cluster.wait_serving()


def in_slurm(cluster: LocalCluster, *words: str) -> str:
    """What Slurm's commands say."""
    program, *arguments = words
    answer = subprocess.run(
        [str(SLURM / program), *arguments],
        capture_output=True,
        text=True,
        env=cluster.environment(),
        timeout=60,
        check=True,
    )
    return answer.stdout.strip()


def test_victims_that_write_apart_are_taken_once_whatever_is_killed_meanwhile(
    cluster: LocalCluster, scratch: Path
) -> None:
    first, second = (begun(cluster, scratch, name) for name in ("first", "second"))
    third = cluster.submit(["sleep", "3600"], lifecycle={"preemption_class": 3, "walltime": "2h"})["id"]
    cluster.wait_state(third, "Running")
    node = cluster.allocation(first)["nodes"][0]
    high = preemptor(cluster, scratch, 3)
    eventually(lambda: told(scratch, "first hint") + told(scratch, "second hint") == 2, "both are asked")
    asked = cluster.allocation(first)
    assert (asked["state"], asked["reason"]) == (
        "Checkpointing",
        "it writes a checkpoint, then other work gets its nodes",
    )
    restarted(cluster, "agent", node)
    restarted(cluster, "server")
    cluster.wait_node(node, "Ready")
    (scratch / "first.write").touch()
    eventually(lambda: told(scratch, "first term") == 1, "the first is stopped when its checkpoint is complete")
    assert told(scratch, "second term") == 0
    restarted(cluster, "agent", node)
    restarted(cluster, "server")
    cluster.wait_node(node, "Ready")
    assert cluster.allocation(first)["state"] == "Stopping"
    assert cluster.nodes()[node]["holding"] != "free"
    (scratch / "first.end").touch()
    gone = cluster.wait_state(first, "Suspended")
    assert (gone["preempted"], gone["requeue_count"], gone["restart_count"], gone["nodes"]) == (1, 0, 1, [])
    assert gone["message"] == "preempted: work of class 9 needs its nodes"
    # One node is free and another is not: nothing starts on it but what it was freed for.
    assert cluster.allocation(high)["state"] == "Pending"
    restarted(cluster, "server")
    for step in ("write", "end"):
        (scratch / f"second.{step}").touch()
    cluster.wait_state(high, "Running")
    eventually(lambda: told(scratch, "high began") == 1, "it began once")
    assert [cluster.allocation(each)["state"] for each in (first, second, third)] == [
        "Suspended",
        "Suspended",
        "Pending",
    ]
    assert [told(scratch, f"{name} hint") for name in ("first", "second")] == [1, 1]
    job = str(gone["number"])
    assert in_slurm(cluster, "squeue", "-h", "-j", job, "-o", "%T") == "PENDING"
    assert in_slurm(cluster, "sacct", "-nPX", "-j", job, "-o", "State") == "PENDING"
    rows = in_slurm(cluster, "sacct", "-nPXD", "-j", job, "-o", "State,NodeList").splitlines()
    assert rows == [f"PREEMPTED|{node}", "PENDING|None assigned"]
    explained = cluster.get(f"/allocations/{first}/explanation")
    assert explained["state"] == "Suspended"
    assert explained["reason"]
    cluster.delete(f"/allocations/{high}")
    for name in ("first", "second"):
        eventually(partial(told, scratch, f"{name} began run 2 from 1"), f"{name} continues")
    assert [cluster.allocation(each)["preempted"] for each in (first, second)] == [1, 1]
    assert [told(scratch, f"{name} term") for name in ("first", "second")] == [1, 1]


def test_a_victim_whose_shim_dies_while_it_writes_frees_its_node_and_runs_again(
    cluster: LocalCluster, scratch: Path
) -> None:
    low = begun(cluster, scratch, "low", resources={"nodes": 3})
    node = cluster.allocation(low)["nodes"][0]
    high = preemptor(cluster, scratch, 3)
    eventually(lambda: told(scratch, "low hint") == 1, "it is asked")
    cluster.wait_replaced(cluster.kill("shim", node))
    cluster.wait_state(high, "Running")
    assert cluster.allocation(low)["state"] == "Pending"
    assert (told(scratch, "high began"), told(scratch, "low began run 1 from none")) == (1, 1)


def test_a_shim_that_dies_while_a_victim_stops_or_its_node_is_kept_frees_nothing_early(
    cluster: LocalCluster, scratch: Path
) -> None:
    first, second = (begun(cluster, scratch, name) for name in ("first", "second"))
    third = cluster.submit(["sleep", "3600"], lifecycle={"preemption_class": 3, "walltime": "2h"})["id"]
    cluster.wait_state(third, "Running")
    node = cluster.allocation(first)["nodes"][0]
    high = preemptor(cluster, scratch, 3)
    eventually(lambda: told(scratch, "first hint") + told(scratch, "second hint") == 2, "both are asked")
    (scratch / "first.write").touch()
    eventually(lambda: told(scratch, "first term") == 1, "the first is stopped when its checkpoint is complete")
    cluster.wait_replaced(cluster.kill("shim", node))
    gone = cluster.wait_state(first, "Suspended")
    assert (gone["preempted"], gone["nodes"]) == (1, [])
    cluster.wait_node(node, "Ready")
    cluster.wait_replaced(cluster.kill("shim", node))
    cluster.wait_node(node, "Ready")
    assert cluster.allocation(high)["state"] == "Pending", "its nodes are kept for it, and nothing else starts there"
    assert cluster.nodes()[node]["holding"] == "free"
    for step in ("write", "end"):
        (scratch / f"second.{step}").touch()
    cluster.wait_state(high, "Running")
    eventually(lambda: told(scratch, "high began") == 1, "it began once")
    cluster.delete(f"/allocations/{high}")
    for name in ("first", "second"):
        eventually(partial(told, scratch, f"{name} began run 2 from 1"), f"{name} continues")
    assert [cluster.allocation(each)["preempted"] for each in (first, second)] == [1, 1]
    assert [told(scratch, f"{name} hint") for name in ("first", "second")] == [1, 1]


def test_a_victim_that_cannot_answer_is_stopped_at_once(cluster: LocalCluster, scratch: Path) -> None:
    life = {"preemption_class": 3, "walltime": "2h"}
    low = cluster.submit(["sleep", "3600"], lifecycle=life, checkpoint={"protocol": "signal"}, resources={"nodes": 3})
    cluster.wait_state(low["id"], "Running")
    high = preemptor(cluster, scratch, 3)
    cluster.wait_state(high, "Running", within_s=20.0)
    after = cluster.allocation(low["id"])
    assert (after["state"], after["preempted"]) == ("Pending", 1)


def test_work_that_is_not_wanted_any_more_runs_on(cluster: LocalCluster, scratch: Path) -> None:
    low = begun(cluster, scratch, "low", resources={"nodes": 3})
    high = preemptor(cluster, scratch, 3)
    eventually(lambda: told(scratch, "low hint") == 1, "it is asked")
    cluster.delete(f"/allocations/{high}")
    (scratch / "low.write").touch()
    after = cluster.wait_state(low, "Running")
    assert (after["run"], after.get("preempted", 0), told(scratch, "low term")) == (1, 0, 0)


def test_an_urgent_drain_and_a_requeue_go_the_same_way(cluster: LocalCluster, scratch: Path) -> None:
    for step in ("write", "end"):
        (scratch / f"low.{step}").touch()
    low = begun(cluster, scratch, "low")
    node = cluster.allocation(low)["nodes"][0]
    cluster.cli("node", "drain", "--urgent", "--yes", "--reason", "fan", node)
    eventually(lambda: told(scratch, "low began run 2 from 1") == 1, "it continues on another node")
    moved = cluster.wait_state(low, "Running")
    assert (moved["nodes"] != [node], moved.get("preempted", 0), told(scratch, "low term")) == (True, 0, 1)
    cluster.wait_node(node, "Drained")
    cluster.cli("node", "undrain", node)
    said = cluster.cli("requeue", "--checkpoint", low)
    assert "checkpoint" in said.stdout
    eventually(lambda: told(scratch, "low began run 3 from 2") == 1, "it continues from the newer one")
    assert told(scratch, "low hint") == 2


def test_the_program_of_the_guide_is_preempted_and_prints_what_an_undisturbed_one_prints(
    cluster: LocalCluster, scratch: Path
) -> None:
    found = re.search(r"```\w+ train.py\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    program, steps = scratch / "train.py", scratch / "steps"
    head = f"import pathlib, time\nSTEPS = 150\nsteps = pathlib.Path({str(steps)!r})\n"
    pause = "def pause():\n    steps.open('a').write('.')\n    time.sleep(0.02)\n"
    program.write_text(head + pause + found[1])
    command = [str(ROOT / ".venv" / "bin" / "python"), str(program)]
    expected = cluster.logs(cluster.run(command)["id"])
    steps.unlink()
    life = {"preemption_class": 3, "walltime": "2h"}
    low = cluster.submit(command, lifecycle=life, checkpoint={"protocol": "signal"}, resources={"nodes": 3})["id"]
    eventually(lambda: steps.exists() and len(steps.read_text()) > 20, "it is at work")
    high = preemptor(cluster, scratch, 3)
    cluster.wait_state(high, "Running")
    assert cluster.allocation(low)["state"] == "Suspended"
    cluster.delete(f"/allocations/{high}")
    ended = cluster.wait_end(low)
    assert (ended["state"], ended["run"], cluster.logs(low)) == ("Completed", 2, expected)
    assert len(steps.read_text()) < 2 * 150, "it did not begin at the beginning"
