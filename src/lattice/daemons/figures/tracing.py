"""Where a server sends its traces. Without an address nothing of it is imported."""

from typing import TYPE_CHECKING

from lattice.config.schema import ServerConfig
from lattice.config.secrets import resolve
from lattice.daemons.outside.vaults import vault_of

if TYPE_CHECKING:
    from lattice.integrations.otlp.exporter import OtlpExporter


def span_exporter(config: ServerConfig) -> "OtlpExporter | None":
    """None where no collector is configured. Raises SecretError."""
    settings = config.tracing
    if not settings.otlp_endpoint:
        return None
    from lattice.integrations.otlp.exporter import OtlpExporter

    headers: dict[str, str] = {}
    if settings.token:
        token = resolve(settings.token, key="tracing.token", mode=config.mode, vault=vault_of(config))
        headers["authorization"] = f"Bearer {token.decode().strip()}"
    return OtlpExporter(settings.otlp_endpoint, "lattice-server", config.name, headers)
