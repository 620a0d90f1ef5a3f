"""What the launcher does before it asks the shim."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lattice.agent.figures.figures import AgentFigures
from lattice.agent.hooks.protocol import Finished, Launch
from lattice.agent.hooks.runner import HookRunner
from lattice.agent.launcher import Launcher
from lattice.agent.machine.state import Retention, Run, RunRefused, Stimulus
from lattice.agent.messages import NodeFacts
from lattice.agent.runs.devices import DeviceTable, NodeTopology
from lattice.agent.runs.folders import RunFolders
from lattice.agent.settings import Settings
from lattice.agent.shim_client import ShimMessage
from lattice.ports.nodes.agents import EndCause, RunKey, StartOrder
from tests.unit.agent.test_launch import ME, own_policy


class Mounting:
    """A hook that mounts, and tells whether it was undone."""

    name, timeout_s, undoes_unrecorded = "mounting", 10.0, False
    is_undone = False

    def applies(self, order: StartOrder) -> bool:
        return True

    async def prepare(self, launch: Launch) -> None:
        launch.leave({"made": "1"})
        launch.add_mount("tmpfs", "/dev/shm")

    async def undo(self, finished: Finished) -> None:
        self.is_undone = True


class OldShim:
    """An agent whose shim knows no mounts."""

    shim_id, can_mount, can_confine = "1-1", False, False

    def __init__(self) -> None:
        self.fed: list[Stimulus] = []
        self.figures = AgentFigures("n1", lambda message: None)

    def feed(self, stimulus: Stimulus) -> None:
        self.fed.append(stimulus)

    def find_run(self, key: RunKey) -> Run | None:
        return None

    def holds_devices(self, key: RunKey) -> bool:
        return False

    def ask_shim(self, body: dict[str, object], on_answer: Callable[[ShimMessage], None] | None) -> None:
        raise AssertionError("the shim would ignore the mounts")

    async def fail_disk(self, why: str) -> None:
        raise AssertionError(why)


def launched(tmp_path: Path, hook: Mounting, cpus: int = 0) -> RunRefused:
    """What becomes of an order at a node with an old shim."""
    facts = NodeFacts(
        node_id="n1",
        address="",
        boot_id="b",
        cpus=4,
        memory_mb=4096,
        gpus=0,
        gpu_type="",
        group="",
        features=(),
        runs_as_root=True,
        agent_user="",
    )
    settings = Settings(
        state_dir=tmp_path, facts=facts, policy=own_policy(), retention=Retention(), output_limit=1, grace_s=1.0
    )
    folders, agent = RunFolders(tmp_path, reachable=False), OldShim()
    devices = DeviceTable(4, 0, "", NodeTopology())
    with ThreadPoolExecutor(1) as pool:
        runner = HookRunner([hook], folders.path)
        launcher = Launcher(settings, folders, devices, runner, pool, "", agent=agent)
        order = StartOrder(key=RunKey(7, 1), allocation_id="a7", user=ME.pw_name, argv=("true",), cwd="/", cpus=cpus)
        asyncio.run(launcher.launch(order))
    (refused,) = agent.fed
    assert isinstance(refused, RunRefused)
    assert refused.cause is EndCause.PROLOGUE, "it is tried on another node"
    return refused


def test_run_that_needs_mounts_is_not_given_to_a_shim_without_them(tmp_path: Path) -> None:
    hook = Mounting()
    assert "cannot mount for a run" in launched(tmp_path, hook).message
    assert hook.is_undone


def test_share_is_not_given_to_a_shim_that_ignores_its_limits(tmp_path: Path) -> None:
    assert "cannot limit work" in launched(tmp_path, Mounting(), cpus=2).message
