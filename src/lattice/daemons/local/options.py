"""The options of a local cluster."""

from dataclasses import dataclass, field

REST_PORT = 8080
GRPC_PORT = 50051
HOST = "127.0.0.1"


class StartFailed(Exception):
    """The cluster could not be started; the text is for the user."""

    def __init__(self, text: str, *, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class AlreadyRunning(StartFailed):
    """A cluster is running in that directory."""


@dataclass(frozen=True)
class Options:
    nodes: int = 4
    rest_port: int = REST_PORT
    grpc_port: int = GRPC_PORT
    node_cpus: int = 4
    node_memory_mb: int = 4096
    node_groups: int = 0  # topology groups over which the nodes are spread, 0 = none
    node_gpus: int | None = None  # of each node; None = those of the machine, dealt out
    prologue: str = ""
    scratch_dir: str = ""
    epilogue: str = ""
    checks: str = ""
    check_dir: str = ""
    hardware_dir: str = ""  # of synthetic-hardware files, NODE.json
    restart: bool = True
    servers: int = 1
    users: dict[str, str] = field(default_factory=dict)  # further users and their scopes
    settings: list[str] = field(default_factory=list)  # KEY=VALUE, passed to the server

    def node_names(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    def server_names(self) -> list[str]:
        """A single one is called `server`; several are numbered."""
        return ["server"] if self.servers == 1 else [f"s{number}" for number in range(1, self.servers + 1)]

    def group_of(self, node: str) -> str:
        """Round robin: n1 in g1, n2 in g2, ...; empty when there are no groups."""
        return f"g{(int(node[1:]) - 1) % self.node_groups + 1}" if self.node_groups else ""
