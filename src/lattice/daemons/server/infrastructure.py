"""The configured system that manages the nodes; imported only if there is one."""

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import resolve
from lattice.daemons.outside.access import trust_of
from lattice.daemons.outside.vaults import vault_of
from lattice.ports.nodes.infrastructure import Infrastructure


def infrastructure_of(config: ServerConfig) -> Infrastructure | None:
    """None if drift is not reported. Raises ConfigError and SecretError."""
    section = config.openchami
    if not section.url:
        return None
    from lattice.integrations.openchami.client import OpenChami

    token = ""
    if section.token:
        token = resolve(section.token, key="openchami.token", mode=config.mode, vault=vault_of(config)).decode().strip()
    if token and config.mode == "production" and section.url.startswith("http://"):
        raise ConfigError("openchami.url: must be https in production, because a token is sent there")
    trust = trust_of(section.ca_file, key="openchami.ca_file")
    return OpenChami(section.url, token=lambda: token, xnames=section.xnames, trust=trust, timeout_s=section.timeout)
