"""sbatch and scancel over a real state: who may, what becomes of each request, and that nothing wrong is ever a failure of ours."""

from typing import Any

from msgspec.structs import replace

from lattice.api.partitions import slurm_names
from lattice.api.rest.app import build_app
from lattice.core.machine.commands import (
    ConfirmNode,
    DisableNode,
    PlaceAllocation,
    RegisterNode,
    SetReservation,
    SetTenant,
    SetVcluster,
)
from lattice.core.model.nodes.nodes import Hardware, Share
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.core.model.work.allocations import Allocation, Hold, RequeuePolicy
from tests.integration.api.world import World, in_world

BJSF = "sbatch: error: Batch job submission failed: "


async def slurm(world: World, *words: str, token: str | None = None, **fields: object) -> dict[str, Any]:
    """The answer to a command line."""
    program, *argv = words
    body = {"program": program, "argv": argv, "cwd": "/home/alice", **fields}
    response = await world.call("POST", "/slurm/commands", body, token=token)
    assert response.status == 200, response.body
    return {"stdout": "", "stderr": "", "code": 0} | response.json()


async def submitted(world: World, *words: str, token: str | None = None, **fields: object) -> Allocation:
    """The record of a new job."""
    answer = await slurm(world, "sbatch", "--parsable", *words, "--wrap=true", token=token, **fields)
    assert answer["code"] == 0, answer
    number = int(answer["stdout"])
    group = world.state.groups.get(number)
    return world.state.allocations[number] if group is None else group.template


@in_world
async def test_the_same_request_is_the_same_job(world: World) -> None:
    answers = [await slurm(world, "sbatch", "--wrap=true", request_id="once") for _ in range(2)]
    assert answers[0]["stdout"] == answers[1]["stdout"] == "Submitted batch job 1\n"
    assert len(world.state.allocations) == 1


@in_world
async def test_a_script_that_did_not_come_along_is_asked_for(world: World) -> None:
    assert await slurm(world, "sbatch", "-N", "2", "run.sh") == {
        **{"stdout": "", "stderr": "", "code": 0, "needs": "script", "path": "run.sh"},
    }
    assert (await slurm(world, "sbatch"))["needs"] == "stdin"
    empty = await slurm(world, "sbatch", script="")
    assert (empty["stderr"], empty["code"]) == ("sbatch: error: Batch script is empty!\n", 1)


@in_world
async def test_only_those_who_may_submit_do(world: World) -> None:
    reader = world.token("eve", scope="readonly")
    answer = await slurm(world, "sbatch", "--wrap=true", token=reader)
    assert (answer["code"], "Access/permission denied" in answer["stderr"]) == (1, True)
    stranger = world.token("bob", tenants=("physics",))
    refused = await slurm(world, "sbatch", "-A", "default", "--wrap=true", token=stranger)
    assert refused["stderr"].splitlines() == [
        BJSF + "Invalid account or account/partition combination specified",
        "sbatch: error: known accounts: physics",
    ]
    record = await submitted(world, "-A", "physics", token=stranger)
    assert (record.tenant, record.user) == ("physics", "bob")
    await submitted(world)
    denied = await slurm(world, "scancel", "2", token=stranger)
    assert denied["code"] == 0, "what must not be seen is not there"
    colleague = world.token("carol")
    denied = await slurm(world, "scancel", "2", token=colleague)
    assert denied["stderr"] == "scancel: error: Kill job error on job id 2: Access/permission denied\n"
    assert denied["code"] == 1


