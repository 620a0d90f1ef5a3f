"""The fast policies decide as the slow ones do, whatever the workload."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice.replay.policies.conservative import Conservative
from lattice.replay.policies.easy import Easy
from lattice.replay.policies.fcfs import Fcfs
from lattice.replay.simulate import Policy, simulate
from lattice.replay.traces.entries import Entry, Trace
from lattice.replay.traces.workload import Workload, keep_r1
from tests.replay import textbook

PAIRS: dict[str, tuple[Callable[[Workload], Policy], Callable[[int, list[textbook.Job]], list[int]]]] = {
    "fcfs": (Fcfs, textbook.fcfs),
    "easy": (Easy, textbook.easy),
    "conservative": (Conservative, textbook.conservative),
}


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Bursts, pauses, runs of length zero, good and bad estimates, on machines from one processor on."""
    total = draw(st.integers(1, 24))
    submit = 0
    entries = []
    for number in range(draw(st.integers(1, 40))):
        submit += draw(st.sampled_from((0, 0, 0, 1, 2, 9, 60)))
        run = draw(st.sampled_from((0, 1, 2, 5, 30, 31)))
        estimate = draw(st.sampled_from((-1, run, run + 1, 2 * run, 40)))
        procs = draw(st.integers(1, total))
        entries.append(Entry(id=str(number), submit=submit, run=run, procs=procs, estimate=estimate))
    return keep_r1(Trace(name="drawn", entries=entries), total)


@pytest.mark.parametrize("name", list(PAIRS))
@given(work=workloads())
def test_every_start_is_that_of_the_textbook(name: str, work: Workload) -> None:
    fast, slow = PAIRS[name]
    jobs = list(zip(work.submits, work.runs, work.procs, work.estimates, strict=True))
    assert simulate(work, fast(work)) == slow(work.procs_total, jobs)


@pytest.mark.parametrize("name", list(PAIRS))
@given(work=workloads())
def test_the_machine_is_never_overbooked(name: str, work: Workload) -> None:
    starts = simulate(work, PAIRS[name][0](work))
    assert all(start >= submit for start, submit in zip(starts, work.submits, strict=True))
    for instant in starts:
        busy = [
            procs
            for start, run, procs in zip(starts, work.runs, work.procs, strict=True)
            if start <= instant < start + run
        ]
        assert sum(busy) <= work.procs_total
