"""Outcomes on paper: one JSON object for programs, a summary for people, the starts as CSV."""

import csv
import json
from collections.abc import Sequence
from typing import TextIO

from lattice.replay.inventory import Replayed
from lattice.replay.outcomes import Outcome, slowdowns
from lattice.replay.traces.workload import Workload

STARTS_HEADER = ("id", "submit", "start", "run", "procs")


def as_json(outcome: Outcome, work: Workload | None = None, replayed: Replayed | None = None) -> str:
    """`replayed` adds what mode full knows: each vCluster, and what was preempted and lent."""
    return json.dumps(
        {
            **({} if work is None or replayed is None else _full(work, replayed)),
            "jobs": outcome.allocations,
            "avg_wait_s": outcome.avg_wait_s,
            "avg_bsld": outcome.avg_bsld,
            "util": outcome.util,
            "makespan_s": outcome.makespan_s,
            "wait_p50_s": outcome.wait_p50_s,
            "wait_p99_s": outcome.wait_p99_s,
            "wait_max_s": outcome.wait_max_s,
        }
    )


def _full(work: Workload, replayed: Replayed) -> dict[str, object]:
    moves = replayed.moves
    found: dict[str, object] = {"vclusters": {name: _of_vcluster(work, replayed, name) for name in _names(replayed)}}
    if moves is not None:
        found |= {
            "preemptions": moves.preemptions,
            "returned": moves.returned,
            "node_hours_lost": moves.lost_s / 3600,
            "node_hours_used": moves.used_s / 3600,
            "node_hours_borrowed": moves.borrowed_s / 3600,
            "checkpoints": moves.checkpoints,
        }
    return found


def _names(replayed: Replayed) -> list[str]:
    return sorted(set(replayed.vclusters))


def _of_vcluster(work: Workload, replayed: Replayed, name: str) -> dict[str, float]:
    places = [place for place, vcluster in enumerate(replayed.vclusters) if vcluster == name]
    slowdown = slowdowns(work, replayed.ends)
    waits = [replayed.starts[place] - work.submits[place] for place in places]
    return {
        "allocations": len(places),
        "avg_wait_s": sum(waits) / len(places),
        "avg_bsld": float(slowdown[places].mean()),
    }


def moves_text(work: Workload, replayed: Replayed) -> str:
    """What mode full adds to the summary."""
    lines = ["", "vClusters (allocations, average wait, average bounded slowdown):"]
    for name in _names(replayed):
        own = _of_vcluster(work, replayed, name)
        lines.append(f"  {name}: {own['allocations']:,.0f}, {span(own['avg_wait_s'])}, {own['avg_bsld']:,.2f}")
    moves = replayed.moves
    if moves is not None:
        lost = moves.lost_s / moves.used_s if moves.used_s else 0.0
        lines += [
            "",
            "Preemption and lending:",
            f"  Preempted: {moves.preemptions:,}; checkpoints before a stop: {moves.checkpoints:,}",
            f"  Node-hours lost: {moves.lost_s / 3600:,.1f} ({lost:.1%} of those used)",
            f"  Node-hours borrowed: {moves.borrowed_s / 3600:,.0f}; allocations that gave nodes back: {moves.returned:,}",
        ]
    return "\n".join(lines) + "\n"


def as_text(title: str, work: Workload, outcome: Outcome, *, skipped: int = 0) -> str:
    """The summary. `skipped` = lines that could not be read."""
    available_h = work.procs_total * outcome.makespan_s / 3600
    left_out = "".join(
        f", {count:,} {what}" for count, what in ((work.dropped, "dropped"), (skipped, "bad lines skipped")) if count
    )
    staged = [entry.staging for entry in work.entries if entry.staging]
    lines = [
        f"=== RM-Replay Results: {title} ===",
        "",
        "Workload:",
        f"  {outcome.allocations:,} allocations on {work.procs_total:,} processors in {span(outcome.makespan_s)}{left_out}",
        "",
        "Utilization:",
        f"  Processor-hours consumed: {outcome.used_s / 3600:,.0f} / {available_h:,.0f} available ({outcome.util:.1%})",
        "",
        "Wait Time:",
        f"  p50: {span(outcome.wait_p50_s)}",
        f"  p95: {span(outcome.wait_p95_s)}",
        f"  p99: {span(outcome.wait_p99_s)}",
        f"  max: {span(outcome.wait_max_s)}",
        f"  average: {span(outcome.avg_wait_s)}",
        "",
        *_staging_text(staged),
        "Bounded Slowdown:",
        f"  average: {outcome.avg_bsld:,.2f}",
        "",
        "Backfill:",
        f"  Started ahead of the queue: {outcome.overtaking:,} ({outcome.overtaking / outcome.allocations:.1%})",
    ]
    if outcome.fairness is not None:
        lines += ["", "Fairness (Jain's Index, average slowdown by user):", f"  {outcome.fairness:.2f}"]
    return "\n".join(lines) + "\n"


def _staging_text(staged: Sequence[int]) -> list[str]:
    """Waits count from the end of staging: no policy could have started the work before."""
    if not staged:
        return []
    what = f"{len(staged):,} allocations, average {span(sum(staged) / len(staged))}, max {span(max(staged))}"
    return ["Staging before the wait, as recorded:", f"  {what}", ""]


def span(seconds: float) -> str:
    """A duration in the unit in which people think of it."""
    for unit, length in (("d", 86400), ("hr", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds:.0f} s"


def write_starts(file: TextIO, work: Workload, starts: Sequence[int]) -> None:
    """One line per kept entry, in the order of the queue; seconds as in the trace."""
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(STARTS_HEADER)
    ids = [entry.id for entry in work.entries]
    rows.writerows(zip(ids, work.submits, starts, work.runs, work.procs, strict=True))
