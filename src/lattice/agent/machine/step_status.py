"""Steps as the shim tells them."""

from typing import Protocol

import msgspec

from lattice.core.model.work.usage import Usage
from lattice.ports.nodes.agents import PmiUse, StepKey


class Measured(Protocol):
    """What the shim measured of a run or a step; 0 where it could not."""

    @property
    def throttled_s(self) -> float: ...
    @property
    def read_bytes(self) -> int: ...
    @property
    def written_bytes(self) -> int: ...
    @property
    def peak_pids(self) -> int: ...


def usage_of(record: Measured) -> Usage:
    return Usage(
        throttled_s=record.throttled_s,
        read_bytes=record.read_bytes,
        written_bytes=record.written_bytes,
        peak_pids=record.peak_pids,
    )


class EndedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task as the shim tells it."""

    rank: int
    exit_code: int = 0
    signal: int = 0
    error: str = ""
    lost: bool = False
    oom: str = ""  # why the kernel killed it for lack of memory


class StepStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A step as the shim tells it: in its list, in status.json, in an event. Before the end only failed tasks are named."""

    number: int = 0
    run: int = 0
    step: int = 0
    phase: str = "running"
    tasks: tuple[EndedTask, ...] = ()
    cause: str = ""
    why: str = ""
    error: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: float = 0.0
    elapsed_s: float = 0.0
    output_lost: int = 0
    throttled_s: float = 0.0
    read_bytes: int = 0
    written_bytes: int = 0
    peak_pids: int = 0
    pmi: PmiUse | None = None  # absent where no rank used it

    @property
    def key(self) -> StepKey:
        return StepKey(self.number, self.run, self.step)

    @property
    def has_ended(self) -> bool:
        return self.phase == "ended"
