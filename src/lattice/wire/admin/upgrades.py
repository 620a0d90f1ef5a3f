"""The state of an upgrade as the API shows it."""

from msgspec import Struct


class ServerLevels(Struct, frozen=True, kw_only=True):
    """The levels that one server supports; `newest_level` is None if it does not answer, and `problem` says why."""

    name: str
    newest_level: int | None = None
    newest_protocol: int | None = None
    problem: str = ""
    release: str = ""


class AgentProtocols(Struct, frozen=True, kw_only=True):
    """The number of connected agents that use this protocol version."""

    protocol: int
    nodes: int


class NodeUpgradeView(Struct, frozen=True, kw_only=True):
    """One node, or server, of a rolling upgrade: `former` is the release a rollback returns to, batch 0 are the canaries."""

    node: str
    former: str
    batch: int
    step: str


class AgentUpgradeView(Struct, frozen=True, kw_only=True):
    """The newest rolling upgrade, of `kind` agents or servers. `reason` says why it is paused, was rolled back or has failed; `waits_for` what it waits for."""

    target: str
    phase: str
    by: str
    began_at: str | None
    ended_at: str | None
    reason: str
    observe_s: int
    within: str
    urgent: bool
    done: int
    waits_for: str
    nodes: list[NodeUpgradeView]
    kind: str = "agents"


class LeftOut(Struct, frozen=True, kw_only=True):
    """A node or server that the upgrade does not touch, and why."""

    node: str
    reason: str


class UpgradeBatch(Struct, frozen=True, kw_only=True):
    """Nodes, or the server, that are upgraded together; 0 are the canaries."""

    batch: int
    nodes: list[str]


class UpgradePlan(Struct, frozen=True, kw_only=True):
    """What `start` would do now: the nodes of each batch in order, the canaries first."""

    target: str
    canaries: int
    batch: int
    observe_s: int
    batches: list[UpgradeBatch]
    left_out: list[LeftOut]
    within: str
    urgent: bool
    kind: str = "agents"


class UpgradeView(Struct, frozen=True, kw_only=True):
    """`next_level` is the level that `finalize` would raise to, None if there is none; `blocked_by` says why it cannot."""

    level: int
    next_level: int | None
    blocked_by: str
    servers: list[ServerLevels]
    agents: list[AgentProtocols]
    rollout: AgentUpgradeView | None = None
