"""Chooses nodes for one allocation: enough, of the fewest groups, those that fit it best, ties by id."""

import numpy as np

from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.room import Room
from lattice.core.scheduler.tables import Ints, Rows
from lattice.core.scheduler.topology import choose_groups


def choose_nodes(room: Room, demand: Demand, rows: Rows, want: int) -> Rows:
    """`want` of the candidate rows, in the order of their ids."""
    if want == len(rows):
        return rows
    if want == 1 and not demand.is_whole:
        return _snuggest(room, rows)
    if demand.request.topology == "any":
        return np.sort(by_fit(room, demand, rows)[:want])
    group = room.snapshot.nodes.group[rows]
    chosen = [
        by_fit(room, demand, rows[group == number])[:take] for number, take in choose_groups(_counts(room, rows), want)
    ]
    return np.sort(np.concatenate(chosen))


def limit_new_nodes(room: Room, demand: Demand, rows: Rows, tenant: str, left: int) -> Rows:
    """Candidates of which no more than `left` are new to the tenant."""
    present = room.present(tenant)[rows]
    fresh = rows[~present]
    if len(fresh) <= left:
        return rows
    return np.sort(np.concatenate([rows[present], by_fit(room, demand, fresh)[:left]]))


def by_fit(room: Room, demand: Demand, rows: Rows) -> Rows:
    """The rows with the best fit first: the leanest kind, for shares the node with least to spare."""
    kind = room.snapshot.nodes.kind[rows]
    if demand.is_whole:
        return rows[np.argsort(kind, kind="stable")]
    return rows[np.lexsort((kind, room.memory_mb[rows], room.cpus[rows], room.gpus[rows]))]


def _snuggest(room: Room, rows: Rows) -> Rows:
    """The first of `by_fit` for a share, without sorting them all."""
    for column in (room.gpus, room.cpus, room.memory_mb, room.snapshot.nodes.kind):
        values = column[rows]
        rows = rows[values == values.min()]
    return rows[:1]


def _counts(room: Room, rows: Rows) -> Ints:
    """How many of the rows there are by group and kind."""
    kinds, groups = len(room.snapshot.nodes.kinds), len(room.snapshot.nodes.groups)
    return np.bincount(room.cell[rows], minlength=kinds * groups).reshape(groups, kinds)
