"""Submits through PSI/J; prints one line of JSON per outcome."""

import json
import sys
from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, ResourceSpecV1
from psij.executors.batch.slurm import SlurmExecutorConfig


def spec(folder: Path, name: str, *words: str) -> JobSpec:
    return JobSpec(
        executable="/bin/sh",
        arguments=["-c", *words],
        stdout_path=folder / f"{name}.out",
        stderr_path=folder / f"{name}.err",
        attributes=JobAttributes(duration=timedelta(minutes=3), account="default"),
        resources=ResourceSpecV1(node_count=1, processes_per_node=1),
        launcher="single",
    )


def main() -> None:
    folder = Path(sys.argv[1])
    config = SlurmExecutorConfig(queue_polling_interval=1, initial_queue_polling_delay=1)
    executor = JobExecutor.get_instance("slurm", config=config)
    good, bad, stopped = (
        Job(spec(folder, name, text))
        for name, text in (("good", "echo done"), ("bad", "exit 6"), ("stopped", "sleep 600"))
    )
    for job in (good, bad, stopped):
        executor.submit(job)
    for what, job in (("good", good), ("bad", bad)):
        status = job.wait(timeout=timedelta(seconds=60))
        state = None if status is None else status.state.name
        sys.stdout.write(json.dumps({"what": what, "state": state, "code": status and status.exit_code}) + "\n")
    stopped.cancel()
    status = stopped.wait(timeout=timedelta(seconds=60))
    sys.stdout.write(json.dumps({"what": "stopped", "state": None if status is None else status.state.name}) + "\n")
    sys.stdout.flush()


main()
