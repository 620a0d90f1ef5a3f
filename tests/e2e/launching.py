"""Launches that are watched from outside while something dies."""

import subprocess
import sys
from pathlib import Path

from lattice.testing import LocalCluster

# Counts aloud until it is let go.
COUNTING = "n=0; while [ ! -e {scratch}/go ]; do n=$((n+1)); echo line $n; sleep 0.02; done; echo $n > {scratch}/last.$PMI_RANK"


def launched(cluster: LocalCluster, alloc: str, *words: str) -> "subprocess.Popen[str]":
    program = Path(sys.executable).with_name("lattice")
    return subprocess.Popen(
        [str(program), "launch", "--alloc", alloc, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
    )


def rest_of(step: "subprocess.Popen[str]") -> tuple[str, str]:
    """What is left of its output, beginning with what was read ahead, when it has ended."""
    assert step.stdout is not None
    assert step.stderr is not None
    output, errors = step.stdout.read(), step.stderr.read()
    step.wait(60)
    return output, errors


def check_complete(output: str, scratch: Path) -> None:
    """Every line of each rank once, in order, up to the last one that it wrote."""
    for rank in (0, 1):
        last = int((scratch / f"last.{rank}").read_text())
        lines = [line.partition(": ")[2] for line in output.splitlines() if line.startswith(f"{rank}: ")]
        assert lines == [f"line {number}" for number in range(1, last + 1)]
