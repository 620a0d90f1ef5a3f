"""Which steps may be launched in an allocation now: what fits, and how many may live at a time."""

from collections.abc import Iterable, Mapping

from lattice.control.steps.containers import check_containers
from lattice.control.steps.live import LiveStep, check_gpus, cpus_left
from lattice.control.steps.plan import misfit_refusal, programs_of
from lattice.control.steps.wireup import WireUp
from lattice.core.machine.state import State
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.layout import Layout, Misfit, lay_out
from lattice.core.model.work.steps import is_terminal
from lattice.ports.nodes.steps import LaunchRequest, StepRefused

MAX_LIVE = 1000  # of one allocation
TERMINALS = "rate_limits.attach_max_concurrent"


def admitted(
    state: State,
    allocation: Allocation,
    request: LaunchRequest,
    of: Mapping[int, Mapping[int, LiveStep]],
    wire_up: WireUp,
    terminals: int,
) -> Layout:
    """How the step would lie on the whole allocation. `of` are the live steps of every allocation.

    `terminals` is how many a user may have unless the settings of the cluster say it. Raises StepRefused.
    """
    total = lay_out(request.task_request, cpus_left(state, allocation))
    if isinstance(total, Misfit):
        raise misfit_refusal(total, allocation)
    wire_up.check(state, total.nodes, request)
    check_containers(state, total.nodes, request)
    check_gpus(state, allocation, total, request.gpus_per_task)
    if not request.argv and len(programs_of(request, total.size)) < total.size:
        raise StepRefused("invalid", "some ranks have no program", hint="name one for each, or one for `*`")
    if len(of.get(allocation.number, {})) >= MAX_LIVE:
        raise StepRefused(
            "conflict",
            f"{allocation_id(allocation.number)} has too many concurrent steps",
            limit=f"{MAX_LIVE:,} steps",
            hint="wait for some of them to end",
        )
    if request.terminal is not None:
        _check_terminals(state, allocation, of, terminals)
    return total


def not_connected(node: str, allocation: Allocation) -> StepRefused:
    return StepRefused(
        "unavailable",
        f"node {node} of {allocation_id(allocation.number)} is not connected now",
        hint="try again in a moment",
    )


def _check_terminals(
    state: State, allocation: Allocation, of: Mapping[int, Mapping[int, LiveStep]], usual: int
) -> None:
    limit = int(state.settings.get(TERMINALS, usual))
    open_ones = _terminals_of(state, allocation.user, of)
    if limit and len(open_ones) >= limit:
        named = ", ".join(live.id for live in open_ones[:5])
        first = open_ones[0]
        raise StepRefused(
            "conflict",
            f"you have {len(open_ones)} terminals already: {named}",
            current=str(len(open_ones)),
            limit=f"{limit} terminals of one user",
            hint=f"leave one of them, or go back to it: lattice attach {allocation_id(first.number)} --terminal {first.step}",
        )


def _terminals_of(state: State, user: str, of: Mapping[int, Mapping[int, LiveStep]]) -> list[LiveStep]:
    return [
        live
        for number, steps in sorted(of.items())
        if (found := state.allocations.get(number)) is not None and found.user == user
        for live in _open_terminals(steps.values())
    ]


def count_terminals(of: Mapping[int, Mapping[int, LiveStep]]) -> int:
    """Open ones of all users."""
    return sum(1 for steps in of.values() for _ in _open_terminals(steps.values()))


def _open_terminals(steps: Iterable[LiveStep]) -> Iterable[LiveStep]:
    return (live for live in steps if is_terminal(live.launch_id) and not live.ended_at)
