"""Says whom waiting work could take, and what protects the others, from the tables that the search for victims decided on.

Counted and written only on request. See docs/architecture/preemption.md.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lattice.core.model.capacity.standing import Candidates
from lattice.core.model.work.evictions import Eviction, EvictionReason, Limits, Protection
from lattice.core.scheduler.feasibility import suitable_nodes
from lattice.core.scheduler.placement.victims import Victims
from lattice.core.scheduler.proposals import Taking
from lattice.core.scheduler.tables.snapshot import Snapshot

# What is said of one and of several.
_PHRASES = {  # partial: work with another protection has no row in the table, and counts as CLASS
    Protection.CLASS: ("is of class {} or higher, or never preempted", "are of class {} or higher, or never preempted"),
    Protection.LEAVING: ("is being preempted already", "are being preempted already"),
    Protection.VCLUSTER: (
        "is in a vCluster whose work is not preempted",
        "are in vClusters whose work is not preempted",
    ),
    Protection.TAKEN_OFTEN: (
        "was preempted preemption.max_per_allocation times",
        "were preempted preemption.max_per_allocation times",
    ),
    Protection.YOUNG: (
        "has run for less than preemption.min_runtime_s",
        "have run for less than preemption.min_runtime_s",
    ),
    Protection.ENDING: ("ends within preemption.near_completion_s", "end within preemption.near_completion_s"),
}


class Reaches(NamedTuple):
    """For one plan."""

    snapshot: Snapshot
    victims: Victims
    takings: Sequence[Taking]
    now: int

    def of(self, row: int, start_at: int | None, *, is_looked_at: bool) -> Candidates | None:
        """Whom a row of the queue could take; `start_at` = when it starts otherwise. None when nothing runs where it could."""
        snapshot, shape = self.snapshot, self.snapshot.shape_of(row)
        klass = int(snapshot.queue.preemption_class[row])
        there = suitable_nodes(snapshot, shape.request, snapshot.vclusters[shape.vcluster])
        could, protected = self.victims.reach(there, klass)
        if not could and not protected:
            return None
        leaving = self._leaving(row)
        outcome = leaving or _outcome(snapshot.limits, could, self._waits_s(start_at), is_looked_at=is_looked_at)
        return Candidates(
            could_take=could,
            protected={protection.name.lower(): count for protection, count in protected.items()},
            text=f"{_counts(could, protected, klass)}; {outcome}",
        )

    def _waits_s(self, start_at: int | None) -> float:
        return float("inf") if start_at is None else (start_at - self.now) / 1000

    def _leaving(self, row: int) -> str:
        """How many leave for the row already, by this plan or an earlier one."""
        queue = self.snapshot.queue
        first = int(queue.number[row])
        numbers = range(first, first + int(queue.block[row]) + 1)
        decided: list[Eviction | Taking] = [*self.snapshot.evictions, *self.takings]
        for eviction in decided:
            if eviction.number in numbers:
                count = len(eviction.victims)
                verb = "gives back what it borrowed" if count == 1 else "give back what they borrowed"
                if eviction.reason is EvictionReason.PRIORITY:
                    verb = "is preempted" if count == 1 else "are preempted"
                return f"{count} {verb} for it"
        return ""


def _counts(could: int, protected: Mapping[Protection, int], klass: int) -> str:
    total = could + sum(protected.values())
    kept = [f"{count} {_PHRASES[each][count > 1].format(klass)}" for each, count in protected.items()]
    said = f"it may preempt {could or 'none'} of {total} running on suitable nodes"
    return f"{said}: {', '.join(kept)}" if kept else said


def _outcome(limits: Limits, could: int, waits_s: float, *, is_looked_at: bool) -> str:
    """Why no work is taken for it."""
    if not limits.max_victims:
        return "preemption is off (preemption.max_victims is 0)"
    if not could:
        return "so it waits"
    if waits_s <= limits.patience_s:
        return "it starts within preemption.patience_s without"
    if not is_looked_at:
        return "its turn has not come yet"
    return f"no {limits.max_victims} of them or fewer make room for it sooner at a cost below its value"
