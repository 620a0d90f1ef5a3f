"""Chooses nodes for one allocation: enough, of the fewest groups, alike if it can be, those that fit it best.

Of nodes that fit equally well those with the better free GPUs, then those that have its images (`room.ties`), then the first by id.

See docs/architecture/scheduler.md.
"""

import numpy as np

from lattice.core.model.nodes.nodes import Share
from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.placement.headroom import Headroom
from lattice.core.scheduler.placement.topology import Prefer, choose_groups, fewest_groups
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.room.ties import NOBODY
from lattice.core.scheduler.tables.slots import Ints, Rows
from lattice.core.scheduler.tables.snapshot import Shape, Snapshot


def choose_nodes(room: Room, demand: Demand, rows: Rows, want: int, row: int = NOBODY) -> Rows:
    """`want` of the candidate rows, in the order of their ids, for the work in this row of the queue."""
    if want > 1:
        rows = _alike(room, demand, rows, want)
    if want == len(rows):
        return rows
    if want == 1 and not demand.is_whole:
        return _snuggest(room, demand, rows, row)
    if demand.request.topology == "any":
        return np.sort(by_fit(room, demand, rows, row)[:want])
    group = room.snapshot.nodes.group[rows]
    parts = choose_groups(_counts(room, rows), want, _preference(room, demand, rows, row))
    chosen = [by_fit(room, demand, rows[group == number], row)[:take] for number, take in parts]
    return np.sort(np.concatenate(chosen))


def keep_nodes(room: Room, demand: Demand, rows: Rows, ready_at: Ints) -> Rows:
    """As many of the rows as the demand needs, to be kept for it; those that are busy longest, for least use is lost then."""
    want = demand.least
    if want < len(rows) and want > 1 and demand.request.topology != "any" and len(room.snapshot.nodes.groups) > 1:
        group = room.snapshot.nodes.group[rows]
        counts = np.bincount(group, minlength=len(room.snapshot.nodes.groups)).reshape(-1, 1)
        parts = []
        for number, take in choose_groups(counts, want):
            inside = group == number
            parts.append(_readiest(rows[inside], ready_at[inside], take))
        return np.sort(np.concatenate(parts))
    return np.sort(_readiest(rows, ready_at, want))


def alike_rows(room: Room, rows: Rows, least: int) -> Rows:
    """Candidates that lie in a conformance group with enough of them; alone, every node is like itself."""
    if least == 1:
        return rows
    group = room.snapshot.nodes.conformance[rows]
    sizes = np.bincount(group + 1, minlength=1)
    sizes[0] = 0  # unknown ones
    return rows[sizes[group + 1] >= least]


def avoid_drifted(room: Room, demand: Demand, rows: Rows) -> Rows:
    """The candidates without those that differ from their baseline, if the others suffice."""
    if room.drifted is None:
        return rows
    right = rows[~room.drifted[rows]]
    if demand.request.require_conformance:
        right = alike_rows(room, right, demand.least)
    return right if len(right) >= demand.least else rows


def largest_alike(room: Room, rows: Rows) -> int:
    """How many of the rows are in the largest conformance group."""
    sizes = np.bincount(room.snapshot.nodes.conformance[rows] + 1)
    return int(sizes[1:].max(initial=0))


def limit_new_nodes(room: Room, demand: Demand, rows: Rows, tenant: str, left: int, row: int = NOBODY) -> Rows:
    """Candidates of which no more than `left` are new to the tenant."""
    present = room.present(tenant)[rows]
    fresh = rows[~present]
    if len(fresh) <= left:
        return rows
    return np.sort(np.concatenate([rows[present], by_fit(room, demand, fresh, row)[:left]]))


def by_fit(room: Room, demand: Demand, rows: Rows, row: int = NOBODY) -> Rows:
    """The rows with the best fit first: the leanest kind, for shares the node with least to spare."""
    if _may_differ(room, demand, row):
        return rows[np.lexsort((*_better(room, demand, rows, row), *_fit(room, demand, rows)))]
    if demand.is_whole:
        return rows[np.argsort(room.snapshot.nodes.kind[rows], kind="stable")]
    return rows[np.lexsort(_fit(room, demand, rows))]


def _fit(room: Room, demand: Demand, rows: Rows) -> tuple[Ints, ...]:
    """What the rows are ordered by, the weakest reason first."""
    kind = room.snapshot.nodes.kind[rows]
    return (kind,) if demand.is_whole else (kind, room.memory_mb[rows], room.cpus[rows], room.gpus[rows])


def _may_differ(room: Room, demand: Demand, row: int) -> bool:
    """Whether some nodes may be preferred to others that fit equally well."""
    return row != NOBODY and room.ties.concern(demand, row)


def _better(room: Room, demand: Demand, rows: Rows, row: int) -> tuple[Ints, ...]:
    """Why some of the rows are preferred to others, the weakest reason first; nothing where they are alike after all."""
    return room.ties.columns(demand, row, rows, room.gpus)


