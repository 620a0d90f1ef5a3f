"""Keys of the server's configuration as the handbook of the specification spells them. They are understood; a note names the key of Lattice.

Only what means the same is here. A key of the handbook that has no counterpart is refused by name, as any unknown key.
"""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from lattice.config.schema import ServerConfig


class Spellings(NamedTuple):
    """`keys`: spelling to key, both with their sections. `in_lists`: the same for the entries of a list of sections."""

    keys: Mapping[str, str] = {}
    in_lists: Mapping[str, Mapping[str, str]] = {}

    def has_section(self, path: str) -> bool:
        """Whether something below that path is understood."""
        return any(spelling.startswith(f"{path}.") for spelling in self.keys)


_OF_SERVERS = Spellings(
    keys={
        "quorum.node_id": "name",
        "quorum.data_dir": "data_dir",
        "quorum.bind_network": "bind_network",
        "quorum.raft_listen_address": "quorum.peer_listen",
        "quorum.snapshot_threshold": "snapshots.every_commands",
        "raft.snapshot_retention_count": "snapshots.keep",
        "api.grpc_address": "api.grpc_listen",
        "api.rest_address": "api.rest_listen",
        "api.oidc_hmac_secret": "api.hmac_secret",
        "api.tls_cert": "api.tls.certificate",
        "api.tls_key": "api.tls.key",
        "api.tls_ca": "api.tls.client_ca",
        "storage.s3_endpoint": "object_store.endpoint",
        "node_agent.heartbeat_interval_seconds": "node_agent.heartbeat_interval_s",
        "node_agent.heartbeat_timeout_seconds": "node_agent.heartbeat_timeout_s",
        "node_agent.grace_period_seconds": "node_agent.grace_period_s",
        "node_agent.sensitive_grace_period_seconds": "node_agent.sensitive_grace_period_s",
        "scheduling.cycle_interval_seconds": "scheduling.cycle_interval_s",
        "rate_limit": "rate_limits",
        "compat.partition_mapping": "slurm.partitions",
        "compat.qos_mapping": "slurm.qos",
    },
    in_lists={"quorum.peers": {"id": "name", "address": "peer"}},
)


def spellings_of(schema: type[Struct]) -> Spellings:
    """Those of a file with this schema; none for files that the handbook does not describe."""
    return _OF_SERVERS if schema is ServerConfig else Spellings()
