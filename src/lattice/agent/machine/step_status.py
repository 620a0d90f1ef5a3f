"""Steps as the shim tells them."""

import msgspec

from lattice.ports.nodes.agents import StepKey


class EndedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task as the shim tells it."""

    rank: int
    exit_code: int = 0
    signal: int = 0
    error: str = ""
    lost: bool = False


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

    @property
    def key(self) -> StepKey:
        return StepKey(self.number, self.run, self.step)

    @property
    def has_ended(self) -> bool:
        return self.phase == "ended"
