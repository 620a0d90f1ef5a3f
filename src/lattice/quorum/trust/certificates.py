"""The quorum's own certificates: an authority created at bootstrap, the certificates it issues, and their rotation.

Members trust only this authority, in both directions and on both ports. Each issue has its own directory, and
`current` points to the newest one: a rotation is one rename, and etcd re-reads the pair at every handshake. A client certificate
names the server's etcd user (`quorum/etcd/users.py`), which stays the same through rotations and ends with the server's removal.
The authority itself lives as long as its cluster, and every server has its key: a server that kept a copy is excluded permanently by
a restore into a new one, with a new authority.
::

    FOLDER/            0700
      ca.crt           the authority
      ca.key           only where certificates are issued
      current          -> issued-N
      issued-N/        member.crt member.key client.crt client.key
"""

import contextlib
import hashlib
import ipaddress
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from lattice.quorum.durable import sync_folder, write_private

AUTHORITY_LIFETIME = timedelta(days=3650)
LIFETIME = timedelta(days=365)
# Servers whose clocks differ must accept each other's new certificates.
_CLOCK_SKEW = timedelta(hours=1)
MEMBER_NAME = "lattice-member"
# The common name of client certificates that belong to no particular server, as all did before 0.2.
CLIENT_NAME = "lattice-client"
_USER_BYTES = 6
_LONGEST_NAME = 48
_SERVER = ExtendedKeyUsageOID.SERVER_AUTH
_CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
_OLDER_KEPT = 2


class CertificateError(Exception):
    """Certificates are missing, unreadable, or cannot be issued here; the text says which and what to do."""


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """What one server needs to be a member: PEM texts. Secret; sent to a joining server only over a trusted connection."""

    trusted: bytes
    member_certificate: bytes
    member_key: bytes
    client_certificate: bytes
    client_key: bytes
    authority_key: bytes = b""


