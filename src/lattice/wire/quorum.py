"""The servers of a cluster as the API shows them."""

from msgspec import Struct


class ReplicaView(Struct, frozen=True, kw_only=True):
    """One server's copy of the state; `digest` is that at the index asked for, None when it is not known any more or yet."""

    name: str
    leads: bool
    applied_index: int
    digest: str | None = None


class MemberView(Struct, frozen=True, kw_only=True):
    name: str
    healthy: bool
    applied_index: int | None = None
    digest: str | None = None
    digest_index: int | None = None
    problem: str = ""


class QuorumStatusView(Struct, frozen=True, kw_only=True):
    """`leader` is the name of a member, empty while none leads; the digests are those at `digest_index`."""

    leader: str
    server: str
    digest_index: int | None
    members: list[MemberView]
