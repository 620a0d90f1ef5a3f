"""The state of an upgrade as the API shows it."""

from msgspec import Struct


class ServerLevels(Struct, frozen=True, kw_only=True):
    """What one server supports; `newest_level` is None when it does not answer, and `problem` says why."""

    name: str
    newest_level: int | None = None
    newest_protocol: int | None = None
    problem: str = ""


class AgentProtocols(Struct, frozen=True, kw_only=True):
    """How many connected agents speak this version of the protocol."""

    protocol: int
    nodes: int


class UpgradeView(Struct, frozen=True, kw_only=True):
    """`next_level` is what `finalize` would raise the level to, None when there is none; `blocked_by` why it cannot."""

    level: int
    next_level: int | None
    blocked_by: str
    servers: list[ServerLevels]
    agents: list[AgentProtocols]
