"""The storage system that is asked what it guarantees; imported only if there is one."""

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.daemons.outside.access import check_address, token_source, trust_of
from lattice.ports.site.storage_qos import StorageQos


def storage_qos_of(config: ServerConfig) -> StorageQos | None:
    """None where there is none. Raises ConfigError and SecretError."""
    section = config.telemetry
    url, reference = section.storage_endpoint, section.storage_token
    if not url:
        return None
    key = "telemetry.storage_token"
    check_address(url, key="telemetry.storage_endpoint", token_key=key, has_token=bool(reference))
    if not section.storage_views:
        raise ConfigError("telemetry.storage_views: name the paths of the views that users see")
    from lattice.integrations.vast.qos import VastQos

    token = token_source(config, reference, key=key)
    trust = trust_of(section.storage_ca_file, key="telemetry.storage_ca_file")
    return VastQos(url, section.storage_views, token=token, trust=trust)
