"""Policy lattice: the plan of production on interchangeable processors."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lattice.core.scheduler.score.profiles import Profile, built_in
from lattice.replay.policies.planned import Planned
from lattice.replay.simulate import simulate
from lattice.replay.traces.entries import Entry, Trace
from lattice.replay.traces.workload import Workload, keep_r1
from tests.conftest import sized
from tests.replay import textbook

EXAMPLES = sized(50, 5000)

# First come, first served, with one reservation that is sought anew in each cycle: that is EASY.
LIKE_EASY = Profile(name="easy", order="fifo", backfill_depth=1, keeps_promises=False)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    total = draw(st.integers(1, 24))
    submit = 0
    entries = []
    for number in range(draw(st.integers(1, 30))):
        submit += draw(st.sampled_from((0, 0, 1, 2, 9, 60)))
        run = draw(st.sampled_from((0, 1, 2, 5, 30, 31)))
        estimate = draw(st.sampled_from((run + 1, 2 * run + 1, 40)))
        user = draw(st.sampled_from("ab"))
        procs = draw(st.integers(1, total))
        entries.append(Entry(id=str(number), submit=submit, run=run, procs=procs, estimate=estimate, user=user))
    return keep_r1(Trace(name="drawn", entries=entries), total)


@settings(max_examples=EXAMPLES)
@given(work=workloads())
def test_in_the_order_of_submission_with_one_reservation_it_is_easy(work: Workload) -> None:
    jobs = list(zip(work.submits, work.runs, work.procs, work.estimates, strict=True))
    assert simulate(work, Planned(work, LIKE_EASY)) == textbook.easy(work.procs_total, jobs)


@pytest.mark.parametrize("profile", ["hpc", "responsive"])
@settings(max_examples=EXAMPLES)
@given(work=workloads())
def test_everything_starts_and_nothing_is_overbooked(profile: str, work: Workload) -> None:
    starts = simulate(work, Planned(work, built_in(profile)))
    assert all(start >= submit for start, submit in zip(starts, work.submits, strict=True))
    for instant in starts:
        busy = [
            procs
            for start, run, procs in zip(starts, work.runs, work.procs, strict=True)
            if start <= instant < start + run
        ]
        assert sum(busy) <= work.procs_total


@settings(max_examples=EXAMPLES)
@given(work=workloads())
def test_the_same_workload_is_planned_the_same_way(work: Workload) -> None:
    assert simulate(work, Planned(work)) == simulate(work, Planned(work))


@settings(max_examples=EXAMPLES)
@given(work=workloads())
def test_nothing_is_decided_by_run_times_that_lie_ahead(work: Workload) -> None:
    """Whoever starts before the first end starts then whatever the runs turn out to be."""
    starts = simulate(work, Planned(work))
    first_end = min(start + run for start, run in zip(starts, work.runs, strict=True))
    entries = [
        Entry(id=e.id, submit=e.submit, run=run + 1, procs=e.procs, estimate=estimate + 1, user=e.user)
        for e, run, estimate in zip(work.entries, work.runs, work.estimates, strict=True)
    ]
    longer = keep_r1(Trace(name="longer", entries=entries), work.procs_total)
    same_sight = Workload(
        procs_total=work.procs_total,
        entries=longer.entries,
        submits=work.submits,
        runs=longer.runs,
        procs=work.procs,
        estimates=work.estimates,
    )
    others = simulate(same_sight, Planned(same_sight))
    early = [position for position, start in enumerate(starts) if start < first_end]
    assert [others[position] for position in early] == [starts[position] for position in early]
