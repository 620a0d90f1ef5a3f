"""The state of an upgrade as the API shows it."""

from msgspec import Struct


class ServerLevels(Struct, frozen=True, kw_only=True):
    """The levels that one server supports; `newest_level` is None if it does not answer, and `problem` says why."""

    name: str
    newest_level: int | None = None
    newest_protocol: int | None = None
    problem: str = ""


class AgentProtocols(Struct, frozen=True, kw_only=True):
    """The number of connected agents that use this protocol version."""

    protocol: int
    nodes: int


class UpgradeView(Struct, frozen=True, kw_only=True):
    """`next_level` is the level that `finalize` would raise to, None if there is none; `blocked_by` says why it cannot."""

    level: int
    next_level: int | None
    blocked_by: str
    servers: list[ServerLevels]
    agents: list[AgentProtocols]
