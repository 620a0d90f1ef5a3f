"""Carries out what servers say about steps: the launch with its slow parts in a thread, everything else immediately."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor
from pathlib import Path

from msgspec.structs import replace

from lattice.agent.checkpoints.control import remove_control
from lattice.agent.connection import Outbox
from lattice.agent.containers.node import NodeContainers
from lattice.agent.containers.steps import StepContainers
from lattice.agent.hooks.data import DataHook
from lattice.agent.hooks.protocol import HookFailed, Launch, Left, RunImpossible
from lattice.agent.images.mounting import ImageRefused, ImageUnavailable, add_images
from lattice.agent.machine.state import Run
from lattice.agent.machine.step_status import StepStatus
from lattice.agent.pmix.building import FEATURE as PMIX
from lattice.agent.pmix.building import find_host
from lattice.agent.runs.devices import Devices, DeviceTable, NoDevices
from lattice.agent.runs.launch import LaunchRefused, NodeCannotWrite
from lattice.agent.runs.output import Readers
from lattice.agent.settings import Settings
from lattice.agent.shim_client import ShimMessage
from lattice.agent.steps.binding import Bindings
from lattice.agent.steps.launch import Site, prepare_step
from lattice.agent.steps.table import StepRetention, Steps
from lattice.core.model.work.binding import TaskDevices
from lattice.ports.nodes.agents import KnownStep, Phase, RunKey, StartOrder, StepKey
from lattice.ports.nodes.steps import (
    AckOrder,
    DropContainersOrder,
    EndOrder,
    LaunchOrder,
    NodesEndedOrder,
    ResizeOrder,
    SignalOrder,
)
from lattice.wire.agents.messages import STEP_KEY, step_order_of
from lattice.wire.pb import agent_pb2 as pb

_log = logging.getLogger(__name__)

Ask = Callable[[dict[str, object], Callable[[ShimMessage], None] | None], None]


class StepDriver:
    """The steps' part of the driver. `find` returns runs, `run_folder` their directories."""

    def __init__(
        self,
        site: Site,
        devices: DeviceTable,
        pool: Executor,
        *,
        ask: Ask,
        post: Callable[[pb.AgentMessage], None],
        spawn: Callable[[Coroutine[None, None, None]], None],
        find: Callable[[RunKey], Run | None],
        run_folder: Callable[[RunKey], Path],
        containers: NodeContainers,
        settings: Settings,
        cleared: Callable[[], None],
        cannot_write: Callable[[str], Awaitable[None]],
    ) -> None:
        self.folders = site.folders
        self._site = site = replace(site, pmix=find_host(site.folders.root.parent / "libexec"))
        self._cannot_write = cannot_write
        self._devices = devices
        self._pool = pool
        self._ask = ask
        self._spawn = spawn
        self._find = find
        self._images = containers.fetcher
        self._containers = containers
        self._own = StepContainers(containers, ask)
        self._data = DataHook(settings.data, settings.state_dir)
        self._run_folder = run_folder
        self._kinds = frozenset[str]()  # what the shim offers to ranks, once it has said so
        self._has_terminals = False
        self.table = Steps(site.folders, ask, post, cleared, StepRetention())
        self._can_bind = False  # whether the shim binds single tasks, once it has said so
        self._bindings = Bindings(devices, self.table.is_open)
        self.audited: Callable[[StartOrder], Awaitable[str]] = _nothing  # before a step starts; why it may not

    def meet_shim(self, listing: ShimMessage) -> set[str]:
        """Note what the shim can do; the features of the node that follow from it."""
        self._can_bind = listing.task_cpus
        has_pmix = listing.pmix_service and self._site.pmix is not None
        self._has_terminals = listing.terminals
        self._own.meet_shim(listing)
        self._kinds = frozenset(("pmi1", "pmi2") if listing.pmi_service else ()) | {PMIX for _ in range(has_pmix)}
        return {PMIX} if has_pmix else set()

    def start(self) -> None:
        """Recall what an earlier agent launched."""
        self.table.recall()
        if self._devices.is_empty:
            return
        for found in self._site.folders.found():
            self._bindings.recall(found.key, found.spec.cpus)
            if self.table.is_alive(found.key.of_run) and self._find(found.key.of_run) is None:
                self._devices.recall(found.key.of_run, found.spec.devices)

    def known(self) -> tuple[list[KnownStep], set[RunKey]]:
        """Steps, and runs of which containers are kept."""
        return self.table.known(), self._own.kept

    def judge(self, held_by: frozenset[RunKey]) -> bool:
        """Ends what is left of runs that do not hold this node; True when there are steps to be waited for."""
        self._own.judge(held_by)
        return self.table.judge(held_by)

    def heard(self, about: StepStatus | StepKey) -> None:
        if isinstance(about, StepKey):
            self.table.grew(about)
        else:
            self.table.heard(about)

    def tick(self) -> None:
        self.table.repeat_reports()
        for key in self.table.expired():
            self._pool.submit(self._site.folders.remove, key)
            self._clear_control(key.of_run)

    def received(self, message: pb.ServerMessage) -> bool:
        """Whether the message was about a step."""
        match step_order_of(message):
            case LaunchOrder() as launch:
                self._launch(launch)
            case SignalOrder(key=key, signal=signal):
                self.table.order("signal_step", key, signal=signal)
            case EndOrder(key=key, grace_s=grace_s, why=why):
                self.table.end(key, grace_s, why)
            case ResizeOrder(key=key, rows=rows, columns=columns, client=client):
                self.table.order("resize_step", key, rows=rows, columns=columns, client=client)
            case NodesEndedOrder(key=key, places=places):
                self.table.order("shrink_step", key, places=list(places))
            case DropContainersOrder(key=of_run):
                self._own.drop(of_run)
            case AckOrder(key=key):
                self.table.acknowledged(key)
                self._clear_control(key.of_run)
            case None if message.HasField("step_input"):
                self.table.feed(message.step_input, STEP_KEY.read(message.step_input.key))
            case None:
                return False
        return True

    def _clear_control(self, run: RunKey) -> None:
        """What its steps were asked for checkpoints by, on a node where no hook of the run removes it."""
        if not self._is_alive(run):
            remove_control(self._site.folders.state_dir, run)

    def read(self, asked: pb.ReadOutput, readers: Readers, outbox: Outbox) -> None:
        key = StepKey(asked.key.number, asked.key.run, asked.step)
        readers.attend(asked.reader, self.table.send_journal(asked, key, outbox))

    def _launch(self, launch: LaunchOrder) -> None:
        ranks = tuple(task.rank for task in launch.tasks)
        if self.table.begin(launch.key, launch.launch_id, launch.plan, ranks, fence=launch.base.fence):
            self._spawn(self._carry_out(launch))

    async def _carry_out(self, launch: LaunchOrder) -> None:
        key = launch.key
        run = self._find(key.of_run)
        if run is not None and run.phase is not Phase.RUNNING:
            self.table.refuse(key, "the allocation is not running on this node")
            return
        try:
            if launch.terminal is not None and not self._has_terminals:
                raise LaunchRefused("the shim of this node is older than its agent and has no terminals")
            devices = self._devices.of(key.of_run)
            if devices is None:
                devices = self._devices.assign(launch.base, self._is_alive)
            variables = self._devices.environment(devices)
            bound = [(each, self._variables(each)) for each in self._bind(launch, devices)]
            launch = self._with_pmi(launch)
            folder, loop = self._run_folder(key.of_run), asyncio.get_running_loop()
            request = await loop.run_in_executor(
                self._pool, prepare_step, launch, self._site, devices, variables, folder, bound, self._devices.memory
            )
            if launch.container is None:
                await self._add_images(launch, request)
                await self._add_data(launch, request, run)
            if run is None and (why := await self.audited(launch.base)):
                raise LaunchRefused(why)
            if launch.container is not None:
                await self._launch_inside(launch, request, folder)
                return
            # Where the allocation runs its script the container is there; elsewhere the step brings it along, and the shim takes it.
            await self._containers.enter(launch.base, request, make=run is None)
        except NodeCannotWrite as failure:
            await self._cannot_write(str(failure))
            self.table.refuse(key, str(failure))
            return
        except (LaunchRefused, NoDevices, ImageRefused, ImageUnavailable, HookFailed, RunImpossible) as refusal:
            self.table.refuse(key, str(refusal))
            return
        except Exception as error:  # noqa: BLE001 - the loop's edge: a launch must not be lost silently
            _log.exception("launch of a step failed", extra={"number": key.number, "run": key.run})
            self.table.refuse(key, f"the agent failed to launch it: {error}")
            return
        if self.table.is_open(key):  # the shim that was to start it may be gone, and with it the step
            self._ask(request, lambda answer: self._answered(key, request, answer))
        else:
            self._containers.release(request)

    def _bind(self, launch: LaunchOrder, devices: Devices) -> list[TaskDevices]:
        bound = self._bindings.bind(launch, devices)
        if launch.cpu_bind not in ("", "none") and not self._can_bind:
            raise LaunchRefused("the shim of this node is older than its agent and cannot bind tasks to CPUs")
        return bound

    def _variables(self, task: TaskDevices) -> dict[str, str]:
        return {} if task.gpus is None else self._devices.environment(Devices(gpus=task.gpus))

    def _answered(self, key: StepKey, request: dict[str, object], answer: ShimMessage) -> None:
        self._containers.release(request)
        self.table.launched(key, answer)

    def _with_pmi(self, launch: LaunchOrder) -> LaunchOrder:
        """The order as the shim can carry it out: one of a release before has no PMI service, and most steps do not need one."""
        asked = launch.pmi
        if asked is None or self._kinds.issuperset(asked.kinds):
            return launch
        if asked.kinds == (PMIX,):
            raise LaunchRefused("this node has no PMIx any more")
        if len(asked.kinds) == 1:
            raise LaunchRefused("the shim of this node is older than its agent and has no PMI service")
        kinds = tuple(kind for kind in asked.kinds if kind in self._kinds)
        return replace(launch, pmi=replace(asked, kinds=kinds) if kinds else None)

    async def _add_images(self, launch: LaunchOrder, request: dict[str, object]) -> None:
        """The environment as the views make it; and the mounts, for a node where the allocation runs no script that has them."""
        if not launch.base.images:
            return
        if self._images is None:
            raise ImageUnavailable("images: this node has no image cache")
        await add_images(launch.base, request, self._images)

    async def _launch_inside(self, launch: LaunchOrder, request: dict[str, object], run_folder: Path) -> None:
        """In a container of the step's own. Raises ImageRefused and ImageUnavailable."""
        answer = await self._own.launch(launch, request, run_folder, self.table.is_open)
        if answer is not None:
            self.table.launched(launch.key, answer)

    async def _add_data(self, launch: LaunchOrder, request: dict[str, object], run: Run | None) -> None:
        """The data of the allocation, on a node where it runs no script that has it. Raises HookFailed and RunImpossible."""
        if run is None and self._data.applies(launch.base):
            await self._data.prepare(Launch(order=launch.base, request=request, leave=_refuse_to_leave))

    def _is_alive(self, key: RunKey) -> bool:
        run = self._find(key)
        return (run is not None and run.alive) or self.table.is_alive(key)


def _refuse_to_leave(_: Left) -> None:
    """Nothing of a step is undone by hooks."""
    raise HookFailed("data: an export or bucket that nodes mount for the work is on its first node alone; use `hot`")


async def _nothing(_order: StartOrder) -> str:
    return ""
