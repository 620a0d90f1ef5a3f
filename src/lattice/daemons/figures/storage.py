"""The storage system that is asked what it guarantees; imported only if there is one."""

import ssl
from urllib.parse import urlsplit

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError, resolve
from lattice.daemons.outside.vaults import vault_of
from lattice.ports.site.storage_qos import StorageQos

_HERE = ("localhost", "127.0.0.1", "::1")


def storage_qos_of(config: ServerConfig) -> StorageQos | None:
    """None where there is none. Raises ConfigError and SecretError."""
    section = config.telemetry
    if not section.storage_endpoint:
        return None
    parts = urlsplit(section.storage_endpoint)
    if parts.username or parts.password:
        raise ConfigError("telemetry.storage_endpoint: must not hold a password; use telemetry.storage_token")
    if section.storage_token and parts.scheme == "http" and parts.hostname not in _HERE:
        raise ConfigError("telemetry.storage_endpoint: must be https, because a token is sent there")
    if not section.storage_views:
        raise ConfigError("telemetry.storage_views: name the paths of the views that users see")
    from lattice.integrations.vast.qos import VastQos

    def token() -> str:
        """Read for each request, so that a new token needs no restart."""
        if not section.storage_token:
            return ""
        key, vault = "telemetry.storage_token", vault_of(config)
        return resolve(section.storage_token, key=key, mode=config.mode, vault=vault).decode().strip()

    def token_now() -> str:
        try:
            return token()
        except SecretError as error:
            raise ValueError(str(error)) from error

    token()  # a secret that is not there is found at start
    trust = None
    if section.storage_ca_file:
        try:
            trust = ssl.create_default_context(cafile=section.storage_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"telemetry.storage_ca_file: cannot use {section.storage_ca_file}: {error}") from error
    return VastQos(section.storage_endpoint, section.storage_views, token=token_now, trust=trust)
