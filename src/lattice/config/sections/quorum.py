"""The servers of a quorum, and how they are replaced."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lattice.config.sections.values import Listen, Name, Period


class PeerSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server as the others reach it: REST, the agents' port, and both ports of its etcd member."""

    name: Name  # name of the server, as its own `name`
    rest: Annotated[str, Meta(pattern=r"^https?://[^\s/]+$")]  # base URL of its REST API
    grpc: Listen  # address of its port for agents and gRPC
    client: Listen  # address of its etcd member's client port
    peer: Listen  # address of its etcd member's peer port


class QuorumSection(Struct, frozen=True, kw_only=True):
    """`peers` names all servers, this one too. With a `token` all of them begin together; without, one begins and others join."""

    # `sqlite`: one server with an embedded log; `etcd`: three or five servers that share a log
    kind: Literal["sqlite", "etcd"] = "sqlite"
    peers: list[PeerSection] = []  # all servers of the quorum, this one included
    # names a new quorum whose servers all start together with --bootstrap; empty = one starts, the others join by invitation
    token: str = ""
    # where the etcd member listens for servers; empty = the `client` address of this server in `peers`
    client_listen: str = ""
    # where the etcd member listens for other members; empty = the `peer` address of this server in `peers`
    peer_listen: str = ""
    # where this server listens for other servers; empty = the host of `peer` and the port after it
    internal_listen: str = ""
    # where other servers relay their agents to; empty = the host of `peer` and the second port after it
    relay_listen: str = ""
    certificates: str = ""  # directory of the servers' own certificates; empty = `certificates` in the data directory
    # a server whose clock differs by more is reported in logs, metrics and `raft status`
    clock_skew_limit: Period = 0.5
    clock_step_limit: Period = 60.0  # a server whose clock jumps or differs by more does not lead
    program: str = "etcd"  # the etcd program: a name in PATH or a path
    quota_bytes: Annotated[int, Meta(ge=16 << 20, le=8 << 30)] = 4 << 30  # size limit of each etcd member's database
    # seconds without a sign of life after which another server takes over the leadership
    lease_s: Annotated[int, Meta(ge=2, le=60)] = 4


class UpgradeSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`auto_finalize` raises the cluster's level as soon as every server supports the next one.

    Unset: a new cluster begins at the newest level, one that was upgraded waits for `lattice admin upgrade finalize`.
    false: a new cluster waits for that, too, so that its data can be read by the release before.
    `program` replaces the software of agents and servers in `lattice admin upgrade start`, on the leading server; every server needs it.
    """

    auto_finalize: bool | None = None  # whether the level is raised automatically; see above for unset
    # command and arguments that replace the software of the nodes or servers named on stdin; empty = no rolling upgrades
    program: list[str] = []
    program_timeout: Period = 300.0  # the program is killed after this time
    return_within: Period = 600.0  # a node or server that has not returned with the new release by then has failed
