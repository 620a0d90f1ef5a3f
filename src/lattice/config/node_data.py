"""What an agent reads of the configuration of data, from a file of its own (`lattice-agent --data-config`)."""

from typing import Literal

from msgspec import Struct

from lattice.config.sections.data import DataSection


class NodeDataConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The section `data` of the servers' file, and nothing else."""

    mode: Literal["dev", "production"] = "production"  # `dev` permits buckets without https
    data: DataSection = DataSection()
