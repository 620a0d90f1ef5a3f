"""How long `sbatch` takes, and how many of them eight loops manage: whole commands, with and without a compiler."""

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from bench.cluster import start_cluster
from lattice.testing import LocalCluster

SINGLE, LOOPS, EACH = 31, 8, 25
_SCRIPT = "#!/bin/sh\n#SBATCH --hold\ntrue\n"


def sbatch_command() -> dict[str, float]:
    with start_cluster(nodes=1) as cluster:
        cluster.cli("compat-aliases")
        folder = Path(sys.prefix) / "libexec" / "slurm"
        script = cluster.directory / "run.sh"
        script.write_text(_SCRIPT)
        return {
            "sbatch_p50_ms": _taken_ms(cluster, folder / "sbatch", script),
            "sbatch_python_p50_ms": _taken_ms(cluster, folder / "python" / "sbatch", script),
            "sbatch_rate": _rate(cluster, folder / "sbatch", script),
        }


def _taken_ms(cluster: LocalCluster, program: Path, script: Path) -> float:
    times = []
    for _ in range(SINGLE):
        begun = time.perf_counter()
        subprocess.run([program, script], env=cluster.environment(), stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begun)
    return median(times) * 1000


def _rate(cluster: LocalCluster, program: Path, script: Path) -> float:
    loop = f"for i in $(seq {EACH}); do {program} --parsable {script}; done"
    begun = time.perf_counter()
    loops = [
        subprocess.Popen(["/bin/sh", "-c", loop], env=cluster.environment(), stdout=subprocess.PIPE, text=True)
        for _ in range(LOOPS)
    ]
    printed = [number for each in loops for number in each.communicate()[0].split()]
    taken = time.perf_counter() - begun
    if len(set(printed)) != LOOPS * EACH:
        raise AssertionError(f"{len(set(printed))} submissions, {LOOPS * EACH} expected")
    return LOOPS * EACH / taken
