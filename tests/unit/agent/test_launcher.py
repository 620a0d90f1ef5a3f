"""What the launcher does before it asks the shim."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from lattice.agent.figures.figures import AgentFigures
from lattice.agent.hooks.protocol import Finished, Launch
from lattice.agent.hooks.runner import HookRunner
from lattice.agent.launcher import Launcher
from lattice.agent.machine.state import Retention, Run, RunRefused, RunStarted, Stimulus
from lattice.agent.messages import NodeFacts
from lattice.agent.runs.devices import DeviceTable, NodeTopology
from lattice.agent.runs.folders import RunFolders
from lattice.agent.settings import Settings
from lattice.agent.shim_client import ShimMessage
from lattice.ports.nodes.agents import EndCause, Phase, RunKey, StartOrder
from tests.unit.agent.test_launch import ME, own_policy


class Mounting:
    """A hook that mounts, and tells whether it was undone."""

    name, timeout_s, undoes_unrecorded = "mounting", 10.0, False
    is_undone = False
    is_wanted = True

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] = lambda: None

    def applies(self, order: StartOrder) -> bool:
        return True

    async def prepare(self, launch: Launch) -> None:
        launch.leave({"made": "1"})
        self.meanwhile()
        self.is_wanted = launch.say("fetching")
        launch.add_mount("tmpfs", "/dev/shm")

    async def undo(self, finished: Finished) -> None:
        self.is_undone = True


class OldShim:
    """An agent whose shim knows no mounts."""

    shim_id, shim_can = "1-1", ShimMessage()

    def __init__(self) -> None:
        self.fed: list[Stimulus] = []
        self.figures = AgentFigures("n1", lambda message: None)

    def feed(self, stimulus: Stimulus) -> None:
        self.fed.append(stimulus)

    def find_run(self, key: RunKey) -> Run | None:
        return Run(key=key, phase=Phase.STARTING)

    def holds_devices(self, key: RunKey) -> bool:
        return False

    def ask_shim(self, body: dict[str, object], on_answer: Callable[[ShimMessage], None] | None) -> None:
        raise AssertionError("the shim would ignore the mounts")

    async def fail_disk(self, why: str) -> None:
        raise AssertionError(why)


class SlowShim(OldShim):
    """An agent whose shim answers when it is told to."""

    shim_can = ShimMessage(mounts=True, limits=())

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Callable[[ShimMessage], None]] = []

    def ask_shim(self, body: dict[str, object], on_answer: Callable[[ShimMessage], None] | None) -> None:
        assert on_answer is not None
        self.asked.append(on_answer)


class LosesShim(SlowShim):
    """An agent whose shim dies while the run is being prepared."""

    phase = Phase.STARTING

    def find_run(self, key: RunKey) -> Run | None:
        return Run(key=key, phase=self.phase)


@contextmanager
def launcher_of(tmp_path: Path, agent: OldShim, *hooks: Mounting) -> Iterator[Launcher]:
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
    folders, devices = RunFolders(tmp_path, reachable=False), DeviceTable(4, 0, "", NodeTopology())
    with ThreadPoolExecutor(1) as pool:
        yield Launcher(settings, folders, devices, HookRunner(list(hooks), folders.path), pool, "", agent=agent)


def order_of(cpus: int = 0) -> StartOrder:
    return StartOrder(key=RunKey(7, 1), allocation_id="a7", user=ME.pw_name, argv=("true",), cwd="/", cpus=cpus)


def launched(tmp_path: Path, hook: Mounting, cpus: int = 0) -> RunRefused:
    """What becomes of an order at a node with an old shim."""
    agent = OldShim()
    with launcher_of(tmp_path, agent, hook) as launcher:
        asyncio.run(launcher.launch(order_of(cpus)))
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


def test_a_launch_lasts_until_the_shim_has_made_the_process(tmp_path: Path) -> None:
    """Full tunnels rest as long: a process that is being made would wait for them."""
    agent = SlowShim()

    async def scenario(launcher: Launcher) -> None:
        launching = asyncio.create_task(launcher.launch(order_of()))
        while not agent.asked:  # noqa: ASYNC110 - a thread prepares it
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        assert not launching.done()
        agent.asked[0](ShimMessage(ok=True, pid=1, started_boot_s=1.0))
        await asyncio.wait_for(launching, 10)

    with launcher_of(tmp_path, agent) as launcher:
        asyncio.run(scenario(launcher))
    assert [type(each) for each in agent.fed] == [RunStarted]


def test_hooks_are_told_that_a_lost_run_is_not_wanted_any_more(tmp_path: Path) -> None:
    agent, hook = LosesShim(), Mounting()
    hook.meanwhile = lambda: setattr(agent, "phase", Phase.ENDED)
    with launcher_of(tmp_path, agent, hook) as launcher:
        asyncio.run(asyncio.wait_for(launcher.launch(replace(order_of(), awaits=True)), 10))
    assert not hook.is_wanted
    assert hook.is_undone
    assert agent.asked == []
