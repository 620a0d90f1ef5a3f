"""The orders of a step: what a start of its allocation on each node would say, and what its tasks do there."""

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lattice.control.steps.plan import StepPlan, encode_plan, for_step, programs_of, slurm_variables, task_order
from lattice.control.steps.prologue import with_prologue
from lattice.control.steps.wireup import Meeting
from lattice.control.work.orders import start_order
from lattice.core.machine.state import State
from lattice.core.model.work.allocations import Allocation, Part
from lattice.ports.nodes.agents import StartOrder
from lattice.ports.nodes.steps import LaunchOrder, LaunchRequest
from lattice.wire.slurm.variables import SlurmSettings, run_variables
from lattice.wire.work.payloads import decode_work


class BaseFacts(Struct, frozen=True, kw_only=True):
    """What is the same for every step of an allocation now."""

    token: str
    grace_s: float
    api_url: str
    slurm: SlurmSettings
    grant: Callable[[str, str], str] = lambda prefix, node: ""  # lets a node store the output


def base_orders(
    state: State, allocation: Allocation, request: LaunchRequest, plan: StepPlan, facts: BaseFacts
) -> dict[str, StartOrder]:
    work = decode_work(state.payload_of(allocation))
    env = {**work.env, **request.env} if request.inherit else request.env
    bases = {}
    for node in plan.layout.nodes:
        base = start_order(
            state,
            allocation,
            Part(node=node),
            work,
            token=facts.token,
            grace_s=facts.grace_s,
            api_url=facts.api_url,
        )
        share = next(share for share in allocation.shares if share.node == node)
        whole = run_variables(state, allocation, share, base.submit_dir, facts.slurm)
        base = replace(base, upload_grant=facts.grant(base.output_prefix, node))
        bases[node] = for_step(base, request, env | slurm_variables(plan, node, env, whole))
    return bases


def launch_orders(
    plan: StepPlan, request: LaunchRequest, bases: Mapping[str, StartOrder], meeting: Meeting
) -> dict[str, LaunchOrder]:
    """The order of each node; `bases` say what a start of the allocation there would say."""
    layout = plan.layout
    programs = {
        rank: with_prologue(argv, request.task_prologue) for rank, argv in programs_of(request, layout.size).items()
    }
    encoded = encode_plan(plan)
    orders = {}
    for place, (node, ranks) in enumerate(zip(layout.nodes, layout.ranks(), strict=True)):
        orders[node] = LaunchOrder(
            base=bases[node],
            step=plan.step,
            launch_id=plan.launch_id,
            plan=encoded,
            tasks=tuple(
                task_order(plan, request, programs.get(rank, ()), (node, place, len(ranks)), rank, local)
                for local, rank in enumerate(ranks)
            ),
            size=layout.size,
            nodes=layout.nodes,
            node_index=place,
            cpus_per_task=plan.cpus_per_task,
            time_s=request.time_s,
            rows=request.rows,
            columns=request.columns,
            pmi=meeting.pmi,
            master_host=meeting.host,
            master_port=meeting.port,
            terminal=request.terminal,
            cpu_bind=request.cpu_bind or ("none" if request.task_request.overcommit else ""),
            gpu_bind=request.gpu_bind,
            gpus_per_task=request.gpus_per_task,
            overlap=request.overlap or request.terminal is not None,
            container=request.container,
        )
    return orders
