"""Whom to take: the running work that could make room for a row which waits too long, in the order in which it is taken.

A victim is Running, of a strictly lower class, and protected by nothing. First come the tenants that hold more than their share
and burst allowance, then lower classes, then lower costs; a tier is the first two. A search widens tier by tier, and in each it prefers
fewer and larger victims. What it proposes is tried in the room by the pass, which knows everything else that a placement must keep.
See docs/architecture/preemption.md.
"""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from lattice.core.model.site.tenants import SENSITIVE, Preemption
from lattice.core.model.work.evictions import (
    EARLY,
    EARLY_WEIGHT,
    LATE,
    LATE_WEIGHT,
    Protection,
    policy_of,
    value_of,
)
from lattice.core.scheduler.feasibility import Demand
from lattice.core.scheduler.room.room import Room
from lattice.core.scheduler.score.fairshare import beyond_burst
from lattice.core.scheduler.tables.distinct import distinct
from lattice.core.scheduler.tables.slots import Bools, Floats, Ints, Records, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, NO_VCLUSTER, Shape, Snapshot

_NONE_KNOWN: Mapping[int, float] = MappingProxyType({})
_WITHIN_SHARE = 16  # more than any class: tenants beyond their share come first
_NONE = 99  # in place of a class: nothing may be taken by a higher one
_CROWDED = 64  # nodes with several holders that one search looks at
_TRIES = 6  # sets that one search tries in the room
_Worth = Callable[[tuple[int, ...], Rows], bool]
Fits = Callable[[], Rows | None]  # the nodes on which the row could start in the room as it is


class Choice(NamedTuple):
    """Who is taken, and on which nodes the row starts then."""

    victims: tuple[tuple[int, int], ...]  # number and run of each
    rows: Rows


class _Options(NamedTuple):
    """Sets of victims, each with the number of further nodes that it opens."""

    victims: list[tuple[int, ...]]  # places in the table
    opened: Ints
    tier: Ints
    cost: Floats


