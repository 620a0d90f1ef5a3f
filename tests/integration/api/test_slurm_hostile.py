"""Slurm command lines that nobody types by accident: each gets an answer, soon, and nobody learns of other people's work by them."""

import asyncio
from typing import Any

import pytest

from lattice.api.slurm import answering
from lattice.core.model.work.allocations import PartPhase
from tests.integration.api.world import World, in_world

DIGITS = "9" * 4000
MANY = "n[" + "0-99999," * 200 + "1]"
LINES = [
    ["squeue", "-j", DIGITS],
    ["squeue", "-u", "²"],
    ["squeue", "-u", DIGITS],
    ["squeue", "-u", "4294967296"],
    ["squeue", "-w", "n[0-99999][0-99999]"],
    ["squeue", "-o", "%1000000000i"],
    ["squeue", "-O", "JobID:1000000000"],
    ["squeue", "-o", "%i" * 5000],
    ["squeue", "-o", "%" * 100_000],
    ["squeue", "--iterate=²"],
    ["sacct", "-E", "0001-01-01"],
    ["sacct", "--format=JobID%1000000000"],
    ["sinfo", "-n", MANY],
    ["sinfo", "-n", "n[²]"],
    ["sinfo", "-n", f"n[{'0' * 4000}-90000]"],
    ["sprio", "-o", "%.1000000000i"],
    ["scontrol", "show", "hostlist", "1" * 100_000 + "x"],
    ["scontrol", "show", "job", DIGITS],
    ["scancel", DIGITS],
    ["scancel", "-u", "a\0b"],
    ["scancel", "," * 100_000],
    ["scancel", *["1"] * 20_000],
    ["sbatch", "--array=" + DIGITS, "--wrap=true"],
    ["sbatch", "--array=1%²", "--wrap=true"],
    ["sbatch", "--begin=0001-01-01", "--wrap=true"],
    ["sbatch", "--time=" + DIGITS, "--wrap=true"],
    ["sbatch", "--signal=USR1@" + DIGITS, "--wrap=true"],
    ["sbatch", "--dependency=after:1+99999999999999999999", "--wrap=true"],
    ["sbatch", "--dependency=afterok" + ":1" * 20_000, "--wrap=true"],
    ["sbatch", "--exclude=n[0-99999][0-99999]", "--wrap=true"],
]
RESUMED = ["end:x:0", "end:1:x", "end:1:" + DIGITS, "wait:²", "cancel:", "wait:" + DIGITS]


async def ask(world: World, program: str, *argv: str, token: str | None = None, resume: str = "") -> dict[str, Any]:
    body = {"program": program, "argv": list(argv), "cwd": "/home/alice", "resume": resume}
    async with asyncio.timeout(30):
        response = await world.call("POST", "/slurm/commands", body, token=token)
    assert response.status == 200, response.body[:300]
    assert len(response.body) < 5_000_000
    return {"stdout": "", "stderr": "", "code": 0} | response.json()


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line)[:40])
def test_no_line_is_a_failure_of_ours(line: list[str]) -> None:
    @in_world
    async def check(world: World) -> None:
        await world.submit()
        await ask(world, *line)

    check()


@in_world
async def test_no_line_brings_terminal_escapes_or_lines_of_its_own(world: World) -> None:
    for text in ("\x1b[31mred", "fine\nJobId=1 forged", "a\x07b", "\u202eabc"):
        for option in ("--comment", "--wckey", "--output", "--reservation"):
            answer = await ask(world, "sbatch", f"{option}={text}", "--wrap=true")
            assert answer["code"] == 1, (option, text)
        body = {"program": "sbatch", "script": "#!/bin/sh\ntrue\n", "script_path": f"/home/alice/{text}"}
        answer = (await world.call("POST", "/slurm/commands", body)).json()
        assert answer["code"] == 1
    assert not world.state.allocations


@in_world
async def test_no_line_outweighs_its_job(world: World) -> None:
    long = "x" * 100_000
    for option in ("--comment", "--wckey", "--output", "--qos", "--export", "--reservation"):
        answer = await ask(world, "sbatch", f"{option}={long}", "--wrap=true")
        assert answer["code"] == 1, option
    answer = await ask(world, "sbatch", "--comment=" + "x" * 3000, "--wrap=true", "--output=%x-%j.log")
    assert answer["stdout"] == "Submitted batch job 1\n"
    refused = await ask(world, "scontrol", "update", "nodename=n1", "state=drain", f"reason={long}", token=world.admin)
    assert (refused["code"], world.state.nodes["n1"].state) == (1, "Ready")
    body = {"program": "sbatch", "argv": ["--wrap=true"], "cwd": "/", "uid": 1 << 70, "gid": -5}
    assert (await world.call("POST", "/slurm/commands", body)).status in (200, 400)


@in_world
async def test_a_listing_has_an_end(world: World) -> None:
    await world.submit(tasks="0-19999")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answering, "MAX_CHARACTERS", 1 << 20)
        wide = await ask(world, "squeue", "-r", "-o", "%1000i")
        assert (wide["code"], wide["stdout"]) == (1, "")
        assert "too much for one listing" in wide["stderr"]
        patch.setattr(answering, "MAX_ROWS", 100)
        long = await ask(world, "sacct", "--array")
        assert "too much for one listing" in long["stderr"]
    again = await ask(world, "squeue", "-h", "-r", "-o", "%i", "-j", ",".join(["1"] * 10_000))
    assert len(again["stdout"].split()) == 20_000


@in_world
async def test_a_program_that_comes_back_with_nonsense_is_told_so(world: World) -> None:
    for program in ("srun", "salloc"):
        for word in RESUMED:
            answer = await ask(world, program, "true", resume=word)
            assert answer["code"] == 1
            assert "is not a valid continuation of a command" in answer["stderr"]


@in_world
async def test_nobody_comes_back_to_the_allocation_of_somebody_else(world: World) -> None:
    mine = await world.submit(name="secret-name")
    await world.place(mine["number"])
    await world.report(mine["number"], PartPhase.RUNNING)
    stranger = world.token("mallory", tenants=("physics",))
    for program in ("srun", "salloc"):
        answers = [await ask(world, program, "true", token=stranger, resume=f"wait:{each}") for each in (1, 4711)]
        theirs, none = (answer["stderr"].replace("4711", "1") for answer in answers)
        assert theirs == none == f"{program}: error: Job allocation 1 has been revoked\n"
        assert all("spawn" not in answer and answer["code"] == 1 for answer in answers)
    for word in ("end", "cancel"):
        await ask(world, "salloc", "true", token=stranger, resume=f"{word}:1:0")
    assert world.state.allocations[1].state == "Running"
