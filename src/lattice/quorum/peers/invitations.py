"""Invitations for new servers: created by one server, redeemed at any, valid once and for a short time.

An invitation is a key in etcd under a lease, so it expires by itself, and no copy of its secret is kept. The token leaves the
cluster: the secret, the authority to trust, and the addresses to contact. The first server to redeem it binds it to the keys it has
generated; only that server can retry if the answer was lost.
"""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Sequence

import msgspec

from lattice.quorum.etcd.client import EtcdClient
from lattice.wire.pb import etcd_pb2 as pb

_PREFIX = b"lattice/join/"
_BEHIND = b"lattice/join0"
_MARK = "lattice-join-1:"
_ID_BYTES = 8
_SECRET_BYTES = 32


class InvitationError(Exception):
    """An unreadable token or an invalid invitation; the text says what to do."""


class JoinToken(msgspec.Struct, frozen=True, kw_only=True):
    """What the new server gets. Secret."""

    id: str
    secret: str
    name: str
    trusted: str
    servers: list[str]
    expires_at_ms: int


class Invitation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the cluster stores. `bound` is the hash of the keys that redeemed it; empty before."""

    id: str
    name: str
    secret_hash: str
    expires_at_ms: int
    bound: str = ""


def encode_token(token: JoinToken) -> str:
    return _MARK + base64.urlsafe_b64encode(msgspec.msgpack.encode(token)).decode()


def decode_token(text: str) -> JoinToken:
    """Raises InvitationError for anything but a complete token."""
    text = text.strip()
    if not text.startswith(_MARK):
        raise InvitationError(
            "this is not a join token; create one with `lattice admin raft members add NAME` and copy it completely"
        )
    try:
        return msgspec.msgpack.decode(base64.urlsafe_b64decode(text.removeprefix(_MARK)), type=JoinToken)
    except (ValueError, msgspec.MsgspecError) as error:
        raise InvitationError("the join token is damaged; copy it again, completely") from error


async def invite(
    client: EtcdClient, name: str, *, trusted: bytes, servers: Sequence[str], lifetime_s: int
) -> JoinToken:
    """Creates an invitation for the server `name`; revokes earlier ones for the same name."""
    for former in await pending(client):
        if former.name == name:
            await withdraw(client, former.id)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    token = JoinToken(
        id=secrets.token_hex(_ID_BYTES),
        secret=secret,
        name=name,
        trusted=trusted.decode("ascii"),
        servers=list(servers),
        expires_at_ms=int((time.time() + lifetime_s) * 1000),
    )
    kept = Invitation(id=token.id, name=name, secret_hash=_hash(secret), expires_at_ms=token.expires_at_ms)
    lease = (await client.grant(lifetime_s)).ID
    await client.put(pb.PutRequest(key=_key(token.id), value=msgspec.json.encode(kept), lease=lease))
    return token


async def redeem(client: EtcdClient, invitation_id: str, secret: str, keys: bytes) -> Invitation:
    """Binds the invitation to the keys and returns it. Raises InvitationError without revealing anything about the secret."""
    # A new server that gets no answer in time asks the next one: the same keys may be bound by both at once.
    while (bound := await _bind(client, invitation_id, secret, keys)) is None:
        pass
    return bound


async def _bind(client: EtcdClient, invitation_id: str, secret: str, keys: bytes) -> Invitation | None:
    """None if the invitation changed meanwhile, which happens once."""
    answer = await client.range(pb.RangeRequest(key=_key(invitation_id)))
    if not answer.kvs:
        raise InvitationError("unknown invitation: it has expired or was revoked; create a new one")
    kv = answer.kvs[0]
    found = msgspec.json.decode(kv.value, type=Invitation)
    if not hmac.compare_digest(found.secret_hash, _hash(secret)):
        raise InvitationError("unknown invitation: it has expired or was revoked; create a new one")
    if _is_over(found):
        raise InvitationError(f"the invitation for server {found.name} has expired; create a new one")
    bound = hashlib.sha256(keys).hexdigest()
    if found.bound:
        if not hmac.compare_digest(found.bound, bound):
            raise InvitationError("the invitation was already used by a server with other keys; create a new one")
        return found
    taken = msgspec.structs.replace(found, bound=bound)
    compare = pb.Compare(
        result=pb.Compare.EQUAL, target=pb.Compare.MOD, key=_key(invitation_id), mod_revision=kv.mod_revision
    )
    put = pb.PutRequest(key=_key(invitation_id), value=msgspec.json.encode(taken), lease=kv.lease)
    outcome = await client.txn(pb.TxnRequest(compare=[compare], success=[pb.RequestOp(request_put=put)]))
    return taken if outcome.succeeded else None


async def pending(client: EtcdClient) -> list[Invitation]:
    """All valid invitations, by the name of their servers."""
    answer = await client.range(pb.RangeRequest(key=_PREFIX, range_end=_BEHIND))
    found = [msgspec.json.decode(kv.value, type=Invitation) for kv in answer.kvs]
    return sorted((each for each in found if not _is_over(each)), key=lambda invitation: invitation.name)


async def withdraw(client: EtcdClient, invitation_id: str) -> None:
    """Revokes an invitation; idempotent."""
    gone = pb.DeleteRangeRequest(key=_key(invitation_id))
    await client.txn(pb.TxnRequest(success=[pb.RequestOp(request_delete_range=gone)]))


def _is_over(invitation: Invitation) -> bool:
    """The lease may end later than that, because etcd restarts all leases when it changes its leader."""
    return invitation.expires_at_ms <= time.time() * 1000


def _key(invitation_id: str) -> bytes:
    return _PREFIX + invitation_id.encode("ascii", "replace")


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
