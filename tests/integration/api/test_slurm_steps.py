"""srun inside a job of several nodes: which nodes and tasks the step gets, and what is said about it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from lattice.core.machine.commands import PlaceAllocation
from lattice.core.model.nodes.nodes import Share
from lattice.core.model.work.allocations import Allocation, PartPhase
from lattice.core.model.work.layout import Misfit, lay_out
from lattice.ports.nodes.agents import OutputPiece
from lattice.ports.nodes.steps import InputPiece, LaunchRequest, StepRefused, StepView
from tests.integration.api.world import World, in_world


class Desk:
    """Lays steps out on nodes of 4 CPUs and keeps what was asked for."""

    def __init__(self) -> None:
        self.asked: list[LaunchRequest] = []

    async def launch(self, allocation: Allocation, request: LaunchRequest) -> StepView:
        layout = lay_out(request.task_request, [(node, 4) for node in allocation.nodes])
        if isinstance(layout, Misfit):
            raise StepRefused("infeasible", layout.message)
        self.asked.append(request)
        return StepView(
            number=allocation.number,
            run=1,
            step=len(self.asked) - 1,
            launch_id=request.launch_id,
            name="work",
            layout=layout,
            tasks=layout.size,
            started_at=1,
        )

    def live(self, number: int) -> tuple[StepView, ...]:
        return ()

    def find(self, number: int, step: int) -> StepView | None:
        return None

    async def changed(self, number: int, step: int) -> None:
        raise AssertionError

    def signal(self, number: int, step: int, signal: int) -> None:
        raise AssertionError

    def end(self, number: int, step: int, why: str) -> None:
        raise AssertionError

    def resize(self, number: int, step: int, rows: int, columns: int, client: str = "") -> None:
        raise AssertionError

    async def feed(self, number: int, step: int, piece: InputPiece) -> int | None:
        raise AssertionError

    def read(
        self, node: str, number: int, run: int, step: int, *, offset: int, follow: bool = True
    ) -> AsyncIterator[OutputPiece]:
        raise AssertionError


async def srun(world: World, *words: str, **environment: str) -> dict[str, Any]:
    body = {"program": "srun", "argv": list(words), "cwd": "/home/alice", "environment": environment}
    response = await world.call("POST", "/slurm/commands", body)
    assert response.status == 200, response.body
    return {"stdout": "", "stderr": "", "code": 0} | response.json()


async def job_of_two_nodes(world: World, *options: str) -> tuple[Desk, dict[str, str]]:
    """A running job and the variables that a script in it has."""
    body = {"program": "sbatch", "argv": ["--parsable", "-N", "2", *options, "--wrap=true"], "cwd": "/home/alice"}
    answer = (await world.call("POST", "/slurm/commands", body)).json()
    number = int(answer["stdout"])
    shares = (Share(node="n1"), Share(node="n2"))
    await world.do(PlaceAllocation(number=number, run=1, shares=shares))
    await world.report(number, PartPhase.RUNNING)
    service = Desk()
    world.services.steps = service
    return service, {"SLURM_JOB_ID": str(number), "SLURM_NODELIST": "n[1-2]", "SLURM_NNODES": "2"}


@pytest.mark.parametrize("words", [("-n", "1"), ("-n1", "-c", "2"), ("-N", "2", "-n", "1"), ("--pty",)])
def test_fewer_tasks_than_nodes_run_with_a_warning(words: tuple[str, ...]) -> None:
    @in_world
    async def run(world: World) -> None:
        service, inside = await job_of_two_nodes(world)
        answer = await srun(world, *words, "hostname", **inside)
        warning = "srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1\n"
        assert (answer["code"], answer["stderr"]) == (0, warning)
        assert answer["attend"]["tasks"] == 1
        assert lay_out(service.asked[0].task_request, [("n1", 0), ("n2", 4)]).nodes == ("n2",)  # type: ignore[union-attr]

    run()


@in_world
async def test_nodes_that_were_asked_for_are_all_used(world: World) -> None:
    service, inside = await job_of_two_nodes(world)
    for words in (("-N", "2", "-n", "2"), ("-N", "2"), ()):
        answer = await srun(world, *words, "hostname", **inside)
        assert (answer["stderr"], answer["attend"]["tasks"]) == ("", 2)
        assert isinstance(lay_out(service.asked[-1].task_request, [("n1", 0), ("n2", 4)]), Misfit), "it waits for n1"


@in_world
async def test_more_nodes_than_the_job_has_are_refused(world: World) -> None:
    _, inside = await job_of_two_nodes(world)
    answer = await srun(world, "-N", "3", "hostname", **inside)
    assert (answer["code"], answer["stderr"]) == (1, "srun: error: Only allocated 2 nodes asked for 3\n")


@in_world
async def test_a_terminal_in_a_job_of_many_tasks_is_one_task(world: World) -> None:
    service, inside = await job_of_two_nodes(world, "-n", "8")
    answer = await srun(world, "--pty", "bash", **inside, SLURM_NTASKS="8")
    assert answer["attend"]["tasks"] == 1
    assert service.asked[0].pty


@in_world
async def test_a_terminal_in_a_named_job_does_not_wait_for_its_steps(world: World) -> None:
    service, inside = await job_of_two_nodes(world)
    await srun(world, "--jobid", inside["SLURM_JOB_ID"], "--pty", "bash")
    await srun(world, "--jobid", inside["SLURM_JOB_ID"], "hostname")
    assert [asked.overlap for asked in service.asked] == [True, False]


@in_world
async def test_overcommit_distribution_and_immediate_reach_the_step(world: World) -> None:
    service, inside = await job_of_two_nodes(world)
    answer = await srun(world, "-O", "-n", "12", "-m", "cyclic", "-I", "hostname", **inside)
    assert (answer["code"], answer["stderr"]) == (0, "")
    asked = service.asked[0]
    assert (asked.task_request.overcommit, asked.task_request.distribution, asked.immediate) == (True, "cyclic", True)
    odd = await srun(world, "-n", "2", "-m", "plane=2", "hostname", **inside)
    assert odd["stderr"].startswith("srun: warning: --distribution=plane=2 has no effect")


@in_world
async def test_the_kind_of_mpi_reaches_the_step_or_is_refused(world: World) -> None:
    service, inside = await job_of_two_nodes(world)
    for kind in ("none", "pmi1", "pmi2", "pmix"):
        answer = await srun(world, f"--mpi={kind}", "hostname", **inside)
        assert (answer["stderr"], service.asked[-1].pmi) == ("", kind)
    await srun(world, "hostname", **inside)
    assert service.asked[-1].pmi == "auto"
    await srun(world, "--mpi=pmix_v4", "hostname", **inside)
    assert service.asked[-1].pmi == "pmix"
    refused = await srun(world, "--mpi=openmpi", "hostname", **inside)
    assert refused["code"] != 0
    assert "invalid MPI type 'openmpi'" in refused["stderr"]
    assert (await srun(world, "--mpi=list"))["stdout"].split()[-4:] == ["none", "pmi1", "pmi2", "pmix"]


@in_world
async def test_an_allocation_for_fewer_tasks_than_nodes_has_as_many_nodes(world: World) -> None:
    answer = await srun(world, "-N", "2", "-n", "1", "hostname")
    assert "can't run 1 processes on 2 nodes, setting nnodes to 1" in answer["stderr"]
    assert world.state.allocations[1].request.nodes == 1
