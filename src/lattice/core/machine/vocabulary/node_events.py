"""Events about nodes. See docs/architecture/core.md."""

from lattice.core.machine.transitions import NodeTrigger
from lattice.core.machine.vocabulary.shape import Event
from lattice.core.model.nodes.admission import Admission, Enrolment
from lattice.core.model.nodes.drift import AcceptedFingerprint, Baseline, Drift
from lattice.core.model.nodes.nodes import DegradeCause, DownCause, Hardware, NodeState, Wipe
from lattice.core.model.nodes.specifications import Figures, Specification


class NodeRegistered(Event, tag="node_registered", frozen=True, kw_only=True):
    node: str
    hardware: Hardware
    address: str
    boot_id: str
    agent_version: str
    is_first: bool = False


class NodeMoved(Event, tag="node_moved", frozen=True, kw_only=True):
    """A node changed its state by a trigger of the table."""

    node: str
    trigger: NodeTrigger
    state: NodeState
    down_cause: DownCause | None = None
    drain_wanted: bool = False
    reason: str = ""
    by: str = ""  # whose reason it is
    actor: str = ""  # who moved it
    note: str = ""  # why, in its history alone: the node keeps no reason for being well
    degrade_cause: DegradeCause = DegradeCause.SILENCE
    boot_failures: int = 0
    former_boot: str = ""
    wipe: Wipe | None = None
    lost: tuple[int, ...] = ()  # allocations that lost the node by it


class NodeSpecified(Event, tag="node_specified", frozen=True, kw_only=True):
    """A site says what the node must have; one that is not known yet is declared by that."""

    node: str
    specification: Specification
    shortfall: str = ""
    by: str = ""


class NodeMeasured(Event, tag="node_measured", frozen=True, kw_only=True):
    """An agent reported other figures than before, or what it reported falls short of what it must have, or no longer does."""

    node: str
    figures: Figures | None = None
    shortfall: str = ""
    by: str = ""


class DriftNoted(Event, tag="drift_noted", frozen=True, kw_only=True):
    """A node differs from its baseline, or differs in another way than before."""

    drift: Drift


class DriftEscalated(Event, tag="drift_escalated", frozen=True, kw_only=True):
    """It was not remedied in time."""

    node: str


class DriftVerified(Event, tag="drift_verified", frozen=True, kw_only=True):
    """The node is right again and waits for an operator's approval. `fingerprint` as in the command."""

    node: str
    fingerprint: str = ""


class DriftCleared(Event, tag="drift_cleared", frozen=True, kw_only=True):
    """Nothing is held against the node any more."""

    node: str


class BaselineSet(Event, tag="baseline_set", frozen=True, kw_only=True):
    baseline: Baseline


class BaselineUnset(Event, tag="baseline_unset", frozen=True, kw_only=True):
    vcluster: str


class FingerprintAccepted(Event, tag="fingerprint_accepted", frozen=True, kw_only=True):
    """What a node in sensitive use has to stay from now on."""

    accepted: AcceptedFingerprint


class FingerprintForgotten(Event, tag="fingerprint_forgotten", frozen=True, kw_only=True):
    """It is not in sensitive use any more, or a baseline is declared."""

    node: str


class NodeJudged(Event, tag="node_judged", frozen=True, kw_only=True):
    """A name waits, was admitted, or its credentials were revoked."""

    admission: Admission


class NodeEnrolled(Event, tag="node_enrolled", frozen=True, kw_only=True):
    """An enrolment token was used."""

    enrolment: Enrolment
