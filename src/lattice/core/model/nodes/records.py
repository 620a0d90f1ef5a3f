"""The record of a node in the words of the machine status of 2001: its items, its state, and what it lacks.

`shortfall` compares what a node has with what it was specified to have: one with less is not configured for work, and the sentence
says why. What was not specified asks for nothing; what an agent does not report is taken from the specification.
See docs/architecture/nodes.md.
"""

import re
from enum import StrEnum

from msgspec import Struct

from lattice.core.model.nodes.nodes import Hardware, Node, NodeState
from lattice.core.model.nodes.specifications import NO_FIGURES, Figures, Specification

IN_NO_PARTITION = "in no partition"
_SEPARATOR = re.compile(r"[.\-_+]")


class NodeRecord(Struct, frozen=True, kw_only=True, gc=False):
    """Items two to eight of a node as they are in force: measured where that is known, else as specified."""

    os: str
    cpus: int
    speed: float
    memory_mb: int
    virtual_memory_mb: int
    tmp_disk_mb: int
    partitions: tuple[int, ...]


def shortfall(specification: Specification, hardware: Hardware | None, figures: Figures) -> str:
    """Everything that the node lacks, as a sentence; empty when it may work. Without `hardware` it was never heard."""
    problems = [] if specification.partitions else [IN_NO_PARTITION]
    if hardware is not None:
        problems += _below("CPUs", hardware.cpus, specification.cpus)
        problems += _below("Speed", figures.speed, specification.speed)
        problems += _below("RealMemory", hardware.memory_mb, specification.memory_mb)
        problems += _below("VirtualMemory", figures.virtual_memory_mb, specification.virtual_memory_mb)
        problems += _below("TmpDisk", figures.tmp_disk_mb, specification.tmp_disk_mb)
    if figures.os and specification.os and is_lower_level(figures.os, specification.os):
        problems.append(f"OS {figures.os} below the specified {specification.os}")
    return ", ".join(problems)


def _below(item: str, has: float, wanted: float) -> list[str]:
    return [f"{item} {has:g} below the specified {wanted:g}"] if 0 < has < wanted else []


def is_lower_level(has: str, wanted: str) -> bool:
    """Whether a system, `Linux.6.1.0-13`, is another one or of an older release than the one wanted."""
    own, _, own_release = has.partition(".")
    name, _, release = wanted.partition(".")
    return own.lower() != name.lower() or release_order(own_release) < release_order(release)


def release_order(release: str) -> tuple[int, ...]:
    """The numbers with which a release begins, without the zeros behind them: 2.4.7-10smp is (2, 4, 7, 10)."""
    numbers: list[int] = []
    for part in _SEPARATOR.split(release):
        digits = re.match(r"\d{1,9}", part)
        if digits is None:
            break
        numbers.append(int(digits[0]))
        if digits[0] != part:
            break
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers)


def record_of(node: Node) -> NodeRecord:
    """The items of a node in force."""
    wanted, figures, hardware = node.specification, node.figures or NO_FIGURES, node.hardware
    if wanted is None:
        wanted = Specification(partitions=())
    return NodeRecord(
        os=figures.os or wanted.os,
        cpus=hardware.cpus or wanted.cpus,
        speed=figures.speed or wanted.speed,
        memory_mb=hardware.memory_mb or wanted.memory_mb,
        virtual_memory_mb=figures.virtual_memory_mb or wanted.virtual_memory_mb,
        tmp_disk_mb=figures.tmp_disk_mb or wanted.tmp_disk_mb,
        partitions=wanted.partitions,
    )


class Status(StrEnum):
    """States as the machine status of 2001 calls them."""

    IDLE = "IDLE"
    BUSY = "BUSY"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"
    DOWN = "DOWN"


def status_of(node: Node) -> Status:
    """Ready and free is IDLE, Ready and held is BUSY; DOWN is everything that cannot run work."""
    if node.state is NodeState.READY:
        if not node.is_free:
            return Status.BUSY
        return Status.DOWN if node.shortfall else Status.IDLE
    return _STATUSES[node.state]


_STATUSES = {
    NodeState.UNKNOWN: Status.DOWN,
    NodeState.BOOTING: Status.DOWN,
    NodeState.READY: Status.IDLE,
    NodeState.DEGRADED: Status.DOWN,
    NodeState.DOWN: Status.DOWN,
    NodeState.DRAINING: Status.DRAINING,
    NodeState.DRAINED: Status.DRAINED,
    NodeState.FAILED: Status.DOWN,
    NodeState.QUARANTINE: Status.DOWN,
}
