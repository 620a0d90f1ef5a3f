"""`sreport`: sums over a span of time. CPU time counts where it was held, clipped to the span."""

import itertools
from collections import defaultdict
from dataclasses import dataclass, field

from lattice.api.auth.rbac import Permission
from lattice.api.context import Context
from lattice.api.slurm.answering import printed, require
from lattice.api.slurm.helping import asks_for_help, helped
from lattice.api.slurm.rows.finding import JobFilter, matching
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.work.allocations import Allocation
from lattice.slurm.listings.listing import ListingLine, read_line
from lattice.slurm.listings.sreport import BOUNDS, GRAMMAR, Query, read_query, written
from lattice.wire.slurm.commands import SlurmAnswer, SlurmCommand

_DOWN = frozenset({NodeState.DOWN, NodeState.FAILED})
_SIZES = (*(f"{low}-{high - 1} CPUs" for low, high in itertools.pairwise(BOUNDS)), f">= {BOUNDS[-1]} CPUs")


@dataclass(slots=True)
class _Sums:
    by_user: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))  # account, user
    by_size: dict[tuple[str, int], float] = field(
        default_factory=lambda: defaultdict(float)
    )  # account, place in BOUNDS
    allocated: float = 0.0


async def run(context: Context, command: SlurmCommand) -> SlurmAnswer:
    line = read_line(GRAMMAR, command.argv)
    if asks_for_help(line):
        return helped(GRAMMAR, line)
    require(context, Permission.READ)
    query = read_query(line, context.services.clock.now_ms() / 1000)
    sums = await _sums(context, query)
    reported = sum(node.hardware.cpus for node in context.state.nodes.values()) * (query.end - query.start)
    match query.report:
        case "cluster":
            return _utilization(context, query, line, sums, reported)
        case "user":
            return _top(context, query, line, sums, reported)
        case _:
            return _sizes(context, query, line, sums)


async def _sums(context: Context, query: Query) -> _Sums:
    sums = _Sums()
    wanted = JobFilter(scope=context.scope(Permission.READ), since_ms=query.start * 1000)
    now = context.services.clock.now_ms() / 1000
    async for entry in matching(context, wanted, with_archive=True):
        if isinstance(entry, Allocation) and entry.started_at:
            end = entry.ended_at / 1000 if entry.ended_at else now
            ran_s = max(0.0, min(end, query.end) - max(entry.started_at / 1000, query.start))
            cpus = entry.held_cpus or _held_cpus(context, entry)
            used = cpus * ran_s
            if used > 0:
                sums.allocated += used
                sums.by_user[entry.tenant, entry.account or entry.user] += used
                sums.by_size[entry.tenant, sum(cpus >= low for low in BOUNDS) - 1] += used
    return sums


def _held_cpus(context: Context, record: Allocation) -> int:
    nodes = context.state.nodes
    whole = {share.node: nodes[share.node].hardware.cpus for share in record.shares if share.node in nodes}
    return sum(share.cpus or whole.get(share.node, 1) for share in record.shares)


def _down_s(context: Context, query: Query) -> float:
    """CPU seconds of nodes out of service, by their histories."""
    total = 0.0
    for node in context.state.nodes.values():
        moves = context.state.node_history(node.id)
        since, is_down = float(query.start), (moves[0].from_state if moves else node.state) in _DOWN
        down_s = 0.0
        for move in moves:
            at = min(max(move.at / 1000, query.start), query.end)
            down_s += (at - since) * is_down
            since, is_down = at, move.to_state in _DOWN
        total += (down_s + (query.end - since) * is_down) * node.hardware.cpus
    return total


def _utilization(context: Context, query: Query, line: ListingLine, sums: _Sums, reported: float) -> SlurmAnswer:
    down = min(_down_s(context, query), max(0.0, reported - sums.allocated))
    idle = max(0.0, reported - sums.allocated - down)
    amounts = [query.amount(each, reported) for each in (sums.allocated, down, 0.0, idle, 0.0, reported)]
    columns = [
        ("Cluster", 9),
        *((name, 12) for name in ("Allocated", "Down", "PLND Down", "Idle", "Planned", "Reported")),
    ]
    title = f"Cluster Utilization {query.span}"
    row = [context.services.slurm.cluster, *amounts]
    return printed(*written(title, _note(query), columns, [row], line))


def _top(context: Context, query: Query, line: ListingLine, sums: _Sums, reported: float) -> SlurmAnswer:
    columns = [("Cluster", 9), ("Login", 9), ("Proper Name", 15), ("Account", 15), ("Used", 10), ("Energy", 8)]
    ranked = sorted(sums.by_user.items(), key=lambda item: (-item[1], item[0]))[: query.top]
    cluster = context.services.slurm.cluster
    rows = [[cluster, user, user, account, query.amount(used, reported), "0"] for (account, user), used in ranked]
    title = f"Top {query.top} Users {query.span} ({query.end - query.start} secs)"
    return printed(*written(title, _note(query), columns, rows, line))


def _sizes(context: Context, query: Query, line: ListingLine, sums: _Sums) -> SlurmAnswer:
    columns = [("Cluster", 9), ("Account", 9), *((name, 13) for name in _SIZES), ("% of cluster", 12)]
    rows = []
    for account in sorted({account for account, _ in sums.by_size}):
        of_account = [sums.by_size[account, place] for place in range(len(BOUNDS))]
        share = f"{sum(of_account) / sums.allocated * 100:.2f}%"
        amounts = [query.amount(used, sums.allocated) for used in of_account]
        rows.append([context.services.slurm.cluster, account, *amounts, share])
    title = f"Job Sizes {query.span} ({query.end - query.start} secs)"
    return printed(*written(title, _note(query).replace("Usage", "Time"), columns, rows, line))


def _note(query: Query) -> str:
    unit = "Percentage of Total" if query.unit == "percent" else f"CPU {query.unit.capitalize()}"
    return f"Usage reported in {unit}"
