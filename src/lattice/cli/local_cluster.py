"""Where a local cluster lives and what its cluster.json says.

The command line finds a cluster through this file; the supervisor, which writes it, uses the same
names. Reading is lenient: an absent, half-foreign or damaged file means that no cluster is here."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

CLUSTER_FILE = "cluster.json"
TOKEN_FILE = "token"  # noqa: S105 - a file name
AGENT_TOKEN_FILE = "agent-token"  # noqa: S105 - a file name


class ClusterProcess(msgspec.Struct, frozen=True, kw_only=True):
    """One process. `started` is its start time in clock ticks since boot: with the pid it names one
    process for as long as the machine runs."""

    role: str  # supervisor, server, etcd, agent, shim
    name: str
    pid: int
    addresses: tuple[str, ...] = ()
    started: int = 0


class ClusterFile(msgspec.Struct, frozen=True, kw_only=True):
    processes: tuple[ClusterProcess, ...] = ()
    api_url: str = ""  # comma-separated where there are several servers
    grpc: str = ""
    dir: str = ""
    version: str = ""
    boot_id: str = ""  # boot of the machine under which the processes were started

    def of_role(self, role: str) -> tuple[ClusterProcess, ...]:
        return tuple(process for process in self.processes if process.role == role)


def default_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Where `lattice up` puts a cluster, and the other commands look for one, unless told otherwise."""
    if chosen := environ.get("LATTICE_DIR"):
        return Path(chosen)
    if state := environ.get("XDG_STATE_HOME"):
        return Path(state) / "lattice" / "local"
    home = environ.get("HOME") or os.path.expanduser("~")
    return Path(home) / ".local" / "state" / "lattice" / "local"


def read_cluster(directory: Path) -> ClusterFile | None:
    try:
        return msgspec.json.decode((directory / CLUSTER_FILE).read_bytes(), type=ClusterFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
