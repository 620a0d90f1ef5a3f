"""Work that is asked for a checkpoint and runs again prints what undisturbed work prints, whatever is killed in between."""

import json
import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from lattice.testing import LocalCluster, eventually

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[2]
GUIDE = ROOT / "docs" / "guide" / "checkpoints.md"
STEPS = 200
PAUSE_S = 0.02
SIGNAL = {"protocol": "signal"}


def example(name: str) -> str:
    """A program of the guide."""
    found = re.search(rf"```\w+ {re.escape(name)}\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture
def train(scratch: Path) -> list[str]:
    """The training loop of the guide, which is asked by a signal."""
    program = scratch / "train.py"
    head = f"import pathlib, time\nSTEPS = {STEPS}\ntag = pathlib.Path({str(scratch)!r}) / 'begun'\n"
    pause = f"def pause():\n    tag.touch()\n    time.sleep({PAUSE_S})\n"
    program.write_text(head + pause + example("train.py"))
    return [os.environ.get("PYTHON", str(ROOT / ".venv" / "bin" / "python")), str(program)]


@pytest.fixture
def solve(scratch: Path) -> list[str]:
    """The solver of the guide, which is asked by shared memory."""
    source, program = scratch / "solve.c", scratch / "solve"
    source.write_text(example("solve.c"))
    words = ["gcc", "-Wall", "-Wextra", "-Werror", f"-DSTEPS={STEPS}", f"-DPAUSE_US={int(PAUSE_S * 1e6)}"]
    subprocess.run([*words, f"-I{ROOT / 'share'}", "-o", str(program), str(source)], check=True)
    return [str(program)]


def undisturbed(cluster: LocalCluster, program: list[str]) -> str:
    return cluster.logs(cluster.run(program)["id"])


def begun(cluster: LocalCluster, program: list[str], scratch: Path, **fields: object) -> str:
    """Running work that has done its first steps."""
    (scratch / "begun").unlink(missing_ok=True)
    name = cluster.submit(program, **fields)["id"]
    cluster.wait_state(name, "Running")
    return str(name)


def checkpoint(cluster: LocalCluster, name: str) -> dict[str, object]:
    """The outcome of a request that may come before the program can answer."""

    def look() -> dict[str, object] | None:
        answer = cluster.cli("checkpoint", name, "--wait", "-o", "json", check=False)
        return json.loads(answer.stdout) if answer.returncode == 0 else None

    return eventually(look, f"a checkpoint of {name}")


def test_a_program_per_protocol_is_resumed_and_prints_what_an_undisturbed_one_prints(
    cluster: LocalCluster, scratch: Path, train: list[str], solve: list[str]
) -> None:
    for program, protocol in ((train, "signal"), (train, "grpc"), (solve, "shmem")):
        expected = undisturbed(cluster, program)
        name = begun(cluster, program, scratch, checkpoint={"protocol": protocol})
        done = checkpoint(cluster, name)
        assert (done["state"], done["nodes"]) == ("complete", 1)
        folder = Path(str(done["path"]))
        assert (folder / "MANIFEST").exists()
        cluster.post(f"/allocations/{name}/requeue")
        ended = cluster.wait_end(name)
        assert (ended["state"], ended["run"], cluster.logs(name)) == ("Completed", 2, expected), protocol
        heir = cluster.run(program, resume_from=name)
        assert cluster.logs(heir["id"]) == expected


def test_an_agent_and_a_server_that_die_meanwhile_change_nothing(cluster: LocalCluster, scratch: Path) -> None:
    """The program writes for as long as the test wants: everything dies while it does."""
    go, asked = scratch / "go", scratch / "asked"
    script = f"""
trap 'asked=1' USR1
while :; do
  sleep 0.05
  [ "$asked" ] || continue
  asked=
  echo hint >>{asked}
  while [ ! -e {go} ]; do sleep 0.05; done
  path=$(sed 's/.*"path":"\\([^"]*\\)".*/\\1/' "$LATTICE_CHECKPOINT_REQUEST")
  echo state >"$path/state"; touch "$path/.done"
done
"""
    name = cluster.submit(["/bin/bash", "-c", script], checkpoint=SIGNAL)["id"]
    node = cluster.wait_state(name, "Running")["nodes"][0]

    def asks() -> bool | None:
        cluster.cli("checkpoint", name, check=False)
        return asked.exists() or None

    eventually(asks, "the hint")
    assert cluster.allocation(name)["state"] == "Checkpointing"
    agent = cluster.kill("agent", node)
    cluster.wait_replaced(agent)
    server = cluster.kill("server")
    cluster.wait_replaced(server)
    cluster.wait_serving()
    cluster.wait_node(node, "Ready")
    go.touch()
    eventually(
        lambda: cluster.get(f"/allocations/{name}/checkpoints")["items"][-1]["state"] == "complete" or None, "it"
    )
    after = cluster.allocation(name)
    assert (after["state"], after["run"]) == ("Running", 1)
    assert asked.read_text().split() == ["hint"]
    cluster.delete(f"/allocations/{name}")


def test_a_script_that_does_not_catch_the_signal_is_not_killed_by_it(cluster: LocalCluster, scratch: Path) -> None:
    stop = scratch / "stop"
    script = f"while [ ! -e {stop} ]; do sleep 0.05; done; echo alive"
    name = cluster.submit(script, checkpoint=SIGNAL)["id"]
    cluster.wait_state(name, "Running")
    refused = cluster.cli("checkpoint", name, check=False)
    assert refused.returncode == 1
    assert f"none of its processes catches signal {int(signal.SIGUSR1)}" in refused.stderr
    assert cluster.get(f"/allocations/{name}/checkpoints")["items"] == []
    refused = cluster.cli("submit", "--resume-from", name, "--", "true", check=False)
    assert f"{name} has no complete checkpoint to resume from" in refused.stderr
    stop.touch()
    assert cluster.wait_end(name)["state"] == "Completed"
    assert cluster.logs(name) == "alive\n"


def test_the_cluster_asks_by_itself_when_a_checkpoint_is_worth_it(cluster: LocalCluster, scratch: Path) -> None:
    """Nodes that fail all the time make every checkpoint worth it; `manual` work is left alone."""
    usual = {
        name: cluster.get(f"/settings/checkpoint.{name}")["value"]
        for name in ("every_s", "min_interval_s", "node_mtbf_s")
    }
    script = """
trap 'path=$(sed "s/.*\\"path\\":\\"\\([^\\"]*\\)\\".*/\\1/" "$LATTICE_CHECKPOINT_REQUEST"); touch "$path/.done"' USR1
while :; do sleep 0.05; done
"""
    try:
        for name, value in (("every_s", "0.2"), ("min_interval_s", "0"), ("node_mtbf_s", "0.001")):
            cluster.put(f"/settings/checkpoint.{name}", {"value": value})
        manual, auto = (
            cluster.submit(["/bin/bash", "-c", script], checkpoint={"protocol": "signal", "strategy": strategy})["id"]
            for strategy in ("manual", "auto")
        )

        cluster.wait_state(auto, "Running")
        checkpoint(cluster, auto)  # how long one takes is known from now on

        def written() -> bool:
            items = cluster.get(f"/allocations/{auto}/checkpoints")["items"]
            return any(each["state"] == "complete" and each["reason"] == "broker" for each in items)

        eventually(written, "the cluster asked, and the work answered")
        assert cluster.get(f"/allocations/{manual}/checkpoints")["items"] == []
        assert cluster.allocation(auto)["run"] == 1
    finally:
        for name, value in usual.items():
            cluster.put(f"/settings/checkpoint.{name}", {"value": value})


LISTENS = """
import os, pathlib, sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc
from lattice.wire.pb import checkpoints_pb2 as pb
from lattice.wire.pb import checkpoints_pb2_grpc as services

folder = pathlib.Path(sys.argv[1])

class Work(services.CheckpointWorkServicer):
    def Ask(self, asked, context):
        with (folder / "asked").open("a") as file:
            file.write(f"{asked.n} {'may' if asked.may_defer_s else 'must'}\\n")
        yield pb.CheckpointAnswer(n=asked.n, estimate_s=5)
        if asked.may_defer_s:
            yield pb.CheckpointAnswer(n=asked.n, defer_s=60)
            return
        (pathlib.Path(asked.path) / "state").write_text("state")
        yield pb.CheckpointAnswer(n=asked.n, done=True)

server = grpc.server(ThreadPoolExecutor(2))
services.add_CheckpointWorkServicer_to_server(Work(), server)
server.add_insecure_port(f"127.0.0.1:{os.environ['LATTICE_CHECKPOINT_PORT']}")
server.start()
(folder / "listens").touch()
time.sleep(3600)
"""

HOLDS = """
import pathlib, sys, time
from lattice_sdk.checkpoints.program import Checkpoints

folder, checkpoints = pathlib.Path(sys.argv[1]), Checkpoints()
while True:
    time.sleep(0.02)
    if request := checkpoints.requested():
        with (folder / "asked").open("a") as file:
            file.write(f"{request.n}\\n")
        while not (folder / "go").exists():
            time.sleep(0.02)
        (request.path / "state").write_text("state")
        request.done()
"""


def python(scratch: Path, text: str) -> list[str]:
    program = scratch / "program.py"
    program.write_text(text)
    return [str(ROOT / ".venv" / "bin" / "python"), str(program), str(scratch)]


def test_work_that_listens_puts_a_checkpoint_off_until_it_must_write(cluster: LocalCluster, scratch: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster.put("/settings/checkpoint.max_deferral_s", {"value": "1"})
    try:
        words = ["--checkpoint=grpc", f"--checkpoint-port={port}", "-o", "json", "--"]
        name = json.loads(cluster.cli("submit", *words, *python(scratch, LISTENS)).stdout)["id"]
        cluster.wait_state(name, "Running")
        refused = cluster.cli("checkpoint", name, check=False)
        if not (scratch / "listens").exists():
            assert f"none of its processes listens on port {port} alone" in refused.stderr
        eventually((scratch / "listens").exists, "it listens")
        done = checkpoint(cluster, name)
        assert (done["state"], done["bytes"]) == ("complete", len("state"))
        assert (scratch / "asked").read_text().split()[-2:] == [str(done["n"]), "must"]
        assert f"{done['n']} may" in (scratch / "asked").read_text()
        cluster.delete(f"/allocations/{name}")
    finally:
        cluster.put("/settings/checkpoint.max_deferral_s", {"value": "300"})


def test_work_that_registered_is_asked_once_although_agent_and_server_are_killed(
    cluster: LocalCluster, scratch: Path
) -> None:
    name = cluster.submit(python(scratch, HOLDS), checkpoint={"protocol": "grpc"})["id"]
    node = cluster.wait_state(name, "Running")["nodes"][0]

    def asked() -> bool:
        cluster.cli("checkpoint", name, check=False)
        return (scratch / "asked").exists()

    eventually(asked, "it is asked")
    agent = cluster.kill("agent", node)
    server = cluster.kill("server")
    cluster.wait_replaced(agent)
    cluster.wait_replaced(server)
    cluster.wait_serving()
    cluster.wait_node(node, "Ready")
    (scratch / "go").touch()
    eventually(
        lambda: cluster.get(f"/allocations/{name}/checkpoints")["items"][-1]["state"] == "complete", "it is done"
    )
    assert len((scratch / "asked").read_text().split()) == 1
    again = checkpoint(cluster, name)
    assert (again["state"], again["n"]) == ("complete", 2), "the new agent asks for the next one"
    cluster.delete(f"/allocations/{name}")