@in_world
async def test_the_site_names_partitions_and_classes(world: World) -> None:
    await world.do(SetVcluster(vcluster=Vcluster(name="big", nodes=("n2",)), create=True))
    world.services.slurm = slurm_names("alps", {"main": "default", "large": "big"}, {"urgent": 9})
    world.app = build_app(world.services)
    record = await submitted(world, "-p", "large", "-q", "urgent")
    assert (record.vcluster, record.preemption_class) == ("big", 9)
    assert record.asked is not None
    assert (record.asked.partition, record.asked.qos) == ("large", "urgent")
    plain = await submitted(world)
    assert plain.asked is not None
    assert (plain.vcluster, plain.asked.partition) == ("default", "main")
    refused = await slurm(world, "sbatch", "-p", "default", "--wrap=true")
    assert refused["stderr"].endswith("sbatch: error: known partitions: main, large\n")
    named = await slurm(world, "sbatch", "--parsable", "-M", "alps", "--wrap=true")
    assert named["stdout"] == "3;alps\n"


NODES = [
    ([], 1, 0, 0),
    (["-N", "2"], 2, 0, 0),
    (["-N", "1-2"], 1, 2, 0),
    (["-n", "4"], 1, 0, 4),
    (["-n", "5"], 2, 0, 3),
    (["-n", "2", "-c", "3"], 2, 0, 3),
    (["-n", "4", "--ntasks-per-node=2"], 2, 0, 2),
    (["-N", "1", "-n", "4", "--ntasks-per-node=2"], 1, 0, 2),
    (["-N", "2", "-n", "1"], 1, 0, 0),
    (["-N", "1-2", "-n", "1"], 1, 0, 0),
    (["-w", "n[1-2]"], 2, 0, 0),
    (["-N", "2", "-n", "1", "-w", "n[1-2]"], 2, 0, 0),
]


@in_world
async def test_tasks_and_cpus_make_nodes(world: World) -> None:
    for words, nodes, most, cpus in NODES:
        request = (await submitted(world, *words)).request
        assert (request.nodes, request.max_nodes, request.cpus, request.memory_mb) == (nodes, most, cpus, 0), words


@in_world
async def test_fewer_tasks_than_nodes_get_as_many_nodes_as_tasks(world: World) -> None:
    warning = "warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n"
    answer = await slurm(world, "sbatch", "-N", "2", "-n", "1", "--wrap=true")
    assert (answer["stdout"], answer["stderr"]) == ("Submitted batch job 1\n", f"sbatch: {warning}")
    answer = await slurm(world, "sbatch", "-Q", "-N", "2", "-n", "1", "--wrap=true")
    assert answer["stderr"] == ""
    answer = await slurm(world, "salloc", "-N", "2", "-n", "1", "true")
    assert answer["stderr"].startswith(f"salloc: {warning}")
    assert [record.request.nodes for record in world.services.replica.state.allocations.values()] == [1, 1, 1]


@in_world
async def test_tasks_are_counted_by_nodes_that_can_run_them(world: World) -> None:
    for name in ("d1", "d2"):
        await world.do(RegisterNode(node=name, hardware=Hardware(cpus=64, memory_mb=65536)))
        await world.do(DisableNode(node=name))
    request = (await submitted(world, "-n", "4", "-c", "2")).request
    assert (request.nodes, request.cpus) == (2, 4), "nodes that are Down do not count"
    request = (await submitted(world, "-n", "16")).request
    assert (request.nodes, request.cpus) == (1, 16), "unless there is nothing else that could ever run it"


@in_world
async def test_tasks_on_nodes_that_differ_get_all_their_cpus(world: World) -> None:
    await world.do(RegisterNode(node="b1", hardware=Hardware(cpus=16, memory_mb=16384)))
    await world.do(ConfirmNode(node="b1"))
    request = (await submitted(world, "-n", "16")).request
    assert (request.nodes, request.cpus) == (1, 16), "only b1 has so many"
    holder = await submitted(world, "-w", "b1")
    await world.do(PlaceAllocation(number=holder.number, run=1, shares=(Share(node="b1"),)))
    request = (await submitted(world, "-n", "16")).request
    assert (request.nodes, request.cpus) == (1, 16), "it waits for b1"
    request = (await submitted(world, "-n", "8")).request
    assert (request.nodes, request.cpus) == (2, 4), "two small ones are free"
    request = (await submitted(world, "-n", "20")).request
    assert (request.nodes, request.cpus, request.exclusive) == (3, 0, True), "any three have 20 or more between them"


