"""The agent's decisions: one stimulus in, instructions out.

What holds after every step (docs/architecture/agent.md):

- at most one run of an allocation is alive; a newer run waits until the older one is gone;
- a run lower than the highest known one is refused;
- every accepted run reaches ENDED once, and that end is reported again until a server acknowledged it;
- Confirmed is sent only when every run that the server did not name is gone.

No clock, no I/O: time comes with `Tick`, and acting on an instruction twice does no harm.
"""

import math
from typing import assert_never

import msgspec

from lattice.agent.machine.epochs import begin_epoch, is_former, purge, sort_out, strangers
from lattice.agent.machine.probes import addressed
from lattice.agent.machine.reports import present_phase, present_report, refusal, with_former_use
from lattice.agent.machine.requests import pass_on_requests, pause_asked, signal_asked, update_asked
from lattice.agent.machine.restarts import Again, again, given_up
from lattice.agent.machine.retention import pruned
from lattice.agent.machine.state import (
    AbandonOutput,
    Acknowledged,
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
    ProbeFailed,
    Run,
    RunCleared,
    RunEnded,
    RunRefused,
    RunStarted,
    SendConfirmed,
    SendRegister,
    SettleOutput,
    ShimLost,
    ShimReady,
    StartShim,
    StepsCleared,
    Stimulus,
    StopRequest,
    StopRun,
    Tick,
    WatchInstance,
    Welcomed,
)
from lattice.core.model.work.endings import probe_failed
from lattice.ports.nodes.agents import (
    EndCause,
    FinishOrder,
    KnownRun,
    NamedPort,
    PauseOrder,
    Phase,
    RunKey,
    SignalRunOrder,
    StartOrder,
    StopOrder,
    UpdateOrder,
)

REPEAT_AFTER_S = 5.0

Instructions = list[Instruction]


def step(state: AgentState, stimulus: Stimulus) -> Instructions:  # noqa: C901, PLR0912 - one arm per stimulus
    """Fold one stimulus into the state; returns what is to be done, in this order."""
    match stimulus:
        case Connected():
            return _connected(state)
        case Welcomed():
            return _welcomed(state, stimulus)
        case EpochBegun(epoch=epoch):
            begin_epoch(state, epoch)
            return []
        case Disconnected():
            return _disconnected(state)
        case StartOrder():
            return _start_asked(state, stimulus)
        case StopOrder():
            return _stop_asked(state, stimulus)
        case UpdateOrder():
            return update_asked(state, stimulus)
        case SignalRunOrder(key=key, signal=signal, to=to):
            return signal_asked(state, key, signal, to)
        case FinishOrder(key=key, exit_code=exit_code):
            run = state.runs.get(key)
            is_running = run is not None and run.phase is Phase.RUNNING
            return [FinishRun(key=key, exit_code=exit_code)] if is_running else []
        case PauseOrder(key=key, paused=is_paused):
            return pause_asked(state, key, is_paused=is_paused)
        case Acknowledged():
            return _acknowledged(state, stimulus)
        case RunStarted(key=key, started_boot_s=started_boot_s, ports=ports):
            return _run_started(state, key, started_boot_s, ports)
        case RunRefused(key=key, message=message, cause=cause):
            return _run_ended(state, key, End(cause=cause, message=message, never_ran=True))
        case RunEnded(key=key, end=end):
            return _run_ended(state, key, end)
        case RunCleared(key=key):
            return _run_cleared(state, key)
        case ProbeFailed():
            return _probe_failed(state, stimulus)
        case OutputSettled():
            return _output_settled(state, stimulus)
        case StepsCleared():
            state.has_stale_steps = False
            return _confirm(state)
        case ShimLost():
            state.shim_up = False
            return [StartShim()]
        case ShimReady():
            return _shim_ready(state, stimulus)
        case Tick():
            return _tick(state, stimulus)
        case _:
            assert_never(stimulus)


def _connected(state: AgentState) -> Instructions:
    _forget_session(state)
    return [
        SendRegister(runs=tuple(KnownRun(key=run.key, phase=run.phase, epoch=run.epoch) for run in state.runs.values()))
    ]


def _disconnected(state: AgentState) -> Instructions:
    _forget_session(state)
    return []


def _forget_session(state: AgentState) -> None:
    state.welcomed = False
    state.session_to_confirm = None
    state.stale = frozenset()
    state.has_stale_steps = False


