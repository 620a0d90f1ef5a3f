"""What runs and steps used, and how a step ends that ran out of memory: real processes in real groups."""

import signal
import sys
from typing import Any

import pytest

from lattice.testing import eventually
from tests.conftest import missing
from tests.integration.agent.shim_process import ShimProcess
from tests.integration.agent.test_shim_steps import about, request, step_end

pytestmark = pytest.mark.root

HOG = "x = bytearray(300 << 20)"
BURN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
DIRECT = """import errno, mmap, os, time
began, block = time.monotonic(), mmap.mmap(-1, 1 << 20)
try:
    fd = os.open(os.environ["FILE"], os.O_WRONLY | os.O_CREAT | os.O_DIRECT, 0o600)
    for _ in range(4):
        os.write(fd, block)
except OSError as error:
    if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
        raise
    began = time.monotonic()
took = round(time.monotonic() - began, 3) if "fd" in dir() else 0
print(took)
open(os.path.join(os.path.dirname(os.environ["FILE"]), "took"), "w").write(str(took))"""
WRITE = "import os\nf = open(os.environ['FILE'], 'wb')\nf.write(bytes(4 << 20))\nf.flush()\nos.fsync(f.fileno())"


def test_run_that_uses_up_its_share_tells_how_long_it_waited(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    fields = root_shim.request(1, sys.executable, "-S", "-c", BURN, memory_mb=64)
    agent.ask("start", **fields, limits={"cpus": 0.1, "pids": 50})
    end = agent.ended(1)
    assert end["throttled_s"] > 0
    assert end["cpu_s"] >= 0.3
    assert end["peak_pids"] >= 1


def test_bytes_that_a_run_wrote_to_storage_are_counted(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    fields = root_shim.request(1, sys.executable, "-S", "-c", WRITE)
    agent.ask("start", **{**fields, "env": {**fields["env"], "FILE": str(root_shim.dir / "written")}})
    end = agent.ended(1)
    assert end["cause"] == "exit", end
    assert end["written_bytes"] >= 4 << 20
    assert end["read_bytes"] >= 0


def test_run_and_its_steps_write_no_faster_than_they_may(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    if "io" not in agent.ask("list")["limits"]:
        missing("a kernel that slows reading and writing down")
    target = root_shim.dir / "written"
    fields = root_shim.request(1, sys.executable, "-S", "-c", DIRECT)
    agent.ask("start", **{**fields, "env": {**fields["env"], "FILE": str(target)}}, limits={"write_bps": 4_000_000})
    assert agent.ended(1)["exit_code"] == 0
    if not float(root_shim.output(1)):
        missing("a file system on a disk, that writes past the cache of the kernel")
    assert float(root_shim.output(1)) > 0.7  # 4 MB
    agent.ask("start", **root_shim.request(2, "sleep", "300"), limits={"write_bps": 4_000_000})
    step = request(root_shim, 2, sys.executable, "-S", "-c", DIRECT)
    assert agent.ask("launch_step", **{**step, "env": {**step["env"], "FILE": str(target)}})["ok"]
    step_end(agent, 2)
    slow = (root_shim.dir / "took").read_text()
    assert float(slow) > 0.7
    agent.ask("stop", number=2, run=1, grace_s=0.0, why="cancelled")
    agent.ended(2)


def test_step_over_the_memory_limit_ends_alone(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    agent.ask("start", **root_shim.request(7, "sleep", "300", memory_mb=64), limits={"pids": 50})
    program = f"import os, time\nif os.environ['RANK'] == '1':\n    {HOG}\nelse:\n    time.sleep(300)"
    fields = request(root_shim, 7, sys.executable, "-S", "-c", program, tasks=2)
    assert agent.ask("launch_step", **fields)["ok"]
    while not (failed := [event for event in agent.events if event["event"] == "step" and event["tasks"]]):
        agent.receive()
    # The task that the kernel killed is named at once, whatever ends the others then.
    (victim,) = failed[0]["tasks"]
    assert (victim["rank"], victim["signal"]) == (1, signal.SIGKILL)
    assert victim["oom"].startswith("limit 64 MB, peak 6")
    assert "of rank 1" in victim["oom"]
    agent.ask("end_step", **about(fields), grace_s=0.0, why="a task failed")
    end = step_end(agent, 7)
    assert (end["cause"], end["why"]) == ("oom", victim["oom"])
    assert 40 < end["peak_memory_mb"] <= 66  # version 2 counts what processors took in advance
    assert end["peak_pids"] >= 2
    assert agent.ask("list")["runs"][0]["phase"] == "running"
    agent.ask("stop", number=7, run=1, grace_s=0.0, why="cancelled")
    assert agent.ended(7)["cause"] == "stopped"


def test_run_is_not_blamed_for_a_step_that_ran_out_of_memory(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    agent.ask("start", **root_shim.request(8, "sleep", "300", memory_mb=64))
    fields = request(root_shim, 8, sys.executable, "-S", "-c", HOG)
    assert agent.ask("launch_step", **fields)["ok"]
    assert step_end(agent, 8)["cause"] == "oom"
    agent.ask("signal", number=8, run=1, signal=int(signal.SIGKILL), to="entrypoint")
    assert agent.ended(8)["cause"] == "signal"


def test_runs_and_steps_are_measured_while_they_live(root_shim: ShimProcess) -> None:
    agent = root_shim.connect()
    agent.ask("start", **root_shim.request(7, "sleep", "300", memory_mb=64), limits={"cpus": 1.0, "pids": 50})
    agent.ask("start", **root_shim.request(8, "sleep", "300"))
    fields = request(root_shim, 7, "sleep", "300", tasks=2)
    assert agent.ask("launch_step", **fields)["ok"]

    def measured() -> tuple[dict[str, Any], dict[str, Any]]:
        groups = {group.get("step"): group for group in agent.ask("measure", number=7, run=1)["groups"]}
        return groups[None], groups[fields["step"]]

    def are_in_their_groups() -> bool:
        whole, step = measured()
        return (whole["pids"], step["pids"]) == (3, 2)

    eventually(are_in_their_groups, "all processes to be in their groups")
    whole, step = measured()
    assert 0 < step["memory_mb"] <= whole["memory_mb"] <= whole["peak_memory_mb"] <= 64
    assert whole["throttled_s"] >= 0
    assert {group["number"] for group in agent.ask("measure")["groups"]} == {7, 8}
    assert agent.ask("measure", number=9, run=1)["groups"] == []
    for number in (7, 8):
        agent.ask("stop", number=number, run=1, grace_s=0.0, why="cancelled")
        agent.ended(number)
