"""TLS between the servers of a quorum, both sides with the quorum's own certificates.

Contexts stay valid through a rotation: after `reload` all later handshakes use the current certificates in the directory.
"""

import functools
import ssl
from collections.abc import Callable, Mapping
from typing import Any

import grpc
from cryptography import x509
from cryptography.x509.oid import NameOID

from lattice.quorum.trust.certificates import CertificateError, CertificateFolder
from lattice.wire.reloaded_tls import Identity, server_credentials

_ORGANIZATIONAL_UNIT = "organizationalUnitName"


class PeerTls:
    """Contexts for both directions. `server` requests a certificate and also accepts callers without one, who have no identity."""

    def __init__(self, certificates: CertificateFolder) -> None:
        self._certificates = certificates
        self._renewals: list[Callable[[], None]] = []
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.server.verify_mode = ssl.CERT_OPTIONAL
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        for context in (self.server, self.client):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
        self.reload()

    def reload(self) -> None:
        """Loads the certificates in the directory; existing connections continue."""
        folder = self._certificates
        try:
            for context in (self.server, self.client):
                context.load_verify_locations(folder.trusted)
                context.load_cert_chain(folder.member_certificate, folder.member_key)
        except (OSError, ssl.SSLError) as error:
            raise CertificateError(f"cannot use the certificates in {folder.path}: {error}") from error
        for callback in self._renewals:
            callback()

    def on_reload(self, callback: Callable[[], None]) -> None:
        """Calls back after each `reload`. The callback must be short and must not raise."""
        self._renewals.append(callback)

    def grpc_server(self) -> grpc.ServerCredentials:
        """For a gRPC listener that only servers of this quorum may call; follows rotations by itself."""
        folder = self._certificates

        def current() -> Identity:
            # Both of the same pair, even if they are replaced at this moment.
            issued = folder.current.resolve()
            key, certificate = (
                (issued / path.name).read_bytes() for path in (folder.member_key, folder.member_certificate)
            )
            return Identity(key, certificate, folder.trusted.read_bytes())

        return server_credentials(current)

    def grpc_client(self) -> grpc.ChannelCredentials:
        """For a channel to another server, with the current certificates."""
        folder = self._certificates
        return grpc.ssl_channel_credentials(
            folder.trusted.read_bytes(), folder.member_key.read_bytes(), folder.member_certificate.read_bytes()
        )


def joining_context(trusted: bytes) -> ssl.SSLContext:
    """For a server that has no certificate yet and trusts the authority in its invitation."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_verify_locations(cadata=trusted.decode("ascii"))
    return context


def server_of(certificate: Mapping[str, Any] | None) -> str | None:
    """The server of a verified certificate, as the ssl module returns it; None without one."""
    if not certificate:
        return None
    for part in certificate.get("subject", ()):
        for key, value in part:
            if key == _ORGANIZATIONAL_UNIT:
                return str(value)
    return ""


@functools.lru_cache(maxsize=64)
def server_of_pem(certificate: bytes) -> str:
    """The same for a verified certificate as gRPC returns it; empty if it names no server."""
    try:
        subject = x509.load_pem_x509_certificate(certificate).subject
    except ValueError:
        return ""
    return next((str(part.value) for part in subject.get_attributes_for_oid(NameOID.ORGANIZATIONAL_UNIT_NAME)), "")
