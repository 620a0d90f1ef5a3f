"""Performs the agent's instructions and feeds what happens back as stimuli. Decides nothing."""

import asyncio
import logging
import os
import random
import secrets
import shutil
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import assert_never

import msgspec

from lattice.agent import messages
from lattice.agent.at_hand import AtHandTeller
from lattice.agent.checkpoints import watching
from lattice.agent.checkpoints.doors import Doors
from lattice.agent.checks.builtins import Surroundings
from lattice.agent.checks.runner import DISK_SPACE, CheckRunner
from lattice.agent.collectors.figures import FigureRelay
from lattice.agent.collectors.member import Collection
from lattice.agent.collectors.tcp import TcpSwitchboard
from lattice.agent.connection import Outbox, agree_with, check_history
from lattice.agent.containers.node import NodeContainers
from lattice.agent.discovery.keeper import InventoryKeeper
from lattice.agent.discovery.processors import memory_used_mb
from lattice.agent.features import NodeFeatures
from lattice.agent.figures.figures import AgentFigures
from lattice.agent.hooks.access import AccessHook
from lattice.agent.hooks.runner import HookRunner
from lattice.agent.hooks.undoing import undo_run, undo_unstarted
from lattice.agent.images.node import NodeImages
from lattice.agent.images.questions import ImageQuestions
from lattice.agent.launcher import Launcher, checkpoint_copies, launch_hooks
from lattice.agent.machine.decide import fence_after_s
from lattice.agent.machine.feeding import StimulusQueue
from lattice.agent.machine.state import (
    AbandonOutput,
    AgentState,
    ClearRun,
    Connected,
    Disconnected,
    FinishRun,
    ForgetRun,
    Instruction,
    LaunchRun,
    LeaveInstance,
    OutputSettled,
    PauseRun,
    PurgeRun,
    RemoveRun,
    RenewToken,
    Run,
    RunCleared,
    RunEnded,
    SendConfirmed,
    SendRegister,
    SendReport,
    SettleOutput,
    ShimLost,
    SignalRun,
    StartShim,
    StepsCleared,
    Stimulus,
    StopRun,
    Tick,
    UpdateRun,
    WatchInstance,
    Welcomed,
)
from lattice.agent.messages import stimulus_of
from lattice.agent.results.kept import sweep_kept
from lattice.agent.runs.devices import DeviceTable
from lattice.agent.runs.folders import RunFolders
from lattice.agent.runs.launch import offer_programs, owner_of
from lattice.agent.runs.limits import what_lacks
from lattice.agent.runs.measuring import answer_measure
from lattice.agent.runs.output import Readers
from lattice.agent.runs.reading import open_reading
from lattice.agent.runs.recovery import (
    LastServer,
    end_of,
    judge,
    note_boot,
    note_server,
    recall,
    recall_server,
    touch_server,
)
from lattice.agent.runs.summary import summarise
from lattice.agent.runs.uploads import OutputUploads
from lattice.agent.services.probing import InstanceWatch
from lattice.agent.settings import Settings
from lattice.agent.shim.loop import boot_now
from lattice.agent.shim_client import ShimClient, ShimMessage, identity, read_status
from lattice.agent.shim_link import ShimLink
from lattice.agent.steps.driver import StepDriver
from lattice.agent.steps.launch import site_of
from lattice.agent.steps.uploads import StepUploads
from lattice.agent.telemetry.node import NodeTelemetry
from lattice.agent.tunnels.streams import BulkStreams
from lattice.core.model.nodes.observations import Beat
from lattice.ports.nodes.agents import Greeting, KnownRun, Phase, RunKey
from lattice.ports.nodes.measures import MissingFeature
from lattice.ports.quorum.object_store import ObjectStore
from lattice.wire.agents.channel import KEEPALIVE_S, KEEPALIVE_TIMEOUT_S
from lattice.wire.agents.messages import HEARTBEAT
from lattice.wire.pb import agent_pb2 as pb

