"""What an agent reports of a run: that it runs, that it is started again, how it ended."""

from typing import Any, assert_never

import msgspec

from lattice.agent.machine.epochs import is_former
from lattice.agent.machine.state import AgentState, End, Instruction, Run, SendReport
from lattice.core.model.work.usage import total_usage
from lattice.ports.nodes.agents import EndCause, Phase, Report, RunKey

_TOLD_OF_LAST = ("cause", "exit_code", "signal", "message", "cpu_s", "peak_memory_mb", "usage")


def ended_report(key: RunKey, end: End, run: Run | None = None) -> Report:
    """Says all that is known of the end; without a run, of one that is not known here."""
    run = run or Run(key=key, phase=Phase.ENDED)
    return _told(run, Phase.ENDED, run.ended_seq, msgspec.structs.asdict(end))


def restarting_report(run: Run, last: End) -> Report:
    """An attempt of a service ended, and another one follows."""
    return _told(run, Phase.RESTARTING, run.running_seq - 1, msgspec.structs.asdict(last))


def running_report(run: Run) -> Report:
    """Of a service also how the attempt before ended: the report of that may never have reached a server."""
    last = {} if run.last is None else {name: getattr(run.last, name) for name in _TOLD_OF_LAST}
    return _told(run, Phase.RUNNING, run.running_seq, {**last, "ports": run.ports})


def closing_report(run: Run) -> SendReport | None:
    """Of a run without a process: its end once all of it is saved, before that its start, where no server knows of it.

    Results may take long, and a run that is not known to have started is taken back, and started again, meanwhile.
    """
    if run.end is None:
        return None
    if run.settled:
        return SendReport(report=ended_report(run.key, run.end, run))
    if run.started_boot_s and run.acknowledged_seq < run.running_seq:
        return SendReport(report=running_report(run), started_boot_s=run.started_boot_s)
    return None


def _told(run: Run, phase: Phase, seq: int, more: dict[str, Any]) -> Report:
    return Report(key=run.key, phase=phase, seq=seq, submission=run.submission, instance=run.instance, **more)


def with_former_use(end: End, former: End) -> End:
    """The end, with what an attempt before it used and no server knows of."""
    return msgspec.structs.replace(
        end,
        cpu_s=end.cpu_s + former.cpu_s,
        peak_memory_mb=max(end.peak_memory_mb, former.peak_memory_mb),
        usage=total_usage((end.usage, former.usage)),
    )


def present_phase(state: AgentState, run: Run) -> list[Instruction]:
    """The answer to a repeated request: how the run stands now."""
    if run.key in state.runs:
        return present_report(state, run.key, is_asked=True)
    return [] if run.end is None else [SendReport(report=ended_report(run.key, run.end, run))]


def refusal(key: RunKey, cause: EndCause, message: str, instance: int = 0) -> list[Instruction]:
    told = ended_report(key, End(cause=cause, message=message))
    return [SendReport(report=msgspec.structs.replace(told, instance=instance))]


def present_report(state: AgentState, key: RunKey, *, is_asked: bool = False) -> list[Instruction]:
    """The report of the present phase, if there is a server to hear it and it did not acknowledge it yet."""
    run = state.runs[key]
    if not state.welcomed or is_former(state, run):
        return []
    match run.phase:
        case Phase.STARTING | Phase.RESTARTING:
            if not run.is_resting or run.last is None or run.acknowledged_seq >= run.running_seq - 1:
                return []
            report = SendReport(report=restarting_report(run, run.last))
        case Phase.RUNNING | Phase.STOPPING:
            if run.acknowledged_seq >= run.running_seq and not is_asked:
                return []
            report = SendReport(report=running_report(run), started_boot_s=run.started_boot_s)
        case Phase.ENDED:
            closing = closing_report(run)
            if closing is None:
                return []
            report = closing
        case _:
            assert_never(run.phase)
    state.change(key, sent_s=state.now_s)
    return [report]
