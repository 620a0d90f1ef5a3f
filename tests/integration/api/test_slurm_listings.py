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


@in_world
async def test_sinfo_puts_alike_nodes_on_one_line(world: World) -> None:
    await world.add_node("n3")
    await world.submit()
    await world.start_run(1)
    assert await shown(world, "sinfo") == [
        "PARTITION AVAIL  TIMELIMIT  NODES  STATE NODELIST",
        "default*     up   infinite      1  alloc n1",
        "default*     up   infinite      2   idle n[2-3]",
    ]
    await world.do(DrainNode(node="n3", reason="bad disk"))
    assert await shown(world, "sinfo -h -N") == [
        "n1             1  default* alloc ",
        "n2             1  default* idle  ",
        "n3             1  default* drain ",
    ]
    assert await shown(world, "sinfo -s -h") == ["default*     up   infinite          1/1/1/3 n[1-3]"]
    assert (await shown(world, ["sinfo", "-h", "-o", "%P|%C|%G|%f|%c|%m"])) == [
        "default*|4/4/4/12|(null)|(null)|4|4096"
    ]
    assert (await shown(world, "sinfo -R -h"))[0].split()[:2] == ["bad", "disk"]
    assert await shown(world, "sinfo -h -p nope") == []
    assert await shown(world, "sinfo -h -t idle -o %N") == ["n2"]
    assert await shown(world, "sinfo -h -t down") == ["default*     up   infinite      0    n/a "]
    refused = await slurm(world, "sinfo -t bogus")
    assert refused["code"] == 1
    assert 'Bad state string: "bogus"' in refused["stderr"]


@in_world
async def test_scontrol_shows_jobs_nodes_and_partitions(world: World) -> None:
    await world.submit(name="one")
    await array(world, "2-3%1")
    await world.start_run(1)
    text = "\n".join(await shown(world, "scontrol show job 1"))
    assert text.startswith("JobId=1 JobName=one\n   UserId=alice(65534) GroupId=")
    for pair in ("JobState=RUNNING Reason=None", "NumNodes=1 NumCPUs=4", "NodeList=n1", "BatchHost=n1", "QOS=normal"):
        assert pair in text
    lines = await shown(world, "scontrol -o show job")
    assert [line.split()[0] for line in lines] == ["JobId=1", "JobId=2"]
    assert "ArrayJobId=2 ArrayTaskId=2-3%1 ArrayTaskThrottle=1" in lines[1]
    assert all("=" in word for line in lines for word in line.split())
    assert "ArrayTaskId=3 " in (await shown(world, "scontrol show job 2_3"))[0]
    node = "\n".join(await shown(world, "scontrol show node n1"))
    for pair in (
        "NodeName=n1 ",
        "CPUAlloc=4 CPUEfctv=4 CPUTot=4",
        "State=ALLOCATED ",
        "Partitions=default",
        "Gres=(null)",
    ):
        assert pair in node
    partition = (await shown(world, "scontrol show -o partitions"))[0]
    for pair in (
        "PartitionName=default ",
        "Default=YES",
        "Nodes=n[1-2]",
        "TotalCPUs=8 TotalNodes=2",
        "MaxTime=UNLIMITED",
    ):
        assert pair in partition
    config = await shown(world, "scontrol show config")
    assert "MinJobAge               = 300 sec" in config


@pytest.mark.parametrize(
    ("line", "code", "text"),
    [
        ("scontrol show job 99", 1, "slurm_load_jobs error: Invalid job id specified\n"),
        ("scontrol show job abc", 1, "scontrol_print_job error: Invalid job id specified\n"),
        ("scontrol show job", 0, "No jobs in the system\n"),
        ("scontrol show node nope", 1, "Node nope not found\n"),
        ("scontrol show partition nope", 1, "Partition nope not found\n"),
        ("scontrol show res", 0, "No reservations in the system\n"),
        ("scontrol show res nope", 1, "Reservation nope not found\n"),
        ("scontrol show bogus", 1, "invalid entity:bogus for keyword:show \n"),
        ("scontrol bogus", 1, "invalid keyword: bogus\n"),
        ("scontrol show", 1, "too few arguments for keyword:show\n"),
        ("scontrol show job 1 2", 1, "too many arguments for keyword:show\n"),
        ("scontrol show hostnames n[1-3,5],m07", 0, "n1\nn2\nn3\nn5\nm07\n"),
        ("scontrol show hostlist n1,n2,m07", 0, "n[1-2],m07\n"),
        ("scontrol show hostlistsorted n2,n1", 0, "n[1-2]\n"),
        ("scontrol show step", 0, "No job steps in the system\n"),
        ("scontrol show step 99.0", 1, "slurm_get_job_steps error: Invalid job id specified\n"),
        ("scontrol ping", 0, "Slurmctld(primary) at s1 is UP\n"),
        ("scontrol version", 0, "slurm 22.05.8\n"),
        ("squeue -j 99", 1, "slurm_load_jobs error: Invalid job id specified\n"),
        ("squeue -h -j 99,99", 0, ""),
        ("squeue -j abc", 1, "squeue: error: Invalid job id: abc\n"),
        ("squeue -h -u nobody-such", 0, ""),
        ("squeue -w nope", 1, "squeue: error: Invalid node name nope\n"),
        ("squeue --bogus", 1, "squeue: unrecognized option '--bogus'\nTry \"squeue --help\" for more information\n"),
        ("sacct -1", 1, "sacct: invalid option -- '1'\nTry \"sacct --help\" for more information\n"),
        ("sacct -o Bogus", 1, 'sacct: error: Invalid field requested: "Bogus"\n'),
        ("sacct -n -X", 0, ""),
    ],
)
def test_unknown_things_are_told_as_slurm_tells_them(line: str, code: int, text: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        answer = await slurm(world, line)
        assert (answer["code"], answer["stdout"] + answer["stderr"]) == (code, text)

    scenario()
