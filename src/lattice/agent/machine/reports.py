"""What an agent reports of a run: that it runs, that it is started again, how it ended."""

from typing import Any

import msgspec

from lattice.agent.machine.state import End, Run, SendReport
from lattice.core.model.work.usage import total_usage
from lattice.ports.nodes.agents import Phase, Report, RunKey

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
