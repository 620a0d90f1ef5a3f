"""What is left of the machine while a plan is made: free nodes and shares now, and what becomes free or is kept later.

`bar` says for each node when the first thing that is kept there begins. Work that has ended by then may always use the node; work
that ends later may not, except for a share that fits beside what is kept, which the timeline knows.

Four methods change the room: `take` and `keep` make it smaller, `release` and `evict` make it larger. All of them can be undone:
`mark`, try, then `rollback` or `commit`. See docs/architecture/scheduler.md, "Room" and "Undo".
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from lattice.core.model.site.tenants import NodeSharing, Vcluster
from lattice.core.model.work.allocations import Request
from lattice.core.scheduler.feasibility import Demand, demand_of, usable_nodes
from lattice.core.scheduler.room.advance import Calendar
from lattice.core.scheduler.room.journal import Column, Journal, Undo
from lattice.core.scheduler.room.lane import Lane
from lattice.core.scheduler.room.sums import Sum
from lattice.core.scheduler.room.ties import Ties
from lattice.core.scheduler.room.timeline import Timeline, empty_nodes, shared_nodes
from lattice.core.scheduler.tables.slots import Bools, Ints, Records, Rows
from lattice.core.scheduler.tables.snapshot import NEVER, NO_VCLUSTER, STOP_GRACE_MS, Shape, Snapshot

OVERDUE_MS = 1_000  # work past its end is expected to be gone after this time


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """Shares in use, one per entry: on which node row, until when, how much."""

    node: Rows
    end: Ints
    cpus: Ints
    memory_mb: Ints
    gpus: Ints


class _Kept(NamedTuple):
    demand: Demand
    rows: Rows
    start: int
    end: int


class Mark(NamedTuple):
    """A state of the room to go back to. It ends by `rollback` or `commit`, or with a mark around it."""

    place: int  # in the journal of the columns
    depth: int  # how many marks were open before it
    has_bars: bool
    taken: int
    kept: dict[int, _Kept]
    holdings: Holdings | None
    timeline: Timeline | Lane | None
    others: tuple[Undo, ...]  # of the timeline and of the sums


class Room:
    """Copies of the snapshot's columns that change as a plan places work. Others read the fields; only this class writes them."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        nodes = snapshot.nodes
        # Fixed for the whole plan.
        self.snapshot = snapshot
        self.now = now
        self.usable = usable_nodes(nodes)  # nodes that may be given work at all
        self.calendar = Calendar(snapshot.reservations, nodes, now)  # advance reservations, which no plan changes
        self.drifted = _mask(snapshot, snapshot.signals.drifted)  # None = no node differs from its baseline
        self.ties = Ties(snapshot)  # which of several equal nodes is preferred, as nodes were when the plan began
        # What is free now, one entry per node row, changed by `take` and `evict` through the journal. `free` = usable and held by
        # no work; a node that is held whole has amounts of 0; `vcluster` is whose shares are on it, NO_VCLUSTER where there are none.
        self.free: Bools = nodes.is_free & self.usable
        self.cpus = nodes.cpus.copy()
        self.memory_mb = nodes.memory_mb.copy()
        self.gpus = nodes.gpus.copy()
        self.vcluster = nodes.vcluster.copy()
        # The earliest start of what is kept on each node, NEVER where nothing is: always the minimum over `_kept`. Changed by
        # `keep` and `release`. `has_bars` is False only while `bar` is NEVER everywhere.
        self.bar: Ints = np.full(len(nodes.ids), NEVER, np.int64)
        self.has_bars = False
        self._kept: dict[
            int, _Kept
        ] = {}  # reservations of this plan by number, in the order in which they were entered
        # What is in use: the rows of `snapshot.held` less those marked in `_gone` (by `evict`), and what `take` gave away.
        self._gone: Bools = np.zeros(len(snapshot.held), np.bool_)
        self._taken: list[Holdings] = []  # only appended to; a rollback cuts its end off
        self._holdings: Holdings | None = None  # both joined; None = not made since the last change
        # Shares by tenant and node row, made on first use and then changed by `take` and `evict` through the journal.
        self._shares: dict[str, Ints] = {}
        # The machine ahead: made on first use from what is in use and what is kept, then kept true by `take` and `keep`.
        # `release` and `evict` give back, which a timeline cannot do: they throw it away.
        self._timeline: Timeline | Lane | None = None
        # Functions of the snapshot alone, remembered; a rollback leaves them.
        self._usable_by: dict[str, Bools] = {}
        self._demands: dict[tuple[Request, str], Demand] = {}
        self._memory_needs: dict[tuple[int, int], Ints] = {}
        # Sums over the machine, charged by `take` and `keep`, given back by `release` and `evict`; None = no limit.
        self.power = self._power_sum() if snapshot.budgets.power_w else None
        self._storage_mbps = self._storage_used()
        self.storage = self._storage_sum() if snapshot.budgets.storage_gbps else None
        # Every write to a column above is saved here first.
        self._journal = Journal()
        self._marks: list[Mark] = []  # open ones, each inside the one before it

    # undo

    def mark(self) -> Mark:
        """The state as it is now, to `rollback` to, or to `commit` when what follows shall stay. Marks nest."""
        parts = (self._timeline, self.power, self.storage)
        mark = Mark(
            place=self._journal.open(),
            depth=len(self._marks),
            has_bars=self.has_bars,
            taken=len(self._taken),
            kept=dict(self._kept),
            holdings=self._holdings,
            timeline=self._timeline,
            others=tuple(part.mark() for part in parts if part is not None),
        )
        self._marks.append(mark)
        return mark

    def rollback(self, mark: Mark) -> None:
        """Puts everything back as it was at the mark, to the last bit. The mark ends, and those inside it."""
        self._check_open(mark)
        self._journal.undo(mark.place)
        for undo in mark.others:
            undo()
        del self._taken[mark.taken :]
        self._kept = dict(mark.kept)
        self.has_bars, self._holdings, self._timeline = mark.has_bars, mark.holdings, mark.timeline
        self._end(mark)

    def commit(self, mark: Mark) -> None:
        """Lets what happened since the mark stay. The mark ends, and those inside it; marks around it can still be used."""
        self._check_open(mark)
        self._end(mark)

    def _check_open(self, mark: Mark) -> None:
        if mark.depth >= len(self._marks) or self._marks[mark.depth] is not mark:
            raise ValueError("the mark has ended already")

    def _end(self, mark: Mark) -> None:
        del self._marks[mark.depth :]
        self._journal.close(mark.depth)

    def _save(self, rows: Rows, *columns: Column) -> None:
        for column in columns:
            self._journal.save(column, rows)

    # what fits

    def demand(self, request: Request, vcluster: Vcluster) -> Demand:
        key = (request, vcluster.name)
        if key not in self._demands:
            self._demands[key] = demand_of(self.snapshot, request, vcluster, self.usable_by(vcluster.name))
        return self._demands[key]

    def usable_by(self, vcluster: str) -> Bools:
        """Nodes that work of the vCluster may be given, as far as the nodes themselves and their configuration go."""
        if vcluster not in self._usable_by:
            excluded = _mask(self.snapshot, self.snapshot.signals.excluded.get(vcluster, frozenset()))
            self._usable_by[vcluster] = self.usable if excluded is None else self.usable & ~excluded
        return self._usable_by[vcluster]

    def candidates(self, demand: Demand, shape: Shape) -> Rows:
        """Rows, by id, that could be given to the work now without delaying anything that is kept."""
        rows = self.unkept(demand, shape)
        end = shape.end_if_started(self.now)
        if self.calendar:
            closing = self.calendar.closing(shape.tenant, shape.user)
            if closing is not None:
                rows = rows[closing[rows] >= end]
        return rows

    def unkept(self, demand: Demand, shape: Shape) -> Rows:
        """The same, whatever advance reservations say."""
        rows = self.unheld(demand)
        return self._clear_of_kept(demand, rows, shape.end_if_started(self.now)) if self.has_bars else rows

    def unheld(self, demand: Demand) -> Rows:
        """Rows, by id, with enough free capacity now, regardless of reservations."""
        given = self.free if demand.is_whole else self.share_fits(demand) & self.shareable(demand)
        rows: Rows = (demand.usable & given).nonzero()[0]
        return rows

    def _clear_of_kept(self, demand: Demand, rows: Rows, end: int) -> Rows:
        is_clear: Bools = self.bar[rows] >= end
        if demand.is_whole or is_clear.all():
            return rows[is_clear]
        open_now = self.timeline.openings(demand)
        beside = np.zeros(len(self.bar), np.bool_)
        beside[open_now.node[(open_now.start <= self.now) & (open_now.end >= end)]] = True
        return rows[is_clear | beside[rows]]

    def share_fits(self, demand: Demand) -> Bools:
        """Nodes with enough left for the share."""
        fits: Bools = self.cpus >= demand.cpus
        fits &= self.memory_mb >= self._memory_need(demand)
        if demand.gpus:
            fits &= self.gpus >= demand.gpus
        return fits

    def shareable(self, demand: Demand) -> Bools:
        """Nodes that are empty or shared by the demand's own vCluster."""
        shareable: Bools = (self.vcluster == NO_VCLUSTER) | (self.vcluster == demand.vcluster)
        return shareable

    def _memory_need(self, demand: Demand) -> Ints:
        key = (demand.cpus, demand.request.memory_mb)
        if key not in self._memory_needs:
            self._memory_needs[key] = demand.memory_mb[self.snapshot.nodes.kind]
        return self._memory_needs[key]

    def has_any(self, vcluster: Vcluster) -> bool:
        """Whether anything at all could still be given to work of the vCluster."""
        shared = vcluster.node_sharing is NodeSharing.SHARED
        left: Bools = self.usable & (self.cpus > 0) if shared else self.free
        members = self.snapshot.members.get(vcluster.name)
        return bool(left.any() if members is None else (left & members).any())

    def present(self, tenant: str) -> Bools:
        """Nodes on which the tenant has a share; such a node does not count again towards its quota."""
        return self._shares_of(tenant) > 0

    def _shares_of(self, tenant: str) -> Ints:
        if tenant not in self._shares:
            held, names = self.snapshot.held, self.snapshot.tenant_names
            counts: Ints = np.zeros(len(self.free), np.int64)
            if tenant in names:
                own = (held["tenant"] == names.index(tenant)) & (held["cpus"] > 0) & ~self._gone
                np.add.at(counts, held["node"][own], 1)
            self._shares[tenant] = counts
        return self._shares[tenant]

    # changes

    def take(self, demand: Demand, rows: Rows, end: int, tenant: str) -> int:
        """Gives the rows away; returns by how many nodes the tenant's use grows."""
        kinds = self.snapshot.nodes.kind[rows]
        if demand.is_whole:
            amounts = (self.cpus[rows], self.memory_mb[rows], self.gpus[rows])
        else:
            count = len(rows)
            amounts = (np.full(count, demand.cpus), demand.memory_mb[kinds], np.full(count, demand.gpus))
        self._charge(demand, rows, end)
        self._save(rows, self.free, self.cpus, self.memory_mb, self.gpus, self.vcluster)
        self.free[rows] = False
        self.cpus[rows] -= amounts[0]
        self.memory_mb[rows] -= amounts[1]
        self.gpus[rows] -= amounts[2]
        self._holdings = None
        if self._timeline is not None:
            self._timeline.occupy(demand, rows, self.now, end)
        ends = np.full(len(rows), end, np.int64)
        self._taken.append(Holdings(node=rows, end=ends, cpus=amounts[0], memory_mb=amounts[1], gpus=amounts[2]))
        if demand.is_whole:
            return len(rows)
        self.vcluster[rows] = demand.vcluster
        shares = self._shares_of(tenant)
        self._save(rows, shares)
        grown = int(np.count_nonzero(shares[rows] == 0))
        shares[rows] += 1
        return grown

    def keep(self, number: int, demand: Demand, rows: Rows, start: int, end: int) -> None:
        """Reserves what the demand takes of the rows for the allocation or group of that number, which starts at `start`."""
        self.timeline.occupy(demand, rows, start, end)
        self._kept[number] = _Kept(demand, rows, start, end)
        self._promise(demand, start, end)
        self._save(rows, self.bar)
        if len(rows) == 1:
            self.bar[rows[0]] = min(int(self.bar[rows[0]]), start)
        else:
            self.bar[rows] = np.minimum(self.bar[rows], start)
        self.has_bars = True

    def release(self, number: int) -> None:
        """Takes back what was kept for the number. Slow: the rest is entered again."""
        gone = self._kept.pop(number)
        self._promise(gone.demand, gone.start, gone.end, sign=-1)
        self._save(np.flatnonzero(self.bar < NEVER), self.bar)
        self.bar[:] = NEVER
        for kept in self._kept.values():
            self.bar[kept.rows] = np.minimum(self.bar[kept.rows], kept.start)
        self._timeline = self._look_ahead()

    def evict(self, number: int) -> Rows:
        """Takes away what the allocation of that number held before this plan, as if it ended now; returns its node rows.

        Nothing is decided by that: it tells a search what would be free. An allocation that holds nothing changes nothing.
        """
        held, kinds = self.snapshot.held, self.snapshot.nodes.kind_table
        gone = np.flatnonzero((held["number"] == number) & ~self._gone)
        rows: Rows = held["node"][gone].astype(np.intp)
        if not len(gone):
            return rows
        shares = self._shares_of(self.snapshot.tenant_names[int(held["tenant"][gone[0]])])
        until, whole = self._busy_until(), held["cpus"][gone] == 0
        self._save(gone, self._gone)
        self._save(rows, self.free, self.cpus, self.memory_mb, self.gpus, self.vcluster, shares)
        self._gone[gone] = True
        shares[rows[~whole]] -= 1
        kind = self.snapshot.nodes.kind[rows]
        for column, name, full in (
            (self.cpus, "cpus", kinds.cpus[kind]),
            (self.memory_mb, "memory_mb", kinds.memory_mb[kind]),
            (self.gpus, "gpus", kinds.gpus[kind]),
        ):
            column[rows] = np.where(whole, full, np.minimum(full, column[rows] + held[name][gone]))
        self._holdings = self._timeline = None
        left = self._busy_until()
        empty = rows[left[rows] == 0]
        self.free[empty], self.vcluster[empty] = self.usable[empty], NO_VCLUSTER
        self._give_back(gone, rows, until, np.maximum(left, self.now))
        return rows

    def _give_back(self, gone: Rows, rows: Rows, until: Ints, left: Ints) -> None:
        """Takes the evicted rows of `held` out of the sums; `until`, `left` = until when each node was busy, and is now."""
        if self.power is not None:
            power_w = self.snapshot.nodes.kind_table.power_w[self.snapshot.nodes.kind]
            for row in rows[left[rows] < until[rows]].tolist():
                self.power.take(int(left[row]), int(until[row]), -int(power_w[row]))
        if self.storage is not None:
            mbps, ends = self._storage_mbps[gone], self._ends()[gone]
            for amount, end in zip(mbps.tolist(), ends.tolist(), strict=True):
                self.storage.take(self.now, end, -amount)

    def freed_at(self, rows: Rows, due: int) -> int:
        """When all of the rows are free at the latest: what holds them ends by itself, or is stopped at `due`."""
        busy_until = int(self._busy_until()[rows].max(initial=self.now))
        return min(busy_until, due + STOP_GRACE_MS)

    def _busy_until(self) -> Ints:
        """For each node, when the last that is in use of it ends; 0 where nothing is."""
        held = self.holdings()
        until: Ints = np.zeros(len(self.free), np.int64)
        np.maximum.at(until, held.node, held.end)
        return until

    # the sums of the whole machine

    def charges(self, demand: Demand) -> list[tuple[Sum, int]]:
        """What the demand adds to each limited sum, on the thirstiest of the nodes it may use."""
        found = []
        if self.power is not None:
            power_w = self.snapshot.nodes.kind_table.power_w[self.snapshot.nodes.kind[demand.usable]]
            found.append((self.power, demand.least * int(power_w.max(initial=0))))
        if self.storage is not None:
            found.append((self.storage, _mbps(demand.request)))
        return [(total, amount) for total, amount in found if amount]

    def shortage(self, demand: Demand, rows: Rows, end: int) -> str | None:
        """Which sum, with figures, would be exceeded if the rows were given away; None when none would."""
        if self.power is not None:
            since, watts = self._power_of(demand, rows, end)
            if len(watts) and not self.power.fits_from(since, watts, end):
                more = int(watts.sum())
                return f"waiting for power: busy nodes draw {self.power.used()} of {self.power.limit} W, {more} W more needed"
        if self.storage is not None and not self.storage.fits(_mbps(demand.request), end):
            used, limit = self.storage.used() / 1000, self.storage.limit / 1000
            asked = demand.request.storage_gbps
            return f"waiting for storage bandwidth: {used:g} of {limit:g} GB/s in use, {asked:g} requested"
        return None

    def _charge(self, demand: Demand, rows: Rows, end: int) -> None:
        if self.power is not None:
            for since, watts in zip(*(column.tolist() for column in self._power_of(demand, rows, end)), strict=True):
                self.power.take(since, end, watts)
        if self.storage is not None:
            self.storage.take(self.now, end, _mbps(demand.request))

    def _promise(self, demand: Demand, start: int, end: int, *, sign: int = 1) -> None:
        """As much as the next plan looks for, though the nodes of today may draw less: else others could take the rest, and it finds no start."""
        for total, amount in self.charges(demand):
            total.take(start, end, sign * amount)

    def _power_of(self, demand: Demand, rows: Rows, end: int) -> tuple[Ints, Ints]:
        """From when on which of the rows draw more until `end`, and how much: a share on a busy node costs nothing until the others there end."""
        since: Ints = np.full(len(rows), self.now, np.int64)
        if not demand.is_whole:
            since = np.maximum(np.where(self.free[rows], self.now, self._busy_until()[rows]), self.now)
        nodes, longer = self.snapshot.nodes, since < end
        return since[longer], nodes.kind_table.power_w[nodes.kind[rows[longer]]].astype(np.int64)

    def _power_sum(self) -> Sum:
        nodes, end = self.snapshot.nodes, self._busy_until()
        busy = np.flatnonzero(end)
        return Sum(self.snapshot.budgets.power_w, self.now, end[busy], nodes.kind_table.power_w[nodes.kind[busy]])

    def _storage_sum(self) -> Sum:
        limit = round(self.snapshot.budgets.storage_gbps * 1000)
        return Sum(limit, self.now, self._ends(), self._storage_mbps)

    def _storage_used(self) -> Ints:
        """By row of `held` what work asked for or, if that is more, was seen to use; all of it on one row of the work."""
        held, seen = self.snapshot.held, self.snapshot.signals.storage_gbps
        used: Ints = held["storage_mbps"].astype(np.int64)
        if seen and self.snapshot.budgets.storage_gbps:
            # Where work asked for some, the row that says so comes first of all of its rows.
            order = np.lexsort((-used, held["number"]))
            numbers, first = np.unique(held["number"][order], return_index=True)
            rows = order[first]
            measured = np.array([seen.get(number, 0.0) * 1000 for number in numbers.tolist()])
            used[rows] = np.maximum(used[rows], measured.round().astype(np.int64))
        return used

    # the machine ahead

    @property
    def timeline(self) -> Timeline | Lane:
        if self._timeline is None:
            self._timeline = self._look_ahead()
        return self._timeline

    def _look_ahead(self) -> Timeline | Lane:
        """The timeline rebuilt: what is in use, then what is kept."""
        ahead = self._in_use_ahead()
        for kept in self._kept.values():
            ahead.occupy(kept.demand, kept.rows, kept.start, kept.end)
        return ahead

    def _in_use_ahead(self) -> Timeline | Lane:
        if len(self.free) == 1 and self.usable[0] and self.vcluster[0] != NO_VCLUSTER:
            return self._lane()
        nodes, held = self.snapshot.nodes, self.holdings()
        kinds = nodes.kind_table
        full = np.stack([kinds.cpus, kinds.memory_mb, kinds.gpus], axis=1)[nodes.kind]
        is_shared: Bools = self.usable & (self.vcluster != NO_VCLUSTER)
        free_at: Ints = np.where(self.free, self.now, 0)
        np.maximum.at(free_at, held.node, held.end)
        rows = np.flatnonzero(self.usable & ~is_shared & (free_at > 0) & (free_at < NEVER))
        segments = empty_nodes(rows, free_at[rows], full[rows])
        shared = np.flatnonzero(is_shared)
        if len(shared):
            free = np.stack([self.cpus, self.memory_mb, self.gpus], axis=1)[shared]
            on = is_shared[held.node]
            shares = np.stack([held.node, held.end, held.cpus, held.memory_mb, held.gpus])[:, on]
            more = shared_nodes(self.now, shared, free, full[shared], self.vcluster[shared], shares)
            segments = np.concatenate([segments, more], axis=1)
        return Timeline(segments, nodes.kind, has_shares=bool(len(shared)))

    def _lane(self) -> Lane:
        (held, ends), kind = self._still_held(), self.snapshot.nodes.kinds[0]
        free = np.array([self.cpus[0], self.memory_mb[0], self.gpus[0]], np.int64)
        full = np.array([kind.cpus, kind.memory_mb, kind.gpus], np.int64)
        amounts = np.stack([held["cpus"], held["memory_mb"], held["gpus"]])
        if self._taken:
            ends = np.concatenate([ends, *(t.end for t in self._taken)])
            more = [np.stack([t.cpus, t.memory_mb, t.gpus]) for t in self._taken]
            amounts = np.concatenate([amounts, *more], axis=1)
        return Lane(self.now, 0, int(self.vcluster[0]), free, full, ends, amounts)

    def holdings(self) -> Holdings:
        """All that is in use, by what ran before and by this plan, with ends that lie ahead."""
        if self._holdings is None:
            self._holdings = self._join_holdings()
        return self._holdings

    def _ends(self) -> Ints:
        """When each row of what was held at the start is given back, always ahead."""
        end = self.snapshot.held["end"]
        return np.maximum(np.where(end < 0, self.now - end, end), self.now + OVERDUE_MS)

    def _still_held(self) -> tuple[Records, Ints]:
        """What was held at the start and was not evicted, with its ends."""
        held, ends = self.snapshot.held, self._ends()
        return (held[~self._gone], ends[~self._gone]) if self._gone.any() else (held, ends)

    def _join_holdings(self) -> Holdings:
        (held, ends), nodes = self._still_held(), self.snapshot.nodes
        node = held["node"].astype(np.intp)
        kind, kinds = nodes.kind[node], nodes.kind_table
        whole = held["cpus"] == 0
        taken = self._taken
        cpus = np.where(whole, kinds.cpus[kind], held["cpus"])
        memory_mb = np.where(whole, kinds.memory_mb[kind], held["memory_mb"])
        gpus = np.where(whole, kinds.gpus[kind], held["gpus"])
        return Holdings(
            node=np.concatenate([node, *(t.node for t in taken)]),
            end=np.concatenate([ends, *(t.end for t in taken)]),
            cpus=np.concatenate([cpus, *(t.cpus for t in taken)]),
            memory_mb=np.concatenate([memory_mb, *(t.memory_mb for t in taken)]),
            gpus=np.concatenate([gpus, *(t.gpus for t in taken)]),
        )


def _mbps(request: Request) -> int:
    return round(request.storage_gbps * 1000)


def _mask(snapshot: Snapshot, names: frozenset[str]) -> Bools | None:
    """The rows of these nodes; None when there are none."""
    rows = [snapshot.nodes.rows[name] for name in names if name in snapshot.nodes.rows]
    if not rows:
        return None
    mask: Bools = np.zeros(len(snapshot.nodes.ids), np.bool_)
    mask[rows] = True
    return mask
