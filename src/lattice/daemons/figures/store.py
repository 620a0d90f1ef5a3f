"""The store that holds what agents measured; imported only if there is one."""

from lattice.config.schema import ServerConfig
from lattice.daemons.outside.access import check_address, token_source, trust_of
from lattice.ports.site.metric_store import MetricStore

_TOKEN_KEY = "telemetry.tsdb_token"  # noqa: S105 - the name of the setting


def metric_store_of(config: ServerConfig) -> MetricStore | None:
    """None where the nodes are asked. Raises ConfigError and SecretError."""
    section = config.telemetry
    url, reference = section.query_url or section.tsdb_endpoint, section.tsdb_token
    if not url:
        return None
    address_key = "telemetry.query_url" if section.query_url else "telemetry.tsdb_endpoint"
    check_address(url, key=address_key, token_key=_TOKEN_KEY, has_token=bool(reference))
    from lattice.integrations.promql.client import PromqlStore

    token = token_source(config, reference, key=_TOKEN_KEY)
    trust = trust_of(section.tsdb_ca_file, key="telemetry.tsdb_ca_file")
    return PromqlStore(url, token=token, trust=trust, timeout_s=section.tsdb_timeout)
