"""Where a local cluster lives and what its cluster.json says.

The command line and the clients find a cluster through this file; the supervisor, which writes it, uses the same
names. Reading is lenient: an absent, half-foreign or damaged file means that no cluster is here."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path

CLUSTER_FILE = "cluster.json"
TOKEN_FILE = "token"  # noqa: S105 - a file name
USERS_DIRECTORY = "users"  # token files of further users, by name
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


def directory_text(environ: Mapping[str, str]) -> str:
    """Where `lattice up` puts a cluster, and the other commands look for one, unless told otherwise."""
    if chosen := environ.get("LATTICE_DIR"):
        return chosen
    home = environ.get("HOME") or os.path.expanduser("~")
    state = environ.get("XDG_STATE_HOME") or os.path.join(home, ".local", "state")
    return os.path.join(state, "lattice", "local")


def default_directory(environ: Mapping[str, str] = os.environ) -> "Path":
    """The same as a path."""
    # Imported here, because every command reads this file and hardly one needs paths.
    from pathlib import Path

    return Path(directory_text(environ))


def read_cluster(directory: str | os.PathLike[str]) -> ClusterFile | None:
    try:
        with open(os.path.join(directory, CLUSTER_FILE), "rb") as file:
            return msgspec.json.decode(file.read(), type=ClusterFile)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def is_hidden(directory: str | os.PathLike[str]) -> bool:
    """Whether there may be a cluster that this user must not see."""
    try:
        with open(os.path.join(directory, CLUSTER_FILE), "rb"):
            return False
    except PermissionError:
        return True
    except OSError:
        return False


def may_answer(cluster: ClusterFile) -> bool:
    """Whether a server runs, or a supervisor that would restart it; the file may outlive both."""
    awaited = [process for process in cluster.processes if process.role in {"supervisor", "server"}]
    return not awaited or any(map(_is_running, awaited))


def _is_running(process: ClusterProcess) -> bool:
    try:
        with open(f"/proc/{process.pid}/stat", "rb") as file:
            figures = file.read().rpartition(b")")[2].split()
    except OSError:
        return False
    state, started = figures[0], int(figures[19])
    return state not in {b"Z", b"X"} and process.started in {0, started}
