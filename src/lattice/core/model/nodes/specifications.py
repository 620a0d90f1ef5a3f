"""What a node is specified to have, and what it says it has.

A specification is what a site wrote down (the node records of a NodeSpecConf); figures are what the agent measured beyond the
hardware that is scheduled. See docs/architecture/nodes.md.
"""

from msgspec import Struct

MAX_PARTITION = 31


class Specification(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The least that a node must have; 0 or empty = nothing asked. `position` is its place in the file, from 1."""

    os: str = ""
    cpus: int = 0
    speed: float = 0.0
    memory_mb: int = 0
    virtual_memory_mb: int = 0
    tmp_disk_mb: int = 0
    partitions: tuple[int, ...] = (0,)
    position: int = 0


class Figures(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """What an agent reports of its machine that no placement asks for; 0 or empty = not known."""

    os: str = ""
    speed: float = 0.0  # MHz
    virtual_memory_mb: int = 0
    tmp_disk_mb: int = 0


NO_FIGURES = Figures()
