"""Scales a dask cluster up and down through dask-jobqueue; prints one line of JSON per outcome."""

import json
import subprocess
import sys
import time
from collections.abc import Callable

import dask
from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def say(what: str, **values: object) -> None:
    sys.stdout.write(json.dumps({"what": what, **values}) + "\n")
    sys.stdout.flush()


def until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(what)
        time.sleep(0.2)


def states(number: str) -> list[str]:
    listing = subprocess.run(
        ["sacct", "-X", "-n", "-P", "-o", "State", "-j", number], capture_output=True, text=True, check=True
    )
    return [line.split()[0] for line in listing.stdout.splitlines()]


def work(folder: str) -> None:
    cluster = SLURMCluster(
        cores=1,
        processes=1,
        memory="200MB",
        walltime="00:10:00",
        interface="lo",
        log_directory=folder,
        job_extra_directives=["--comment=dask"],
        scheduler_options={"dashboard": False, "dashboard_address": None},
        worker_extra_args=["--no-dashboard"],
    )
    with cluster, Client(cluster) as client:
        say("script", lines=[line for line in cluster.job_script().splitlines() if line.startswith("#SBATCH")])
        cluster.scale(jobs=2)
        client.wait_for_workers(2, timeout=60)
        say("sum", result=client.submit(sum, [20, 22]).result(timeout=60))
        say("many", result=client.gather(client.map(abs, range(-5, 0))))
        ids = {name: worker.job_id for name, worker in cluster.workers.items()}
        say("ids", values=sorted(ids.values()))
        cluster.scale(jobs=1)
        until(lambda: sorted(states(each)[0] for each in ids.values()).count("RUNNING") == 1, "one job is cancelled")
        say("smaller", states=sorted(states(each)[0] for each in ids.values()))
    until(lambda: all("RUNNING" not in states(each) for each in ids.values()), "all are cancelled")
    say("closed", states=sorted(states(each)[0] for each in ids.values()))


def main() -> None:
    with dask.config.set({"distributed.comm.timeouts.connect": "30s"}):
        work(sys.argv[1])


if __name__ == "__main__":
    main()
