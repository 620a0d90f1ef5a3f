"""Runs functions through parsl's Slurm provider; prints one line of JSON per outcome."""

import json
import sys

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SrunLauncher
from parsl.providers import SlurmProvider


@parsl.python_app
def add(a: int, b: int) -> int:
    return a + b


@parsl.bash_app
def fail() -> str:
    return "exit 5"


def main() -> None:
    folder = sys.argv[1]
    provider = SlurmProvider(
        partition="default",
        nodes_per_block=1,
        init_blocks=1,
        max_blocks=1,
        walltime="00:10:00",
        launcher=SrunLauncher(),
    )
    executor = HighThroughputExecutor(
        label="slurm", address="127.0.0.1", max_workers_per_node=2, provider=provider, encrypted=False
    )
    with parsl.load(Config(executors=[executor], run_dir=f"{folder}/runinfo", strategy="none", usage_tracking=0)):
        sums = [add(number, number).result(timeout=80) for number in range(3)]
        problem = type(fail().exception(timeout=60)).__name__
    sys.stdout.write(json.dumps({"what": "apps", "sums": sums, "problem": problem}) + "\n")


if __name__ == "__main__":
    main()
