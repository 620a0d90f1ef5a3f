"""Node agents by certificate: which node a certificate stands for, and the cluster's own authority that issues them.

The authority's key is derived from the servers' shared secret, so that every server issues and knows the same ones and none has to
hand a key to another. It is no other authority's key: what it issues opens no port but that of the agents.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of the group of P-256
_NAME = x509.Name(
    [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Lattice"),
        x509.NameAttribute(NameOID.COMMON_NAME, "lattice-nodes"),
    ]
)
# The same certificate on every server but for its signature; anyone who knows the secret can derive it.
_BEGIN, _END = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)
_SKEW = timedelta(minutes=5)
MAX_REQUEST_BYTES = 16 << 10
MAX_COMMON_NAME = 64


class NotANode(Exception):
    """The certificate, or the request for one, stands for no node; the text says why."""


@dataclass(frozen=True, slots=True)
class NodeNames:
    """How nodes are called in certificates: NODE.domain, or by a SPIFFE id with {node} in it."""

    domain: str = ""
    spiffe_id: str = ""

    def common_name(self, node: str) -> str:
        return f"{node}.{self.domain}" if self.domain else node

    def node_of(self, common_name: str, uris: Iterable[str]) -> str:
        """The node that a certificate of the site's authority stands for. Raises NotANode.

        Only names of the node domain or SPIFFE ids of agents do: the same authority vouches for web servers and people, too.
        """
        for uri in uris:
            if uri.startswith("spiffe://"):
                return self._by_spiffe_id(uri)
        if not self.domain:
            raise NotANode(
                f"the certificate is for {common_name[:80]!r} and has no SPIFFE id; api.node_domain is not set"
            )
        return self._in_domain(common_name)

    def own_node_of(self, common_name: str) -> str:
        """The node that a certificate of the cluster's own authority stands for. Raises NotANode."""
        if self.domain:
            return self._in_domain(common_name)
        if not NODE_NAME.fullmatch(common_name):
            raise NotANode("the certificate names no node")
        return common_name

    def _in_domain(self, common_name: str) -> str:
        node = common_name.removesuffix(f".{self.domain}")
        if node == common_name or not NODE_NAME.fullmatch(node):
            raise NotANode(f"the certificate is for {common_name[:80]!r}, which is no node in {self.domain}")
        return node

    def _by_spiffe_id(self, uri: str) -> str:
        before, mark, after = self.spiffe_id.partition("{node}")
        node = uri.removeprefix(before).removesuffix(after)
        is_ours = bool(mark) and uri.startswith(before) and uri.endswith(after)
        if not is_ours or not NODE_NAME.fullmatch(node):
            raise NotANode(f"{uri[:200]} is not the id of a node's agent here")
        return node


@dataclass(frozen=True, slots=True)
class ShownCertificate:
    """What a connection proved: which node, since when and until when (seconds since 1970)."""

    node: str
    begins_at: int
    expires_at: int


class NodeAuthority:
    """Issues certificates for node agents; `pem` is who has to be trusted for them."""

    def __init__(self, secret: bytes, names: NodeNames, lifetime_s: float) -> None:
        self._names = names
        self._lifetime = timedelta(seconds=lifetime_s)
        seed = HKDF(hashes.SHA256(), 48, salt=None, info=b"lattice node authority 1").derive(secret)
        # 384 bits for a number of 256: no value is likelier than another by more than chance could tell.
        self._key = ec.derive_private_key(int.from_bytes(seed, "big") % (_ORDER - 1) + 1, ec.SECP256R1())
        self._certificate = self._own_certificate()
        self.pem = self._certificate.public_bytes(serialization.Encoding.PEM)

    def shown(self, auth_context: Mapping[str, Iterable[bytes]]) -> ShownCertificate:
        """The node behind a gRPC connection whose certificate was verified, here or by the site's authority. Raises NotANode."""
        pem = next(iter(auth_context.get("x509_pem_cert", ())), b"")
        if not pem:
            raise NotANode("no certificate was shown")
        certificate = x509.load_pem_x509_certificate(pem)
        _check_use(certificate)
        name = _common_name(certificate.subject)
        if self._has_issued(certificate):
            node = self._names.own_node_of(name)
        else:
            node = self._names.node_of(name, _uris(certificate))
        begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        return ShownCertificate(node, int(begins.timestamp()), int(ends.timestamp()))

    def _has_issued(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    def _own_certificate(self) -> x509.Certificate:
        public = self._key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(_NAME)
            .issuer_name(_NAME)
            .public_key(public)
            .serial_number(1)
            .not_valid_before(_BEGIN)
            .not_valid_after(_END)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def sign(self, node: str, request: bytes, now: datetime, begins: datetime = _BEGIN) -> bytes:
        """A certificate (PEM) for the key in the request, good from `begins` on at the earliest. Raises NotANode for requests that make no sense or are not the node's."""
        asked = _checked_request(request)
        name = self._names.common_name(node)
        if not NODE_NAME.fullmatch(node) or self._names.own_node_of(name) != node:
            raise NotANode(f"{node[:80]!r} cannot be the name of a node")
        if _common_name(asked.subject) != node:
            raise NotANode(f"the request is for {_common_name(asked.subject)!r}, not for node {node}")
        if len(name) > MAX_COMMON_NAME:
            raise NotANode(
                f"{name!r} is longer than the {MAX_COMMON_NAME} characters that a certificate's name may have"
            )
        public = asked.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
            raise NotANode("the key is not an elliptic-curve key on P-256")
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(_NAME)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(max(begins, now - min(_SKEW, self._lifetime)))
            .not_valid_after(now + self._lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
            .add_extension(issuer, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)


def key_digest(request: bytes) -> str:
    """SHA-256 (hex) of the public key that a signing request is for. Raises NotANode."""
    public = _checked_request(request).public_key()
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return sha256(der).hexdigest()


def _checked_request(request: bytes) -> x509.CertificateSigningRequest:
    if len(request) > MAX_REQUEST_BYTES:
        raise NotANode("the signing request is too large")
    try:
        asked = x509.load_der_x509_csr(request)
        is_sound = asked.is_signature_valid
    except (ValueError, InvalidSignature) as error:
        raise NotANode("the signing request cannot be read") from error
    if not is_sound:
        raise NotANode("the signing request is not signed by its own key")
    return asked


def _common_name(name: x509.Name) -> str:
    found = name.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _check_use(certificate: x509.Certificate) -> None:
    """Raises NotANode for a certificate that was not made for clients."""
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        uses = None
    if uses is None or ExtendedKeyUsageOID.CLIENT_AUTH not in uses:
        raise NotANode(
            f"the certificate for {_common_name(certificate.subject)[:80]!r} is not for clients (clientAuth)"
        )


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)
