"""One hollow node: all that a real agent says and does on its stream, with work that is only pretended.

The decisions are those of `lattice.agent.machine.decide`; in place of a shim there are timers.
"""

import asyncio
import random
import time
from collections.abc import Callable
from typing import assert_never

from lattice.agent import messages
from lattice.agent.collectors.member import Collection
from lattice.agent.connection import Outbox, ServerGone
from lattice.agent.hollow import telemetry
from lattice.agent.hollow.faults import FaultKind, Misfortune
from lattice.agent.hollow.hardware import Description, HollowHardware
from lattice.agent.hollow.injections import Injections
from lattice.agent.hollow.runs import PretendedRuns
from lattice.agent.hollow.steps import HollowSteps
from lattice.agent.hollow.switchboard import HollowSwitchboard
from lattice.agent.hollow.work import Work
from lattice.agent.machine.epochs import History, judge_epoch
from lattice.agent.machine.feeding import StimulusQueue
from lattice.agent.machine.state import (
    AbandonOutput,
    AgentState,
    ClearRun,
    Connected,
    Disconnected,
    End,
    EpochBegun,
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
    Retention,
    RunCleared,
    RunEnded,
    RunStarted,
    SendConfirmed,
    SendRegister,
    SendReport,
    SettleOutput,
    ShimReady,
    SignalRun,
    StartShim,
    Stimulus,
    StopRun,
    Tick,
    UpdateRun,
    WatchInstance,
    Welcomed,
)
from lattice.agent.messages import NodeFacts, stimulus_of
from lattice.core.model.nodes.observations import Beat
from lattice.ports.nodes.agents import EndCause, Greeting, RunKey, StartOrder
from lattice.wire.agents.messages import HEARTBEAT, WELCOME
from lattice.wire.agents.telemetry import TELEMETRY_ASK, TELEMETRY_TOLD
from lattice.wire.pb import agent_pb2 as pb

SHORTEST_BEAT_S = 0.05
NO_IMAGES = "a hollow node has no image cache"
NO_OUTPUT = "a hollow node has no output"
# Nothing is kept of pretended work but what refuses a late start.
RETENTION = Retention(keep_s=60.0, max_runs=50)
_DEADLY = frozenset({1, 2, 3, 6, 9, 15})


