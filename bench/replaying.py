"""How long replays take and what comes of them, on recorded traces where they are."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import prod
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lattice.core.model.site.tenants import Lends
from lattice.replay.cluster import Cluster, percentile
from lattice.replay.inventory import CheckpointPart, Site, VclusterPart, made_up, on_nodes, simulate_full
from lattice.replay.outcomes import measure
from lattice.replay.report import as_json
from lattice.replay.synthetic import preempting, preemption_heavy
from lattice.replay.traces.entries import Trace
from lattice.replay.traces.reader import read_trace

RATED = ("KTH-SP2", "SDSC-SP2", "HPC2N", "CEA-Curie", "ANL-Theta-2022", "ANL-Mira-2018", "MS-Philly-2017-A")
FLOOR = 0.2
URGENT = 8
LENDING_NODES = 806
LENDER_WAIT = 1.1  # a lender may wait so many times as long as without lending
LENDING_WINDOWS = {"long": (30_000, 46_000), "short": (20_000, 23_000)}  # of 96,567 entries


def trace_folder() -> Path:
    return Path(os.environ.get("LATTICE_TRACES", Path(__file__).parents[2] / "shared" / "traces"))


def trace(name: str) -> Path:
    found = sorted(trace_folder().glob(f"{name}*.swf.xz"))
    if not found:
        raise FileNotFoundError(f"no trace {name} in {trace_folder()}; set LATTICE_TRACES")
    return found[0]


def replay(name: str, policy: str) -> tuple[float, dict[str, float]]:
    """Seconds and outcome of one `rm-replay run`."""
    program = Path(sys.executable).with_name("rm-replay")
    begun = time.perf_counter()
    done = subprocess.run(
        [program, "run", trace(name), "--policy", policy, "--mode", "r1", "--json"],
        capture_output=True,
        check=True,
    )
    return time.perf_counter() - begun, json.loads(done.stdout)


def replay_speed() -> dict[str, float]:
    return {
        "replay_ricc_s": replay("RICC", "easy")[0],
        "replay_kth_s": replay("KTH-SP2", "lattice")[0],
    }


def replay_preempting() -> dict[str, float]:
    """Urgent work among long work of a low class, with preemption against without."""
    before, after = Cluster(preemption_heavy()), Cluster(preempting(preemption_heavy()))
    waits = [
        percentile([stay.wait_s for stay in cluster.run() if stay.preemption_class == URGENT], 95)
        for cluster in (before, after)
    ]
    moves = after.moves
    return {
        "preempt_wait_ratio": waits[1] / waits[0],
        "preempt_lost": 100 * moves.lost_s / moves.used_s,
    }


def replay_lending() -> dict[str, float]:
    """Two windows of the four queues with most work of METACENTRUM, as vClusters of 806 nodes in all, sized by that work."""
    kept, sizes = _lending_parts()
    figures: dict[str, float] = {}
    for window, (first, last) in LENDING_WINDOWS.items():
        figures |= _lending_gain(window, Trace(name=kept.name, entries=kept.entries[first:last]), sizes)
    return figures


def replay_lending_whole() -> dict[str, float]:
    """The same over all of their 96,567 entries: each of the two replays takes many minutes of processor time."""
    return _lending_gain("whole", *_lending_parts())


def _lending_parts() -> tuple[Trace, dict[str, int]]:
    """The entries of the four queues, and how many nodes each queue gets."""
    whole = read_trace(trace("METACENTRUM"))
    totals: Counter[str] = Counter()
    for entry in whole.entries:
        totals[entry.queue] += max(0, entry.run) * max(0, entry.procs)
    queues = [queue for queue, _ in totals.most_common(4)]
    kept = [entry for entry in whole.entries if entry.queue in queues]
    sizes = {queue: round(LENDING_NODES * totals[queue] / sum(totals[each] for each in queues)) for queue in queues}
    sizes[queues[0]] += LENDING_NODES - sum(sizes.values())
    return Trace(name=whole.name, entries=kept), sizes


def _lending_gain(window: str, part: Trace, sizes: dict[str, int]) -> dict[str, float]:
    """Slowdown as a ratio; waits as seconds beyond 1.1 x, since a lender that never waited has no ratio."""
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as both:
        before, after = both.map(partial(_lending_outcome, part, sizes), (False, True))
    pairs = [(before["vclusters"][name]["avg_wait_s"], own["avg_wait_s"]) for name, own in after["vclusters"].items()]
    print(f"  {window}: average waits without and with lending, s: {pairs}", file=sys.stderr, flush=True)
    return {
        f"lending_{window}_bsld_ratio": after["avg_bsld"] / before["avg_bsld"],
        f"lending_{window}_over_s": max(0.0, *(lending - LENDER_WAIT * alone for alone, lending in pairs)),
    }


def _lending_outcome(part: Trace, sizes: dict[str, int], lends: bool) -> dict[str, Any]:
    site = _lending_site(sizes, lends=lends)
    work = on_nodes(part, site)
    found = simulate_full(work, site)
    report: dict[str, Any] = json.loads(as_json(measure(work, found.starts, found.ends), work, found))
    return report


def _lending_site(sizes: dict[str, int], *, lends: bool) -> Site:
    nodes = made_up(LENDING_NODES)
    names, parts, first = list(nodes), [], 0
    for queue, size in sizes.items():
        part = VclusterPart(
            name=f"q{queue}",
            nodes=f"{names[first][0]}[{names[first][1:]}-{names[first + size - 1][1:]}]",
            queues=(queue,),
            lends=Lends.IDLE if lends else Lends.NEVER,
            borrows=lends,
            checkpoint=lends,
        )
        parts.append(part)
        first += size
    return Site(nodes=nodes, vclusters=tuple(parts), checkpoints=CheckpointPart(write_s=10))


def replay_quality() -> dict[str, float]:
    """Bounded slowdown of our order against easy backfilling, with the longest wait and the utilisation it costs."""
    ratios, waits, utils = [], [], []
    curie_s = 0.0
    for name in RATED:
        took, ours = replay(name, "lattice")
        _, easy = replay(name, "easy")
        if name == "CEA-Curie":
            curie_s = took
        ratios.append(ours["avg_bsld"] / easy["avg_bsld"])
        waits.append(ours["wait_max_s"] / easy["wait_max_s"])
        utils.append(ours["util"] / easy["util"])
        print(f"  {name}: {ratios[-1]:.3f} {waits[-1]:.3f} {utils[-1]:.4f}", file=sys.stderr, flush=True)
    return {
        "replay_curie_s": curie_s,
        "slowdown_ratio": prod(max(FLOOR, ratio) for ratio in ratios) ** (1 / len(ratios)),
        "slowdown_worst": max(ratios),
        "max_wait_worst": max(waits),
        "util_worst": min(utils),
    }