def _welcomed(state: AgentState, welcome: Welcomed) -> Instructions:
    greeting, valid = welcome.greeting, frozenset(welcome.greeting.valid_runs)
    state.welcomed = True
    state.heartbeat_interval_s = greeting.heartbeat_interval_s
    state.down_after_s = greeting.down_after_s
    state.session_to_confirm = greeting.session
    state.has_stale_steps = welcome.has_stale_steps
    state.stale = frozenset(
        run.key for run in state.runs.values() if run.phase is not Phase.ENDED and run.key not in valid
    )
    state.epoch = state.epoch or greeting.epoch
    instructions: Instructions = [*sort_out(state, valid)]
    for run in list(state.runs.values()):
        if run.key not in state.stale:
            instructions += present_report(state, run.key)
    # Results of a run that was given up must not take the place of those of its successor.
    unwanted = [run.key for run in state.runs.values() if run.launched and not run.settled and run.key not in valid]
    instructions += [AbandonOutput(key=key) for key in unwanted]
    for key in sorted(state.stale):
        instructions += _stop(state, key, StopRequest(0.0, "stale"))
    return instructions + _confirm(state)


def _confirm(state: AgentState) -> Instructions:
    """Confirmed, if it is due: the shim answers and no stale run or step has a process left."""
    session = state.session_to_confirm
    if session is None or not state.shim_up or state.has_stale_steps:
        return []
    for key in state.stale:
        run = state.runs.get(key)
        if run is not None and run.phase is not Phase.ENDED:
            return []
    state.session_to_confirm = None
    state.stale = frozenset()
    return [SendConfirmed(session=session)]


def _start_asked(state: AgentState, order: StartOrder) -> Instructions:
    key = order.key
    instructions, is_free = _make_way(state, key.number, order.submission)
    if not is_free:
        return instructions
    known = state.find(key)
    if known is not None:
        is_next = known.instance < order.instance
        return instructions + _make_room(state, known, order) if is_next else present_phase(state, known)
    highest = state.highest.get(key.number, 0)
    if key.run <= highest:
        return refusal(key, EndCause.LAUNCH, f"run {key.run} refused: run {highest} is known here")
    for older in [r for r in state.runs.values() if r.key.number == key.number]:
        if older.phase is not Phase.ENDED:
            instructions += _stop(state, older.key, StopRequest(0.0, "superseded"))
    state.highest[key.number] = key.run
    return instructions + _accept(state, order)


def _accept(state: AgentState, order: StartOrder, *, is_cleared: bool = True) -> Instructions:
    """A new run, or another instance of a service in the place of an earlier one."""
    key = order.key
    order = msgspec.structs.replace(order, epoch=state.epoch)
    state.runs[key] = Run(
        key=key,
        phase=Phase.STARTING,
        allocation_id=order.allocation_id,
        fence=order.fence,
        summary=order.summary,
        epoch=state.epoch,
        submission=order.submission,
        instance=order.instance,
        order=order if order.restart else None,
        is_cleared=is_cleared,
    )
    state.waiting[key.number] = order
    return _launch(state, key.number)


def _make_room(state: AgentState, known: Run, order: StartOrder) -> Instructions:
    """Another instance begins where an earlier one was: when that has ended, else the server asks again."""
    if known.phase is not Phase.ENDED:
        return _stop(state, known.key, StopRequest(0.0, "superseded"))
    if not known.settled:
        return []
    if state.runs.pop(known.key, None) is None:
        del state.kept[known.key]
        state.kept_bytes -= known.stored_bytes
    accepted = _accept(state, order, is_cleared=not known.launched)
    return [ClearRun(key=known.key, has_started=False), *accepted] if known.launched else accepted


def _run_cleared(state: AgentState, key: RunKey) -> Instructions:
    run = state.runs.get(key)
    if run is None or run.is_cleared:
        return []
    state.change(key, is_cleared=True)
    return _launch(state, key.number)


def _make_way(state: AgentState, number: int, submission: str) -> tuple[Instructions, bool]:
    """Leaves no trace of runs whose number meant another submission: a log that lost its end gives numbers again.

    False when one of them still lives; it is ordered to end, and the server asks again.
    """
    instructions: Instructions = []
    is_free = True
    for run in strangers(state, number, submission):
        if run.phase is Phase.ENDED:
            instructions.append(purge(state, run.key))
        else:
            instructions += _stop(state, run.key, StopRequest(0.0, "superseded"))
            is_free = False
    return instructions, is_free


def _launch(state: AgentState, number: int) -> Instructions:
    """The launch of the waiting run, unless an older one still lives or there is no shim."""
    order = state.waiting.get(number)
    if order is None or number in state.live or not state.shim_up:
        return []
    if not state.runs[order.key].is_cleared or state.runs[order.key].due_s > state.now_s:
        return []
    del state.waiting[number]
    state.live[number] = order.key
    state.change(order.key, launched=True)
    return [LaunchRun(order=order)]


