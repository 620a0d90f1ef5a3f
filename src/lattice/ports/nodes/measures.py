"""What a node answers when it is asked what its work uses now, and what the node lacks."""

from msgspec import Struct

from lattice.ports.nodes.run_keys import RunKey


class GroupUse(Struct, frozen=True, kw_only=True, gc=False):
    """What the processes of a run or a step use on one node at this moment; 0 also where the node does not measure it."""

    key: RunKey
    step: int | None = None  # None = the whole run, steps included
    cpu_s: float = 0.0
    throttled_s: float = 0.0
    memory_mb: float = 0.0
    peak_memory_mb: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    pids: int = 0  # processes and threads
    peak_pids: int = 0
    cpus: tuple[int, ...] = ()  # empty = bound to none
    gpus: tuple[int, ...] = ()


class MissingFeature(Struct, frozen=True, kw_only=True, gc=False):
    """What a node could offer and does not."""

    name: str
    reason: str


class NodeUse(Struct, frozen=True, kw_only=True):
    """What the runs of a node use and have now, and what the node lacks."""

    groups: tuple[GroupUse, ...] = ()
    missing: tuple[MissingFeature, ...] = ()
