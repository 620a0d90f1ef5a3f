"""What a replay came to: waits, slowdown, use of the machine. Over all kept entries, without a warm-up."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum

import numpy as np
import numpy.typing as npt

from lattice.replay.traces.workload import Workload

Floats = npt.NDArray[np.float64]
# Below this, in seconds, a run counts as this long: a slowdown should not be large because a run was short.
SLOWDOWN_BOUND_S = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """`bsld` = bounded slowdown: (wait + run) / max(run, 10 s), at least 1."""

    allocations: int
    avg_wait_s: float
    avg_bsld: float
    util: float
    makespan_s: int
    wait_p50_s: float
    wait_p95_s: float
    wait_p99_s: float
    wait_max_s: int
    used_s: int  # processor-seconds
    overtaking: int  # entries that started before one that was ahead of them in the queue
    fairness: float | None  # Jain's index over the users' average slowdowns; None without users


def slowdowns(work: Workload, ends: Sequence[int]) -> Floats:
    """Bounded slowdown by position: from submission to end against the run alone."""
    run = np.array(work.runs, np.int64)
    stay = np.array(ends, np.int64) - np.array(work.submits, np.int64)
    bounded: Floats = np.maximum(1.0, stay / np.maximum(run, SLOWDOWN_BOUND_S))
    return bounded


def measure(work: Workload, starts: Sequence[int], ends: Sequence[int] | None = None) -> Outcome:
    """The figures of one replay; `starts` and `ends` by position. Without ends, work runs through from its start."""
    start = np.array(starts, np.int64)
    wait = start - np.array(work.submits, np.int64)
    end = start + np.array(work.runs, np.int64) if ends is None else np.array(ends, np.int64)
    slowdown = slowdowns(work, end.tolist())
    makespan = int(end.max()) - work.submits[0]
    used = sum(map(int.__mul__, work.runs, work.procs))
    p50, p95, p99 = np.percentile(wait, (50, 95, 99)).tolist()
    return Outcome(
        allocations=len(work),
        avg_wait_s=int(wait.sum()) / len(work),
        avg_bsld=fsum(slowdown.tolist()) / len(work),
        util=used / (work.procs_total * makespan) if makespan else 0.0,
        makespan_s=makespan,
        wait_p50_s=p50,
        wait_p95_s=p95,
        wait_p99_s=p99,
        wait_max_s=int(wait.max()),
        used_s=used,
        overtaking=_overtaking(starts),
        fairness=_fairness(work, slowdown.tolist()),
    )


def _overtaking(starts: Sequence[int]) -> int:
    latest = accumulate(starts, max)
    return sum(start < ahead for start, ahead in zip(starts, latest, strict=True))


def _fairness(work: Workload, slowdowns: list[float]) -> float | None:
    by_user: dict[str, list[float]] = {}
    for entry, slowdown in zip(work.entries, slowdowns, strict=True):
        if entry.user:
            by_user.setdefault(entry.user, []).append(slowdown)
    means = [fsum(values) / len(values) for values in by_user.values()]
    if not means:
        return None
    return fsum(means) ** 2 / (len(means) * fsum(mean * mean for mean in means))
