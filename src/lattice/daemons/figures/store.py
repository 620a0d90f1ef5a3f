"""The store that holds what agents measured; imported only if there is one."""

import ssl
from urllib.parse import urlsplit

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError, resolve
from lattice.daemons.outside.vaults import vault_of
from lattice.ports.site.metric_store import MetricStore

_HERE = ("localhost", "127.0.0.1", "::1")


def metric_store_of(config: ServerConfig) -> MetricStore | None:
    """None where the nodes are asked. Raises ConfigError and SecretError."""
    section = config.telemetry
    url = section.query_url or section.tsdb_endpoint
    if not url:
        return None
    key = "telemetry.query_url" if section.query_url else "telemetry.tsdb_endpoint"
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ConfigError(f"{key}: must not hold a password; use telemetry.tsdb_token")
    if section.tsdb_token and parts.scheme == "http" and parts.hostname not in _HERE:
        raise ConfigError(f"{key}: must be https, because a token is sent there")
    from lattice.integrations.promql.client import PromqlStore

    def token() -> str:
        """Read for each request, so that a new token needs no restart."""
        if not section.tsdb_token:
            return ""
        vault = vault_of(config)
        return resolve(section.tsdb_token, key="telemetry.tsdb_token", mode=config.mode, vault=vault).decode().strip()

    def token_now() -> str:
        try:
            return token()
        except SecretError as error:
            raise ValueError(str(error)) from error

    token()  # a secret that is not there is found at start
    trust = None
    if section.tsdb_ca_file:
        try:
            trust = ssl.create_default_context(cafile=section.tsdb_ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"telemetry.tsdb_ca_file: cannot use {section.tsdb_ca_file}: {error}") from error
    return PromqlStore(url, token=token_now, trust=trust, timeout_s=section.tsdb_timeout)
