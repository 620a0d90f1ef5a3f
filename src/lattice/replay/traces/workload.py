"""What a replay schedules: the columns of the entries that are kept, in queue order, and the machine they run on."""

from dataclasses import dataclass

from lattice.replay.traces.entries import Entry, Trace, TraceError


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """Entries by position: submission, or the end of staging, then place in the trace. Whole seconds.

    `estimates` is what a policy may see; `runs` is known only to the clock.
    """

    procs_total: int
    entries: tuple[Entry, ...]
    submits: list[int]
    runs: list[int]
    procs: list[int]
    estimates: list[int]
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.submits)


def keep_r1(trace: Trace, procs_total: int) -> Workload:
    """What mode r1 keeps: entries that ran and fit the machine, with estimates that cover their runs.

    Raises TraceError when nothing is left.
    """
    kept = [entry for entry in trace.entries if entry.run >= 0 and 0 < entry.procs <= procs_total]
    if not kept:
        raise TraceError(
            f"{trace.name}: none of its {len(trace.entries)} entries ran and fits {procs_total} processors"
        )
    kept.sort(key=_submit)
    return Workload(
        procs_total=procs_total,
        entries=tuple(kept),
        submits=[entry.queued for entry in kept],
        runs=[entry.run for entry in kept],
        procs=[entry.procs for entry in kept],
        estimates=[max(entry.estimate, entry.run) for entry in kept],
        dropped=len(trace.entries) - len(kept),
    )


def _submit(entry: Entry) -> int:
    return entry.queued
