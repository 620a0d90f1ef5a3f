"""How long replays take, and what the plan of production makes of the workloads of real machines.

The traces are not part of the repository: LATTICE_TRACES names their folder, else shared/traces beside the repository. What is
not there is not measured, and its figures are left out.
"""

import json
import math
import os
import time
from collections.abc import Iterator
from pathlib import Path

from lattice.replay.easy import Easy
from lattice.replay.outcomes import Outcome, measure
from lattice.replay.planned import Planned
from lattice.replay.simulate import simulate
from lattice.replay.trace import listed_procs, read_trace
from lattice.replay.workload import Workload, keep_r1

JUDGED = ("KTH-SP2", "SDSC-SP2", "HPC2N", "CEA-Curie", "ANL-Theta-2022", "ANL-Mira-2018", "MS-Philly")
LEAST_RATIO = 0.2


def replay_speed() -> dict[str, float]:
    """Seconds, reading included: the textbook's backfilling on the longest queue, the plan on a small and a large machine."""
    found: dict[str, float] = {}
    for key, name, policy in (
        ("replay_easy_ricc_s", "RICC", Easy),
        ("replay_lattice_kth_s", "KTH-SP2", Planned),
        ("replay_lattice_curie_s", "CEA-Curie", Planned),
    ):
        path = _trace(name)
        if path is not None:
            began = time.perf_counter()
            work = _workload(path)
            measure(work, simulate(work, policy(work)))
            found[key] = time.perf_counter() - began
    return found


def replay_quality(names: tuple[str, ...] = JUDGED) -> dict[str, float]:
    """The plan against the textbook's backfilling; ratios, below 1 is better. Takes half an hour with all traces."""
    found: dict[str, float] = {}
    ratios = []
    for name, easy, ours in _compared(names):
        ratio = ours.avg_bsld / easy.avg_bsld
        ratios.append(max(LEAST_RATIO, ratio))
        found[f"replay_bsld_{name}"] = ratio
        found[f"replay_max_wait_{name}"] = ours.wait_max_s / easy.wait_max_s
        found[f"replay_util_{name}"] = ours.util / easy.util
    if ratios:
        found["replay_bsld_mean"] = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return found


def _compared(names: tuple[str, ...]) -> Iterator[tuple[str, Outcome, Outcome]]:
    for name in names:
        path = _trace(name)
        if path is not None:
            work = _workload(path)
            yield name, measure(work, simulate(work, Easy(work))), measure(work, simulate(work, Planned(work)))


def _workload(path: Path) -> Workload:
    trace = read_trace(path)
    return keep_r1(trace, trace.procs_total or listed_procs(path))


def _trace(name: str) -> Path | None:
    named = os.environ.get("LATTICE_TRACES")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "traces"
    manifest = folder / "manifest.json"
    if not manifest.is_file():
        return None
    files = [str(row["file"]) for row in json.loads(manifest.read_text())]
    return next((folder / file for file in files if file.startswith(name)), None)


if __name__ == "__main__":
    for key, value in {**replay_speed(), **replay_quality()}.items():
        print(f"{value:9.3f}  {key}")
