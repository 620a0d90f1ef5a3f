"""Levels and protocol versions during an upgrade."""

from msgspec import Struct


class ServerLevels(Struct, frozen=True, kw_only=True):
    """What one server supports; None when it does not answer, and `problem` says why."""

    name: str
    newest_level: int | None = None
    newest_protocol: int | None = None
    problem: str = ""
    release: str = ""


class AgentProtocols(Struct, frozen=True, kw_only=True):
    """The number of connected agents that use this protocol version."""

    protocol: int
    nodes: int = 0


class NodeUpgrade(Struct, frozen=True, kw_only=True):
    """One node, or server, of a rolling upgrade: `former` is the release a rollback returns to, batch 0 are the canaries."""

    node: str
    former: str = ""
    batch: int = 0
    step: str = ""


class AgentUpgrade(Struct, frozen=True, kw_only=True):
    """The newest rolling upgrade, of `kind` agents or servers; `reason` says why it is paused, was rolled back or has failed."""

    target: str
    phase: str
    by: str = ""
    began_at: str | None = None
    ended_at: str | None = None
    reason: str = ""
    observe_s: int = 0
    within: str = ""
    urgent: bool = False
    done: int = 0
    waits_for: str = ""
    nodes: list[NodeUpgrade] = []
    kind: str = "agents"


class LeftOut(Struct, frozen=True, kw_only=True):
    """A node or server that the upgrade does not touch, and why."""

    node: str
    reason: str = ""


class UpgradeBatch(Struct, frozen=True, kw_only=True):
    """Nodes, or the server, that are upgraded together; 0 are the canaries."""

    batch: int = 0
    nodes: list[str] = []


class UpgradePlan(Struct, frozen=True, kw_only=True):
    """What starting the upgrade would do now: the nodes of each batch in order, the canaries first."""

    target: str
    canaries: int = 0
    batch: int = 0
    observe_s: int = 0
    batches: list[UpgradeBatch] = []
    left_out: list[LeftOut] = []
    within: str = ""
    urgent: bool = False
    kind: str = "agents"


class UpgradeStatus(Struct, frozen=True, kw_only=True):
    """`next_level` is what finalizing would raise the level to; `blocked_by` says why it cannot."""

    level: int
    next_level: int | None = None
    blocked_by: str = ""
    servers: list[ServerLevels] = []
    agents: list[AgentProtocols] = []
    rollout: AgentUpgrade | None = None


class RenewedCertificate(Struct, frozen=True, kw_only=True):
    """How the certificate of a server was renewed."""

    name: str
    renewed: bool = False
    certificate_serial: str | None = None
    certificate_expires_at: str | None = None
    problem: str = ""
