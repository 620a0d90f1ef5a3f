"""Options of an agent about the data of runs."""

import argparse
from collections.abc import Callable
from pathlib import Path

from lattice.agent.hooks.data import TARGETS, DataSettings
from lattice.agent.hooks.node_mounts import Export, NodeBucket
from lattice.config.load import ConfigError, load
from lattice.config.node_data import NodeDataConfig
from lattice.config.secrets import SecretError
from lattice.config.sections.data import ColdTierSection
from lattice.daemons.agent.choices import CannotStart
from lattice.daemons.outside.tiers import S3, bucket_fields, tier_sections


def add_data(add: Callable[..., argparse.Action]) -> None:
    add(
        "--data-hot",
        type=Path,
        metavar="DIR",
        help="directory of the hot tier, where movers put copies of data for runs; under the same path for all",
    )
    add(
        "--data-targets",
        default=",".join(TARGETS),
        metavar="LIST",
        help="directories of root below which users may have data mounted (default: %(default)s)",
    )
    add(
        "--data-config",
        type=Path,
        metavar="FILE",
        help="file with the section data of the servers' configuration: the exports and buckets that this node mounts for runs",
    )
    add(
        "--data-set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override one setting of that file; may be repeated",
    )


def data_settings(options: argparse.Namespace) -> DataSettings:
    """Raises CannotStart."""
    targets = tuple(each.strip().rstrip("/") for each in options.data_targets.split(",") if each.strip().rstrip("/"))
    hot = options.data_hot.absolute() if options.data_hot is not None else None
    exports, buckets = dict[str, Export](), dict[str, NodeBucket]()
    if options.data_config is not None:
        try:
            config = load(options.data_config, NodeDataConfig, options.data_set)
            exports, buckets = _exports(config), _buckets(config)
        except (ConfigError, SecretError) as error:
            raise CannotStart(str(error)) from None
    return DataSettings(hot=hot, targets=targets, exports=exports, buckets=buckets)


def _exports(config: NodeDataConfig) -> dict[str, Export]:
    return {
        each.name: Export(directory=each.directory, address=each.address, options=each.options)
        for each in config.data.exports
    }


def _buckets(config: NodeDataConfig) -> dict[str, NodeBucket]:
    """Those whose key stands there; archives are never mounted."""
    found = {}
    for key, tier in tier_sections(config):
        if tier.url.startswith(S3) and tier.key_secret and not isinstance(tier, ColdTierSection):
            fields = bucket_fields(key, tier, config.mode)
            found[tier.url.removeprefix(S3)] = NodeBucket(
                endpoint=tier.endpoint, region=tier.region, ca_file=tier.ca_file, **fields
            )
    return found
