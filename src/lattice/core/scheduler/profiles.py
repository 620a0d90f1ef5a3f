"""How one vCluster wants its queue ordered and how much of it one cycle looks at."""

from collections.abc import Mapping

from msgspec import Struct

from lattice.core.model.tenants import Vcluster

WINDOW = 1000


class Profile(Struct, frozen=True, kw_only=True):
    """`order` "fifo" = class, then submission. `window` bounds how many allocations of the vCluster one cycle tries."""

    name: str = "hpc-backfill"
    order: str = "fifo"
    window: int = WINDOW


def profile_of(profiles: Mapping[str, Profile], vcluster: Vcluster) -> Profile:
    """The profile set for the vCluster, else the default under the name of its scheduler."""
    return profiles.get(vcluster.name) or Profile(name=vcluster.scheduler)
