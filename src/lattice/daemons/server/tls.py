"""The server's own certificate on REST and gRPC: read at the start, reloaded when its files are replaced.

Existing connections keep their certificate; unusable files are logged, and the old certificate stays in use.
"""

import asyncio
import logging
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import TlsSection
from lattice.daemons.outside.key_files import load_pair, why_no_pair, why_unreadable

if TYPE_CHECKING:  # gRPC is imported when REST answers already
    import grpc

_log = logging.getLogger(__name__)


class TlsUnusable(ValueError):
    """A certificate or key is unusable; the text says which and why."""


def check_tls(config: ServerConfig) -> None:
    """Raises ConfigError unless certificate and key are given together and can be used, and in production every port has TLS."""
    tls = config.api.tls
    if bool(tls.certificate) != bool(tls.key):
        raise ConfigError("api.tls: certificate and key must be given together")
    if not tls.certificate and config.mode == "production":
        raise ConfigError(
            "mode: production, but api.rest_listen and api.grpc_listen have no TLS; "
            "set api.tls.certificate and api.tls.key, or use mode: dev on a machine of your own"
        )
    if config.api.agent_listen and not tls.certificate:
        raise ConfigError("api.agent_listen: agents with certificates also need api.tls.certificate and api.tls.key")
    if tls.client_ca and not config.api.agent_listen:
        raise ConfigError("api.tls.client_ca: needs api.agent_listen, which is not set")
    if tls.client_ca and not config.api.node_domain and not config.api.node_spiffe_id:
        raise ConfigError(
            "api.tls.client_ca: every holder of a certificate of this authority would be a node; set api.node_domain "
            "(agents' certificates are for NODE.node_domain) or api.node_spiffe_id"
        )
    if config.api.grpc_tls.listen and not (config.api.grpc_tls.certificate and config.api.grpc_tls.key):
        raise ConfigError("api.grpc_tls: certificate and key must be given together")
    if tls.key:
        _check_pair("api.tls", tls.certificate, tls.key, is_strict=config.mode == "production")
    if config.api.grpc_tls.listen:
        own = config.api.grpc_tls
        _check_pair("api.grpc_tls", own.certificate, own.key, is_strict=config.mode == "production")
        if own.client_authority:
            _check_readable("api.grpc_tls.client_authority", own.client_authority)
    if tls.client_ca:
        _check_readable("api.tls.client_ca", tls.client_ca)


def _check_pair(section: str, certificate: str, key: str, *, is_strict: bool) -> None:
    """As the server will use them, so that what is wrong is known before anything starts."""
    _check_readable(f"{section}.certificate", certificate)
    _check_readable(f"{section}.key", key)
    mode = stat.S_IMODE(Path(key).stat().st_mode)
    if mode & 0o007:
        text = f"{section}.key: {key} is readable by other users (mode {mode:04o}); run chmod 600 on it"
        if is_strict:
            raise ConfigError(text)
        _log.warning("%s", text)
    if problem := why_no_pair(Path(certificate), Path(key)):
        raise ConfigError(f"{section}.key: {problem}")


def _check_readable(name: str, path: str) -> None:
    if problem := why_unreadable(Path(path)):
        raise ConfigError(f"{name}: {problem}")


class ServerTls:
    """`context` for REST, `grpc_credentials` for gRPC; both follow `reload`."""

    def __init__(self, settings: TlsSection) -> None:
        self._settings = settings
        self._seen = self._stamp()
        self._generation = 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._pair = self._load()

    def _stamp(self) -> tuple[object, ...]:
        found = []
        for name in (self._settings.certificate, self._settings.key, self._settings.client_ca):
            try:
                status = Path(name).stat() if name else None
            except OSError:
                status = None
            found.append(None if status is None else (status.st_mtime_ns, status.st_ino, status.st_size))
        return tuple(found)

    def _load(self) -> tuple[bytes, bytes]:
        certificate, key = self._settings.certificate, self._settings.key
        try:
            # Try it first: a mismatched pair must not replace a working one.
            load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
            pair = (Path(key).read_bytes(), Path(certificate).read_bytes())
            load_pair(self.context, certificate, key)
        except (OSError, ValueError) as error:
            raise TlsUnusable(f"api.tls: cannot use {certificate} and {key}: {error}") from error
        return pair

    def reload(self) -> bool:
        """Loads files that were replaced; returns whether there were any. Never raises."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        try:
            self._pair = self._load()
        except TlsUnusable as error:
            _log.error("%s; the previous certificate stays in use", error)
            return False
        self._seen = stamp
        self._generation += 1
        _log.info("using a new certificate: %s", self._settings.certificate)
        return True

    async def follow(self) -> None:
        """Checks the files periodically; never returns."""
        while True:
            await asyncio.sleep(self._settings.reload_every)
            await asyncio.to_thread(self.reload)

    def grpc_credentials(self, authorities: Callable[[], bytes] | None = None) -> "grpc.ServerCredentials":
        """For a gRPC port; with `authorities` callers must present a certificate of one of them."""
        from lattice.wire.reloaded_tls import Identity, server_credentials

        def identity() -> Identity:
            return Identity(*self._pair, None if authorities is None else authorities())

        used, found = self._generation, identity()

        def current() -> Identity:
            nonlocal used, found
            if used != self._generation:
                used, found = self._generation, identity()
            return found

        return server_credentials(current)

    def client_authorities(self) -> bytes:
        """The certificates in `client_ca`; empty without it. Raises TlsUnusable."""
        path = self._settings.client_ca
        try:
            return Path(path).read_bytes() if path else b""
        except OSError as error:
            raise TlsUnusable(f"api.tls.client_ca: {path}: {error.strerror}") from error