@dataclass(frozen=True)
class CertificateFolder:
    """Paths of the certificates in a folder; they stay the same through rotations."""

    path: Path

    @property
    def trusted(self) -> Path:
        return self.path / "ca.crt"

    @property
    def authority_key(self) -> Path:
        return self.path / "ca.key"

    @property
    def current(self) -> Path:
        return self.path / "current"

    @property
    def member_certificate(self) -> Path:
        return self.current / "member.crt"

    @property
    def member_key(self) -> Path:
        return self.current / "member.key"

    @property
    def client_certificate(self) -> Path:
        return self.current / "client.crt"

    @property
    def client_key(self) -> Path:
        return self.current / "client.key"

    def exists(self) -> bool:
        return self.trusted.exists() and self.member_key.exists()

    def expires_at(self) -> datetime:
        """When the first of the current certificates expires."""
        return min(_load_certificate(p).not_valid_after_utc for p in (self.member_certificate, self.client_certificate))

    def serial(self) -> str:
        """The serial number of this server's current certificate, as shown to users."""
        return f"{_load_certificate(self.member_certificate).serial_number:x}"

    def user(self) -> str:
        """The etcd user of this server, which its client certificate names; empty if it names none."""
        subject = _load_certificate(self.client_certificate).subject
        names = [str(part.value) for part in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        return next((name for name in names if name != CLIENT_NAME), "")

    def needs_renewal(self, now: datetime) -> bool:
        """Whether less than a third of the lifetime is left."""
        certificate = _load_certificate(self.member_certificate)
        third = (certificate.not_valid_after_utc - certificate.not_valid_before_utc) / 3
        return self.expires_at() - now < third


def create_authority(folder: CertificateFolder) -> None:
    """Creates a new authority. Refuses a directory that has one: its members would become unreachable."""
    if folder.trusted.exists():
        raise CertificateError(
            f"{folder.path} already contains certificates of a quorum; remove it or use another directory"
        )
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.path.chmod(0o700)
    key, certificate = _new_authority()
    _replace(folder.authority_key, pem_of_key(key))
    _replace(folder.trusted, _pem(certificate))


def user_prefix(server: str) -> str:
    """What the etcd users of a server begin with, however often it is removed and joins again. A common name is short."""
    if len(server) > _LONGEST_NAME:
        server = hashlib.sha256(server.encode()).hexdigest()[:_LONGEST_NAME]
    return f"{server}:"


def user_for(server: str, mark: str = "") -> str:
    """The etcd user of a server from its joining to its removal; without a `mark`, a new one each time."""
    return user_prefix(server) + (mark or secrets.token_hex(_USER_BYTES))[: 2 * _USER_BYTES]


def issue(
    folder: CertificateFolder,
    hosts: Sequence[str],
    *,
    name: str = "",
    user: str = "",
    lifetime: timedelta = LIFETIME,
) -> Credentials:
    """New credentials for the server `name`, reachable at `hosts`, and its etcd user; needs the authority's key."""
    member_key, client_key = new_key(), new_key()
    user = user or (user_for(name) if name else "")
    keys = (member_key.public_key(), client_key.public_key())
    member, client = sign(folder, *keys, hosts, name=name, user=user, lifetime=lifetime)
    return Credentials(
        trusted=_read(folder.trusted),
        member_certificate=member,
        member_key=pem_of_key(member_key),
        client_certificate=client,
        client_key=pem_of_key(client_key),
    )


def sign(
    folder: CertificateFolder,
    member: ec.EllipticCurvePublicKey,
    client: ec.EllipticCurvePublicKey,
    hosts: Sequence[str],
    *,
    name: str = "",
    user: str = "",
    lifetime: timedelta = LIFETIME,
) -> tuple[bytes, bytes]:
    """Certificates for two keys of one server, whose private halves need not be here; needs the authority's key."""
    key, certificate = _load_authority(folder)
    names = _alternative_names(hosts)
    made = _sign(key, certificate, member, _name(MEMBER_NAME, name), (_SERVER, _CLIENT), names, lifetime)
    other = _sign(key, certificate, client, _name(user or CLIENT_NAME, name), (_CLIENT,), names, lifetime)
    return _pem(made), _pem(other)


def with_authority(folder: CertificateFolder, credentials: Credentials) -> Credentials:
    """The same with the authority's key, for a server that must be able to issue certificates."""
    return msgspec.structs.replace(credentials, authority_key=_read(folder.authority_key))


def install(folder: CertificateFolder, credentials: Credentials) -> None:
    """Makes the credentials current with one rename; keeps the last few older ones."""
    folder.path.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.path.chmod(0o700)
    if credentials.authority_key:
        _replace(folder.authority_key, credentials.authority_key)
    _replace(folder.trusted, credentials.trusted)
    number = max(_issued(folder), default=0) + 1
    target = folder.path / f"issued-{number}"
    target.mkdir(mode=0o700)
    write_private(target / "member.crt", credentials.member_certificate)
    write_private(target / "member.key", credentials.member_key)
    write_private(target / "client.crt", credentials.client_certificate)
    write_private(target / "client.key", credentials.client_key)
    sync_folder(target)
    pointer = folder.path / "current.new"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(target.name)
    pointer.rename(folder.current)
    sync_folder(folder.path)
    for old in sorted(_issued(folder))[: -1 - _OLDER_KEPT]:
        shutil.rmtree(folder.path / f"issued-{old}", ignore_errors=True)


def rotate(folder: CertificateFolder, hosts: Sequence[str], *, name: str = "", lifetime: timedelta = LIFETIME) -> None:
    """New keys and certificates for this server and its user, from the same authority; nothing has to be restarted."""
    install(folder, issue(folder, hosts, name=name, user=folder.user(), lifetime=lifetime))


def _issued(folder: CertificateFolder) -> list[int]:
    names = (path.name.removeprefix("issued-") for path in folder.path.glob("issued-*"))
    return [int(name) for name in names if name.isdecimal()]


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _new_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = new_key()
    # A unique name: two authorities with one name could not be distinguished.
    serial = x509.random_serial_number()
    name = _name(f"lattice-quorum-{serial:x}"[:60])
    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key.public_key(), AUTHORITY_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(usage, critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return key, builder.sign(key, hashes.SHA256())


def _sign(
    authority_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    key: ec.EllipticCurvePublicKey,
    subject: x509.Name,
    purposes: Sequence[x509.ObjectIdentifier],
    names: x509.SubjectAlternativeName,
    lifetime: timedelta,
) -> x509.Certificate:
    builder = _builder(subject, authority.subject, key, lifetime)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    builder = builder.add_extension(names, critical=False)
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    builder = builder.add_extension(issuer, critical=False)
    return builder.sign(authority_key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + lifetime)
    )


def _name(common_name: str, server: str = "") -> x509.Name:
    """Members check the common name, of a client as that of a user; the unit names the server."""
    unit = [x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, server)] if server else []
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Lattice"),
            *unit,
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _alternative_names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    names: list[x509.GeneralName] = []
    # A member is always reachable from its own machine, whatever its external name is.
    for host in dict.fromkeys([*hosts, "localhost", "127.0.0.1", "::1"]):
        try:
            names.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            try:
                names.append(x509.DNSName(host))
            except ValueError as error:
                raise CertificateError(f"invalid host name or address: {host!r}") from error
    return x509.SubjectAlternativeName(names)


def _load_authority(folder: CertificateFolder) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    if not folder.authority_key.exists():
        raise CertificateError(
            f"{folder.authority_key} is missing: this server cannot issue certificates; ask one that was bootstrapped"
        )
    key = serialization.load_pem_private_key(_read(folder.authority_key), password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError(f"{folder.authority_key} is not an elliptic-curve key")
    public = key.public_key().public_numbers()
    for certificate in _trusted(folder):
        candidate = certificate.public_key()
        if isinstance(candidate, ec.EllipticCurvePublicKey) and candidate.public_numbers() == public:
            return key, certificate
    raise CertificateError(f"{folder.authority_key} does not belong to {folder.trusted}; restore both from a backup")


def _trusted(folder: CertificateFolder) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(_read(folder.trusted))
    except ValueError as error:
        raise CertificateError(f"cannot read {folder.trusted}: {error}") from error


def _load_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise CertificateError(f"cannot read {path}: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(f"{path}: {error.strerror}") from error


def _replace(path: Path, data: bytes) -> None:
    scratch = path.with_name(path.name + ".new")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(scratch)
    write_private(scratch, data)
    scratch.rename(path)
    sync_folder(path.parent)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
