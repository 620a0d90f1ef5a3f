"""What a pass over the queue has decided so far, apart from what that leaves of the machine.

One record, so that a pass can be taken back as a whole: `copy` copies every field. See docs/architecture/scheduler.md, "The pass".
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from lattice.core.model.site.tenants import Vcluster
from lattice.core.scheduler.placement.explain import Why
from lattice.core.scheduler.proposals import Placement, Reservation, Taking
from lattice.core.scheduler.score.profiles import Profile
from lattice.core.scheduler.tables.slots import Bools, Ints
from lattice.core.scheduler.tables.snapshot import Snapshot

# Plain numbers: NumPy looks long at a member of an enumeration.
BEHIND, NOT_YET = int(Why.BEHIND), int(Why.NOT_YET)
_HELD, _NO_VCLUSTER = int(Why.HELD), int(Why.NO_VCLUSTER)
_TOO_LONG, _TOO_MANY = int(Why.TOO_LONG), int(Why.TOO_MANY)
_SPARE_LOOKOUTS = 8  # how many blocked allocations beyond those with a reservation may ask when they could start


@dataclass(kw_only=True, slots=True)
class Progress:
    """Only the pass of plan.py changes it. Each field has a `copy` of its own, and its entries are never changed in place."""

    # By number of the vCluster.
    tried: list[int]  # searches for nodes; never more than the profile's window
    seen: list[int]  # rows looked at, stopped by a limit or not
    depth: list[int]  # reservations that may still be given; back up by one when a promise starts after all
    lookouts: list[int]  # rows that may still ask when they could start; 0 once `depth` is used up
    asking: Bools  # its rows may still ask; off for good when one of them found the lookouts used up
    closed_vcluster: Bools  # none of its rows is looked at any more; never opened again
    # By shape.
    no_start: Bools  # one row found that it cannot start now, so none of the shape can; never taken back
    limited: Bools  # it was a limit, so asking for a later start is of no use either; implies `no_start`
    reasons: dict[int, str]  # the limit or the sum that stopped it, with figures
    # By queue row: a `Why`. Replaced only where it is BEHIND, not decided yet, or NO_ROOM of a promise that starts after all.
    why: Ints
    # The outcome. A number is in one of the two at most; reservations are by number.
    placements: list[Placement]
    reservations: dict[int, Reservation]
    takings: list[Taking]  # each with a reservation of its own
    victimless: set[tuple[int, int]]  # shapes and classes for which no work could be taken; as `no_start`

    @classmethod
    def at_start(
        cls, snapshot: Snapshot, profiles: Sequence[Profile], vclusters: Sequence[Vcluster | None], now: int
    ) -> "Progress":
        count, shapes = len(vclusters), len(snapshot.shapes)
        depth = [_depth(profile, vcluster) for profile, vcluster in zip(profiles, vclusters, strict=True)]
        lookouts = [each + _SPARE_LOOKOUTS if each else 0 for each in depth]
        return cls(
            tried=[0] * count,
            seen=[0] * count,
            depth=depth,
            lookouts=lookouts,
            asking=np.array(lookouts, np.int64) > 0,
            closed_vcluster=np.zeros(count, np.bool_),
            no_start=np.zeros(shapes, np.bool_),
            limited=np.zeros(shapes, np.bool_),
            reasons={},
            why=_standing(snapshot, vclusters, now),
            placements=[],
            reservations={},
            takings=[],
            victimless=set(),
        )

    def copy(self) -> "Progress":
        """The same, changed independently from now on."""
        return Progress(**{field.name: getattr(self, field.name).copy() for field in fields(self)})


def _depth(profile: Profile, vcluster: Vcluster | None) -> int:
    if vcluster is None or profile.claims_only:
        return 0
    return vcluster.backfill_depth if profile.backfill_depth is None else profile.backfill_depth


def _standing(snapshot: Snapshot, vclusters: Sequence[Vcluster | None], now: int) -> Ints:
    """For each queue row, why it cannot be considered at all; BEHIND when it can."""
    queue = snapshot.queue
    is_up = np.fromiter((v is not None and v.is_up for v in vclusters), np.bool_, len(vclusters))
    why: Ints = np.full(len(queue.number), BEHIND, np.int64)
    longest = np.fromiter((v.max_walltime_s if v is not None else 0 for v in vclusters), np.int64, len(vclusters))
    most = np.fromiter((v.max_nodes if v is not None else 0 for v in vclusters), np.int64, len(vclusters))
    # A limit of 0 is none.
    if most.any():
        why[(queue.nodes > most[queue.vcluster]) & (most[queue.vcluster] > 0)] = _TOO_MANY
    if longest.any():
        why[(queue.walltime_s > longest[queue.vcluster]) & (longest[queue.vcluster] > 0)] = _TOO_LONG
    why[~is_up[queue.vcluster]] = _NO_VCLUSTER
    why[queue.eligible_at > now] = NOT_YET
    why[queue.hold != 0] = _HELD
    return why
