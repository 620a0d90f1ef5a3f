"""The audit chain."""

from lattice_sdk.models.audit import AuditEntry, AuditFilter, AuditKey
from lattice_sdk.models.records import Page
from lattice_sdk.operation import Steps, everything, given, operation, read, write

EVERYTHING = AuditFilter()


def audit_query(wanted: AuditFilter) -> list[tuple[str, str]]:
    return given(
        user=wanted.user,
        allocation=wanted.allocation,
        node=wanted.node,
        tenant=wanted.tenant,
        type=wanted.type,
        since=wanted.since,
        until=wanted.until,
    )


class AuditCalls:
    @operation
    def query_audit(self, wanted: AuditFilter = EVERYTHING, *, limit: int | None = None) -> Steps[list[AuditEntry]]:
        """Entries that one may see, oldest first; with `limit` only the first of them."""
        query = audit_query(wanted)
        if limit is None:
            return (yield from everything("/audit", Page[AuditEntry], query))
        return (yield from read("/audit", Page[AuditEntry], [*query, ("limit", str(limit))])).items

    @operation
    def list_audit_keys(self) -> Steps[list[AuditKey]]:
        """The public keys by which the chain and its exports are verified."""
        return everything("/audit/keys", Page[AuditKey])

    @operation
    def rotate_audit_key(self, *, request_id: str = "") -> Steps[AuditKey]:
        """Give the leader a new key."""
        return write("POST", "/audit/keys", AuditKey, {}, request_id)
