"""What it takes to take nodes: work of a high class on a full cluster, and work that is asked for checkpoints.

Times come from the work's own files, so that both ends are seen by the same clock and no answer of the API lies between.
"""

import os
import subprocess
import tempfile
import time
from http import HTTPStatus
from pathlib import Path

from bench.cluster import percentile, start_cluster, wait_until
from lattice.testing import LocalCluster

ROUNDS = 12
HINTS = 40
ROOT = Path(__file__).parents[1]
STOPS = ["sh", "-c", "trap 'exit 1' TERM; while :; do sleep 0.01; done"]
# Notes when it hears of the request; writes at once.
SIGNALLED = """
import json, os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def asked(number, frame):
    heard = time.time()
    request = json.loads(pathlib.Path(os.environ["LATTICE_CHECKPOINT_REQUEST"]).read_text())
    with (folder / "heard").open("a") as file:
        file.write(f"{heard - request['asked']}\\n")
    (pathlib.Path(request["path"]) / ".done").touch()
    (folder / "done").write_text(str(time.time()))
signal.signal(signal.SIGUSR1, asked)
(folder / "ready").touch()
while True:
    signal.pause()
"""
REGISTERED = """
import json, os, pathlib, sys, time
from lattice_sdk.checkpoints.program import Checkpoints
folder = pathlib.Path(sys.argv[1])
checkpoints = Checkpoints()
(folder / "ready").touch()
while True:
    request = checkpoints.requested()
    if request is None:
        time.sleep(0.0005)
        continue
    heard = time.time()
    asked = json.loads(pathlib.Path(os.environ["LATTICE_CHECKPOINT_REQUEST"]).read_text())["asked"]
    with (folder / "heard").open("a") as file:
        file.write(f"{heard - asked}\\n")
    request.done()
"""
SHARED = """
#define _GNU_SOURCE
#include "lattice_checkpoint.h"
#include <stdio.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct lattice_checkpoint *shm = lattice_checkpoint_open();
    char name[512], path[1024];
    if (shm == 0 || argc < 2) return 1;
    snprintf(name, sizeof name, "%s/ready", argv[1]);
    fclose(fopen(name, "w"));
    for (;;) {
        uint32_t n = lattice_checkpoint_requested(shm);
        struct timespec now;
        if (!n) { usleep(200); continue; }
        clock_gettime(CLOCK_REALTIME, &now);
        snprintf(name, sizeof name, "%s/heard", argv[1]);
        FILE *file = fopen(name, "a");
        fprintf(file, "%.6f\\n", now.tv_sec + now.tv_nsec / 1e9);
        fclose(file);
        if (lattice_checkpoint_path(n, path, sizeof path) == 0) lattice_checkpoint_done(shm, n);
    }
}
"""


def evictions() -> dict[str, float]:
    """Class 9 submitted to its process on a full cluster; last `.done` to the process of the preemptor; hints to reactions."""
    with tempfile.TemporaryDirectory() as place, start_cluster(nodes=1) as cluster:
        folder = Path(place)
        folder.chmod(0o777)
        cluster.put("/settings/preemption.min_runtime_s", {"value": "0"})
        cluster.put("/settings/preemption.max_per_allocation", {"value": "1000"})
        figures = {"preempt_p50_s": percentile(_taken(cluster, folder), 0.5)}
        figures["hint_signal_p99_ms"] = percentile(_signalled(cluster, folder), 0.99) * 1000
        figures["done_to_start_p50_s"] = percentile(_after_checkpoints(cluster, folder), 0.5)
        figures["hint_shmem_p99_ms"] = percentile(_shared(cluster, folder), 0.99) * 1000
        figures["hint_grpc_p99_ms"] = percentile(_registered(cluster, folder), 0.99) * 1000
    return figures


def _submit(cluster: LocalCluster, entrypoint: list[str], klass: int, **fields: object) -> str:
    life = {"preemption_class": klass, "walltime": "2h"}
    return str(cluster.submit(entrypoint, lifecycle=life, **fields)["id"])


def _started(folder: Path) -> list[str]:
    """A program that notes when it began, and stays."""
    return ["sh", "-c", f"date +%s.%N >{folder}/began; exec sleep 3600"]