class Victims:
    """The running work of one plan. `taken` grows as rows take victims; everything else follows from the snapshot."""

    def __init__(self, snapshot: Snapshot, room: Room, now: int) -> None:
        self._snapshot = snapshot
        self._room = room
        table = snapshot.takeable
        # Who runs, by number; fixed, and all masks below are by its rows.
        self._table: Records = table if table is not None else np.zeros(0, _NUMBERS)
        self._free: Bools = np.zeros(0, np.bool_)  # may be taken, as far as it is not taken yet
        self._left: Bools = np.ones(len(self._table), np.bool_)  # not taken yet, by this plan or an earlier one
        # Made once by `_prepare`, one entry per row of the table.
        self._tier: Ints = np.zeros(0, np.int64)
        self._cost: Floats = np.zeros(0)
        self._place: Ints = np.zeros(0, np.int64)  # of each row of `held`: its place in the table, -1 = cannot be taken
        self._shields: tuple[tuple[Protection, Bools], ...] = ()  # what protects work, and which
        self.lowest = _NONE  # the lowest class that may be taken
        if table is not None:
            self._prepare(table, now)

    def _prepare(self, table: Records, now: int) -> None:
        snapshot, limits = self._snapshot, self._snapshot.limits
        taken = [victim.number for eviction in snapshot.evictions for victim in eviction.victims]
        if taken:
            self._left = ~np.isin(table["number"], taken)
        allowed = np.array([self._allows(name, Preemption.ALLOWED) for name in snapshot.vcluster_names], np.bool_)
        free: Bools = allowed[table["vcluster"]]
        borrowed = np.array(
            [self._allows(name, Preemption.BORROWED_ONLY) for name in snapshot.vcluster_names], np.bool_
        )
        numbers, held = table["number"], snapshot.held["number"]
        place = np.minimum(np.searchsorted(numbers, held), len(numbers) - 1)
        self._place = np.where(numbers[place] == held, place, -1)
        if borrowed[table["vcluster"]].any():
            free |= borrowed[table["vcluster"]] & self._borrowing()
        self._tier = table["klass"].copy()
        self._cost = costs(table, now, snapshot.signals.checkpoint_minutes)
        near = (table["end"] < NEVER) & (now > table["end"] - limits.near_completion_s * 1000)
        self._shields = (
            (Protection.VCLUSTER, ~free),
            (Protection.TAKEN_OFTEN, table["preempted"] >= limits.max_per_allocation),
            (Protection.YOUNG, now < table["started_at"] + limits.min_runtime_s * 1000),
            (Protection.ENDING, near),
        )
        free = self._left.copy()
        for _, shielded in self._shields:
            free &= ~shielded
        self._free = free
        if not free.any() or not limits.max_victims:
            return
        self.lowest = int(table["klass"][free].min())
        ledger = snapshot.ledger
        over = {name for name, is_over in zip(ledger.tenants, beyond_burst(snapshot), strict=True) if is_over}
        is_within = np.array([name not in over for name in snapshot.tenant_names], np.int64)
        self._tier = table["klass"] + is_within[table["tenant"]] * _WITHIN_SHARE

    def _allows(self, name: str, policy: Preemption) -> bool:
        vcluster = self._snapshot.vclusters.get(name)
        if vcluster is None or vcluster.scheduler == SENSITIVE:
            return False
        return policy_of(vcluster) is policy

    def _borrowing(self) -> Bools:
        """Who runs on a node that its vCluster does not list."""
        snapshot, held = self._snapshot, self._snapshot.held
        is_foreign = np.zeros(len(held), np.bool_)
        for number, name in enumerate(snapshot.vcluster_names):
            members = snapshot.members.get(name)
            if members is not None:
                is_foreign |= (held["vcluster"] == number) & ~members[held["node"]]
        found = np.zeros(len(self._table), np.bool_)
        found[self._place[is_foreign & (self._place >= 0)]] = True
        return found

    def take(self, choice: Choice) -> None:
        """They are taken: no other row takes them again."""
        numbers = [number for number, _ in choice.victims]
        self._left = self._left & ~np.isin(self._table["number"], numbers)
        self._free = self._free & self._left
        self.lowest = int(self._table["klass"][self._free].min(initial=_NONE)) if self.lowest < _NONE else _NONE

    def reach(self, there: Bools, klass: int) -> tuple[int, dict[Protection, int]]:
        """Of the work on these nodes: how many a row of the class may take, and how many of the others each protection keeps.

        Work without a row in the table is counted with that of the same class or a higher one.
        """
        held, place = self._snapshot.held, self._place
        on_them = there[held["node"]]
        numbers = distinct(held["number"][on_them])
        rows = distinct(place[on_them & (place >= 0)]) if len(place) else np.zeros(0, np.intp)
        lower = rows[self._table["klass"][rows] < klass]
        counts: dict[Protection, int] = {}
        counts[Protection.CLASS] = len(numbers) - len(lower)
        for protection, shielded in ((Protection.LEAVING, ~self._left), *self._shields):
            counts[protection] = int(np.count_nonzero(shielded[lower]))
            lower = lower[~shielded[lower]]
        return len(lower), {protection: count for protection, count in counts.items() if count}

    def mark(self) -> Callable[[], None]:
        """What puts everything back as it is now."""
        free, left, lowest = self._free, self._left, self.lowest

        def undo() -> None:
            self._free, self._left, self.lowest = free, left, lowest

        return undo

    def search(self, demand: Demand, shape: Shape, klass: int, fits: Fits) -> Choice | None:
        """Whom to take so that the row of this shape and class can start; None when no set will do."""
        may = self._free & (self._table["klass"] < klass)
        most = self._snapshot.limits.max_victims

        def is_worth_it(victims: tuple[int, ...], rows: Rows) -> bool:
            return self._is_worth_it(victims, rows, shape, klass)

        return self._search(demand, shape, may, most, fits, is_worth_it)

    def reclaim(self, demand: Demand, shape: Shape, lent: Bools, fits: Fits) -> Choice | None:
        """Who gives nodes back for work of their home; `lent` = the nodes of that home which others use. Whatever class it is of."""
        held = self._snapshot.held
        if not len(self._table):
            return None
        may = np.zeros(len(self._table), np.bool_)
        may[self._place[lent[held["node"]] & (self._place >= 0)]] = True
        most = max(self._snapshot.limits.max_victims, demand.least)
        return self._search(demand, shape, may & self._left, most, fits, lambda victims, rows: True)

    def _search(
        self, demand: Demand, shape: Shape, may: Bools, most: int, fits: Fits, is_worth_it: _Worth
    ) -> Choice | None:
        options = self._options(demand, shape, may, most)
        missing = demand.least - len(self._room.candidates(demand, shape))
        tried: set[tuple[int, ...]] = set()
        for victims in self._proposals(options, missing, most):
            if victims in tried:
                continue
            tried.add(victims)
            choice = self._tried(victims, fits, is_worth_it)
            if choice is not None:
                return choice
            if len(tried) >= _TRIES:
                return None
        return None

    # what may be proposed

    def _proposals(self, options: _Options, missing: int, most: int) -> Iterator[tuple[int, ...]]:
        """Sets of victims that open enough nodes by their number, best first: the lowest tiers, then fewer, then cheaper ones."""
        sizes = np.array([len(each) for each in options.victims], np.int64)
        for tier in distinct(options.tier).tolist():
            within = options.tier <= tier
            enough = np.flatnonzero(within & (options.opened >= missing))
            if len(enough):
                best = enough[np.lexsort((options.cost[enough], options.tier[enough], sizes[enough]))[:_TRIES]]
                yield from (options.victims[each] for each in best.tolist())
                continue
            joined = self._joined(options, np.flatnonzero(within), missing, most)
            if joined:
                yield joined

    def _joined(self, options: _Options, within: Rows, missing: int, most: int) -> tuple[int, ...]:
        """Several sets together, the largest first; empty when they would be too many."""
        order = within[np.lexsort((options.cost[within], options.tier[within], -options.opened[within]))]
        chosen: dict[int, None] = {}
        opened = 0
        for each in order[: 4 * most].tolist():
            members = options.victims[each]
            if len(chosen.keys() | set(members)) > most:
                continue
            chosen.update(dict.fromkeys(members))
            opened += int(options.opened[each])
            if opened >= missing:
                return tuple(sorted(chosen))
        return ()

    def _options(self, demand: Demand, shape: Shape, may: Bools, most: int) -> _Options:
        """Who alone, or who together on one node, opens nodes that suit the demand."""
        room, held = self._room, self._snapshot.held
        place = self._place
        is_victim = (place >= 0) & may[place]
        node = held["node"]
        there: Bools = demand.usable & self._in_time(shape)
        there[room.candidates(demand, shape)] = False  # open already
        holders = np.bincount(node, minlength=len(there))
        of_victims = np.bincount(node[is_victim], minlength=len(there))
        alone = is_victim & there[node] & (holders[node] == 1)
        opened = np.bincount(place[alone], minlength=len(self._table))
        single = np.flatnonzero(opened)
        crowded = there & (holders > 1) & (of_victims > 0)
        if demand.is_whole:
            crowded &= (holders == of_victims) & (of_victims <= most)
        sets = self._crowded_sets(demand, np.flatnonzero(crowded), np.flatnonzero(is_victim & crowded[node]), most)
        victims = [(each,) for each in single.tolist()] + list(sets)
        more = np.array([self._tier[list(each)].max() for each in sets], np.int64)
        dear = np.array([self._cost[list(each)].sum() for each in sets])
        return _Options(
            victims,
            np.concatenate([opened[single], np.array(list(sets.values()), np.int64)]),
            np.concatenate([self._tier[single], more]),
            np.concatenate([self._cost[single], dear]),
        )

    def _in_time(self, shape: Shape) -> Bools:
        """Nodes on which nothing is kept, or reserved for others, before work of the shape would end."""
        end = shape.end_if_started(self._room.now)
        good: Bools = self._room.bar >= end
        closing = self._room.calendar.closing(shape.tenant, shape.user) if self._room.calendar else None
        return good if closing is None else good & (closing >= end)

    def _crowded_sets(self, demand: Demand, nodes: Rows, rows: Rows, most: int) -> dict[tuple[int, ...], int]:
        """For nodes with several holders: which of them have to leave, and how many nodes the same set opens.

        `rows` are those of `held` that may be victims there.
        """
        found: dict[tuple[int, ...], int] = {}
        if not len(nodes):
            return found
        node, place = self._snapshot.held["node"][rows], self._place[rows]
        order = np.lexsort((self._cost[place], self._tier[place], node))
        node, place, rows = node[order], place[order], rows[order]
        first = np.searchsorted(node, nodes)
        # The nodes with the best first victim are looked at first.
        best = np.lexsort((self._cost[place[first]], self._tier[place[first]]))[:_CROWDED]
        for each in best.tolist():
            begin = int(first[each])
            stop = int(np.searchsorted(node, nodes[each], side="right"))
            members = self._leaving(demand, int(nodes[each]), place[begin:stop], rows[begin:stop])
            if 0 < len(members) <= most:
                found[members] = found.get(members, 0) + 1
        return found

    def _leaving(self, demand: Demand, row: int, place: Ints, rows: Rows) -> tuple[int, ...]:
        """The fewest of these, in this order, without which the demand fits on the node; empty when it never does."""
        if demand.is_whole:
            return tuple(sorted(place.tolist()))
        room, held = self._room, self._snapshot.held
        holders = int(np.count_nonzero(held["node"] == row))
        is_own = int(room.vcluster[row]) in (demand.vcluster, NO_VCLUSTER)
        if not is_own and len(place) < holders:
            return ()
        need = np.array([demand.cpus, demand.memory_mb[self._snapshot.nodes.kind[row]], demand.gpus])
        free = np.array([room.cpus[row], room.memory_mb[row], room.gpus[row]])
        given = np.stack([held[name][rows] for name in ("cpus", "memory_mb", "gpus")])
        enough = (free[:, None] + np.cumsum(given, axis=1) >= need[:, None]).all(axis=0)
        if not enough.any():
            return ()
        count = int(enough.argmax()) + 1 if is_own else len(place)
        left = free + given[:, :count].sum(axis=1)
        members = list(range(count))
        for each in reversed(range(count - 1)) if is_own else ():
            if (left - given[:, each] >= need).all():
                members.remove(each)
                left = left - given[:, each]
        return tuple(sorted(int(place[each]) for each in members))

    # what holds when it is tried

    def _tried(self, victims: tuple[int, ...], fits: Fits, is_worth_it: _Worth) -> Choice | None:
        """The set, less each without which the row still fits, if it fits at all and is worth it."""
        rows = self._fits_without(victims, fits)
        if rows is None:
            return None
        # Those that are worth most are let go first.
        dearest = sorted(victims, key=lambda each: (-int(self._tier[each]), -float(self._cost[each]), each))
        for each in dearest:
            others = tuple(other for other in victims if other != each)
            found = self._fits_without(others, fits) if others else None
            if found is not None:
                victims, rows = others, found
        # Who would only free power or bandwidth for work on other nodes is not taken.
        leaving = self._place[np.isin(self._snapshot.held["node"], rows)]
        if not np.isin(victims, leaving).all() or not is_worth_it(victims, rows):
            return None
        table = self._table
        return Choice(tuple((int(table["number"][each]), int(table["run"][each])) for each in victims), rows)

    def _fits_without(self, victims: tuple[int, ...], fits: Fits) -> Rows | None:
        mark = self._room.mark()
        for each in victims:
            self._room.evict(int(self._table["number"][each]))
        rows = fits()
        self._room.rollback(mark)
        return rows

    def _is_worth_it(self, victims: tuple[int, ...], rows: Rows, shape: Shape, klass: int) -> bool:
        places = list(victims)
        nodes = self._snapshot.nodes
        whole = self._room.demand(shape.request, self._snapshot.vclusters[shape.vcluster]).is_whole
        gpus = int(nodes.kind_table.gpus[nodes.kind[rows]].sum()) if whole else shape.request.gpus * len(rows)
        classes = klass - int(self._table["klass"][places].max())
        return float(self._cost[places].sum()) < value_of(gpus or len(rows), shape.walltime_s, classes)


_NUMBERS = np.dtype([("number", "i8"), ("run", "i8"), ("klass", "i8")])


def costs(table: Records, now: int, minutes: Mapping[int, float] = _NONE_KNOWN) -> Floats:
    """What each loses if it is taken now, as `cost_of` says of one; `minutes` a checkpoint takes by the latest estimate, if that is more."""
    ran = np.maximum(0, now - table["started_at"])
    length = table["walltime_ms"]
    paused = np.where(length > 0, table["end"] - table["started_at"] - length, 0)
    done = np.divide(ran - paused, length, out=np.full(len(table), 0.5), where=length > 0)
    weight = np.where(done < EARLY, EARLY_WEIGHT, np.where(done > LATE, LATE_WEIGHT, 1.0))
    writing = table["checkpoint_ms"]
    if minutes:
        guessed = np.array([minutes.get(number, 0.0) for number in table["number"].tolist()]) * 60_000
        writing = np.maximum(writing, guessed)
    lost = writing + np.maximum(0, now - table["saved_at"])
    cost: Floats = table["units"] * (lost / 1000) * weight
    return cost
