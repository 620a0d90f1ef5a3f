"""Steps as the leader plans them: the record that agents return, the orders for the nodes, and how an end is summed up. Pure."""

import posixpath
import signal
from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lattice.control.steps.prologue import with_prologue
from lattice.core.model.ids import allocation_id
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.layout import Layout, Misfit
from lattice.core.model.work.steps import step_id
from lattice.ports.nodes.agents import EndCause, StartOrder, TaskEnd
from lattice.ports.nodes.steps import ALL_INPUT, LaunchRequest, StepRefused, TaskOrder
from lattice.slurm.submit.variables import StepFacts, step_variables
from lattice.wire.work.steps import folded

NO_INPUT = "none"
SHOWN_FAILURES = 20
MAX_NAME = 64
ENDED_BY_US = frozenset({signal.SIGTERM, signal.SIGKILL})


class StepPlan(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a leader, this one or the next, has to know of a step that was launched."""

    number: int
    run: int
    step: int
    launch_id: str
    name: str
    layout: Layout
    started_at: int
    cpus_per_task: int = 1
    stdin: str = "0"
    no_kill: bool = False
    overlap: bool = False
    port: int = 0  # at which its tasks may meet on its first node

    def cpus_on(self, place: int) -> int:
        return 0 if self.overlap else self.layout.counts[place] * self.cpus_per_task

    def input_nodes(self, only: int | None = None) -> tuple[str, ...]:
        """Nodes with tasks that take input, or with `only` that one."""
        if self.stdin == ALL_INPUT and only is None:
            return self.layout.nodes
        if self.stdin != ALL_INPUT and (not _is_rank(self.stdin) or only not in (None, int(self.stdin))):
            return ()
        rank = int(self.stdin) if only is None else only
        return tuple(node for node, ranks in zip(self.layout.nodes, self.layout.ranks(), strict=True) if rank in ranks)

    def node_of(self) -> dict[int, str]:
        """The node of each rank."""
        pairs = zip(self.layout.nodes, self.layout.ranks(), strict=True)
        return {rank: node for node, ranks in pairs for rank in ranks}


def _is_rank(text: str) -> bool:
    """Whether it names a task; other digits than these belong to the name of a file."""
    return text.isascii() and text.isdigit()


_decode = msgspec.msgpack.Decoder(StepPlan).decode


def encode_plan(plan: StepPlan) -> bytes:
    return msgspec.msgpack.encode(plan)


def decode_plan(data: bytes) -> StepPlan | None:
    """None when a server of another kind wrote it."""
    try:
        return _decode(data)
    except msgspec.MsgspecError:
        return None


def task_order(
    plan: StepPlan,
    request: LaunchRequest,
    argv: tuple[str, ...],
    where: tuple[str, int, int],
    rank: int,
    local: int,
) -> TaskOrder:
    node, place, local_size = where
    is_terminal = request.pty and rank == 0
    takes_input = plan.stdin == ALL_INPUT or plan.stdin == str(rank)
    is_file = not _is_rank(plan.stdin) and plan.stdin not in (NO_INPUT, ALL_INPUT)
    words = {
        "%t": str(rank),
        "%n": str(place),
        "%N": node,
        "%j": allocation_id(plan.number),
        "%J": f"{allocation_id(plan.number)}.{plan.step}",
        "%s": str(plan.step),
        "%%": "%",
    }
    patterns = request.stdout + request.stderr
    per_node = "%n" in patterns or "%N" in patterns
    stdout = expanded(request.stdout, words)
    return TaskOrder(
        rank=rank,
        local_rank=local,
        argv=argv,
        has_input=takes_input and not is_terminal,
        stdin=expanded(plan.stdin, words) if is_file else "",
        stdout=stdout,
        stderr=expanded(request.stderr, words) or stdout,
        truncate="%t" in patterns or (per_node and local_size == 1),
        pty=is_terminal,
    )


def programs_of(request: LaunchRequest, size: int) -> dict[int, tuple[str, ...]]:
    """What ranks run that do not run the step's command; `%t` stands for the rank, `%o` for its place in its range."""
    found = {}
    for program in request.programs:
        for first, last in program.ranks:
            for rank in range(first, min(last + 1, size)):
                words = {"%t": str(rank), "%o": str(rank - first), "%%": "%"}
                found[rank] = tuple(expanded(word, words) for word in program.argv)
    return found


def expanded(pattern: str, words: Mapping[str, str]) -> str:
    """The name of a file: `%t` and the like replaced, anything else left as it is."""
    if "%" not in pattern:
        return pattern
    shown, place = [], 0
    while place < len(pattern):
        pair = pattern[place : place + 2]
        if pair in words:
            shown.append(words[pair])
            place += 2
        else:
            shown.append(pattern[place])
            place += 1
    return "".join(shown)


def step_name(argv: tuple[str, ...]) -> str:
    return shown_name(posixpath.basename(argv[0])) if argv else ""


def shown_name(name: str) -> str:
    """What listings show of it: not long, and nothing that a terminal obeys."""
    return "".join(each if each.isprintable() else "?" for each in name[:MAX_NAME])


def counted_status(ends: Iterable[TaskEnd], *, was_ended: bool) -> int:
    """The exit code of the whole: the highest of its tasks. Tasks that we ended count only if nothing else went wrong."""
    own, ours = 0, 0
    for end in ends:
        if was_ended and end.signal in ENDED_BY_US and end.cause is not EndCause.OOM:
            ours = max(ours, end.status)
        else:
            own = max(own, end.status)
    return own or ours


def failure_lines(ends: Iterable[TaskEnd], node_of: Mapping[int, str], *, was_ended: bool) -> tuple[str, ...]:
    """What went wrong, a line for all ranks of a node that failed alike, worst first by rank."""
    groups: dict[tuple[str, str], list[int]] = {}
    for end in sorted(ends, key=lambda end: end.rank):
        if end.status and not (was_ended and end.signal in ENDED_BY_US and end.cause is not EndCause.OOM):
            groups.setdefault((node_of.get(end.rank, ""), how_it_ended(end)), []).append(end.rank)
    lines = [f"{_ranks(ranks)} on {node}: {how}" for (node, how), ranks in groups.items()]
    if len(lines) > SHOWN_FAILURES:
        lines = [*lines[:SHOWN_FAILURES], f"and {len(lines) - SHOWN_FAILURES} more"]
    return tuple(lines)


def how_it_ended(end: TaskEnd) -> str:
    """For a line that begins with its rank."""
    if end.is_lost:
        return f"lost ({end.message})"
    if end.cause is EndCause.OOM:
        return f"out of memory ({end.message})"
    if end.message:
        return f"not started: {end.message}"
    if end.signal:
        return f"killed by signal {end.signal} ({_signal_name(end.signal)})"
    return f"exited with code {end.exit_code}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"task {ranks[0]}"
    return f"tasks {folded(ranks)}"


def for_step(base: StartOrder, request: LaunchRequest, env: dict[str, str]) -> StartOrder:
    """What a start of the allocation would say, for a step."""
    return replace(
        base,
        argv=with_prologue(request.argv, request.task_prologue),
        script=b"",
        script_args=(),
        env=env,
        cwd=request.cwd or base.cwd,
        walltime_s=0.0,
        files=None,
        early_signal=None,
        node_cpus=(),
    )


def slurm_variables(plan: StepPlan, node: str, env: Mapping[str, str], whole: Mapping[str, str]) -> dict[str, str]:
    """What Slurm's programs would say of the step on this node, for work that knows them; the node adds what differs by rank."""
    if not whole and "SLURM_JOB_ID" not in env:
        return {}
    place = plan.layout.nodes.index(node)
    ranks = plan.layout.ranks()[place]
    facts = StepFacts(
        number=plan.step,
        nodes=plan.layout.nodes,
        tasks=plan.layout.counts,
        node=node,
        rank=ranks[0] if ranks else 0,
        local_rank=0,
        ranks=ranks,
        cpus_per_task=plan.cpus_per_task if plan.cpus_per_task > 1 else 0,
    )
    return {**whole, **step_variables(facts)}


def misfit_refusal(misfit: Misfit, allocation: Allocation) -> StepRefused:
    return StepRefused(
        "infeasible",
        f"{allocation_id(allocation.number)}: {misfit.message}",
        requested=misfit.requested,
        limit=misfit.limit,
        hint=misfit.hint,
    )


def unknown_step(number: int, step: int) -> StepRefused:
    return StepRefused("not_found", f"{step_id(allocation_id(number), step)} is not running")