def _preference(room: Room, demand: Demand, rows: Rows, row: int) -> Prefer | None:
    """Which of several groups that will do equally well has the better nodes; None where all nodes are alike."""
    if not _may_differ(room, demand, row):
        return None

    def prefer(groups: Rows, want: int) -> int:
        # The best nodes of each group, all groups in one operation.
        group, better = room.snapshot.nodes.group[rows], _better(room, demand, rows, row)
        order = np.lexsort((*better, *_fit(room, demand, rows), group))
        first = np.searchsorted(group[order], group[order])
        best = order[np.arange(len(order)) - first < want]
        sums = [np.bincount(group[best], weights=column[best], minlength=int(groups.max()) + 1) for column in better]
        return int(groups[np.lexsort([total[groups] for total in sums])[0]]) if sums else int(groups[0])

    return prefer


def _alike(room: Room, demand: Demand, rows: Rows, want: int) -> Rows:
    """Candidates of one conformance group, if one has enough and costs no further topology group; else all of them."""
    conformance = room.snapshot.nodes.conformance[rows]
    sizes = np.bincount(conformance + 1)[1:]
    enough = np.flatnonzero(sizes >= want)
    if not len(enough) or int(sizes.max()) == len(rows):
        return rows
    must = demand.request.require_conformance
    if demand.request.topology == "any":
        return _of_group(rows, conformance, int(enough[np.argmin(sizes[enough])]))
    spans = _spans(room, rows, conformance, enough, want)
    if not must and int(spans.min()) > _span(room, rows, want):
        return rows
    best = enough[spans == spans.min()]
    return _of_group(rows, conformance, int(best[np.argmin(sizes[best])]))


def _spans(room: Room, rows: Rows, conformance: Ints, groups: Rows, want: int) -> Ints:
    """For each of the conformance groups, how many topology groups its rows need at least."""
    width = len(room.snapshot.nodes.groups)
    cells = (conformance + 1) * width + room.snapshot.nodes.group[rows]
    counts = np.bincount(cells, minlength=(int(conformance.max()) + 2) * width).reshape(-1, width)[groups + 1]
    reach = np.cumsum(-np.sort(-counts, axis=1), axis=1)
    spans: Ints = (reach < want).sum(axis=1) + 1
    return spans


def _of_group(rows: Rows, conformance: Ints, number: int) -> Rows:
    inside: Rows = rows[conformance == number]
    return inside


def _span(room: Room, rows: Rows, want: int) -> int:
    return fewest_groups(np.bincount(room.snapshot.nodes.group[rows]), want)


def _readiest(rows: Rows, ready_at: Ints, want: int) -> Rows:
    """The last to become free; among equals the first by id."""
    if want == len(rows):
        return rows
    return rows[np.lexsort((rows, -ready_at))[:want]]


def _snuggest(room: Room, demand: Demand, rows: Rows, row: int) -> Rows:
    """The first of `by_fit` for a share, without sorting them all."""
    for column in (room.gpus, room.cpus, room.memory_mb, room.snapshot.nodes.kind):
        values = column[rows]
        rows = rows[values == values.min()]
    if len(rows) > 1 and _may_differ(room, demand, row) and (better := _better(room, demand, rows, row)):
        return rows[np.lexsort(better)[:1]]
    return rows[:1]


def _counts(room: Room, rows: Rows) -> Ints:
    """How many of the rows there are by group and kind, without the kinds that none of them is of."""
    nodes = room.snapshot.nodes
    there = np.flatnonzero(np.bincount(nodes.kind[rows], minlength=len(nodes.kinds)))
    rank = np.zeros(len(nodes.kinds), np.intp)
    rank[there] = np.arange(len(there))
    cells = nodes.group[rows] * len(there) + rank[nodes.kind[rows]]
    return np.bincount(cells, minlength=len(there) * len(nodes.groups)).reshape(-1, len(there))


def shares_on(snapshot: Snapshot, demand: Demand, rows: Rows) -> tuple[Share, ...]:
    """What the demand takes of these nodes."""
    ids = snapshot.nodes.ids
    if demand.is_whole:
        return tuple(Share(node=ids[row]) for row in rows.tolist())
    memory_mb = demand.memory_mb[snapshot.nodes.kind[rows]]
    return tuple(
        Share(node=ids[row], whole=False, cpus=demand.cpus, memory_mb=memory, gpus=demand.gpus)
        for row, memory in zip(rows.tolist(), memory_mb.tolist(), strict=True)
    )


def least_nodes(room: Room, headroom: Headroom, shape: Shape, demand: Demand) -> Rows | None:
    """As many nodes as work of the shape needs at least, if it could start on them now; decides nothing."""
    least = demand.least
    if headroom.most_nodes(shape, demand.most, is_whole=demand.is_whole) < least:
        return None
    rows = room.candidates(demand, shape)
    left = None if demand.is_whole else headroom.nodes_left(shape.tenant)
    if left is not None and left < least:
        rows = limit_new_nodes(room, demand, rows, shape.tenant, left)
    if demand.request.require_conformance:
        rows = alike_rows(room, rows, least)
    if len(rows) < least:
        return None
    chosen = choose_nodes(room, demand, avoid_drifted(room, demand, rows), least)
    shortage = room.shortage(demand, chosen, shape.end_if_started(room.now))
    return chosen if shortage is None else None
