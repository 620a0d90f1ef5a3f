"""Functions through executorlib and pysqa; prints one line of JSON per outcome."""

import json
import os
import sys

from executorlib import SlurmClusterExecutor


def add(first: int, second: int) -> int:
    return first + second


def job() -> str:
    return os.environ["SLURM_JOB_ID"]


def fail() -> None:
    raise LookupError("not here")


def say(what: str, **values: object) -> None:
    sys.stdout.write(json.dumps({"what": what, **values}) + "\n")


def main() -> None:
    folder = sys.argv[1]
    needs = {"cores": 1, "run_time_max": 300, "cwd": folder}
    with SlurmClusterExecutor(cache_directory=os.path.join(folder, "cache"), resource_dict=needs) as executor:
        first = executor.submit(add, 1, 2)
        chained = executor.submit(add, first, 39)
        number = executor.submit(job)
        bad = executor.submit(fail)
        say("sum", result=chained.result(timeout=90))
        say("job", id=number.result(timeout=90))
        say("problem", text=repr(bad.exception(timeout=90)))


main()
