"""The tiers of a configuration as servers, movers and nodes read them. Light: agents import it."""

from collections.abc import Callable

from lattice.config.load import ConfigError
from lattice.config.node_data import NodeDataConfig
from lattice.config.redaction import is_reference
from lattice.config.schema import ServerConfig
from lattice.config.secrets import resolve
from lattice.config.sections.data import WarmTierSection

FILE, S3 = "file://", "s3://"


def tier_sections(config: ServerConfig | NodeDataConfig) -> list[tuple[str, WarmTierSection]]:
    """All places that data may come from, by the key that says so; archives are `ColdTierSection`."""
    tiers = config.data.tiers
    return [
        *((f"data.tiers.warm[{place}]", tier) for place, tier in enumerate(tiers.warm)),
        *((f"data.tiers.cold[{place}]", tier) for place, tier in enumerate(tiers.cold)),
    ]


def bucket_fields(
    key: str, tier: WarmTierSection, mode: str, vault: Callable[[str], bytes] | None = None
) -> dict[str, str]:
    """The key that opens the bucket: `key_id` and `key_secret`. Raises ConfigError and SecretError."""
    if tier.endpoint and not tier.endpoint.startswith(("https://", "http://")):
        raise ConfigError(f"{key}.endpoint: give an address that begins with https://")
    if mode == "production" and tier.endpoint.startswith("http://"):
        raise ConfigError(f"{key}.endpoint: must be https in production")

    def resolved(name: str) -> str:
        given: str = getattr(tier, name)
        if name == "key_id" and given and not is_reference(given):
            return given
        return resolve(given, key=f"{key}.{name}", mode=mode, vault=vault).decode() if given else ""

    return {name: resolved(name) for name in ("key_id", "key_secret")}
