"""A certificate of the cluster's own: a key is made here and stays here; a token brings the first certificate, that one the next.

::

    STATE_DIR/identity/   0700
      node.crt            the newest certificate
      node.key            0600
      next.key            0600, while a certificate for it is asked for
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lattice.agent.identity.credentials import IdentityUnavailable, NodeCertificate, certificate_of
from lattice.wire.pb import certificates_pb2 as pb
from lattice.wire.pb.certificates_pb2_grpc import CertificateServiceStub

ANSWER_WITHIN_S = 10.0
FOLDER = "identity"
PENDING = "next.key"

_log = logging.getLogger(__name__)


class EnrolmentSource:
    """`doors` take the token, `servers` a certificate; `trusted` is whom both have to be from."""

    name = "the cluster"

    def __init__(
        self,
        node: str,
        state_dir: Path,
        *,
        servers: Sequence[str],
        doors: Sequence[str],
        trusted: bytes,
        token: Callable[[], str] | None,
    ) -> None:
        self._node = node
        self._folder = state_dir / FOLDER
        self._servers = tuple(servers)
        self._doors = tuple(doors)
        self._trusted = trusted
        self._token = token

    async def obtain(self) -> NodeCertificate:
        kept = self._kept()
        if kept is not None and kept.renew_at > datetime.now(UTC):
            return kept
        problems = []
        if kept is not None:
            for server in self._servers:
                try:
                    return await self._signed(server, kept.credentials(), "")
                except IdentityUnavailable as error:
                    problems.append(str(error))
        for door in self._doors if self._token is not None else ():
            try:
                return await self._signed(door, grpc.ssl_channel_credentials(self._trusted), self._read_token())
            except IdentityUnavailable as error:
                problems.append(str(error))
        if kept is not None:
            _log.warning("the certificate was not renewed: %s", "; ".join(problems))
            return kept
        raise IdentityUnavailable("; ".join(problems) or "no certificate is kept, and no token is given")

    def _kept(self) -> NodeCertificate | None:
        try:
            chain, key = ((self._folder / name).read_bytes() for name in ("node.crt", "node.key"))
            return certificate_of(chain, key, self._trusted)
        except (OSError, IdentityUnavailable):
            return None

    def _read_token(self) -> str:
        try:
            return self._token() if self._token is not None else ""
        except OSError as error:
            raise IdentityUnavailable(f"the token cannot be read: {error}") from error

    async def _signed(self, server: str, credentials: grpc.ChannelCredentials, token: str) -> NodeCertificate:
        key = await asyncio.to_thread(self._next_key)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._node)])
        request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
        asked = pb.SignNodeRequest(node_id=self._node, signing_request=request.public_bytes(serialization.Encoding.DER))
        metadata = (("authorization", f"Bearer {token}"),) if token else ()
        try:
            async with grpc.aio.secure_channel(
                server, credentials, options=(("grpc.enable_http_proxy", 0),)
            ) as channel:
                answer = await CertificateServiceStub(channel).SignNodeCertificate(
                    asked, metadata=metadata, timeout=ANSWER_WITHIN_S
                )
        except grpc.aio.AioRpcError as error:
            raise IdentityUnavailable(f"{server}: {error.code().name.lower()}: {error.details()}") from error
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        await asyncio.to_thread(self._keep, answer.certificate, private)
        return certificate_of(answer.certificate, private, self._trusted)

    def _next_key(self) -> ec.EllipticCurvePrivateKey:
        """The key to ask a certificate for. Kept before it is asked: a token is good for one key, and an answer may be lost."""
        path = self._folder / PENDING
        try:
            kept = serialization.load_pem_private_key(path.read_bytes(), None)
            if isinstance(kept, ec.EllipticCurvePrivateKey):
                return kept
        except (OSError, ValueError, TypeError):
            pass
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(file, "wb") as opened:
                opened.write(private)
        except OSError as error:
            _log.error("the key cannot be kept: %s", error)
        return key

    def _keep(self, chain: bytes, key: bytes) -> None:
        """The key first: a crash in between leaves a pair that does not match, and is requested again."""
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name, data in (("node.key", key), ("node.crt", chain)):
                draft = self._folder / f"{name}.new"
                draft.unlink(missing_ok=True)
                file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with open(file, "wb") as opened:
                    opened.write(data)
                draft.replace(self._folder / name)
            (self._folder / PENDING).unlink(missing_ok=True)
        except OSError as error:
            _log.error("the certificate cannot be kept: %s", error)
