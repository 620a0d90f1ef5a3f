"""How a new server gets its certificates: it generates keys, presents its invitation, and any member answers.

Private keys never leave their server. They are stored before the request, so that an interrupted server repeats the same request:
an invitation is valid for one pair of keys only.
"""

import hashlib
import hmac
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lattice.quorum.durable import sync_folder, write_private
from lattice.quorum.peers.directory import ServerEntry
from lattice.quorum.peers.invitations import Invitation, InvitationError, JoinToken
from lattice.quorum.trust.certificates import (
    CertificateError,
    CertificateFolder,
    Credentials,
    install,
    new_key,
    pem_of_key,
    sign,
)

_FOLDER = "joining"
_MEMBER = "member.key"
_CLIENT = "client.key"


class JoinRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The request of the new server. `secret_check` proves that both sign tokens with the same secret, without revealing it."""

    id: str
    secret: str
    server: ServerEntry
    member_request: bytes
    client_request: bytes
    secret_check: str

    @property
    def keys(self) -> bytes:
        """What the invitation is bound to."""
        return public_key(self.member_request) + public_key(self.client_request)


class JoinAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Certificates for the keys, and the authority's key: any server may be lost, so each can issue."""

    trusted: bytes
    member_certificate: bytes
    client_certificate: bytes
    authority_key: bytes
    servers: list[ServerEntry]


def ask(folder: CertificateFolder, token: JoinToken, server: ServerEntry, api_secret: bytes) -> JoinRequest:
    """The request of a new server; stores its keys in the directory."""
    member, client = (_own_key(folder, name) for name in (_MEMBER, _CLIENT))
    return JoinRequest(
        id=token.id,
        secret=token.secret,
        server=server,
        member_request=_request(member, server.name),
        client_request=_request(client, server.name),
        secret_check=secret_check(api_secret, token.id, server.name),
    )


def accept(folder: CertificateFolder, answer: JoinAnswer) -> None:
    """Installs the answer together with the keys generated for it."""
    keys = folder.path / _FOLDER
    credentials = Credentials(
        trusted=answer.trusted,
        member_certificate=answer.member_certificate,
        member_key=(keys / _MEMBER).read_bytes(),
        client_certificate=answer.client_certificate,
        client_key=(keys / _CLIENT).read_bytes(),
        authority_key=answer.authority_key,
    )
    install(folder, credentials)
    for name in (_MEMBER, _CLIENT):
        (keys / name).unlink(missing_ok=True)
    keys.rmdir()


def check(request: JoinRequest, invitation: Invitation, api_secret: bytes) -> None:
    """Refuses a server with another name, and one that would not accept the tokens of this cluster."""
    if request.server.name != invitation.name:
        raise InvitationError(
            f'the invitation is for server "{invitation.name}", not for "{request.server.name}"; '
            "create one for that name, or change `name` in its configuration"
        )
    if not hmac.compare_digest(request.secret_check, secret_check(api_secret, request.id, request.server.name)):
        raise InvitationError(
            "api.hmac_secret of the new server differs from the cluster's, so it would refuse all tokens; use the same secret"
        )


def admit(folder: CertificateFolder, request: JoinRequest, user: str, servers: list[ServerEntry]) -> JoinAnswer:
    """The answer to a validated request; `user` is the new server's user of etcd."""
    server = request.server
    hosts = [address.rpartition(":")[0].strip("[]") for address in (server.client, server.peer, server.internal)]
    member, client = sign(
        folder,
        _public(request.member_request),
        _public(request.client_request),
        [host for host in hosts if host],
        name=server.name,
        user=user,
    )
    return JoinAnswer(
        trusted=folder.trusted.read_bytes(),
        member_certificate=member,
        client_certificate=client,
        authority_key=folder.authority_key.read_bytes(),
        servers=servers,
    )


def secret_check(api_secret: bytes, invitation_id: str, name: str) -> str:
    return hmac.new(api_secret, f"lattice-join {invitation_id} {name}".encode(), hashlib.sha256).hexdigest()


def public_key(request: bytes) -> bytes:
    return _public(request).public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


def _own_key(folder: CertificateFolder, name: str) -> ec.EllipticCurvePrivateKey:
    path = folder.path / _FOLDER / name
    if not path.exists():
        _make_folder(path.parent)
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        write_private(draft, pem_of_key(new_key()))
        draft.rename(path)
        sync_folder(path.parent)
    key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{path} is not an elliptic-curve key; remove it")
    return key


def _make_folder(path: Path) -> None:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    path.parent.chmod(0o700)


def _request(key: ec.EllipticCurvePrivateKey, name: str) -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _public(request: bytes) -> ec.EllipticCurvePublicKey:
    """The key of a request that is signed with it; the rest of the request is ignored."""
    try:
        found = x509.load_pem_x509_csr(request)
        key = found.public_key()
    except (ValueError, InvalidSignature) as error:
        raise InvitationError("invalid certificate request of the new server") from error
    if not found.is_signature_valid or not isinstance(key, ec.EllipticCurvePublicKey):
        raise InvitationError("the certificate request of the new server is not signed with its own key")
    return key
