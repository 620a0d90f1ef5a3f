"""Makes a run ready and asks the shim for it: devices, account and folder first, then the launch hooks in their order."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from typing import Protocol, cast

import msgspec

from lattice.agent.checkpoints.doors import Doors
from lattice.agent.containers.node import NodeContainers
from lattice.agent.containers.steps import note_mounts
from lattice.agent.figures.figures import AgentFigures
from lattice.agent.hooks.checkpoints import CheckpointHook
from lattice.agent.hooks.container import ContainerHook
from lattice.agent.hooks.data import DataHook
from lattice.agent.hooks.images import ImagesHook
from lattice.agent.hooks.protocol import HookFailed, LaunchHook, RunImpossible
from lattice.agent.hooks.runner import HookRunner
from lattice.agent.hooks.scratch import ScratchHook
from lattice.agent.hooks.site_programs import SiteProgramsHook
from lattice.agent.hooks.stage_out import StageOutHook
from lattice.agent.machine.state import Run, RunRefused, RunStarted, Stimulus
from lattice.agent.results.checkpoints import CheckpointStore
from lattice.agent.runs.account_cache import AccountCache
from lattice.agent.runs.devices import Devices, DeviceTable, NoDevices
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.launch import DISK_FAULTS, Account, LaunchRefused, NodeCannotWrite, prepare
from lattice.agent.runs.limits import run_limits
from lattice.agent.runs.memory_policy import policy_request
from lattice.agent.runs.ports import NoPort, PortChooser
from lattice.agent.runs.signed_store import SignedStore
from lattice.agent.settings import Settings
from lattice.agent.shim_client import ShimMessage
from lattice.core.model.nodes.memory_policy import FEATURE as POLICY_FEATURE
from lattice.ports.nodes.agents import EndCause, Phase, RunKey, StartOrder, StartProgress
from lattice.wire.agents.messages import START_PROGRESS
from lattice.wire.pb import agent_pb2 as pb

_log = logging.getLogger(__name__)

PROLOGUE_FEATURE = "prologue"
START_FEATURES = {PROLOGUE_FEATURE, POLICY_FEATURE}
FORKED_WITHIN_S = 1.0  # full streams rest no longer for a process that is being made
LOOK_AGAIN_S = 0.2  # a stop is not told: it is looked for


class Surroundings(Protocol):
    """What the launcher needs of the agent it belongs to."""

    @property
    def figures(self) -> AgentFigures: ...

    def feed(self, stimulus: Stimulus) -> None: ...

    def find_run(self, key: RunKey) -> Run | None: ...

    def holds_devices(self, key: RunKey) -> bool:
        """Whether anything of the run is alive."""
        ...

    @property
    def shim_id(self) -> str:
        """Which shim answers now; empty while none does."""
        ...

    @property
    def shim_can(self) -> ShimMessage:
        """What that shim said of itself; one that is older ignores what it does not know."""
        ...

    def ask_shim(self, body: dict[str, object], on_answer: Callable[[ShimMessage], None] | None) -> None: ...

    def fail_disk(self, why: str) -> Awaitable[None]:
        """Returns when the servers know that this node takes no more work."""
        ...


def start_features(settings: Settings, shim: ShimMessage) -> set[str]:
    """Policies of memory; and whether every run that has this node needs it prepared, be it for steps alone: the site runs programs,
    or gives each run a directory."""
    programs = settings.hooks
    is_needed = programs.has_prologue or programs.has_epilogue or settings.scratch.folder is not None
    return ({PROLOGUE_FEATURE} if is_needed else set()) | ({POLICY_FEATURE} if shim.memory_policies else set())


def checkpoint_copies(settings: Settings, signed: Callable[[], SignedStore]) -> CheckpointStore:
    """Copies of checkpoints in the object store."""
    return CheckpointStore(settings.object_store, signed)


def launch_hooks(
    settings: Settings, containers: NodeContainers, doors: Doors, signed: Callable[[], SignedStore] = SignedStore
) -> list[LaunchHook]:
    """The hooks of this node, in the order in which they prepare a run. Images and data come before what may hide where they lie."""
    hooks: list[LaunchHook] = []
    if settings.hooks.has_prologue or settings.hooks.has_epilogue:
        hooks.append(SiteProgramsHook(settings.hooks, settings.facts.node_id))
    hooks.append(ImagesHook(containers.fetcher))
    hooks.append(DataHook(settings.data, settings.state_dir))
    if settings.scratch.folder is not None:
        hooks.append(ScratchHook(settings.scratch.folder, in_memory=settings.scratch.in_memory))
        hooks.append(StageOutHook(settings.scratch.folder, settings.facts.node_id, signed))
    hooks.append(CheckpointHook(settings.state_dir, doors, checkpoint_copies(settings, signed)))
    hooks.append(ContainerHook(containers))
    return hooks


class Launcher:
    def __init__(
        self,
        settings: Settings,
        folders: RunFolders,
        devices: DeviceTable,
        hooks: HookRunner,
        pool: Executor,
        programs: str,
        agent: Surroundings,
        post: Callable[[pb.AgentMessage], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._folders = folders
        self._devices = devices
        self._hooks = hooks
        self._pool = pool
        self._programs = programs
        self._agent = agent
        self._post = post
        hooks.say, hooks.can_mount = self._tell_progress, lambda: agent.shim_can.mounts
        hooks.copies = self._tell_copies
        self._accounts = AccountCache(settings.policy)
        self._ports = PortChooser()
        self._gates: dict[RunKey, asyncio.Event] = {}  # of runs that wait for their other nodes
        self._tasks: set[asyncio.Task[None]] = set()

    async def launch(self, order: StartOrder) -> None:
        since_s = self._agent.figures.now_s()
        if order.awaits:
            self._gates[order.key] = asyncio.Event()
        try:
            await self._launch(order, since_s)
        finally:
            self._gates.pop(order.key, None)

    def go(self, heard: object) -> None:
        """An order to start that does not say `awaits`: the other nodes of the run are prepared, and its process may start."""
        if isinstance(heard, StartOrder) and not heard.awaits and (gate := self._gates.get(heard.key)) is not None:
            gate.set()

    async def _others_failed(self, order: StartOrder) -> str:
        """Waits until every node of the run is prepared; why the run is not to start, if it was stopped meanwhile."""
        gate = self._gates.get(order.key)
        while gate is not None and not gate.is_set():
            if not self._tell_progress(order.key, ""):
                return "stopped while other nodes of the run were being prepared"
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(gate.wait(), LOOK_AGAIN_S)
        return ""

    def _mount_refusal(self, request: Mapping[str, object]) -> str:
        shim, mounts = self._agent.shim_can, cast("list[dict[str, object]]", request.get("mounts") or [])
        if not shim.mounts and not {each["kind"] for each in mounts} <= set(shim.mount_kinds):
            return "the shim of this node cannot mount for a run: it is older than the agent, or not root"
        return ""

    async def _launch(self, order: StartOrder, since_s: float) -> None:
        order = msgspec.structs.replace(order, grace_s=order.grace_s or self._settings.grace_s)
        shim_id = self._agent.shim_id
        try:
            order = self._ports.chosen(order, self._agent.holds_devices)
            devices = self._devices.assign(order, self._agent.holds_devices)
            account = self._accounts.recall(order)
            if account is not None:
                request = self._prepare(order, shim_id, devices, account)
            else:
                loop = asyncio.get_running_loop()
                request = await loop.run_in_executor(self._pool, self._prepare, order, shim_id, devices)
            self._check_shim(request)
            await self._hooks.prepare(order, request)
            if order.container is None:
                note_mounts(request)
            if refusal := self._mount_refusal(request) or await self._others_failed(order):
                self._hooks.settle(request)
                await self._hooks.undo(order.key, order.allocation_id)
                raise HookFailed(refusal)
        except (HookFailed, NoPort) as failure:
            run = self._agent.find_run(order.key)
            is_stopped = run is not None and run.stop is not None
            cause = EndCause.STOPPED if is_stopped else EndCause.PROLOGUE
            self._agent.feed(RunRefused(key=order.key, message="" if is_stopped else str(failure), cause=cause))
            return
        except NodeCannotWrite as failure:
            await self._cannot_write(order.key, str(failure))
            return
        except (LaunchRefused, NoDevices, RunImpossible) as refusal:
            self._agent.feed(RunRefused(key=order.key, message=str(refusal)))
            return
        except Exception as error:  # noqa: BLE001 - the loop's edge: a start must not be lost silently
            _log.exception("launch failed", extra={"allocation_id": order.allocation_id})
            self._agent.feed(RunRefused(key=order.key, message=f"the agent failed to launch it: {error}"))
            return
        run = self._agent.find_run(order.key)
        if run is None or run.phase is not Phase.STARTING or not shim_id or self._agent.shim_id != shim_id:
            # The shim went away meanwhile; its successor's list decided, or will, that this run is lost.
            self._hooks.settle(request)
            await self._hooks.undo(order.key, order.allocation_id)
            return
        answered = asyncio.Event()

        def answer_came(answer: ShimMessage) -> None:
            answered.set()
            self._answered(order, request, answer, since_s)

        self._agent.ask_shim(request, answer_came)
        # Its start is over when its process was made: full streams rest until then.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FORKED_WITHIN_S):
                await answered.wait()

    def _tell_progress(self, key: RunKey, text: str) -> bool:
        """Whether the start is wanted still: it may have been stopped, or lost with its shim."""
        run = self._agent.find_run(key)
        if run is None or run.stop is not None or run.phase is Phase.ENDED:
            return False
        if text:
            told = START_PROGRESS.write(StartProgress(key=key, text=text))
            self._post(pb.AgentMessage(start_progress=told))
        return True

    def _tell_copies(self, key: RunKey) -> None:
        told = START_PROGRESS.write(StartProgress(key=key, copies=True))
        self._post(pb.AgentMessage(start_progress=told))

    def _prepare(
        self, order: StartOrder, shim_id: str, devices: Devices, account: Account | None = None
    ) -> dict[str, object]:
        account = account or self._accounts.meet(order)
        node_id, policy = self._settings.facts.node_id, self._settings.policy
        variables = self._devices.environment(devices)
        request = prepare(order, self._folders, policy, node_id, shim_id, self._programs, devices, variables, account)
        settings = self._settings
        limits = run_limits(
            settings.limits,
            settings.node_size,
            order.cpus,
            order.memory_mb,
            devices,
            (order.read_mb_s, order.write_mb_s),
        )
        return request | limits | policy_request(order.memory_policy, self._devices.memory, devices)

    def _check_shim(self, request: dict[str, object]) -> None:
        """A shim of an earlier release ignores limits that it does not know; it keeps its work, and gets none that needs them."""
        limits = request.get("limits")
        if not isinstance(limits, dict) or self._agent.shim_can.limits is not None:
            return
        if "cpus" in limits or "rlimits" in limits:
            raise HookFailed(
                "the shim of this node is older than its agent and cannot limit work as this agent has to; "
                "restart it when its work has ended"
            )

    def _answered(self, order: StartOrder, request: dict[str, object], answer: ShimMessage, since_s: float) -> None:
        self._hooks.settle(request)
        if answer.ok:
            self._agent.figures.started(since_s)
            about = {"allocation_id": order.allocation_id, "number": order.key.number, "run": order.key.run}
            _log.info("run started, pid %d", answer.pid, extra=about)
            self._agent.feed(RunStarted(key=order.key, started_boot_s=answer.started_boot_s, ports=order.exposes))
            return
        task = asyncio.create_task(self._refused(order, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _refused(self, order: StartOrder, answer: ShimMessage) -> None:
        await self._hooks.undo(order.key, order.allocation_id)
        if answer.errno in DISK_FAULTS:
            await self._cannot_write(order.key, answer.error)
        else:
            self._agent.feed(RunRefused(key=order.key, message=answer.error))

    async def _cannot_write(self, key: RunKey, message: str) -> None:
        """The node takes no more work before this run is given back, lest the next one meets the same end."""
        _log.error("the node cannot start work: %s", message, extra={"number": key.number, "run": key.run})
        await self._agent.fail_disk(message)
        self._agent.feed(RunRefused(key=key, message=message, cause=EndCause.NODE))
