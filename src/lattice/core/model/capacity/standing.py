"""How work stands towards preemption, for those who ask: whom waiting work could take, and until when running work is safe.

See docs/architecture/preemption.md.
"""

from collections.abc import Mapping

from msgspec import Struct

from lattice.core.model.capacity.lending import is_lent, lending_of
from lattice.core.model.nodes.nodes import Node
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.allocations import Allocation
from lattice.core.model.work.evictions import Limits, Protection, cost_of, ends_at, protection


class Candidates(Struct, frozen=True, kw_only=True):
    """Whom waiting work could take off nodes that suit it. Only counts: others' work is not named.

    `protected` has how many of the rest each protection keeps, by a short word for it; `text` says all of it and what follows.
    """

    could_take: int
    protected: Mapping[str, int]
    text: str


class Standing(Struct, frozen=True, kw_only=True):
    """Of running work. `protection` None = work of a higher class may take it now. `safe_until` (ms since 1970) None = for good,
    with a protection, or not at all, without. `cost` = GPU-seconds or node-seconds that would be lost now.
    `notice_s` = how soon the home of a borrowed node has it back, None when it borrows none.
    """

    protection: Protection | None
    safe_until: int | None
    cost: float
    notice_s: int | None = None


def standing(
    record: Allocation, vclusters: Mapping[str, Vcluster], nodes: Mapping[str, Node], limits: Limits, at: int
) -> Standing:
    """How running work stands, by the same rules that the plan and the log judge an eviction by."""
    homes = _homes(record, vclusters)
    shield = protection(record, vclusters[record.vcluster], limits, at, is_borrowing=bool(homes))
    return Standing(
        protection=shield,
        safe_until=_until(record, limits, shield),
        cost=cost_of(record, nodes, at),
        notice_s=min((lending_of(home).return_grace_s for home in homes), default=None),
    )


def _homes(record: Allocation, vclusters: Mapping[str, Vcluster]) -> list[Vcluster]:
    """Whose nodes the work borrows."""
    known = dict(vclusters)
    lent = [share.node for share in record.shares if is_lent(share.node, record.vcluster, known)]
    return [home for home in known.values() if any(node in home.nodes for node in lent)]


def _until(record: Allocation, limits: Limits, shield: Protection | None) -> int | None:
    """When the protection ends before the work does. Work that ends soon is safe to its end."""
    if shield is not Protection.YOUNG:
        return None
    over, end = record.started_at + int(limits.min_runtime_s * 1000), ends_at(record)
    return None if end is not None and over > end - limits.near_completion_s * 1000 else over
