"""How long replays take and what comes of them, on recorded traces where they are."""

import json
import os
import subprocess
import sys
import time
from math import prod
from pathlib import Path

RATED = ("KTH-SP2", "SDSC-SP2", "HPC2N", "CEA-Curie", "ANL-Theta-2022", "ANL-Mira-2018", "MS-Philly-2017-A")
FLOOR = 0.2


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