TICK_S = 1.0
SHORTEST_BEAT_S = 0.05
# A node without a shim can run nothing: after this many heartbeats it falls silent, and its work goes elsewhere.
SHIMLESS_BEATS = 3
WORKERS = 4
_log = logging.getLogger(__name__)


class Driver:
    """One agent: its state, its shim, the stream to a server. `start` first, then it is a `connection.Handler`."""

    def __init__(self, settings: Settings, store: ObjectStore | None) -> None:
        self.settings, self._settings, self._facts = settings, settings, settings.facts
        self._folders = RunFolders(settings.state_dir, reachable=settings.policy.agent_uid == 0)
        self._programs = offer_programs(settings.state_dir)
        facts, blobs = settings.facts, settings.blobs
        self._images = NodeImages(settings.cache_dir, blobs, settings.cache_bytes, is_root=facts.runs_as_root)
        self._containers = NodeContainers(settings.containers, self._images, settings.state_dir, self._programs)
        self._image_questions = ImageQuestions(self._images.fetcher, self._folders.path, self._post)
        self._doors, self._hooks = self._launch_hooks()
        self._devices = DeviceTable(facts.cpus, facts.gpus, facts.gpu_type, settings.topology)
        self._at_hand = AtHandTeller(self._images.fetcher, self._devices, self.holds_devices, self._post)
        self._pool = ThreadPoolExecutor(WORKERS, "agent")
        self._launcher = Launcher(
            settings, self._folders, self._devices, self._hooks, self._pool, self._programs, agent=self, post=self._post
        )
        self._uploads = OutputUploads(store, facts.node_id, self._folders, self._live_runs)
        self._tasks: set[asyncio.Task[None]] = set()
        self._stimuli = StimulusQueue(lambda: self.state, self._try)
        self._missing = tuple[MissingFeature, ...]()
        self._outbox: Outbox | None = None
        self._readers: Readers | None = None
        self._heard_s = self._fit_s = boot_now()
        self._beats, self._session, self._process = 0, 0, 1 + secrets.randbits(62)
        self.state, self.relay = AgentState(retention=settings.retention), FigureRelay()
        self.collection = Collection(facts.node_id, TcpSwitchboard(self.relay), self._fit_beat, self._post)
        self._steps = StepDriver(
            site_of(settings, self._programs),
            self._devices,
            self._pool,
            ask=self.ask_shim,
            post=self._post,
            spawn=self._spawn,
            find=lambda key: self.state.find(key),
            run_folder=self._folders.path,
            containers=self._containers,
            settings=settings,
            cleared=lambda: self.feed(StepsCleared()),
            cannot_write=lambda why: self._checks.fail(DISK_SPACE, why),
        )
        self._shim = ShimLink(
            settings.state_dir,
            settings.output_limit,
            self._pool,
            ended=self._ended,
            lost=lambda: self.feed(ShimLost()),
            heard=self._steps.heard,
        )
        look_s = settings.look_every_s
        self.keeper = InventoryKeeper(settings.inventory, self._post, hardware=settings.hardware, every_s=look_s)
        self._checkpoints = self._watch_checkpoints()
        self._bulk = BulkStreams(self.ask_shim, self._spawn, self._pool)
        self.telemetry = self._measure()
        self._features = NodeFeatures(settings, self._images, self._containers, self.telemetry)
        self._instances = InstanceWatch(self._bulk, self.ask_shim, self._post, self.feed, self._spawn, boot_now)
        self._checks = self._look_after()

    def _look_after(self) -> CheckRunner:
        """The checks of this node."""
        known = self._settings
        surroundings = Surroundings(
            state_dir=known.state_dir,
            declared_gpus=known.facts.gpus,
            inventory=lambda: self.keeper.inventory,
            fingerprint=lambda: self.keeper.fingerprint,
        )
        return CheckRunner(known.checks, surroundings, known.facts.node_id, self._post)

    def _launch_hooks(self) -> tuple[Doors, HookRunner]:
        doors = Doors(self._settings.state_dir, lambda key, port: self._bulk.listens(key, port))
        hooks = launch_hooks(self._settings, self._containers, doors, lambda: self._uploads.sink.signed)
        return doors, HookRunner(hooks, self._folders.path, self._containers.release)

    async def start(self) -> None:
        """Find or start the shim and recall the runs; raises ShimUnavailable."""
        client, listing = await self._shim.reach()
        boot_id, rebooted = note_boot(self._settings.state_dir)
        self._facts = msgspec.structs.replace(self._facts, boot_id=boot_id)
        listed = {record.key for record in listing.runs}
        shim_id = identity(self._settings.state_dir, listing)
        await undo_unstarted(self._hooks, self._folders, listed, shim_id)
        self.state = recall(self._folders, listed, shim_id, self._settings.retention)
        if not self._devices.is_empty:
            for key in self.state.runs:
                self._devices.recall(key, self._folders.devices(key))
        self._steps.start()
        server, silent_s = recall_server(self._settings.state_dir)
        self.state.heartbeat_interval_s = server.heartbeat_interval_s
        self.state.down_after_s = server.down_after_s
        self.state.epoch = server.epoch
        self._heard_s = boot_now() - silent_s
        self._shim_answers(client, listing, "the node was restarted" if rebooted else "the shim died")
        self.telemetry.keep_traces(self._uploads.sink, self.settings.facts.node_id)
        self._spawn(self._uploads.watch())
        self._spawn(StepUploads(self._uploads.sink, self.settings.facts.node_id, self._steps.folders).watch())
        self._checks.start()
        self._spawn(self._at_hand.run())
        await self._doors.recall(self._live_runs())
        self._spawn(sweep_kept(self._settings.scratch.folder, self._facts.node_id))
        _log.info("agent ready, %d open runs", len(self.state.runs))

    def _watch_checkpoints(self) -> watching.Checkpointing:
        known, store = self._settings, checkpoint_copies(self._settings, lambda: self._uploads.sink.signed)
        ask = (partial(owner_of, policy=known.policy), self.ask_shim, self._post, self._spawn, self.holds_devices)
        return watching.Checkpointing(known.state_dir, self._facts.node_id, *ask, self._doors, store)

    def _measure(self) -> NodeTelemetry:
        sources = (self._folders, self._devices, self.ask_shim, self._post, lambda: self.state)
        made = NodeTelemetry(*sources, self._steps.folders.order, lambda: bool(self._steps.table.known()))
        self._hooks.add(AccessHook(made.access))
        made.connect, self._steps.audited = self._bulk.connect, made.access.asked
        return made

    def end_checks(self) -> None:
        """No check outlives the agent."""
        self._checks.close()

    async def pulse(self) -> None:
        """Ticks and heartbeats, for good."""
        next_beat_s = 0.0
        while True:
            now_s = boot_now()
            self.feed(Tick(now_s=now_s, heard_s=self._last_heard_s(), wall_s=time.time()))
            if self.state.down_after_s and now_s - self._last_heard_s() >= fence_after_s(self.state):
                self._steps.table.fence()
            self._steps.tick()
            if self.state.live:
                self._uploads.look()
            if self._shim.client is not None:
                self._fit_s = now_s
            if not self.state.welcomed or not self.state.heartbeat_interval_s:
                next_beat_s = 0.0
            elif now_s >= next_beat_s:
                if self._is_fit() and self.collection.is_direct():
                    self._beat()
                next_beat_s = self._next_beat_s(now_s, is_first=not next_beat_s)
            next_beat_s = min(next_beat_s, now_s + self.state.heartbeat_interval_s)
            wait_s = next_beat_s - now_s if next_beat_s else TICK_S
            await asyncio.sleep(min(TICK_S, max(0.01, wait_s)))

    def _next_beat_s(self, now_s: float, *, is_first: bool) -> float:
        """The first one after a Welcome comes at any moment of its interval: agents that connect together do not beat together."""
        interval_s = self.state.heartbeat_interval_s
        return now_s + max(SHORTEST_BEAT_S, interval_s * (random.random() if is_first else 1.0))  # noqa: S311 - jitter

    def _make_beat(self) -> pb.Heartbeat:
        """The next heartbeat; every one that is made counts."""
        self._beats += 1
        self.figures.beat()
        load, mark = os.getloadavg()[0], self.keeper.mark
        beat = Beat(
            seq=self._beats,
            running=self.state.unfinished,
            load1=load,
            memory_used_mb=memory_used_mb(),
            session=self._session,
            fingerprint=mark,
        )
        return HEARTBEAT.write(self._checks.fill(beat))

    def _is_fit(self) -> bool:
        return boot_now() - self._fit_s <= SHIMLESS_BEATS * (self.state.heartbeat_interval_s or TICK_S)

    def _fit_beat(self) -> pb.Heartbeat | None:
        """For a collector, or out of turn."""
        touch_server(self._settings.state_dir)
        return self._make_beat() if self._is_fit() else None

    def _beat(self) -> None:
        self._post(pb.AgentMessage(heartbeat=self._make_beat()))
        touch_server(self._settings.state_dir)

    @property
    def collector_address(self) -> str:
        """Where this agent gathers what other nodes report."""
        return self._facts.collector_address

    @collector_address.setter
    def collector_address(self, address: str) -> None:
        self._facts = msgspec.structs.replace(self._facts, collector_address=address)

    @cached_property
    def figures(self) -> AgentFigures:
        made = AgentFigures(self._facts.node_id, self._post)
        made.gauge("lattice_agent_connected", lambda: float(self.state.welcomed))
        made.gauge("lattice_agent_ebpf_overhead_percent", lambda: self.telemetry.bpf_overhead_percent)
        made.gauge("lattice_agent_runs", lambda: float(len(self.state.live)))
        return made

    def show_figures_at(self, address: str) -> None:
        self._facts = msgspec.structs.replace(self._facts, metrics_address=address)

    def _last_heard_s(self) -> float:
        """A server behind an open stream answers pings, so it is there now."""
        return boot_now() if self.state.welcomed else self._heard_s

    def feed(self, stimulus: Stimulus) -> None:
        """Fold a stimulus in and do what follows from it, after what is being done already."""
        self._stimuli.feed(stimulus)

    def _try(self, instruction: Instruction) -> None:
        try:
            self._perform(instruction)
        except Exception:  # noqa: BLE001 - the loop's edge: one run's trouble must not stop the others
            _log.exception("could not perform %s", type(instruction).__name__)

    def _perform(self, instruction: Instruction) -> None:  # noqa: C901, PLR0912 - one arm per instruction
        match instruction:
            case SendRegister(runs=runs):
                self._register(runs)
            case SendConfirmed(session=session):
                self._checks.announce()
                self._instances.announce()
                self._post(messages.confirmed(session))
            case SendReport():
                self._report(instruction)
            case LaunchRun(order=order):
                self._spawn(self._bulk.resting.during(self._launcher.launch(order)))
            case StopRun(key=key, grace_s=grace_s, why=why):
                self._instances.stop(key, grace_s, lambda: self._shim.ask("stop", key, grace_s=grace_s, why=why))
            case WatchInstance(order=order):
                self._instances.begin(order)
            case LeaveInstance(key=key):
                self._instances.end(key)
            case UpdateRun(key=key, walltime_s=walltime_s):
                self._shim.ask("update", key, walltime_s=walltime_s)
            case SignalRun(key=key, signal=signal, to=to):
                self._shim.ask("signal", key, signal=signal, to=to)
            case FinishRun(key=key, exit_code=exit_code):
                self._shim.ask("finish", key, exit_code=exit_code)
            case PauseRun(key=key, is_paused=is_paused):
                self._shim.ask("pause" if is_paused else "resume", key)
            case RenewToken(key=key, token=token):
                self._folders.renew_token(key, token)
            case SettleOutput(key=key):
                self._settle(key)
            case AbandonOutput(key=key):
                self._hooks.abandon(key)
            case ClearRun(key=key, has_started=has_started):
                self._spawn(self._clear(key, has_started=has_started))
            case ForgetRun(key=key, launched=launched):
                self._forget(key, launched=launched)
            case RemoveRun(key=key):
                self._pool.submit(self._folders.remove, key)
            case PurgeRun(key=key, launched=launched):
                self._purge(key, launched=launched)
            case StartShim():
                self._spawn(self._restart_shim())
            case _:
                assert_never(instruction)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # The stream to a server.

    def opened(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._readers = Readers(outbox)
        self._uploads.sink.signed.opened(outbox)
        self.feed(Connected())

    def closed(self) -> None:
        if self.state.welcomed:
            self._heard_s = max(self._heard_s, boot_now() - KEEPALIVE_S - KEEPALIVE_TIMEOUT_S)
        if self._readers is not None:
            self._readers.close_all()
        self._outbox = self._readers = None
        self._checks.leave()
        self.collection.closed()
        self.telemetry.closed()
        self._uploads.sink.signed.closed()
        self.feed(Disconnected())

    def received(self, message: pb.ServerMessage) -> None:
        self._heard_s = boot_now()
        if message.HasField("welcome"):
            agree_with(message.welcome)
        if message.HasField("report_to"):
            self.state.heartbeat_interval_s = message.report_to.interval_s
        if self.figures.received(message) or self._uploads.sink.signed.received(message):
            return
        stimulus = stimulus_of(message)
        self._launcher.go(stimulus)
        self.telemetry.heard(message)
        self._at_hand.heard(message)
        if isinstance(stimulus, Welcomed):
            greeting = stimulus.greeting
            check_history(self.state, greeting, self.feed)
            is_stale = self._steps.judge(frozenset(greeting.held_by))
            self.feed(msgspec.structs.replace(stimulus, has_stale_steps=is_stale))
            self._welcomed(greeting)
            self._steps.table.repeat_reports(all_of_them=True)
        elif stimulus is not None:
            self.feed(stimulus)
        elif (
            self.collection.received(message)
            or self._checks.received(message)
            or self.keeper.received(message)
            or self._steps.received(message)
            or self._image_questions.received(message)
            or self._checkpoints.received(message)
            or self._bulk.received(message, self._outbox)
            or self.telemetry.received(message)
            or self._readers is None
            or self._outbox is None
        ):
            return
        elif message.HasField("read_output") and message.read_output.HasField("step"):
            self._steps.read(message.read_output, self._readers, self._outbox)
        elif message.HasField("read_output"):
            open_reading(message.read_output, self._readers, self._folders, self.state.find)
        elif message.HasField("measure"):
            answer_measure(message.measure, self._devices, self.ask_shim, self._post, self._missing)
        elif message.HasField("stop_reading"):
            self._readers.close(message.stop_reading.reader)

    def _welcomed(self, welcome: Greeting) -> None:
        _log.info("registered with %s", welcome.server_name)
        if self._outbox is not None:
            self._outbox.takes_batches = welcome.takes_batches
        server = LastServer(
            heartbeat_interval_s=welcome.heartbeat_interval_s,
            down_after_s=welcome.down_after_s,
            epoch=self.state.epoch,
        )
        note_server(self._settings.state_dir, server)
        self._session = welcome.session
        self._beat()

    def _register(self, runs: tuple[KnownRun, ...]) -> None:
        self._post(messages.register(self._facts, runs, self._steps.known(), self.state.epoch, self._process))
        self.keeper.announce()

    def _post(self, message: pb.AgentMessage) -> None:
        if self._outbox is not None and not self._outbox.post(message):
            _log.warning("too much to send; a message has to wait for its repetition")

    def _report(self, told: SendReport) -> None:
        message = messages.report(told, boot_now())
        self._at_hand.look()
        self._uploads.look()
        if self._outbox is not None and told.report.phase is Phase.RUNNING:
            self._outbox.post_soon(message)
        else:
            self._post(message)

    # Runs.

    @property
    def shim_can(self) -> ShimMessage:
        return self._shim.can

    @property
    def shim_id(self) -> str:
        return self._shim.identity

    def find_run(self, key: RunKey) -> Run | None:
        return self.state.runs.get(key)

    def holds_devices(self, key: RunKey) -> bool:
        run = self.state.runs.get(key)
        return (run is not None and run.alive) or self._steps.table.is_alive(key)

    async def fail_disk(self, why: str) -> None:
        await self._checks.fail(DISK_SPACE, why)

    def _ended(self, message: ShimMessage) -> None:
        _log.info("run ended: %s", message.cause, extra=self._about(message.key))
        self.feed(RunEnded(key=message.key, end=self.telemetry.totals.added(message.key, message.end())))

    def _about(self, key: RunKey) -> dict[str, object]:
        run = self.state.find(key)
        return {"allocation_id": run.allocation_id if run else "", "number": key.number, "run": key.run}

    def ask_shim(self, body: dict[str, object], on_answer: Callable[[ShimMessage], None] | None) -> None:
        self._shim.request(body, on_answer)

    def _settle(self, key: RunKey) -> None:
        summarise(self._folders, self.state.find(key), self._about(key))
        if not self._uploads.are_on and not self._hooks.has_left(key):
            self.feed(OutputSettled(key=key, stored_bytes=self._folders.size(key)))
        else:
            self._spawn(self._store_output(key))

    async def _store_output(self, key: RunKey) -> None:
        """The node is given back after this, so the epilogue comes first."""
        run = self.state.find(key)
        problem = await undo_run(self._hooks, run, has_started=run is not None and bool(run.started_boot_s))
        if stored := await self._uploads.finish(key):
            _log.error("%s", stored, extra=self._about(key))
        problems = "; ".join(part for part in (problem, stored) if part)  # the first may say where results are kept
        self.feed(OutputSettled(key=key, stored_bytes=self._folders.size(key), problem=problems))

    async def _clear(self, key: RunKey, *, has_started: bool) -> None:
        await undo_run(self._hooks, self.state.find(key), has_started=has_started)
        self._shim.ask("forget", key)
        self.feed(RunCleared(key=key))

    def _live_runs(self) -> list[RunKey]:
        return [run.key for run in self.state.runs.values() if run.alive]

    def _forget(self, key: RunKey, *, launched: bool) -> None:
        if launched:
            self._shim.ask("forget", key)
            self._folders.acknowledge(key)

    def _purge(self, key: RunKey, *, launched: bool) -> None:
        if launched:
            self._shim.ask("forget", key)
        _log.warning("run %s belongs to a former history of the cluster: removed", key)
        self._pool.submit(shutil.rmtree, self._folders.discard(key), ignore_errors=True)

    # The shim.

    def _shim_answers(self, client: ShimClient, listing: ShimMessage, lost_message: str) -> None:
        features = self._features.offered(self._facts.features, listing, self._steps.meet_shim(listing))
        self._missing = self._features.missing(listing, features)
        self._facts = msgspec.structs.replace(self._facts, features=tuple(sorted(features)))
        if not listing.cgroup:
            _log.warning("no cgroups here: processes are tracked by their ancestry, memory is not limited")
        recorded = ((key, end_of(read_status(self._folders.path(key)))) for key in self._live_runs())
        on_disk = {key: end for key, end in recorded if end is not None}
        self._containers.release_all()
        self._shim.adopt(client, listing)
        if lack := what_lacks(listing.limits):
            _log.warning(lack)
        self.feed(judge(self.state, listing.runs, on_disk, lost_message))
        self._steps.table.shim_answers(listing.steps, lost_message)
        self._shim.catch_up()

    async def _restart_shim(self) -> None:
        client, listing = await self._shim.reach_again()
        self._shim_answers(client, listing, "the shim died")
