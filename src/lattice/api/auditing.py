"""What the API records in the audit chain besides what commands record themselves, and how the chain is read back."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from lattice.api.auth.rbac import Permission, Reach, reach_in
from lattice.api.context import Context
from lattice.api.errors import ApiError, refused
from lattice.api.services import Services
from lattice.core.machine.commands import RecordAudit
from lattice.core.machine.outcomes import Rejected
from lattice.core.model.ids import allocation_id
from lattice.core.model.site.audit import AuditEntry, AuditNote, AuditOutcome
from lattice.core.model.work.allocations import Allocation
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.ports.site.identity import Identity
from lattice.wire.files.audit import ARCHIVE, in_order, read_lines


async def record(
    context: Context,
    kind: str,
    subject: str = "",
    *,
    outcome: AuditOutcome = AuditOutcome.DONE,
    detail: str = "",
    about: Allocation | None = None,
) -> None:
    """Returns when the entry is durable. Comes before what it records: what cannot be recorded is not done.

    A server has a key before it serves; without one (in memory, for tests) there is no chain.
    """
    if not context.state.audit.is_on:
        return
    note = AuditNote(kind=kind, actor=context.user, outcome=outcome, subject=subject, detail=detail)
    if about is not None:
        note = AuditNote(
            kind=kind,
            actor=context.user,
            outcome=outcome,
            subject=allocation_id(about.number),
            user=about.user,
            tenant=about.tenant,
            allocation=about.number,
            nodes=about.nodes,
            detail=detail,
        )
    done = await context.services.replica.propose(RecordAudit(notes=(note,)), actor=context.user)
    if isinstance(done, Rejected):
        raise refused(done)


async def record_access(context: Context, kind: str, about: Allocation, detail: str = "") -> None:
    """Record that a user reads or enters sensitive work; nothing for other work."""
    if about.vcluster in context.state.audit.sensitive:
        await record(context, kind, about=about, detail=detail)


def refused_login(services: Services, why: str, source: str) -> None:
    """Takes note of a caller who could not be identified, and of his address; repeats are counted, not listed."""
    if services.audit is not None:
        services.audit.tell(AuditNote(kind="login.refused", outcome=AuditOutcome.REFUSED, subject=source, detail=why))


def denied(services: Services, identity: Identity, operation: str, permission: str) -> None:
    """Takes note of a caller whose role does not reach an operation."""
    if services.audit is not None:
        tenant = identity.tenants[0] if identity.tenants else ""
        services.audit.tell(
            AuditNote(
                kind="role.denied",
                actor=identity.user,
                outcome=AuditOutcome.REFUSED,
                subject=operation,
                tenant=tenant,
                detail=permission,
            )
        )


def may_see(context: Context, entry: AuditEntry) -> bool:
    """Own entries; those of their tenants for administrators of tenants; all for those of the system."""
    reach = reach_in(context.identity, Permission.READ_AUDIT, entry.tenant)
    if reach is Reach.ALL:
        return True
    tenants = context.identity.tenants
    if entry.tenant and entry.tenant not in tenants:
        return False
    if reach is Reach.TENANT and entry.tenant:
        return True
    return context.user in (entry.actor, entry.user)


@dataclass(frozen=True, kw_only=True)
class Stretch:
    """A stretch of the chain as bytes or records: an archived segment, or the hot part when `name` is empty."""

    first: int
    last: int
    first_at: int
    last_at: int
    name: str = ""


async def stretches(services: Services) -> list[Stretch]:
    """The whole chain, oldest first; raises ApiError when the archive cannot be listed."""
    head = services.replica.state.audit.head
    found = []
    if services.objects is not None and head.archived:
        try:
            names = [name async for name in services.objects.names(ARCHIVE)]
        except ObjectStoreError as error:
            raise _unreadable(error) from error
        for segment, name in in_order(names, head.archived, head.archived_link):
            found.append(
                Stretch(
                    first=segment.first,
                    last=segment.last,
                    first_at=segment.first_at,
                    last_at=segment.last_at,
                    name=name,
                )
            )
    if head.last > head.archived:
        entries = services.replica.state.audit.entries
        ends = entries[head.archived + 1].entry.at, entries[head.last].entry.at
        found.append(Stretch(first=head.archived + 1, last=head.last, first_at=ends[0], last_at=ends[1]))
    return found


async def segment_bytes(services: Services, name: str) -> bytes:
    if services.objects is None:
        raise ApiError("unavailable", "there is no object store")
    try:
        return await services.objects.get(name)
    except ObjectStoreError as error:
        raise _unreadable(error) from error


async def entries_of(services: Services, stretch: Stretch) -> AsyncIterator[AuditEntry]:
    if stretch.name:
        data = await segment_bytes(services, stretch.name)
        try:
            for each in read_lines(data):
                if isinstance(each, AuditEntry):
                    yield each
        except (msgspec.MsgspecError, ValueError) as error:
            raise ApiError("unavailable", f"archived audit entries are damaged: {stretch.name}") from error
        return
    for chained in list(services.replica.state.audit.entries.values()):
        yield chained.entry


def _unreadable(error: ObjectStoreError) -> ApiError:
    return ApiError("unavailable", f"the archive of the audit chain cannot be read: {error}", hint="try again")
