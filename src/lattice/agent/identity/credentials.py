"""Who this node's agent is to the servers: a certificate if one is available, else a token.

Sources of certificates are asked in their order; the first that has one is used. A certificate is replaced when two thirds of its life
have passed: open streams continue, the next one uses the new certificate.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

import grpc

_log = logging.getLogger(__name__)

RETRY_S = 10.0
SHORTEST_S = 0.5


class IdentityUnavailable(Exception):
    """The source has no certificate to give now; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCertificate:
    """PEM texts: the chain with this agent's own first, its key, and whom it trusts as a server."""

    chain: bytes
    key: bytes
    trusted: bytes
    begins: datetime
    ends: datetime

    @property
    def renew_at(self) -> datetime:
        return self.begins + (self.ends - self.begins) * 2 / 3

    def credentials(self) -> grpc.ChannelCredentials:
        return grpc.ssl_channel_credentials(self.trusted, self.key, self.chain)


def certificate_of(chain: bytes, key: bytes, trusted: bytes) -> NodeCertificate:
    """Raises IdentityUnavailable for a certificate that cannot be read or is over."""
    from cryptography import x509  # not before it is needed: it takes 10 MB

    try:
        own = x509.load_pem_x509_certificate(chain)
    except ValueError as error:
        raise IdentityUnavailable(f"the certificate cannot be read: {error}") from error
    if own.not_valid_after_utc <= datetime.now(UTC):
        raise IdentityUnavailable(f"the certificate ended at {own.not_valid_after_utc:%Y-%m-%d %H:%M:%S} UTC")
    return NodeCertificate(
        chain=chain, key=key, trusted=trusted, begins=own.not_valid_before_utc, ends=own.not_valid_after_utc
    )


class Source(Protocol):
    """Where a certificate may come from."""

    @property
    def name(self) -> str:
        """As it is called in the log."""
        ...

    async def obtain(self) -> NodeCertificate:
        """The freshest valid certificate. Raises IdentityUnavailable."""
        ...


@dataclass(frozen=True, slots=True)
class FileSource:
    """Certificates that an external tool provides and replaces in time."""

    certificate: Path
    key: Path
    authority: Path
    name: str = "files"

    async def obtain(self) -> NodeCertificate:
        try:
            chain, key, trusted = (path.read_bytes() for path in (self.certificate, self.key, self.authority))
        except OSError as error:
            raise IdentityUnavailable(f"{error.filename}: {error.strerror}") from error
        return certificate_of(chain, key, trusted)


class NodeIdentity:
    """`begin`, then `channel_credentials` and `token` for every new stream, while `keep` runs beside."""

    def __init__(self, sources: Sequence[Source], token: Callable[[], str] | None, trusted: bytes | None) -> None:
        self._sources = tuple(sources)
        self._token = token
        self._trusted = trusted
        self._current: NodeCertificate | None = None

    @property
    def has_sources(self) -> bool:
        """Whether certificates may come from somewhere; otherwise the token alone says who this node is."""
        return bool(self._sources)

    @property
    def current(self) -> NodeCertificate | None:
        return self._current

    async def begin(self) -> None:
        """Returns with a certificate or, where a token is given, without one; else the sources are asked until one has something.

        Raises IdentityUnavailable when there is no source.
        """
        if not self._sources and self._token is None:
            raise IdentityUnavailable("no identity: neither a source of certificates nor a token is given")
        while True:
            self._current = await self._cascade()
            if self._current is not None or self._token is not None:
                return
            await asyncio.sleep(RETRY_S)

    async def _cascade(self) -> NodeCertificate | None:
        for source in self._sources:
            try:
                found = await source.obtain()
            except IdentityUnavailable as error:
                _log.warning("no certificate from %s: %s", source.name, error)
                continue
            _log.info("certificate from %s, good until %s", source.name, found.ends.isoformat())
            return found
        return None

    async def keep(self) -> None:
        """Replaces the certificate in time; never returns."""
        while True:
            await asyncio.sleep(self._pause_s())
            fresh = await self._cascade()
            if fresh is not None:
                self._current = fresh

    def _pause_s(self) -> float:
        if self._current is None:
            return RETRY_S
        left = self._current.renew_at - datetime.now(UTC)
        if left > timedelta(0):
            return max(SHORTEST_S, left.total_seconds())
        # Overdue: what the sources gave last was no newer, or nothing.
        rest_s = (self._current.ends - datetime.now(UTC)).total_seconds()
        return max(SHORTEST_S, min(RETRY_S, rest_s / 10))

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """For the next stream; None = without TLS, where nothing but a token was given."""
        current = self._current
        if current is not None and current.ends > datetime.now(UTC):
            return current.credentials()
        return None if self._trusted is None else grpc.ssl_channel_credentials(self._trusted or None)

    @property
    def has_certificate(self) -> bool:
        return self._current is not None and self._current.ends > datetime.now(UTC)

    def token(self) -> str:
        """For the next stream; empty where the certificate says it all."""
        return "" if self.has_certificate or self._token is None else self._token()