def _moment(folder: Path, name: str) -> float:
    path = folder / name
    wait_until(lambda: path.exists() and path.read_text().strip() != "", 30, name)
    moment = float(path.read_text())
    path.unlink()
    return moment


def _taken(cluster: LocalCluster, folder: Path) -> list[float]:
    found = []
    low = _submit(cluster, STOPS, 3)
    for _ in range(ROUNDS):
        cluster.wait_state(low, "Running")
        time.sleep(0.1)  # the trap is set
        begun = time.time()
        high = _submit(cluster, _started(folder), 9)
        found.append(_moment(folder, "began") - begun)
        cluster.delete(f"/allocations/{high}")
    cluster.delete(f"/allocations/{low}")
    return found


def _asked(cluster: LocalCluster, name: str, count: int) -> None:
    for _ in range(count):
        cluster.post(f"/allocations/{name}/checkpoint", {"wait": 10})


def _heard(folder: Path) -> list[float]:
    path = folder / "heard"
    found = [float(line) for line in path.read_text().split()]
    path.unlink()
    return found


def _ready(folder: Path) -> None:
    wait_until((folder / "ready").exists, 30, "the program")
    (folder / "ready").unlink()


def _signalled(cluster: LocalCluster, folder: Path) -> list[float]:
    name = _submit(cluster, _python(folder), 3, checkpoint={"protocol": "signal"})
    _ready(folder)
    cluster.wait_state(name, "Running")
    _asked(cluster, name, HINTS)
    cluster.delete(f"/allocations/{name}")
    cluster.wait_end(name)
    return _heard(folder)


def _registered(cluster: LocalCluster, folder: Path) -> list[float]:
    name = _submit(cluster, _python(folder, REGISTERED), 3, checkpoint={"protocol": "grpc"})
    _ready(folder)
    cluster.wait_state(name, "Running")

    def answers() -> bool:
        return cluster.request("POST", f"/allocations/{name}/checkpoint", {"wait": 10})[0] == HTTPStatus.ACCEPTED

    wait_until(answers, 30, "the registration of the program")
    _heard(folder)
    _asked(cluster, name, HINTS)
    cluster.delete(f"/allocations/{name}")
    cluster.wait_end(name)
    return _heard(folder)


def _python(folder: Path, text: str = SIGNALLED) -> list[str]:
    program = folder / "asked.py"
    program.write_text(text)
    return [os.environ.get("PYTHON", str(ROOT / ".venv" / "bin" / "python")), str(program), str(folder)]


def _after_checkpoints(cluster: LocalCluster, folder: Path) -> list[float]:
    found = []
    low = _submit(cluster, _python(folder), 3, checkpoint={"protocol": "signal"})
    for _ in range(ROUNDS):
        _ready(folder)
        cluster.wait_state(low, "Running")
        (folder / "done").unlink(missing_ok=True)
        high = _submit(cluster, _started(folder), 9)
        found.append(_moment(folder, "began") - _moment(folder, "done"))
        cluster.delete(f"/allocations/{high}")
    cluster.delete(f"/allocations/{low}")
    cluster.wait_end(low)
    _heard(folder)
    return found


def _shared(cluster: LocalCluster, folder: Path) -> list[float]:
    """Measured from `asked` of the request, which the agent writes before the hint."""
    source, program = folder / "shared.c", folder / "shared"
    source.write_text(SHARED)
    subprocess.run(["gcc", "-O2", f"-I{ROOT / 'share'}", "-o", str(program), str(source)], check=True)
    (folder / "ready").unlink(missing_ok=True)
    name = _submit(cluster, [str(program), str(folder)], 3, checkpoint={"protocol": "shmem"})
    _ready(folder)
    cluster.wait_state(name, "Running")
    found = []
    for _ in range(HINTS):
        _asked(cluster, name, 1)
        request = next((cluster.directory).rglob("request.json"))
        asked = float(request.read_text().partition('"asked":')[2].rstrip().rstrip("}").split(",")[0])
        found.append(_heard(folder)[-1] - asked)
    cluster.delete(f"/allocations/{name}")
    return found
