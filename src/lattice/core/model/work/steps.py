"""Steps: tasks started inside a running allocation, as they are remembered after their end. See docs/architecture/steps.md."""

from msgspec import Struct

from lattice.core.model.work.usage import NO_USAGE, Usage

KEPT_STEPS = 100  # of one allocation, the newest
MAX_TASKS = 65_536
MAX_WATCHERS = 32  # of all terminals of an allocation


class StepRecord(Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """A step that is over. `codes` counts its tasks by what a shell would say of each: (status, how many)."""

    step: int
    run: int
    name: str
    nodes: tuple[str, ...]
    tasks: int
    started_at: int
    ended_at: int
    exit_code: int = 0  # the highest
    lost: int = 0  # tasks whose node was lost
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0  # of all its processes on the node where they used most
    # No further field: from the sixteenth on, msgpack counts fields in another way, and every record's bytes would change.
    usage: Usage = NO_USAGE
    codes: tuple[tuple[int, int], ...] = ()
    launch_id: str = ""  # tells a repeated launch from a new one


def with_step(known: tuple[StepRecord, ...], new: StepRecord) -> tuple[StepRecord, ...]:
    """The records of an allocation with a further one, by number, the oldest dropped; the same when it is known already."""
    if any(record.step == new.step for record in known):
        return known
    kept = sorted((*known, new), key=lambda record: record.step)
    return tuple(kept[-KEPT_STEPS:])


class Watcher(Struct, frozen=True, gc=False, array_like=True):
    """A user whom the owner of an allocation lets watch one of its terminals, read-only."""

    step: int
    user: str


TERMINAL = "terminal-"  # begins the launch id of what is no step of the work, but a terminal of its user


def is_terminal(launch_id: str) -> bool:
    return launch_id.startswith(TERMINAL)


def step_id(allocation: str, step: int) -> str:
    """The id shown to people: `a17.0`."""
    return f"{allocation}.{step}"
