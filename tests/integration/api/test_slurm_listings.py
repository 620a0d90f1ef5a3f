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
