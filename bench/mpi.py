"""What MPI programs wait for: fences between nodes, whole launches against mpiexec, MPI_Init to MPI_Finalize against mpirun."""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.cluster import DEFAULT_TIMINGS
from lattice.agent.shim.pmi.space import pack
from lattice.testing import LocalCluster
from lattice.testing.fences import PlayedNodes

NODES = 4
RANKS = 16
OPEN_RANKS = 8
MPIRUN_TRIES = 5
TASKS = 64
TURNS = 7
FENCES = 7
# Says how long rank 0 spent between the first and the last call of the library.
PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <time.h>
static double now(void) { struct timespec at; clock_gettime(CLOCK_MONOTONIC, &at); return at.tv_sec + at.tv_nsec / 1e9; }
int main(int argc, char **argv) {
    int rank, size, sum;
    double begun = now();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    if (!rank) printf("%d ranks %f s\n", size, now() - begun);
    return 0;
}
"""
# In the place of ssh, without its cost: every host is this one.
HERE = '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nshift\nexec sh -c "$*"\n'
# All nodes are one host: ranks of different ones may not share memory.
# All of them talk over the loopback interface, whatever other interfaces the host has.
APART = {
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
}

# The script of the allocation: runs mpirun whenever it is asked.
SERVING = """cd {folder}; export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
while :; do
    if [ -e asked ]; then rm asked; mpirun.openmpi -n {ranks} --map-by node ./walk.openmpi > said 2> complaints; mv said answer; fi
    sleep 0.02
done"""


def fence_times() -> dict[str, float]:
    """One process plays all nodes."""
    return {"fence_star_ms": _fence(128, 4, 256), "fence_tree_ms": _fence(1000, 1, 128)}


def _fence(nodes: int, ranks: int, size: int) -> float:
    times = []
    with PlayedNodes(nodes, ranks) as played:
        for fence in range(1 + FENCES):
            blobs = [pack({f"{fence}.{place}.{rank}": "v" * size for rank in range(ranks)}) for place in range(nodes)]
            begun = time.perf_counter()
            played.fence(blobs)
            times.append((time.perf_counter() - begun) * 1000)
    return median(times[1:])  # connections are made in the first one


def mpi_launches() -> dict[str, float]:
    """Each pair in turns, so that both see the same machine."""
    cpus = ["--node-cpus", str(TASKS // NODES)]
    with LocalCluster(nodes=NODES, settings=DEFAULT_TIMINGS, arguments=cpus) as cluster:
        folder = cluster.directory
        script = SERVING.format(folder=folder, ranks=OPEN_RANKS)
        alone = cluster.submit(["sh", "-c", script], resources={"nodes": NODES}, environment=APART)["id"]
        cluster.wait_state(alone, "Running")

        def launch(*words: str) -> str:
            return cluster.cli("launch", "--alloc", alone, *words, timeout_s=120).stdout

        mpich, open_mpi = (_built(folder, library) for library in ("mpich", "openmpi"))
        mpiexec = _mpiexec(folder, mpich)
        return {
            "mpich_ratio": _ratio(
                lambda: _timed(lambda: _checked(launch("-n", str(RANKS), str(mpich)), RANKS)),
                lambda: _timed(lambda: _checked(mpiexec(), RANKS)),
            ),
            "pmi_auto_ratio": _ratio(
                lambda: _timed(lambda: launch("-n", str(TASKS), "true")),
                lambda: _timed(lambda: launch("-n", str(TASKS), "--pmi", "none", "true")),
            ),
            "openmpi_ratio": _ratio(
                lambda: _checked(launch("-n", str(OPEN_RANKS), *_flags(APART), str(open_mpi)), OPEN_RANKS),
                lambda: _mpirun_of_ranks(folder),
            ),
        }


def _ratio(ours: Callable[[], float], theirs: Callable[[], float]) -> float:
    pairs = [(ours(), theirs()) for _ in range(TURNS)]
    print(f"  ours {median(a for a, _ in pairs):.3f} s, theirs {median(b for _, b in pairs):.3f} s")
    return median(a for a, _ in pairs) / median(b for _, b in pairs)


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def _checked(output: str, ranks: int) -> float:
    """What the program says it took, if it was one program of all its ranks."""
    words = output.split()
    if words[:2] != [str(ranks), "ranks"]:
        raise AssertionError(output)
    return float(words[2])


def _flags(variables: dict[str, str]) -> list[str]:
    return [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]


def _built(folder: Path, library: str) -> Path:
    source, program = folder / "walk.c", folder / f"walk.{library}"
    source.write_text(PROGRAM)
    subprocess.run([f"mpicc.{library}", "-O1", "-o", program, source], check=True, capture_output=True)
    return program


def _mpiexec(folder: Path, program: Path) -> Callable[[], str]:
    """mpiexec with a proxy for each of four hosts, which are all this one."""
    launcher, hosts = folder / "here", folder / "hosts"
    launcher.write_text(HERE)
    launcher.chmod(0o755)
    hosts.write_text("".join(f"127.0.0.{1 + number}:{RANKS // NODES}\n" for number in range(NODES)))
    line = [shutil.which("mpiexec.hydra") or "mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", str(launcher)]
    line += ["-f", str(hosts), "-iface", "lo", "-n", str(RANKS), str(program)]
    return lambda: subprocess.run(line, check=True, capture_output=True, text=True, timeout=120).stdout


def _mpirun_of_ranks(folder: Path) -> float:
    """Once more where it failed: its daemons sometimes crash when four of them start on one machine."""
    for _ in range(MPIRUN_TRIES - 1):
        try:
            return _checked(_mpirun(folder), OPEN_RANKS)
        except AssertionError as failed:
            print(f"  mpirun failed and is repeated: {str(failed).strip('-').split()[:12]}")
    return _checked(_mpirun(folder), OPEN_RANKS)


def _mpirun(folder: Path) -> str:
    """What the program says that mpirun started over the allocation's nodes."""
    answer = folder / "answer"
    answer.unlink(missing_ok=True)
    (folder / "asked").touch()
    deadline = time.monotonic() + 120
    while not answer.exists():
        if time.monotonic() > deadline:
            raise TimeoutError("mpirun did not end")
        time.sleep(0.02)
    return answer.read_text() or (folder / "complaints").read_text()
