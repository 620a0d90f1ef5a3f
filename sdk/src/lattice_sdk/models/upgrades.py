"""Levels and protocol versions during an upgrade."""

from msgspec import Struct


class ServerLevels(Struct, frozen=True, kw_only=True):
    """What one server supports; None when it does not answer, and `problem` says why."""

    name: str
    newest_level: int | None = None
    newest_protocol: int | None = None
    problem: str = ""


class AgentProtocols(Struct, frozen=True, kw_only=True):
    """The number of connected agents that use this protocol version."""

    protocol: int
    nodes: int = 0


class UpgradeStatus(Struct, frozen=True, kw_only=True):
    """`next_level` is what finalizing would raise the level to; `blocked_by` says why it cannot."""

    level: int
    next_level: int | None = None
    blocked_by: str = ""
    servers: list[ServerLevels] = []
    agents: list[AgentProtocols] = []


class RenewedCertificate(Struct, frozen=True, kw_only=True):
    """How the certificate of a server was renewed."""

    name: str
    renewed: bool = False
    certificate_serial: str | None = None
    certificate_expires_at: str | None = None
    problem: str = ""
