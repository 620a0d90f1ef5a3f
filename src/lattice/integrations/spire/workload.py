"""The SPIFFE Workload API as a SPIRE agent offers it on its socket: this process's certificate, key and trust bundle."""

from dataclasses import dataclass

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from lattice.wire.pb import workload_pb2 as pb
from lattice.wire.pb.workload_pb2_grpc import SpiffeWorkloadAPIStub

DEFAULT_SOCKET = "/run/spire/agent.sock"
ANSWER_WITHIN_S = 5.0
# Without it the agent refuses: a page in a browser could not send it.
_METADATA = (("workload.spiffe.io", "true"),)


class SpireUnavailable(Exception):
    """The SPIRE agent does not answer, or knows nothing of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Svid:
    """PEM texts: the certificate with its chain, its key, and the trust domain's authorities."""

    spiffe_id: str
    chain: bytes
    key: bytes
    bundle: bytes


async def fetch_svid(socket: str) -> Svid:
    """The first certificate that the SPIRE agent has for this process. Raises SpireUnavailable."""
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            call = SpiffeWorkloadAPIStub(channel).FetchX509SVID(
                pb.X509SVIDRequest(), metadata=_METADATA, timeout=ANSWER_WITHIN_S
            )
            # A stream that never ends: every answer says all there is, the first is enough.
            answer = await call.read()
            call.cancel()
    except grpc.aio.AioRpcError as error:
        raise SpireUnavailable(f"{socket}: {error.code().name.lower()}: {error.details()}") from error
    if not isinstance(answer, pb.X509SVIDResponse) or not answer.svids:
        raise SpireUnavailable(f"{socket}: no identity for this process")
    svid = answer.svids[0]
    try:
        return Svid(
            spiffe_id=svid.spiffe_id,
            chain=_pem(svid.x509_svid),
            key=_key_pem(svid.x509_svid_key),
            bundle=_pem(svid.bundle),
        )
    except ValueError as error:
        raise SpireUnavailable(f"{socket}: the certificate cannot be read: {error}") from error


def _pem(concatenated: bytes) -> bytes:
    """Certificates that follow each other without anything in between, as PEM."""
    found = []
    rest = concatenated
    while rest:
        length = _der_length(rest)
        certificate = x509.load_der_x509_certificate(rest[:length])
        found.append(certificate.public_bytes(serialization.Encoding.PEM))
        rest = rest[length:]
    if not found:
        raise ValueError("there is none")
    return b"".join(found)


def _key_pem(der: bytes) -> bytes:
    key = serialization.load_der_private_key(der, password=None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _der_length(data: bytes) -> int:
    """Bytes of the first element, its head included. Raises ValueError."""
    if len(data) < 2 or data[0] != 0x30:
        raise ValueError("not a certificate")
    first = data[1]
    if first < 0x80:
        return 2 + first
    count = first & 0x7F
    if not 1 <= count <= 4 or len(data) < 2 + count:
        raise ValueError("not a certificate")
    length = 2 + count + int.from_bytes(data[2 : 2 + count], "big")
    if length > len(data):
        raise ValueError("cut off")
    return length
