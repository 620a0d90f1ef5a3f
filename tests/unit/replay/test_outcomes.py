"""The figures of a replay, worked out by hand, and how they are written down."""

import io
import json

import pytest

from lattice.replay.outcomes import measure
from lattice.replay.progress import Bar
from lattice.replay.report import as_json, as_text, span, write_starts
from lattice.replay.traces.entries import Entry, Trace
from lattice.replay.traces.workload import Workload, keep_r1


def work(*, user: str = "") -> Workload:
    entries = [
        Entry(id="a", submit=100, run=100, procs=2, user=user),
        Entry(id="b", submit=100, run=2, procs=1, user=user),
        Entry(id="c", submit=110, run=40, procs=4, user=user and "other"),
    ]
    return keep_r1(Trace(name="t", entries=[*entries, Entry(id="d", submit=0)]), 4)


STARTS = [100, 300, 200]


def test_the_figures_are_those_of_the_definitions() -> None:
    outcome = measure(work(), STARTS)
    assert outcome.avg_wait_s == pytest.approx((0 + 200 + 90) / 3)
    assert outcome.avg_bsld == pytest.approx((1 + 202 / 10 + 130 / 40) / 3)
    assert outcome.makespan_s == 302 - 100
    assert outcome.util == pytest.approx((200 + 2 + 160) / (4 * 202))
    assert (outcome.wait_p50_s, outcome.wait_max_s, outcome.overtaking) == (90, 200, 1)
    assert outcome.wait_p99_s == pytest.approx(90 + 0.98 * 110)
    assert outcome.fairness is None


def test_fairness_is_one_when_all_users_are_slowed_down_alike() -> None:
    assert measure(work(user="u"), [100, 100, 110]).fairness == pytest.approx(1)
    means = ((1 + 20.2) / 2, 130 / 40)
    jain = sum(means) ** 2 / (2 * sum(mean**2 for mean in means))
    assert measure(work(user="u"), STARTS).fairness == pytest.approx(jain)


def test_json_is_one_object_with_the_agreed_keys() -> None:
    found = json.loads(as_json(measure(work(), STARTS)))
    keys = ["jobs", "avg_wait_s", "avg_bsld", "util", "makespan_s", "wait_p50_s", "wait_p99_s", "wait_max_s"]
    assert list(found) == keys
    assert found["jobs"] == 3


def test_the_summary_has_every_section() -> None:
    text = as_text("t, easy", work(user="u"), measure(work(user="u"), STARTS), skipped=2)
    assert text.startswith("=== RM-Replay Results: t, easy ===\n")
    assert "3 allocations on 4 processors in 3.4 min, 1 dropped, 2 bad lines skipped" in text
    assert "(44.8%)" in text
    assert "p50: 90 s" in text
    assert "Started ahead of the queue: 1 (33.3%)" in text
    assert "Fairness" in text
    assert "Fairness" not in as_text("t", work(), measure(work(), STARTS))


def test_durations_are_written_in_a_fitting_unit() -> None:
    assert [span(s) for s in (0, 119, 120, 7200, 172800)] == ["0 s", "119 s", "2.0 min", "2.0 hr", "2.0 d"]


def test_starts_are_csv_in_queue_order() -> None:
    file = io.StringIO()
    write_starts(file, work(), STARTS)
    assert file.getvalue() == "id,submit,start,run,procs\na,100,100,100,2\nb,100,300,2,1\nc,110,200,40,4\n"


def test_the_bar_draws_no_more_often_than_anybody_can_see() -> None:
    stream, now = io.StringIO(), [0.0]
    bar = Bar(stream, 2000, lambda: now[0])
    bar(500)
    bar(600)
    now[0] = 1.0
    bar(1000)
    bar.clear()
    assert stream.getvalue().count("\r[") == 2
    assert "[####################                    ] 1,000/2,000 done, 1,000/s" in stream.getvalue()
