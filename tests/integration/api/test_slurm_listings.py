"""The Slurm listings over a real state: what is shown of whom, under which ids, in which words."""

import json
from typing import Any

import pytest

from lattice.core.machine.commands import DrainNode
from lattice.core.model.allocations import Cause, PartPhase
from tests.integration.api.world import World, in_world


async def slurm(world: World, line: str | list[str], *, token: str | None = None, **environment: str) -> dict[str, Any]:
    """The answer to a command line."""
    program, *argv = line.split() if isinstance(line, str) else line
    body = {"program": program, "argv": argv, "cwd": "/tmp", "environment": environment}  # noqa: S108 - never written to
    response = await world.call("POST", "/slurm/commands", body, token=token)
    assert response.status == 200, response.body
    return {"stdout": "", "stderr": "", "code": 0} | response.json()


async def shown(world: World, line: str | list[str], **more: Any) -> list[str]:
    """The lines of a command that works."""
    answer = await slurm(world, line, **more)
    assert answer["code"] == 0, answer
    return answer["stdout"].splitlines()


async def array(world: World, tasks: str = "0-3") -> None:
    await world.submit(name="sweep", tasks=tasks)


@in_world
async def test_squeue_shows_what_waits_and_runs(world: World) -> None:
    await world.submit(name="first")
    await world.submit(name="second")
    await world.start_run(1)
    lines = await shown(world, "squeue")
    assert lines[0] == "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)"
    assert lines[1:] == [
        "                 2   default   second    alice PD       0:00      1 (None)",
        "                 1   default    first    alice  R       0:00      1 n1",
    ]


@in_world
async def test_sacct_has_jobs_and_their_batch_steps_for_good(world: World) -> None:
    for code in (0, 3):
        await world.submit(name=f"code{code}")
        number = max(world.state.allocations)
        await world.start_run(number)
        await world.finish(number, exit_code=code)
    await world.submit(name="later")
    await world.archive(1, 2)
    lines = await shown(world, "sacct")
    assert lines[0] == "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode "
    assert lines[1] == "------------ ---------- ---------- ---------- ---------- ---------- -------- "
    assert [line.split() for line in lines[2:]] == [
        ["1", "code0", "default", "default", "4", "COMPLETED", "0:0"],
        ["1.batch", "batch", "default", "4", "COMPLETED", "0:0"],
        ["2", "code3", "default", "default", "4", "FAILED", "3:0"],
        ["2.batch", "batch", "default", "4", "FAILED", "3:0"],
        ["3", "later", "default", "default", "0", "PENDING", "0:0"],
    ]
    assert await shown(world, "sacct -nXP -o jobid,state%30,exitcode -j 2,3,99") == ["2|FAILED|3:0", "3|PENDING|0:0"]
    assert await shown(world, "sacct -n -p -j 2.batch -o JobID,NodeList") == ["2.batch|n1|"]
    assert await shown(world, "sacct -j 99 -n") == []
