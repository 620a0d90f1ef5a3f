"""Tenants, projects and vClusters with their limits. None or 0 = no limit, as each field says. See docs/architecture/core.md."""

from enum import StrEnum

from msgspec import Struct


class OnQuota(StrEnum):
    """What to do with a submission that does not fit the quota now."""

    REJECT = "reject"
    QUEUE = "queue"


class Visibility(StrEnum):
    """Whose work the members of a tenant may see; its administrators see all of it."""

    OWN = "own"
    TENANT = "tenant"


class NodeSharing(StrEnum):
    EXCLUSIVE = "exclusive"
    SHARED = "shared"


class Fencing(StrEnum):
    NORMAL = "normal"
    STRICT = "strict"


class Confinement(StrEnum):
    """Whether work of a vCluster may run on nodes that cannot enforce every limit."""

    NORMAL = "normal"
    STRICT = "strict"


class Preemption(StrEnum):
    """Whether running work of a vCluster may be taken off its nodes for work of a higher class."""

    ALLOWED = "allowed"
    BORROWED_ONLY = "borrowed_only"  # only where it runs on borrowed nodes
    NEVER = "never"


class Tenant(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str
    max_nodes: int | None = None
    max_concurrent_allocations: int | None = None
    max_class: int = 10
    on_quota: OnQuota = OnQuota.REJECT
    max_running_per_user: int | None = None
    max_pending_per_user: int | None = None
    gpu_hours_budget: float | None = None
    node_hours_budget: float | None = None
    fair_share_target: float | None = None
    burst_allowance: float | None = None
    created_at: int = 0
    members: tuple[str, ...] = ()  # users who belong to it, besides those whose token says so
    admins: tuple[str, ...] = ()  # users who administer it
    # The last field that fits: with a sixteenth the bytes of every record change, and with them the digest of old logs.
    visibility: Visibility = Visibility.OWN


class Project(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    tenant: str
    name: str
    max_nodes: int | None = None
    created_at: int = 0


class Lends(StrEnum):
    NEVER = "never"
    IDLE = "idle"  # nodes that no work of its own uses


class Lending(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a vCluster gives to others of the nodes that it lists, and takes of theirs. 0 = no limit."""

    lends: Lends = Lends.NEVER
    lend_to: tuple[str, ...] = ()  # vClusters; empty = all
    max_lent: int = 0
    lend_after_s: int = 0  # a node is lent when it was free for this long
    borrows: bool = False
    max_borrowed: int = 0
    borrow_priority: int = 0  # of those that borrow, higher ones first
    max_borrow_s: int = 0  # only work that ends within this time runs on borrowed nodes
    return_grace_s: int = 60  # between the warning and the end of work on a node that is wanted back


class Demands(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a vCluster adds to its work, and demands of images and nodes."""

    default_uenv: str = ""  # images of work that names none
    require_signed: bool = False  # images without a signature of the site are refused
    confinement: Confinement = Confinement.NORMAL
    idle_end_s: int = 0  # sessions that say nothing else are cancelled after this time without use; 0 = never
    preemption: Preemption | None = None  # None = what the scheduler implies
    lending: Lending | None = None
    read_mb_s: int = 0  # what its work may read from the disks of each node per second; 0 = no limit
    write_mb_s: int = 0


NO_DEMANDS = Demands()


class Vcluster(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    name: str
    scheduler: str = "hpc-backfill"
    tenants: tuple[str, ...] = ()  # empty = all
    nodes: tuple[str, ...] = ()  # empty = all
    node_sharing: NodeSharing = NodeSharing.EXCLUSIVE
    fencing: Fencing = Fencing.NORMAL
    default_walltime_s: int = 0
    max_walltime_s: int = 0
    max_nodes: int = 0
    is_up: bool = True
    created_at: int = 0
    profile: str = ""  # which table of weights; empty = what the scheduler implies
    weights: tuple[tuple[str, float], ...] = ()  # by factor; replaces those of the profile
    backfill_depth: int = 50  # number of top-ranked allocations that get a reservation
    # The last field that fits: with a sixteenth the bytes of every record change, and with them the digest of old logs.
    demands: Demands | None = None


class TenantUse(Struct, frozen=True, kw_only=True, gc=False):
    """What a tenant holds at this moment; derived from the allocations, checked against its quota."""

    nodes: int = 0
    allocations: int = 0


SENSITIVE = "sensitive-reservation"
SCHEDULERS = ("hpc-backfill", "ml-training", "service-bin-pack", "interactive-fifo", SENSITIVE)