@in_world
async def test_more_tasks_than_a_whole_node_has_cpus_wait_with_a_reason(world: World) -> None:
    record = await submitted(world, "-N", "1", "-n", "16")
    assert record.asked is not None
    assert (record.request.cpus, record.asked.never) == (16, "PartitionConfig")


@in_world
async def test_cpus_and_memory_are_limits_where_nodes_are_shared(world: World) -> None:
    shared = Vcluster(name="default", default_walltime_s=3600, node_sharing=NodeSharing.SHARED)
    await world.do(SetVcluster(vcluster=shared))
    record = await submitted(world, "-n", "2", "-c", "2", "--mem-per-cpu=100")
    assert (record.request.cpus, record.request.memory_mb) == (4, 400)
    whole = await submitted(world, "--exclusive", "-c", "2")
    assert (whole.request.cpus, whole.request.exclusive) == (2, True)


@in_world
async def test_gpus_and_features_are_asked_of_nodes(world: World) -> None:
    hardware = Hardware(cpus=4, memory_mb=4096, gpus=4, gpu_type="h100", features=("fast", "new"))
    await world.do(RegisterNode(node="g1", hardware=hardware))
    for words in (
        ["--gres=gpu:h100:2"],
        ["--gpus-per-node=h100:2"],
        ["-G", "h100:2"],
        ["--gpus-per-task=h100:1", "-n2"],
    ):
        request = (await submitted(world, *words)).request
        assert (request.gpus, request.gpu_type, request.nodes) == (2, "h100", 1), words
    assert (await submitted(world, "-C", "fast&new")).request.features == ("fast", "new")
    assert (await submitted(world, "-C", "fast|slow")).request.exclude == ("n1", "n2")
    refused = await slurm(world, "sbatch", "-G", "5", "-N1", "--wrap=true")
    figures = "sbatch: error: requested: 5 GPUs per node; no node has more than 4\n"
    assert refused["stderr"] == BJSF + "Requested node configuration is not available\n" + figures


@in_world
async def test_what_is_asked_for_is_kept_and_shown(world: World) -> None:
    words = ["-n4", "-c2", "--mem=1G", "--comment=a b", "--wckey=k", "-o", "out/%j", "-D", "sub", "-J", "name", "-H"]
    record = await submitted(world, *words, host="login1", uid=17, gid=18)
    view = (await world.call("GET", f"/allocations/{record.number}?details=true")).json()
    shown, details = view["slurm"], view["details"]["slurm"]
    assert (shown["ntasks"], shown["cpus_per_task"], shown["memory_mb"]) == (4, 2, 1024)
    assert (details["comment"], shown["wckey"], shown["host"]) == ("a b", "k", "login1")
    assert (details["work_dir"], details["stdout"]) == ("/home/alice/sub", "/home/alice/sub/out/%j")
    assert (record.name, record.hold, record.requeue) == ("name", Hold.USER, RequeuePolicy.ON_NODE_FAILURE)
    never = await submitted(world, "--no-requeue", "-a", "0-3%2")
    assert (never.requeue, never.max_requeue) == (RequeuePolicy.NEVER, 0)
    assert world.state.groups[never.number].concurrency == 2
    native = await world.submit()
    assert "slurm" not in native


@in_world
async def test_limits_and_quotas_make_jobs_wait(world: World) -> None:
    await world.do(SetVcluster(vcluster=Vcluster(name="default", max_walltime_s=3600, max_nodes=1)))
    tenant = world.state.tenants["default"]
    await world.do(SetTenant(tenant=replace(tenant, max_nodes=1)))
    await submitted(world)
    await world.place(1)
    reasons = [
        (await submitted(world, *words)).asked for words in (["-t", "2:00:00"], ["-N2"], ["-N99"], ["-t", "0"], [])
    ]
    assert [asked.never for asked in reasons if asked is not None] == [
        *("PartitionTimeLimit", "PartitionNodeLimit", "PartitionNodeLimit", "PartitionTimeLimit", "")
    ]


