"""Nodes: what they are, in which state, and who holds them. See docs/architecture/nodes.md."""

from enum import StrEnum

from msgspec import Struct

from lattice.core.model.nodes.specifications import Figures, Specification


class NodeState(StrEnum):
    UNKNOWN = "Unknown"
    BOOTING = "Booting"
    READY = "Ready"
    DEGRADED = "Degraded"
    DOWN = "Down"
    DRAINING = "Draining"
    DRAINED = "Drained"
    FAILED = "Failed"
    QUARANTINE = "Quarantine"


class DownCause(StrEnum):
    """Why a node is Down, and with that what brings it back."""

    SILENCE = "silence"  # registering again and a passed check
    HARDWARE = "hardware"  # only `enable` or a reboot
    OPERATOR = "operator"  # only `enable`
    DRIFT = "drift"  # only `undrain`


class DegradeCause(StrEnum):
    """Why a node is Degraded, and with that what makes it Ready again."""

    SILENCE = "silence"  # a heartbeat
    CHECK = "check"  # the check passes


class Wipe(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What was on the node has to be wiped from it before anybody else gets it."""

    since: int  # when it was asked for, or tried again
    why: str = ""
    by: str = ""
    is_forced: bool = False  # an operator answers for it: where the site has no wiper, it was done by hand
    tries: int = 1


class Hardware(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What a node declares to have."""

    cpus: int
    memory_mb: int
    gpus: int = 0
    gpu_type: str = ""
    group: str = ""
    features: tuple[str, ...] = ()
    unified_memory: bool = False
    cxl_memory_mb: int = 0  # beyond memory_mb, counted only for work that allows it
    power_w: int = 0


class Share(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What one allocation holds of one node; `whole` means the node itself."""

    node: str
    whole: bool = True
    cpus: int = 0
    memory_mb: int = 0
    gpus: int = 0


class Tenure(Struct, frozen=True, kw_only=True, gc=False):
    """A share seen from the node: by which allocation of which tenant."""

    number: int
    tenant: str
    cpus: int
    memory_mb: int
    gpus: int


class Node(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """One node. Held whole by `holder`, or claimed by `claimant`, or shared in `vcluster` by `tenures`; never two of these."""

    id: str
    hardware: Hardware
    state: NodeState = NodeState.UNKNOWN
    address: str = ""
    boot_id: str = ""
    agent_version: str = ""
    down_cause: DownCause | None = None
    drain_wanted: bool = False  # an operator ordered a drain that was not revoked
    reason: str = ""
    reason_by: str = ""
    registered_at: int = 0
    changed_at: int = 0
    holder: int = 0
    claimant: str = ""
    vcluster: str = ""  # that of the holder or of the tenures; empty when free
    tenures: tuple[Tenure, ...] = ()
    specification: Specification | None = None  # what a site says it must have
    figures: Figures | None = None  # what its agent measured beyond the hardware
    shortfall: str = ""  # why it is not configured for work, whatever its state; empty = it is
    degrade_cause: DegradeCause = DegradeCause.SILENCE  # says something only while Degraded
    boot_failures: int = 0  # in a row
    former_boot: str = ""  # while it waits for a reboot: of the boot that is to end
    wipe: Wipe | None = None
    drained_for: str = ""  # the operator's words, if `reason` has changed since
    drained_by: str = ""

    @property
    def awaits_reboot(self) -> bool:
        """It was ordered to reboot, and its agent is still that of the boot before."""
        return bool(self.former_boot) and self.former_boot == self.boot_id

    @property
    def drain_words(self) -> tuple[str, str]:
        """Why a drained node was drained, and by whom."""
        return (self.drained_for, self.drained_by) if self.drained_by else (self.reason, self.reason_by)

    @property
    def is_kept_back(self) -> bool:
        """It must get no work: an operator drained it, or it has to be wiped."""
        return self.drain_wanted or self.wipe is not None

    @property
    def is_free(self) -> bool:
        return not self.holder and not self.tenures and not self.claimant

    def free_share(self) -> tuple[int, int, int]:
        """CPUs, megabytes and GPUs that no tenure holds."""
        tenures = self.tenures
        return (
            self.hardware.cpus - sum(t.cpus for t in tenures),
            self.hardware.memory_mb - sum(t.memory_mb for t in tenures),
            self.hardware.gpus - sum(t.gpus for t in tenures),
        )

    def holders(self) -> tuple[int, ...]:
        """Numbers of all allocations on the node."""
        return (self.holder,) if self.holder else tuple(t.number for t in self.tenures)
