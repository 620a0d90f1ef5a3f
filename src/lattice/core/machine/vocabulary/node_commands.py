"""Commands about nodes. See docs/architecture/core.md."""

from lattice.core.machine.vocabulary.shape import Command
from lattice.core.model.nodes.admission import Enrolment
from lattice.core.model.nodes.drift import Baseline, Difference
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Hardware
from lattice.core.model.nodes.specifications import Figures, Specification
from lattice.core.model.site.tenants import Vcluster


class RegisterNode(Command, tag="register_node", frozen=True, kw_only=True):
    node: str
    hardware: Hardware
    address: str = ""
    boot_id: str = ""
    agent_version: str = ""
    figures: Figures | None = None  # None: the agent does not measure them


class ConfirmNode(Command, tag="confirm_node", frozen=True, kw_only=True):
    """The agent has ended all stale runs and its checks pass."""

    node: str


class FailBoot(Command, tag="fail_boot", frozen=True, kw_only=True):
    """The node was not confirmed within the boot time-out."""

    node: str
    reason: str = ""


class RebootNode(Command, tag="reboot_node", frozen=True, kw_only=True):
    """Reboot the node by the site's means; it is Booting from now on."""

    node: str
    reason: str = ""


class DegradeNode(Command, tag="degrade_node", frozen=True, kw_only=True):
    node: str
    reason: str = ""
    cause: DegradeCause = DegradeCause.SILENCE


class RecoverNode(Command, tag="recover_node", frozen=True, kw_only=True):
    """Heartbeats resumed inside the grace period, or the check passes; ends only what has this cause."""

    node: str
    cause: DegradeCause = DegradeCause.SILENCE


class DownNode(Command, tag="down_node", frozen=True, kw_only=True):
    node: str
    cause: DownCause = DownCause.SILENCE
    reason: str = ""


class DrainNode(Command, tag="drain_node", frozen=True, kw_only=True):
    """`urgent` ends what runs there and queues it again."""

    node: str
    reason: str = ""
    urgent: bool = False


class UndrainNode(Command, tag="undrain_node", frozen=True, kw_only=True):
    node: str
    is_heard: bool  # heartbeats are fresh, as the leader knows
    reason: str = ""


class DisableNode(Command, tag="disable_node", frozen=True, kw_only=True):
    node: str
    reason: str = ""


class EnableNode(Command, tag="enable_node", frozen=True, kw_only=True):
    node: str
    reason: str = ""


class WipeNode(Command, tag="wipe_node", frozen=True, kw_only=True):
    """An operator wants the node wiped, again if it was tried. `force`: also where the site has no wiper; it was done by hand."""

    node: str
    reason: str = ""
    force: bool = False


class FinishWipe(Command, tag="finish_wipe", frozen=True, kw_only=True):
    """What a wipe came to; `since` says which one."""

    node: str
    since: int
    is_wiped: bool
    reason: str = ""


class ImportNodes(Command, tag="import_nodes", frozen=True, kw_only=True):
    """The nodes of a site's files, in their order, with the vClusters and settings that follow from them: all or nothing.

    `nodes` are names, each with the place of its specification among `specifications`.
    """

    specifications: tuple[Specification, ...] = ()
    nodes: tuple[tuple[str, int], ...] = ()
    vclusters: tuple[Vcluster, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    source: str = ""


class NoteDrift(Command, tag="note_drift", frozen=True, kw_only=True):
    """The node's fingerprint is not what its vCluster's baseline, or the majority there, says it should be."""

    node: str
    vcluster: str
    expected: str
    actual: str
    differences: tuple[Difference, ...] = ()


class ClearDrift(Command, tag="clear_drift", frozen=True, kw_only=True):
    """The node's fingerprint is right again, or what it is now is not wrong any more; empty = the one that was expected."""

    node: str
    fingerprint: str = ""


class EscalateDrift(Command, tag="escalate_drift", frozen=True, kw_only=True):
    """The time for its remediation is over."""

    node: str


class ApproveNode(Command, tag="approve_node", frozen=True, kw_only=True):
    """An operator takes a node back whose drift was remedied, or accepts what a node in sensitive use has become."""

    node: str
    is_heard: bool  # heartbeats are fresh, as the leader knows


class AcceptFingerprint(Command, tag="accept_fingerprint", frozen=True, kw_only=True):
    """A node came into sensitive use as it is and has to stay so; without a fingerprint: it left, and may become anything."""

    node: str
    vcluster: str = ""
    fingerprint: str = ""
    components: tuple[tuple[str, str], ...] = ()


class AdmitNode(Command, tag="admit_node", frozen=True, kw_only=True):
    """Lets a node in that waits, or whose credentials were revoked; or a name that no node has shown yet."""

    node: str
    reason: str = ""


class RevokeNode(Command, tag="revoke_node", frozen=True, kw_only=True):
    """Ends all credentials of a node: what was issued up to now is never accepted again."""

    node: str
    reason: str = ""


class EnrolNode(Command, tag="enrol_node", frozen=True, kw_only=True):
    """A token is used for a certificate; `is_named`: it was made for this node."""

    enrolment: Enrolment
    is_named: bool = False


class SetBaseline(Command, tag="set_baseline", frozen=True, kw_only=True):
    """Declares what the nodes of a vCluster should be."""

    baseline: Baseline


class UnsetBaseline(Command, tag="unset_baseline", frozen=True, kw_only=True):
    """The majority counts again."""

    vcluster: str
