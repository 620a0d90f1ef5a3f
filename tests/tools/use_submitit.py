"""Submits through submitit; prints one line of JSON per outcome. Run by the Python that has submitit."""

import json
import os
import sys
import time
from pathlib import Path

import submitit


def add(a: int, b: int) -> int:
    return a + b


def fail() -> None:
    raise ValueError("told to fail")


def leave(code: int) -> None:
    os._exit(code)


def where() -> tuple[int, int, str]:
    seen = submitit.JobEnvironment()
    return seen.global_rank, seen.num_tasks, seen.job_id


class Resumed:
    """Sleeps on its first run; handed on by a checkpoint, it says so at once."""

    def __init__(self, *, is_resumed: bool = False) -> None:
        self.is_resumed = is_resumed

    def __call__(self) -> str:
        if not self.is_resumed:
            time.sleep(600)
        return "resumed" if self.is_resumed else "first"

    def checkpoint(self) -> submitit.helpers.DelayedSubmission:
        return submitit.helpers.DelayedSubmission(Resumed(is_resumed=True))


def say(what: str, **values: object) -> None:
    sys.stdout.write(json.dumps({"what": what, **values}) + "\n")
    sys.stdout.flush()


def until(job: "submitit.Job[object]", states: set[str], seconds: float = 60) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        state = str(job.get_info(mode="force").get("State", "UNKNOWN")).split()[0]
        if state in states:
            return state
        time.sleep(0.2)
    raise TimeoutError(f"{job.job_id} is {state}, not one of {states}")


def executor(folder: Path, **settings: object) -> submitit.SlurmExecutor:
    made = submitit.SlurmExecutor(folder=folder)
    made.update_parameters(time=5, **settings)
    return made


def failures(plain: submitit.SlurmExecutor, limited: submitit.SlurmExecutor) -> None:
    failing, leaving, late = plain.submit(fail), plain.submit(leave, 7), limited.submit(time.sleep, 600)
    try:
        failing.result()
    except submitit.core.utils.FailedJobError as problem:
        say("failed", tells="ValueError: told to fail" in str(problem), state=until(failing, {"FAILED"}))
    for what, job, state in (("left", leaving, "FAILED"), ("late", late, "TIMEOUT")):
        job._results_timeout_s = 1
        try:
            job.result()
        except submitit.core.utils.UncompletedJobError:
            say(what, id=job.job_id, state=until(job, {state}))


def interruptions(plain: submitit.SlurmExecutor, folder: Path) -> None:
    sleeping, resumed = plain.submit(time.sleep, 600), plain.submit(Resumed())
    until(sleeping, {"RUNNING"})
    sleeping.cancel()
    log = folder / f"{resumed.job_id}_0_log.out"
    while "Loading pickle" not in (log.read_text() if log.exists() else ""):
        time.sleep(0.1)
    time.sleep(1)  # until submitit's own handlers stand, which nothing shows
    resumed._interrupt(timeout=True)
    say("resumed", result=resumed.result(), id=resumed.job_id)
    say("cancelled", state=until(sleeping, {"CANCELLED"}))


def main() -> None:
    folder = Path(sys.argv[1])
    plain = executor(folder / "plain")
    plain.submit(add, 0, 0).watcher._delay_s = 1  # asks once a minute by default
    many = executor(folder / "many", array_parallelism=2).map_array(add, range(4), range(4))
    ranks = executor(folder / "ranks", ntasks_per_node=2, cpus_per_task=1).submit(where)
    summed = plain.submit(add, 20, 22)
    say("sum", result=summed.result(), state=until(summed, {"COMPLETED"}))
    say("array", results=[each.result() for each in many], ids=[each.job_id for each in many])
    say("ranks", results=sorted(ranks.results()))
    failures(plain, executor(folder / "late", additional_parameters={"time": "0:03"}))
    interruptions(plain, folder / "plain")


main()