def _stop_asked(state: AgentState, order: StopOrder) -> Instructions:
    key, stop, submission = order.key, StopRequest(order.grace_s, order.why), order.submission
    instructions, is_free = _make_way(state, key.number, submission)
    if instructions or not is_free:
        return instructions + (_bury(state, order) if is_free else [])
    run = state.find(key)
    if run is None:
        return _bury(state, order)
    if run.instance < order.instance:
        return refusal(key, EndCause.STOPPED, f"stopped before it was started ({stop.why})", order.instance)
    abandoned: Instructions = [AbandonOutput(key=key)] if order.abandon and key in state.runs else []
    if run.phase is Phase.ENDED:
        return abandoned + present_phase(state, run)
    return abandoned + _stop(state, key, stop)


def _bury(state: AgentState, order: StopOrder) -> Instructions:
    """A stop that came before its start: a tombstone makes the late start harmless."""
    key, message = order.key, f"stopped before it was started ({order.why})"
    if key.run <= state.highest.get(key.number, 0):
        return refusal(key, EndCause.STOPPED, message, order.instance)
    state.highest[key.number] = key.run
    state.runs[key] = Run(
        key=key,
        phase=Phase.ENDED,
        end=End(cause=EndCause.STOPPED, message=message),
        settled=True,
        epoch=state.epoch,
        submission=order.submission,
        instance=order.instance,
    )
    return present_report(state, key)


def _stop(state: AgentState, key: RunKey, stop: StopRequest) -> Instructions:
    run = state.runs[key]
    if not run.launched:
        del state.waiting[key.number]
        end = End(cause=EndCause.STOPPED, message=f"stopped before it was started ({stop.why})")
        if run.last is not None:
            # It has run before: its output is settled as that of any other.
            end = msgspec.structs.replace(run.last, cause=EndCause.STOPPED, message=f"stopped: {stop.why}", cpu_s=0.0)
            state.change(key, launched=True)
        return _run_ended(state, key, end)
    if run.phase is Phase.STARTING:
        # A shim that has begun the launch ends it: it may wait for a named pipe or a file server for ever.
        # One that was not asked yet knows nothing of the run; `_run_started` repeats the stop.
        state.change(key, stop=_sooner(run.stop, stop))
        return [StopRun(key=key, grace_s=stop.grace_s, why=stop.why)]
    state.change(key, phase=Phase.STOPPING, stop=_sooner(run.stop, stop))
    return [StopRun(key=key, grace_s=stop.grace_s, why=stop.why)]


def _sooner(old: StopRequest | None, new: StopRequest) -> StopRequest:
    return new if old is None or new.grace_s < old.grace_s else old


def _acknowledged(state: AgentState, heard: Acknowledged) -> Instructions:
    key, seq = heard.key, heard.seq
    run = state.runs.get(key)
    if run is None or seq <= run.acknowledged_seq or heard.instance != run.instance:
        return []
    if run.phase is not Phase.ENDED or seq < run.ended_seq or not run.settled:
        state.change(key, acknowledged_seq=min(seq, run.running_seq))
        return []
    del state.runs[key]
    state.kept[key] = msgspec.structs.replace(run, acknowledged_seq=seq, kept_since_s=state.wall_s)
    state.kept_bytes += run.stored_bytes
    return [ForgetRun(key=key, launched=run.launched)]


def _run_started(
    state: AgentState, key: RunKey, started_boot_s: float, ports: tuple[NamedPort, ...] = ()
) -> Instructions:
    run = state.runs.get(key)
    if run is None or run.phase is not Phase.STARTING:
        return []
    ports = ports or run.ports
    state.change(key, phase=Phase.RUNNING, started_boot_s=started_boot_s, ports=ports, probe_failure="")
    watch: Instructions = [WatchInstance(order=addressed(run.order, ports))] if run.order is not None else []
    return present_report(state, key) + watch + pass_on_requests(state, key)


def _probe_failed(state: AgentState, failed: ProbeFailed) -> Instructions:
    """The attempt ends as if it had failed by itself; an end that was asked for goes before."""
    run = state.runs.get(failed.key)
    if run is None or run.order is None or run.phase is not Phase.RUNNING or run.attempt != failed.attempt:
        return []
    state.change(run.key, probe_failure=failed.message)
    return [StopRun(key=run.key, grace_s=run.order.grace_s, why=probe_failed(failed.message))]


