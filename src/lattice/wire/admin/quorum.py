"""The servers of a cluster as the API shows them, and as they show themselves to each other."""

from typing import Literal

from msgspec import Struct

from lattice.ports.quorum.servers import CertificateState, Renewed, ReplicaAt, ServerInfo, ServerState
from lattice.wire.text.times import rfc3339


class ReplicaView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server's copy of the state, for other servers; `digest` is that at the index asked for.

    `clock_ms` is its clock when it answered.
    """

    name: str
    leads: bool
    applied_index: int
    digest: str | None = None
    clock_ms: int = 0
    certificate: CertificateState | None = None
    problem: str = ""
    warning: str = ""
    newest_level: int = 1
    newest_protocol: int = 1
    oldest_protocol: int = 1
    release: str = ""


class MemberView(Struct, frozen=True, kw_only=True):
    name: str
    healthy: bool
    applied_index: int | None = None
    digest: str | None = None
    digest_index: int | None = None
    problem: str = ""
    certificate_serial: str | None = None
    certificate_expires_at: str | None = None
    clock_skew_ms: int | None = None
    warning: str = ""


class QuorumStatusView(Struct, frozen=True, kw_only=True):
    """`leader` is the name of a member, empty while there is none; the digests are those at `digest_index`."""

    leader: str
    server: str
    digest_index: int | None
    members: list[MemberView]


class ServerView(Struct, frozen=True, kw_only=True):
    """One member of the quorum; `role` is leader, voter, learner or invited."""

    name: str
    role: Literal["leader", "voter", "learner", "invited"]
    healthy: bool
    rest: str
    grpc: str
    peer: str
    etcd_version: str
    database_bytes: int
    certificate_serial: str | None
    certificate_expires_at: str | None
    invited_until: str | None
    problem: str


class InvitationView(Struct, frozen=True, kw_only=True):
    name: str
    token: str
    expires_at: str | None


class RenewedView(Struct, frozen=True, kw_only=True):
    name: str
    renewed: bool
    certificate_serial: str | None = None
    certificate_expires_at: str | None = None
    problem: str = ""


def replica_view(replica: ReplicaAt, clock_ms: int) -> ReplicaView:
    return ReplicaView(
        name=replica.name,
        leads=replica.leads,
        applied_index=replica.applied_index,
        digest=replica.digest,
        clock_ms=clock_ms,
        certificate=replica.certificate,
        problem=replica.problem,
        warning=replica.warning,
        newest_level=replica.newest_level,
        newest_protocol=replica.newest_protocol,
        oldest_protocol=replica.oldest_protocol,
        release=replica.release,
    )


def replica_of(view: ReplicaView) -> ReplicaAt:
    return ReplicaAt(
        name=view.name,
        leads=view.leads,
        applied_index=view.applied_index,
        digest=view.digest,
        certificate=view.certificate,
        problem=view.problem,
        warning=view.warning,
        newest_level=view.newest_level,
        newest_protocol=view.newest_protocol,
        oldest_protocol=view.oldest_protocol,
        release=view.release,
    )


def member_view(state: ServerState, common: int | None) -> MemberView:
    """A server with its digest at the index that all have in common."""
    replica = state.replica
    if replica is None:
        return MemberView(name=state.name, healthy=False, problem=state.problem)
    serial, expires_at = _shown(replica.certificate)
    return MemberView(
        name=state.name,
        healthy=not replica.problem,
        problem=replica.problem,
        applied_index=replica.applied_index,
        digest=replica.digest,
        digest_index=None if replica.digest is None else common,
        certificate_serial=serial,
        certificate_expires_at=expires_at,
        clock_skew_ms=state.clock_skew_ms,
        warning="; ".join(filter(None, (replica.warning, state.warning))),
    )


def server_view(info: ServerInfo) -> ServerView:
    serial, expires_at = _shown(info.certificate)
    return ServerView(
        name=info.name,
        role="leader" if info.leads else info.role,
        healthy=info.healthy,
        rest=info.rest,
        grpc=info.grpc,
        peer=info.peer,
        etcd_version=info.etcd_version,
        database_bytes=info.database_bytes,
        certificate_serial=serial,
        certificate_expires_at=expires_at,
        invited_until=rfc3339(info.invited_until_ms) if info.invited_until_ms else None,
        problem=info.problem,
    )


def renewed_view(renewed: Renewed) -> RenewedView:
    serial, expires_at = _shown(renewed.certificate)
    return RenewedView(
        name=renewed.name,
        renewed=renewed.certificate is not None,
        certificate_serial=serial,
        certificate_expires_at=expires_at,
        problem=renewed.problem,
    )


def _shown(certificate: CertificateState | None) -> tuple[str | None, str | None]:
    return (None, None) if certificate is None else (certificate.serial, rfc3339(certificate.expires_at_ms))
