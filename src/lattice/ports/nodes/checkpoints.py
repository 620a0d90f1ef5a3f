"""Checkpoints as servers order them of agents, and as agents report them. See docs/architecture/checkpoints.md.

Fields have the names of `proto/lattice/v1/agent.proto`; `lattice.wire.agents.messages` carries them by name.
"""

from typing import Protocol

from msgspec import Struct

from lattice.ports.nodes.run_keys import RunKey


class CheckpointSetup(Struct, frozen=True, kw_only=True, gc=False):
    """How a run is asked for checkpoints, and what it continues from."""

    strategy: str = ""  # auto or manual; empty = it writes none
    protocol: str = ""  # signal, shmem or grpc
    signal: int = 0  # of the protocol `signal`
    directory: str = ""  # where its checkpoints lie, one directory each
    root: str = ""  # of all checkpoints, above `directory`
    resume_from: str = ""  # a complete checkpoint; empty = from the beginning
    must_resume: bool = False  # refuse to start where `resume_from` is not there
    port: int = 0  # of the protocol `grpc`: the work listens there; 0 = it registers with the agent
    objects: str = ""  # where the object store may have a copy of `resume_from`; empty = nowhere
    grant: str = ""  # lets this node fetch it by requests that servers sign
    is_awaited: bool = False  # the copy is being made: wait for it


class CheckpointOrder(Struct, frozen=True, kw_only=True, gc=False):
    """Ask the run for a checkpoint, or with `seal` complete the one that every node has written. May be repeated without harm."""

    key: RunKey
    n: int  # rises with each checkpoint of the allocation
    root: str  # of all checkpoints, above `path`
    path: str
    user: str  # account on the node
    timeout_s: float = 0.0  # from now on
    reason: str = ""
    protocol: str = ""
    signal: int = 0
    apart: bool = False  # each node writes into a directory of its own below `path`
    seal: bool = False
    keep: tuple[int, ...] = ()  # with `seal`: earlier ones that stay; all others are removed
    nodes: tuple[str, ...] = ()  # with `seal`: those that wrote it
    remove: bool = False  # all checkpoints of the allocation, in `path`, which has ended long ago
    port: int = 0  # of the protocol `grpc`
    max_deferral_s: float = 0.0  # how long the work may put it off, where its protocol can
    store: bool = False  # copy the complete checkpoint in `path` to the object store
    probe: bool = False  # measure how fast a file is written below `root`
    objects: str = ""  # with `store`: where it goes
    grant: str = ""  # with `store`: lets this node write there by requests that servers sign


STORAGE_AWAY = "storage_away"  # in place of a phase: nothing was asked yet, because the root is not there


class CheckpointReport(Struct, frozen=True, kw_only=True, gc=False):
    """What a node says of a checkpoint; `phase` is a value of CheckpointPhase, or a word of this module. Repeated when the order is."""

    key: RunKey
    n: int
    phase: str
    bytes: int = 0
    elapsed_s: float = 0.0
    message: str = ""


REMOVED = "removed"  # phase of the report that all checkpoints of an allocation are gone
PROBED = "probed"  # phase of the report that says how long a file of these bytes took to be on the disk
STORED = "stored"  # phase of the report that the object store has the checkpoint
UNSTORED = "unstored"  # phase of the report that it could not be copied; the message says why
# What a node may do with the copy of a checkpoint in the object store; each is granted apart.
WRITES, READS = "checkpoint-write://", "checkpoint-read://"


class CheckpointLinks(Protocol):
    """How orders about checkpoints reach the nodes."""

    def ask_checkpoint(self, node: str, order: CheckpointOrder) -> bool:
        """Queues the order for the node; False when there is no confirmed stream, or it cannot take more now."""
        ...
