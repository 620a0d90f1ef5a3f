"""What a person waits for all day: native commands, `srun`, many submissions at once, functions, and the sentence about a killed run."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.cluster import client_of, percentile, start_cluster, wait_until
from lattice.testing import LocalCluster
from lattice_sdk import AllocationSpec, Executor, LatticeClient, Submission

SINGLE = 31
STEPS = 31
KILLED = 9
CALLS = 1000
PROGRAMS = Path(sys.prefix) / "libexec" / "slurm"


def native_commands() -> dict[str, float]:
    """`lattice status` and `lattice submit -- true` through the forwarder, and without it."""
    with start_cluster(nodes=1) as cluster, tempfile.TemporaryDirectory(prefix="run-") as runtime:
        cluster.cli("compat-aliases")
        environment = {**cluster.environment(), "XDG_RUNTIME_DIR": runtime}
        python_ms = _taken_ms(environment, "status")
        environment.pop("LATTICE_WARM")
        subprocess.run([PROGRAMS / "lattice", "status"], env=environment, stdout=subprocess.DEVNULL, check=True)
        sockets = Path(runtime, "lattice")
        wait_until(lambda: any(path.is_socket() for path in sockets.iterdir()), 30, "a warm interpreter")
        figures = {
            "native_status_ms": _taken_ms(environment, "status"),
            "native_submit_ms": _taken_ms(environment, "submit", "--hold", "--", "true"),
            "native_python_ms": python_ms,
        }
    return figures  # with its directory gone, the warm interpreter ends by itself


def _taken_ms(environment: dict[str, str], *words: str) -> float:
    times = []
    for _ in range(SINGLE):
        begun = time.perf_counter()
        subprocess.run([PROGRAMS / "lattice", *words], env=environment, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - begun)
    return median(times) * 1000


def srun_command() -> dict[str, float]:
    """`srun -N 2 -n 2 hostname` without an allocation: it makes one."""
    with start_cluster(nodes=4) as cluster:
        cluster.cli("compat-aliases")
        times = []
        for _ in range(STEPS):
            begun = time.perf_counter()
            done = subprocess.run(
                [PROGRAMS / "srun", "-N", "2", "-n", "2", "hostname"],
                env=cluster.environment(),
                capture_output=True,
                text=True,
                check=True,
            )
            times.append((time.perf_counter() - begun) * 1000)
            if len(done.stdout.splitlines()) != 2:
                raise AssertionError(done)
        return {"srun_p50_ms": percentile(times, 0.5)}


def many_submissions() -> dict[str, float]:
    """1,000 and 5,000 submissions at once by one asynchronous client."""
    with start_cluster(nodes=0) as cluster:
        return asyncio.run(_submitted(cluster))


async def _submitted(cluster: LocalCluster) -> dict[str, float]:
    figures, failed = {}, 0
    async with LatticeClient(cluster.api_url, token=cluster.token) as client:
        for count in (1000, 5000):
            begun = time.perf_counter()
            answers = await asyncio.gather(
                *(client.submit(Submission(entrypoint=["true"])) for _ in range(count)), return_exceptions=True
            )
            figures[f"gather_{count}_s"] = time.perf_counter() - begun
            failed += sum(isinstance(answer, BaseException) for answer in answers)
    return {**figures, "gather_failed": float(failed)}


def executor_map() -> dict[str, float]:
    """`Executor.map` of 1,000 trivial functions on 4 shared nodes."""
    with start_cluster(nodes=4) as cluster, client_of(cluster) as client:
        spec = AllocationSpec(cpus=1, walltime="10m")
        begun = time.perf_counter()
        with Executor(client, spec=spec, directory=cluster.directory, progress=False) as executor:
            results = list(executor.map(_double, range(CALLS)))
        took = time.perf_counter() - begun
        if results != [2 * number for number in range(CALLS)]:
            raise AssertionError("wrong results")
    return {"executor_map_s": took}


def _double(number: int) -> int:
    return 2 * number


def killed_sentence() -> dict[str, float]:
    """From the end of a killed process to the sentence about it in the output file."""
    with start_cluster(nodes=1) as cluster:
        return {"sentence_ms": median(_killed(cluster, count) for count in range(KILLED))}


def _killed(cluster: LocalCluster, count: int) -> float:
    output = Path(cluster.directory) / f"killed-{count}.out"
    script = "echo $$; exec sleep 600"
    cluster.cli("submit", f"--stdout={output}", "--walltime=10m", "--", "sh", "-c", script)
    wait_until(lambda: output.exists() and output.read_text().endswith("\n"), 30, "the run")
    os.kill(int(output.read_text().split()[0]), 9)
    begun = time.perf_counter()
    wait_until(lambda: "killed by signal 9" in output.read_text(), 30, "the sentence")
    return (time.perf_counter() - begun) * 1000
