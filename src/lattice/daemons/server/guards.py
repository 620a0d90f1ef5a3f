"""Protections of a server, from its configuration: the audit chain with its key, rate limits per user, the submit filter, the image registry."""

import asyncio
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import asdict

from lattice.api.rates import DEFAULTS, GENEROUS, RateLimits
from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError, resolve
from lattice.config.sections.work import RegistrySection
from lattice.control.audit.keys import Signer
from lattice.control.audit.sealing import Auditing, AuditSettings
from lattice.daemons.outside.objects import object_store_of
from lattice.daemons.outside.vaults import vault_of
from lattice.images.signatures import BadKey, PublicKey, read_public_key
from lattice.integrations.directory.registry import DirectoryRegistry
from lattice.ports.clock import Clock
from lattice.ports.quorum.replica import Replica
from lattice.ports.site.audit import AuditError
from lattice.ports.site.images import ContainerRegistries, ImageRegistry
from lattice.ports.site.submit_filter import FilterFailed, SubmitFilter

if TYPE_CHECKING:
    from lattice.integrations.registry.transport import Login, Transport

KEY_FILE = "audit.key"


async def begin_auditing(config: ServerConfig, replica: Replica, clock: Clock, epoch: int) -> Auditing:
    """Returns when the chain has this server's key; no request is served before. Raises AuditError."""
    section = config.audit
    settings = AuditSettings(
        seal_every_s=section.seal_every,
        keep=section.keep,
        archive_after_s=section.archive_after,
        retention_s=section.retention,
    )
    try:
        signer = await asyncio.to_thread(audit_signer, config)
        auditing = Auditing(replica, clock, signer, object_store_of(config), settings, epoch)
        await auditing.begin()
    except AuditError as error:
        raise AuditError(f"audit.signing_key: {error}") from error
    return auditing


def audit_signer(config: ServerConfig) -> Signer:
    """The key of this server, created if it has none. Blocks. Raises AuditError."""
    section = config.audit
    path = Path(section.signing_key) if section.signing_key else Path(config.data_dir) / KEY_FILE
    return Signer(path, config.name)


def rate_limits(config: ServerConfig, replica: Replica) -> RateLimits:
    """The limits per user: defaults of the mode, overridden by the file, overridden by the cluster's settings."""
    usual = GENEROUS if config.mode == "dev" else DEFAULTS
    given = {name: value for name, value in asdict(config.rate_limits).items() if value is not None}
    return RateLimits({**usual, **given}, time.monotonic, lambda: replica.state.settings)


def image_registry(config: ServerConfig) -> ImageRegistry | None:
    """The site's images, if it keeps any. Raises ConfigError."""
    directory, url = config.images.directory, config.images.url
    keys = tuple(_image_key(path) for path in config.images.keys)
    if directory and url:
        raise ConfigError("images: give either `directory` or `url`")
    if url:
        return _remote_images(config, url, keys)
    if not directory:
        return None
    if not os.path.isabs(directory):
        raise ConfigError(f"images.directory: {directory} is not an absolute path")
    return DirectoryRegistry(Path(directory), keys)


def _remote_images(config: ServerConfig, url: str, keys: tuple[PublicKey, ...]) -> ImageRegistry:
    from lattice.integrations.registry.images import OciImages
    from lattice.integrations.registry.transport import is_loopback
    from lattice.integrations.registry.web import WebImages

    transport = _transport(config)
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    if scheme == "oci":
        plain_http = any(each.plain_http for each in config.images.registries if each.host == host)
        return OciImages(transport, host, path, plain_http=plain_http, keys=keys)
    if scheme == "http" and not is_loopback(host):
        raise ConfigError(f"images.url: {url} can be read and changed on its way; use https")
    return WebImages(transport, url, keys)


def _image_key(path: str) -> PublicKey:
    if not os.path.isabs(path):
        raise ConfigError(f"images.keys: {path} is not an absolute path")
    try:
        return read_public_key(os.path.basename(path), Path(path).read_bytes())
    except OSError as error:
        raise ConfigError(f"images.keys: cannot read {path}: {error.strerror}") from error
    except BadKey as error:
        raise ConfigError(f"images.keys: {error}") from error


def container_registries(config: ServerConfig) -> ContainerRegistries | None:
    """The registries that users may name, if there are any. Passwords are read when a registry asks for them."""
    sections = config.images.registries
    if not sections:
        return None
    from lattice.integrations.registry.remote import RemoteRegistries

    hosts = [each.host for each in sections]
    keys = tuple(_image_key(path) for path in config.images.keys)
    return RemoteRegistries(_transport(config), hosts, [each.host for each in sections if each.plain_http], keys)


def _transport(config: ServerConfig) -> "Transport":
    from lattice.integrations.registry.transport import HttpFailed, Login, Transport

    def login(section: RegistrySection) -> "Login":
        def password() -> str:
            key = f"images.registries.{section.host}.password"
            try:
                return resolve(section.password, key=key, mode=config.mode, vault=vault_of(config)).decode()
            except SecretError as error:
                raise HttpFailed(f"{section.host} cannot be asked: {error}") from error

        return Login(section.username, password)

    return Transport({each.host: login(each) for each in config.images.registries if each.username})


def submit_filter(config: ServerConfig) -> SubmitFilter | None:
    """The site's filter, if there is one. Raises ConfigError."""
    section = config.submission.filter
    if not section.command and not section.python:
        return None
    if section.command and section.python:
        raise ConfigError("submission.filter: give either `command` or `python`")
    from lattice.integrations.submit_filter.programs import ProgramFilter, PythonFilter

    accepts = section.on_failure == "accept"
    if section.command:
        if not os.access(section.command[0], os.X_OK):
            raise ConfigError(f"submission.filter.command: {section.command[0]} does not exist or is not executable")
        return ProgramFilter(
            section.command, timeout_s=section.timeout, at_once=section.at_once, accepts_on_failure=accepts
        )
    try:
        return PythonFilter(
            section.python, timeout_s=section.timeout, at_once=section.at_once, accepts_on_failure=accepts
        )
    except FilterFailed as error:
        raise ConfigError(f"submission.filter.python: {error}") from error