@in_world
async def test_a_reservation_gives_its_nodes_to_those_it_is_for(world: World) -> None:
    now = world.clock.now_ms()
    kept = AdvanceReservation(
        name="tuesday", start_at=now + 60_000, end_at=now + 600_000, nodes=("n2",), users=("alice",)
    )
    await world.do(SetReservation(reservation=kept, create=True))
    record = await submitted(world, "--reservation=tuesday")
    assert (record.request.node_list, record.eligible_at) == (("n2",), now + 60_000)
    other = await slurm(world, "sbatch", "--reservation=tuesday", "--wrap=true", token=world.token("bob"))
    assert other["stderr"] == BJSF + "Requested reservation is invalid\n", "as for one that does not exist"


@in_world
async def test_dependencies_are_clauses(world: World) -> None:
    for _ in range(3):
        await submitted(world, "-H")
    both = await submitted(world, "-d", "afterok:1:2,after:3+5")
    assert [[each.number for each in clause] for clause in both.depends_on] == [[1], [2], [3]]
    assert both.depends_on[2][0].delay_s == 300
    either = await submitted(world, "-d", "afterok:1?afternotok:2")
    assert [[each.number for each in clause] for clause in either.depends_on] == [[1, 2]]
    assert (await submitted(world, "-d", "singleton", "-J", "one")).mutex == "one"


@in_world
async def test_what_waits_for_an_unknown_job_stays_pending(world: World) -> None:
    for kind in ("after", "afterany", "afterok", "afternotok", "aftercorr"):
        answer = await slurm(world, "sbatch", "--parsable", "-d", f"{kind}:999", "--wrap=true")
        text = f"sbatch: warning: --dependency: job 999 is not known; {kind} can never be satisfied\n"
        assert (answer["code"], answer["stderr"]) == (0, text)
        shown = await slurm(world, "squeue", "-h", "-o", "%t %r", "-j", answer["stdout"].strip())
        assert shown["stdout"] == "PD DependencyNeverSatisfied\n"
    killed = await submitted(world, "--kill-on-invalid-dep=yes", "-d", "afterok:999")
    assert killed.cause == "dependency"


@in_world
async def test_a_known_alternative_stands_in_for_an_unknown_job(world: World) -> None:
    await submitted(world, "-H")
    record = await submitted(world, "-d", "afterok:999?afterok:1")
    assert [[each.number for each in clause] for clause in record.waits_for] == [[1]]
    mixed = await submitted(world, "-d", "afterok:1,afterok:999")
    assert () in mixed.waits_for


NONSENSE = [
    *(
        "",
        "9" * 400,
        "ü",
        "[",
        "n[1-99999999]",
        "0-4000000",
        "now+99999999999999999999days",
        "99999999T",
        "%",
        "((((",
        "a\nb",
    )
]
OPTIONS = {
    "sbatch": [
        *("time", "begin", "deadline", "array", "nodelist", "exclude", "mem", "ntasks", "nodes", "dependency", "gres"),
        *("constraint", "export", "signal", "job-name", "chdir", "output", "comment", "partition", "qos", "mail-user"),
    ],
    "scancel": ["user", "name", "state", "signal", "nodelist", "partition", "account", "qos", "reservation", "wckey"],
}


@in_world
async def test_nonsense_is_refused_or_taken_and_never_breaks_anything(world: World) -> None:
    for program, names in OPTIONS.items():
        rest = ["--wrap=true"] if program == "sbatch" else []
        for value in NONSENSE:
            for name in names:
                answer = await slurm(world, program, f"--{name}={value}", *rest)
                assert answer["code"] in (0, 1, 255), name
            await slurm(world, program, value)


@in_world
async def test_a_program_that_is_not_there_is_said_to_be_unknown(world: World) -> None:
    response = await world.call("POST", "/slurm/commands", {"program": "sview"})
    assert response.status == 404
    assert "sbatch" in response.error["hint"]