class HollowNode:
    """A `connection.Handler`; while it is not `audible` it says nothing on its open stream."""

    def __init__(
        self,
        facts: NodeFacts,
        work: Work,
        source: random.Random,
        injections: Injections,
        hardware: HollowHardware,
        switchboard: HollowSwitchboard,
        misfortune: Misfortune | None = None,
    ) -> None:
        self.facts = facts
        self.misfortune = misfortune
        self.audible = asyncio.Event()
        self.audible.set()
        self.confirmed = asyncio.Event()
        self.at_welcome: Callable[[], None] | None = None  # called once
        self.state = AgentState(retention=RETENTION)
        self.collection = Collection(facts.node_id, switchboard, self._audible_beat, self._post)
        if facts.collector_address:
            switchboard.put(facts.collector_address, self.collection)
        self._hardware = hardware
        self._has_drifted = False
        self._work = work
        self._source = source
        self._injections = injections
        self._outbox: Outbox | None = None
        self._beats = 0
        self._session = 0
        self._process = source.getrandbits(62) + 1
        self._beat_timer: asyncio.TimerHandle | None = None
        self._heard_s = time.monotonic()
        self._runs = PretendedRuns(self._ended)
        self._steps = HollowSteps(work, source, self._post)
        self._stimuli = StimulusQueue(lambda: self.state, self._perform)
        self.feed(ShimReady(alive={}, ended={}, lost_message=""))

    @property
    def name(self) -> str:
        return self.facts.node_id

    # The stream.

    def opened(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self.feed(Connected())

    def closed(self) -> None:
        self._outbox = None
        self._heard_s = time.monotonic()
        self.confirmed.clear()
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        self.collection.closed()
        self.feed(Disconnected())

    def received(self, message: pb.ServerMessage) -> None:
        match message.WhichOneof("body"):
            case "welcome":
                self._enter(WELCOME.read(message.welcome))
            case "read_output":
                reader, is_of_step = message.read_output.reader, message.read_output.HasField("step")
                why = "" if is_of_step else NO_OUTPUT
                self._post(messages.output_chunk(reader, 0, eof=is_of_step, error=why))
            case "measure":
                self._post(pb.AgentMessage(measured=pb.Measured(ticket=message.measure.ticket)))
            case "ask_images":
                self._post(
                    pb.AgentMessage(images_told=pb.ImagesTold(ticket=message.ask_images.ticket, error=NO_IMAGES))
                )
            case "ask_telemetry":
                self._post(self._figures(message.ask_telemetry))
            case "refresh_inventory":
                self.announce()
            case "collect" | "report_to":
                self.collection.received(message)
                if message.HasField("report_to") and message.report_to.interval_s != self.state.heartbeat_interval_s:
                    self.state.heartbeat_interval_s = message.report_to.interval_s
                    self._beat_in(self._source.random() * self.state.heartbeat_interval_s)
            case _:
                stimulus = stimulus_of(message)
                if stimulus is not None:
                    self.feed(stimulus)
                else:
                    self._steps.received(message)

    def _figures(self, asked: pb.AskTelemetry) -> pb.AgentMessage:
        runs = list(self.state.live.values())
        told = telemetry.answer(self.facts, runs, TELEMETRY_ASK.read(asked), time.time_ns() // 1_000_000)
        message = TELEMETRY_TOLD.write(told)
        message.ticket = asked.ticket
        return pb.AgentMessage(telemetry_told=message)

    def pass_on(self) -> None:
        """Lets the next node register."""
        at_welcome, self.at_welcome = self.at_welcome, None
        if at_welcome is not None:
            at_welcome()

    def _enter(self, welcome: Greeting) -> None:
        match judge_epoch(self.state, welcome.epoch):
            case History.FORMER:
                raise ServerGone("of a former history of the cluster", answered=False)
            case History.LATER:
                self.feed(EpochBegun(epoch=welcome.epoch))
                raise ServerGone("the cluster was restored; registering again", answered=True)
        self._session = welcome.session
        if self._outbox is not None:
            self._outbox.takes_batches = welcome.takes_batches
        self.pass_on()
        self.feed(Welcomed(greeting=welcome))
        self._steps.judge(frozenset(welcome.held_by))
        self._beat_in(self._source.random() * welcome.heartbeat_interval_s)

    def _beat_in(self, seconds: float) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
        if not self.state.heartbeat_interval_s:
            return
        self._beat_timer = asyncio.get_running_loop().call_later(max(SHORTEST_BEAT_S, seconds), self._beat)

    def _beat(self) -> None:
        if self.audible.is_set() and self.collection.is_direct():
            self.beat_now()
        self._beat_in(self.state.heartbeat_interval_s)

    def beat_now(self) -> None:
        """A heartbeat out of turn."""
        self._post(pb.AgentMessage(heartbeat=self.make_beat()))

    def make_beat(self) -> pb.Heartbeat:
        self._beats += 1
        running = len(self.state.live)
        beat = Beat(
            seq=self._beats,
            running=running,
            load1=float(running),
            memory_used_mb=1024,
            session=self._session,
            fingerprint=self._description.mark,
        )
        return HEARTBEAT.write(beat)

    def _audible_beat(self) -> pb.Heartbeat | None:
        return self.make_beat() if self.audible.is_set() else None

    @property
    def _description(self) -> Description:
        return self._hardware.drifted if self._has_drifted else self._hardware.usual

    def announce(self) -> None:
        """Says what the node is made of."""
        self._post(self._description.message)

    def drift(self) -> None:
        self._has_drifted = True
        self.announce()

    def _post(self, message: pb.AgentMessage) -> None:
        if self._outbox is not None and self.audible.is_set():
            self._outbox.post(message)

    # Decisions and what follows from them.

    def tick(self, now_s: float) -> None:
        """Repeats what was not acknowledged, and ends what may not continue without a server."""
        if self.state.runs or self.state.kept:
            heard_s = now_s if self.state.welcomed else self._heard_s
            self.feed(Tick(now_s=now_s, heard_s=heard_s, wall_s=now_s))
        self._steps.tick(now_s)

    def feed(self, stimulus: Stimulus) -> None:
        self._stimuli.feed(stimulus)

    def _perform(self, instruction: Instruction) -> None:  # noqa: C901, PLR0912 - one arm per instruction
        match instruction:
            case SendRegister(runs=runs):
                self._post(
                    messages.register(self.facts, runs, (self._steps.known(), ()), self.state.epoch, self._process)
                )
                self.announce()
            case SendConfirmed(session=session):
                self._confirm(session)
            case SendReport():
                self._post(messages.report(instruction, time.monotonic()))
            case LaunchRun(order=order):
                self._launch(order)
            case StopRun(key=key):
                self._end(key, End(cause=EndCause.STOPPED))
            case FinishRun(key=key, exit_code=exit_code):
                self._end(key, End(cause=EndCause.EXIT, exit_code=exit_code))
            case SignalRun(key=key, signal=signal):
                if signal in _DEADLY:
                    self._end(key, End(cause=EndCause.SIGNAL, signal=signal))
            case ClearRun(key=key):
                self._stimuli.append(RunCleared(key=key))
            case SettleOutput(key=key):
                self._stimuli.append(OutputSettled(key=key, stored_bytes=0))
            case UpdateRun(key=key, walltime_s=walltime_s):
                self._runs.limit(key, walltime_s)
            case PauseRun(key=key, is_paused=is_paused):
                self._runs.pause(key) if is_paused else self._runs.resume(key)
            case (
                RenewToken()
                | ForgetRun()
                | RemoveRun()
                | PurgeRun()
                | StartShim()
                | WatchInstance()
                | LeaveInstance()
                | AbandonOutput()
            ):
                pass
            case _:
                assert_never(instruction)

    def _confirm(self, session: int) -> None:
        """A node that boots slowly lets the servers wait, once."""
        slow = self.misfortune
        if slow is None or slow.kind is not FaultKind.SLOW_BOOT:
            self._confirmed(session)
            return
        self.misfortune = None
        self._injections.note(self.name, slow.kind.value)
        asyncio.get_running_loop().call_later(slow.for_s, self._confirm_late, session)

    def _confirm_late(self, session: int) -> None:
        self._injections.note(self.name, f"{FaultKind.SLOW_BOOT.value}-over")
        if session == self._session and self._outbox is not None:
            self._confirmed(session)

    def _confirmed(self, session: int) -> None:
        self._post(messages.confirmed(session))
        self.confirmed.set()

    # Pretended work.

    def _launch(self, order: StartOrder) -> None:
        self._runs.start(order.key, self._work.outcome(order, self._source), order.walltime_s)
        self._stimuli.append(RunStarted(key=order.key, started_boot_s=time.monotonic()))

    def _ended(self, key: RunKey, end: End) -> None:
        self.feed(RunEnded(key=key, end=end))

    def _end(self, key: RunKey, end: End) -> None:
        self._runs.drop(key)
        self._stimuli.append(RunEnded(key=key, end=end))