def _run_ended(state: AgentState, key: RunKey, end: End) -> Instructions:
    run = state.runs.get(key)
    if run is None or run.phase is Phase.ENDED:
        return []
    left: Instructions = [LeaveInstance(key=key)] if run.order is not None else []
    if run.probe_failure and run.stop is None and end.cause is EndCause.STOPPED:
        end = msgspec.structs.replace(end, cause=EndCause.PROBE, message=run.probe_failure)
    if run.last is not None and run.acknowledged_seq < run.running_seq - 1:
        end = with_former_use(end, run.last)  # no server knows of the end before
    if run.order is not None and run.stop is None and end.cause is not EndCause.STOPPED:
        following = again(run.order, end)
        if following is not None:
            return left + _rest(state, run, end, following)
        end = given_up(run.order, end)
    state.change(key, phase=Phase.ENDED, end=end, settled=not run.launched)
    if state.live.get(key.number) == key:
        del state.live[key.number]
    instructions: Instructions
    if key in state.stale and is_former(state, run):
        instructions = [purge(state, key)]
    else:
        instructions = [SettleOutput(key=key)] if run.launched else present_report(state, key)
    return left + instructions + _launch(state, key.number) + _confirm(state)


def _rest(state: AgentState, run: Run, end: End, following: Again) -> Instructions:
    """The instance is between two attempts: it counts as live, and the next one starts without asking a server."""
    key = run.key
    if state.live.get(key.number) == key:
        del state.live[key.number]
    state.change(
        key,
        phase=Phase.STARTING,
        launched=False,
        order=following.order,
        last=end,
        due_s=state.now_s + following.delay_s if following.delay_s else 0.0,
        is_cleared=False,
        sent_s=-math.inf,
        started_boot_s=0.0,
    )
    state.waiting[key.number] = following.order
    return [ClearRun(key=key, has_started=bool(run.started_boot_s)), *present_report(state, key)]


def _output_settled(state: AgentState, settled: OutputSettled) -> Instructions:
    run = state.runs.get(settled.key)
    if run is None or run.end is None or run.settled:
        return []
    end = run.end
    if settled.problem:
        message = "; ".join(part for part in (end.message, settled.problem) if part)
        end = msgspec.structs.replace(end, message=message)
    state.change(settled.key, settled=True, end=end, stored_bytes=settled.stored_bytes)
    return present_report(state, settled.key)


def _shim_ready(state: AgentState, ready: ShimReady) -> Instructions:
    state.shim_up = True
    instructions: Instructions = []
    for key, started_boot_s in ready.alive.items():
        if state.find(key) is None:
            _adopt(state, key)
        instructions += _found_alive(state, key, started_boot_s)
    for key, end in ready.ended.items():
        if key in state.runs:
            if state.runs[key].launched:
                instructions += _run_ended(state, key, end)
        else:
            instructions.append(ForgetRun(key=key, launched=True))
    lost = [run.key for run in state.runs.values() if run.alive and run.key not in ready.alive]
    for key in lost:
        end = End(cause=EndCause.NODE, message=ready.lost_message)
        instructions += _run_ended(state, key, end)
    for number in list(state.waiting):
        instructions += _launch(state, number)
    return instructions + _confirm(state)


def _adopt(state: AgentState, key: RunKey) -> None:
    """A process without a record: taken in, so that the next Welcome can judge it."""
    state.runs[key] = Run(key=key, phase=Phase.STARTING, launched=True)
    state.highest[key.number] = max(key.run, state.highest.get(key.number, 0))
    state.live[key.number] = key


def _found_alive(state: AgentState, key: RunKey, started_boot_s: float) -> Instructions:
    run = state.runs.get(key)
    if run is None or run.phase is Phase.ENDED:
        return []
    if run.phase is Phase.STARTING:
        return _run_started(state, key, started_boot_s)
    return pass_on_requests(state, key)


def _tick(state: AgentState, tick: Tick) -> Instructions:
    state.now_s, state.wall_s = tick.now_s, tick.wall_s
    instructions: Instructions = []
    if state.down_after_s and tick.now_s - tick.heard_s >= fence_after_s(state):
        instructions += _fence(state)
    for number in list(state.waiting):
        instructions += _launch(state, number)
    if state.welcomed:
        for run in list(state.runs.values()):
            if tick.now_s - run.sent_s >= REPEAT_AFTER_S:
                instructions += present_report(state, run.key)
    return instructions + pruned(state)


def fence_after_s(state: AgentState) -> float:
    """Early enough that the work is gone before the server gives the node up.

    The server counts from the last heartbeat that reached it, the agent from the last sign of a server:
    two intervals cover the difference. A node that beats only when it is asked knows no interval.
    """
    half_s, margin_s = state.down_after_s / 2, 2 * state.heartbeat_interval_s
    return max(half_s, state.down_after_s - margin_s) if margin_s else half_s


def _fence(state: AgentState) -> Instructions:
    instructions: Instructions = []
    for run in list(state.runs.values()):
        if run.fence and run.phase is not Phase.ENDED and run.stop is None:
            instructions += _stop(state, run.key, StopRequest(0.0, "fenced"))
    return instructions
