"""The audit chain: its entries and keys."""

from msgspec import Struct


class AuditEntry(Struct, frozen=True, kw_only=True):
    """One entry. `actor` did it; `user` and `tenant` are those whom it concerns; `count` says how often."""

    seq: int
    at: str
    type: str
    actor: str = ""
    outcome: str = "done"
    subject: str = ""
    user: str = ""
    tenant: str = ""
    allocation: str = ""
    nodes: list[str] = []
    detail: str = ""
    count: int = 1


class AuditKey(Struct, frozen=True, kw_only=True):
    """A public key (Ed25519, hex) that seals the chain, or sealed it until `retired_at`."""

    id: str
    public: str
    server: str = ""
    added_at: str = ""
    retired_at: str = ""


class AuditFilter(Struct, frozen=True, kw_only=True):
    """Which entries; times are RFC 3339. `type` is `node.drain`, or `node` for all of that subject."""

    user: str = ""
    allocation: str = ""
    node: str = ""
    tenant: str = ""
    type: str = ""
    since: str = ""
    until: str = ""
