"""The Slurm listings over a real state: what is shown of whom, under which ids, in which words."""

import json
from typing import Any

import pytest

from lattice.api.slurm.rows.jobs import JobRows
from lattice.core.machine.commands import DrainNode
from lattice.core.model.work.allocations import Allocation, Cause, PartPhase
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.measures import GroupUse
from lattice.slurm.listings.rows import JobRow
from tests.integration.api.world import World, in_world


async def slurm(world: World, line: str | list[str], *, token: str | None = None, **environment: str) -> dict[str, Any]:
    """The answer to a command line."""
    program, *argv = line.split() if isinstance(line, str) else line
    body = {"program": program, "argv": argv, "cwd": "/tmp", "environment": environment}
    response = await world.call("POST", "/slurm/commands", body, token=token)
    assert response.status == 200, response.body
    return {"stdout": "", "stderr": "", "code": 0} | response.json()


async def shown(world: World, line: str | list[str], token: str | None = None, **environment: str) -> list[str]:
    """The lines of a command that works."""
    answer = await slurm(world, line, token=token, **environment)
    assert answer["code"] == 0, answer
    text: str = answer["stdout"]
    return text.splitlines()


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


@in_world
async def test_arrays_have_one_line_for_what_waits_and_one_for_each_task_that_ran(world: World) -> None:
    await array(world, "0-3%2")
    await world.start_run(2)
    world.scheduling.reasons[1] = "waiting for tasks of its group: 2 of 2 at a time run"
    ids = ["-o", "%i %A %F %K %t %R"]
    assert await shown(world, ["squeue", "-h", *ids]) == [
        "1_[1-3%2] 1 1 1-3%2 PD (JobArrayTaskLimit)",
        "1_0 2 1 0 R n1",
    ]
    assert await shown(world, ["squeue", "-h", "-r", "-o", "%i %A"]) == ["1_1 3", "1_2 4", "1_3 5", "1_0 2"]
    assert await shown(world, ["squeue", "-h", "-j", "1_2", "-o", "%i"]) == ["1_2"]
    assert await shown(world, ["squeue", "-h", "-j", "2", "-o", "%i"]) == ["1_0"]
    assert await shown(world, "squeue -h -j 1_77") == []
    await world.finish(2, exit_code=9)
    await world.archive(2)  # now a row of its group
    assert await shown(world, ["squeue", "-h", "-t", "all", "-j", "1", "-o", "%i %T %r"]) == [
        "1_[1-3%2] PENDING JobArrayTaskLimit",
        "1_0 FAILED NonZeroExitCode",
    ]
    assert await shown(world, "sacct -nXP -j 1 -o jobid,jobidraw,state,exitcode") == [
        "1_[1-3%2]|1|PENDING|0:0",
        "1_0|2|FAILED|9:0",
    ]
    assert await shown(world, "sacct -nXP -j 1_0 -o jobid") == ["1_0"]
    assert await shown(world, "sacct -nP -j 1_0.batch -o jobid") == ["1_0.batch"]


