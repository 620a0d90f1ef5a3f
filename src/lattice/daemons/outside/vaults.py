"""The vault of a server's configuration, for references that begin with vault://."""

import ssl
from collections.abc import Callable

from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError, resolve


def vault_of(config: ServerConfig) -> Callable[[str], bytes] | None:
    """Reads a secret by its path; None if no vault is configured. Imports and connects only when it is called."""
    section = config.vault
    if not section.address:
        return None

    def read(reference: str) -> bytes:
        from lattice.integrations.vault.client import VaultClient, VaultError

        token = resolve(section.token, key="vault.token", mode=config.mode).decode()
        if config.mode == "production" and section.address.startswith("http://"):
            raise SecretError("vault.address: must be https in production")
        trust = ssl.create_default_context(cafile=section.ca_file) if section.ca_file else None
        client = VaultClient(
            section.address,
            token,
            mount=section.mount,
            namespace=section.namespace,
            trust=trust,
            timeout_s=section.timeout,
        )
        try:
            return client.read(reference)
        except VaultError as error:
            raise SecretError(f"vault: {error}") from None

    return read
