"""What opens the site's own systems: an address without a password, a token that is read for each request, and trusted authorities."""

import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError, resolve
from lattice.daemons.outside.vaults import vault_of

_HERE = ("localhost", "127.0.0.1", "::1")


def check_address(url: str, *, key: str, token_key: str, has_token: bool) -> None:
    """Raises ConfigError if the address holds a password, or a token would travel to it in clear text."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ConfigError(f"{key}: must not hold a password; use {token_key}")
    if has_token and parts.scheme == "http" and parts.hostname not in _HERE:
        raise ConfigError(f"{key}: must be https, because a token is sent there")


def token_source(config: ServerConfig, reference: str, *, key: str) -> Callable[[], str]:
    """Reads the token each time, so that a new one needs no restart; ValueError when it is gone. Raises SecretError if it is not there now."""

    def token() -> str:
        if not reference:
            return ""
        return resolve(reference, key=key, mode=config.mode, vault=vault_of(config)).decode().strip()

    def token_now() -> str:
        try:
            return token()
        except SecretError as error:
            raise ValueError(str(error)) from error

    token()
    return token_now


def trust_of(ca_file: str, *, key: str) -> ssl.SSLContext | None:
    """The authorities of a file; None stands for those of the system. Raises ConfigError."""
    if not ca_file:
        return None
    try:
        return ssl.create_default_context(cafile=ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"{key}: cannot use {ca_file}: {error}") from error
