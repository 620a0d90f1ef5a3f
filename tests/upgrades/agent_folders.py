"""What an agent and its shim leave on the node's disk: the folders of a run that lives, of one that has ended, and of a step."""

import json
import os
from pathlib import Path

from lattice.agent.runs.devices import Devices
from lattice.agent.runs.folders import RunFolders
from lattice.agent.steps.folders import STATUS, StepFolders, StepSpec
from lattice.ports.nodes.agents import EarlySignal, RunFiles, RunKey, StartOrder, StepKey

AGENT = "agent"
LIVE, ENDED = RunKey(7, 2), RunKey(8, 1)
STEP = StepKey(7, 2, 0)
SHIM = "shim-1"
DEVICES = Devices(cpus=(0, 1, 2, 3), gpus=(0,))


def order(key: RunKey) -> StartOrder:
    """Every field says something; what is secret or large has a file of its own."""
    return StartOrder(
        key=key,
        allocation_id=f"a{key.number}",
        name="train",
        user="ada",
        cwd="/home/ada",
        argv=("python", "train.py"),
        env={"A": "1"},
        nodes=("n1", "n2"),
        walltime_s=3600.0,
        grace_s=30.0,
        cpus=4,
        memory_mb=1024,
        gpus=1,
        task_index=3,
        task_group_id="a6",
        submit_dir="/home/ada",
        api_url="http://s1",
        fence=True,
        tasks=2,
        summary=True,
        epoch=20,
        files=RunFiles(stdout="/home/ada/o", append=True),
        early_signal=EarlySignal(signal=10, before_s=60.0, to="steps"),
    )


def record_agent(target: Path) -> None:
    folders, owner = RunFolders(target / AGENT, reachable=False), (os.geteuid(), os.getegid())
    for key in (LIVE, ENDED):
        folder = folders.create(order(key), owner, SHIM, DEVICES)
        status = {"number": key.number, "run": key.run, "phase": "running", "started_boot_s": 100.5}
        if key == ENDED:
            status |= {"phase": "ended", "cause": "exit", "exit_code": 3, "elapsed_s": 60.0}
        (folder / STATUS).write_text(json.dumps(status))
    steps = StepFolders(target / AGENT, reachable=False)
    spec = StepSpec(launch_id="mine", plan=b"plan", ranks=(0, 1), fence=True, devices=Devices(cpus=(0, 1)))
    folder = steps.create(STEP, spec, "", owner)
    (folder / STATUS).write_text(json.dumps({"number": 7, "run": 2, "step": 0, "phase": "running"}))