@in_world
async def test_ended_jobs_are_remembered_for_five_minutes_and_by_sacct_for_good(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.finish(1)
    await world.archive(1)
    assert await shown(world, "squeue -h -j 1") == []
    assert await shown(world, "squeue -h -t all -o %T") == ["COMPLETED"]
    assert "JobState=COMPLETED" in "\n".join(await shown(world, "scontrol show job 1"))
    world.clock.ms += 301_000
    assert (await slurm(world, "squeue -j 1"))["stderr"] == "slurm_load_jobs error: Invalid job id specified\n"
    assert (await slurm(world, "scontrol show job 1"))["code"] == 1
    assert await shown(world, "squeue -h -t all") == []
    assert await shown(world, "sacct -nXP -o State -j 1") == ["COMPLETED"]


@pytest.mark.parametrize(
    ("end", "job", "batch"),
    [
        ({"cause": Cause.EXIT}, "COMPLETED|0:0|None", "COMPLETED|0:0"),
        ({"cause": Cause.EXIT, "exit_code": 7}, "FAILED|7:0|NonZeroExitCode", "FAILED|7:0"),
        ({"cause": Cause.OOM, "exit_code": 137}, "OUT_OF_MEMORY|0:125|OutOfMemory", "OUT_OF_MEMORY|0:125"),
        ({"cause": Cause.WALLTIME}, "TIMEOUT|0:0|TimeLimit", "CANCELLED|0:15"),
    ],
)
def test_every_end_has_slurms_word_for_it(end: dict[str, Any], job: str, batch: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        await world.submit()
        await world.start_run(1)
        await world.report(1, PartPhase.ENDED, **end)
        lines = await shown(world, "sacct -nP -j 1 -o state,exitcode,reason")
        assert lines == [job, f"{batch}|"]
        row = await shown(world, ["squeue", "-h", "-t", "all", "-O", "JobArrayID,StateCompact,Reason"])
        assert row[0].split()[2] == job.split("|")[2]

    scenario()


@in_world
async def test_a_cancelled_job_tells_by_whom(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.call("DELETE", "/allocations/a1")
    assert (await shown(world, "squeue -h -o %t")) == ["CG"]
    await world.report(1, PartPhase.ENDED, cause=Cause.SIGNAL)
    assert await shown(world, "sacct -nP -j 1 -o jobid,state,exitcode") == [
        "1|CANCELLED by 65534|0:0",
        "1.batch|CANCELLED|0:15",
    ]


@in_world
async def test_jobs_of_other_tenants_are_not_seen(world: World) -> None:
    physicist = world.token("bob", tenants=("physics",))
    await world.submit(token=physicist, tenant="physics")
    assert await shown(world, "squeue -h") == []
    assert (await slurm(world, "squeue -j 1"))["code"] == 1
    assert await shown(world, "sacct -nX -a -j 1") == []
    assert (await slurm(world, "scontrol show job 1"))["code"] == 1
    assert await shown(world, "squeue -h -o %u", token=physicist) == ["bob"]
    assert await shown(world, "squeue -h -o %u", token=world.admin) == ["bob"]
    assert await shown(world, "sacctmgr -nP show account", token=physicist) == ["physics|physics|physics"]


@in_world
async def test_squeue_picks_and_sorts(world: World) -> None:
    await world.submit(name="b")
    await world.submit(name="a", token=world.token("bob"))
    await world.start_run(1)

    async def ids(*words: str) -> str:
        return " ".join(await shown(world, ["squeue", "-h", "-o", "%i", *words]))

    assert await ids("-u", "bob") == "2"
    assert await ids("--me") == "1"
    assert await ids("-t", "PD") == "2"
    assert await ids("-t", "R,pending") == "2 1"
    assert await ids("-n", "a,b", "-S", "-j") == "1 2"
    assert await ids("-S", "i") == "1 2"
    assert await ids("-p", "nope") == ""
    assert await ids("-A", "default") == "2 1"
    assert await ids("-q", "high") == ""
    assert await ids("-w", "n[1-2]") == "1"
    assert await ids("-j1,2") == await ids("--job", "2,1,1") == "2 1"
    assert await shown(world, "squeue -h", SQUEUE_FORMAT="%i^^^%%T", SQUEUE_STATES="R") == ["1^^^RUNNING"]
    assert await shown(world, ["squeue", "-O", "JobID:4,State:.9|,bogus"]) == [
        "JOBI    STATE|",
        "2     PENDING|",
        "1     RUNNING|",
    ]
    assert await shown(world, ["squeue", "-h", "-j", "1", "-o", "%V"], SLURM_TIME_FORMAT="%s") == ["1772700000"]
    for zone, at in (("UTC", "08:40"), ("Europe/Zurich", "09:40"), ("XYZ5", "03:40"), ("../etc/passwd", "08:40")):
        seen = await shown(world, ["squeue", "-h", "-t", "R", "-o", "%V"], LATTICE_TIME_ZONE=zone)
        assert seen == [f"2026-03-05T{at}:00"]
    assert (await shown(world, "squeue --steps"))[1].split()[:2] == ["1.batch", "batch"]


@in_world
async def test_json_has_the_records_of_slurms_own(world: World) -> None:
    await world.submit(name="b")
    await world.start_run(1)
    job = json.loads("\n".join(await shown(world, "squeue --json")))["jobs"][0]
    assert (job["job_id"], job["job_state"], job["nodes"], job["user_name"]) == (1, "RUNNING", "n1", "alice")
    node = json.loads("\n".join(await shown(world, "sinfo --json")))["nodes"][0]
    assert (node["name"], node["state"], node["alloc_cpus"]) == ("n1", "allocated", 4)
    past = json.loads("\n".join(await shown(world, "sacct --json -j 1")))["jobs"][0]
    assert past["state"] == {"current": "RUNNING", "reason": "None"}
    assert past["steps"][0]["step"]["id"] == "batch"


@in_world
async def test_what_snakemake_asks_for_accounts(world: World) -> None:
    await world.submit()
    account = (await shown(world, "sacct -nu alice -o Account%256"))[-1]
    assert account.strip() == "default"
    assert [line.strip() for line in await shown(world, "sacctmgr -n -s list user alice format=account%256")] == [
        "default"
    ]
    assert [line.strip() for line in await shown(world, "sshare -U --format Account%256 --noheader")] == ["default"]


@in_world
async def test_sacctmgr_sshare_sprio_sdiag_and_sstat(world: World) -> None:
    await world.submit()
    await world.submit()
    await world.start_run(1)
    assert await shown(world, "sacctmgr -nP show qos format=name,priority") == ["low|2", "normal|5", "high|8"]
    assert await shown(world, "sacctmgr -nP show cluster format=cluster") == ["lattice"]
    assert "lattice|default|alice" in await shown(world, "sacctmgr -nP list assoc format=cluster,account,user")
    assert (await slurm(world, "sacctmgr -i add user bob"))["code"] == 1
    assert [line.split()[0] for line in (await shown(world, "sshare"))[2:]] == ["root", "default", "default"]
    assert (await shown(world, "sprio"))[1].split()[:3] == ["2", "default", "500000"]
    assert await shown(world, "sprio -j 99") == ["Unable to find jobs matching user/id(s) specified"]
    assert "Jobs pending:   1" in await shown(world, "sdiag")
    assert await shown(world, "sstat -nP -j 1.batch -o JobID,NTasks,MaxRSS") == ["1.batch|1|"]
    node = world.state.allocations[1].nodes[0]
    run = RunKey(1, world.state.allocations[1].run)
    world.links.figures[node] = (
        GroupUse(key=run, cpu_s=90.0, memory_mb=30.0, peak_memory_mb=50.0, written_bytes=3 << 20),
        GroupUse(key=run, step=0, cpu_s=30.0, memory_mb=10.0, peak_memory_mb=20.0, written_bytes=1 << 20),
    )
    columns = "JobID,MaxRSS,MaxRSSNode,AveRSS,AveCPU,MaxDiskWrite"
    assert await shown(world, f"sstat -nP -j 1.batch -o {columns}") == [f"1.batch|51200K|{node}|20480K|00:01:00|2.00M"]
    nothing = await slurm(world, "sstat -n -j 2")
    assert nothing["stderr"] == "sstat: error: No steps running for job 2\n"


@pytest.mark.parametrize(
    "program", ["squeue", "sacct", "sinfo", "scontrol", "sprio", "sshare", "sdiag", "sacctmgr", "sstat"]
)
def test_every_program_has_help_and_a_version(program: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        assert (await shown(world, f"{program} --version")) == ["slurm 22.05.8"]
        assert (await shown(world, f"{program} --help"))[0] == f"Usage: {program} [OPTIONS]"
        assert (await slurm(world, f"{program} --no-such-option"))["code"] == 1

    scenario()


@in_world
async def test_others_do_not_see_what_only_the_owner_may_read(world: World) -> None:
    submitted = await world.call(
        "POST",
        "/slurm/commands",
        {"program": "sbatch", "argv": ["--comment=mine", "--wrap", "true"], "cwd": "/home/alice", "environment": {}},
    )
    assert submitted.json()["stdout"] == "Submitted batch job 1\n"
    columns = ["squeue", "-h", "-o", "%i %Z %k"]
    assert await shown(world, columns) == ["1 /home/alice mine"]
    assert await shown(world, columns, token=world.token("bob")) == ["1 (null) (null)"]
    assert await shown(world, columns, token=world.admin) == ["1 /home/alice mine"]
    assert "StdOut=/home/alice/slurm-1.out" in "\n".join(await shown(world, "scontrol show job 1"))
    assert "alice/" not in "\n".join(await shown(world, "scontrol show job 1", token=world.token("bob")))


@in_world
async def test_a_listing_that_repeats_itself_says_when_it_is_due(world: World) -> None:
    answer = await slurm(world, "squeue -h -i 60")
    assert answer["resume"] == str(world.clock.ms + 60_000)
    body = {"program": "squeue", "argv": ["-h", "-i", "60"], "resume": str(world.clock.ms - 1)}
    again = (await world.call("POST", "/slurm/commands", body)).json()
    assert again["resume"] == answer["resume"]
    assert "resume" not in await slurm(world, "squeue -h")


@in_world
async def test_a_long_queue_is_written_once_and_shows_every_change(world: World) -> None:
    made: list[int] = []
    row = JobRows.row

    def counted(rows: JobRows, record: Allocation) -> JobRow:
        made.append(record.number)
        return row(rows, record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobRows, "row", counted)
        await _look_at_a_long_queue(world, made)


async def _look_at_a_long_queue(world: World, made: list[int]) -> None:
    submissions = [{"entrypoint": ["true"], "name": f"job{number}"} for number in range(300)]
    await world.call("POST", "/allocations/batch", {"submissions": submissions})
    physicist = world.token("bob", tenants=("physics",))
    first = await shown(world, "squeue")
    assert (len(first), len(made)) == (301, 300)
    assert await shown(world, "squeue", token=world.token("carol")) == first
    assert len(made) == 300
    # Other people, other words of the line or of the environment: other rows.
    assert len(await shown(world, "squeue", token=physicist)) == 1
    assert await shown(world, "squeue --me", token=world.token("carol")) == first[:1]
    assert len(await shown(world, "squeue --me")) == 301
    assert await shown(world, "squeue", SQUEUE_STATES="RUNNING") == first[:1]
    assert await shown(world, "squeue -h") == first[1:]
    # The log, the scheduler and the time change what is shown.
    await world.start_run(7)
    running = await shown(world, "squeue -o %i,%t,%M")
    assert "7,R,0:00" in running
    world.clock.ms += 2000
    assert "7,R,0:02" in await shown(world, "squeue -o %i,%t,%M")
    world.scheduling.reasons[9] = "waiting for nodes"
    made.clear()
    await shown(world, "squeue")
    await shown(world, "squeue")
    assert len(made) == 300
    world.scheduling.cycles += 1
    await shown(world, "squeue")
    assert len(made) == 600
