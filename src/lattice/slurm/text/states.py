"""State names: only Slurm's own, because clients fail on any other."""

from enum import Enum


class State(Enum):
    """(long, short)."""

    PENDING = ("PENDING", "PD")
    CONFIGURING = ("CONFIGURING", "CF")
    RUNNING = ("RUNNING", "R")
    COMPLETING = ("COMPLETING", "CG")
    SUSPENDED = ("SUSPENDED", "S")
    REQUEUED = ("REQUEUED", "RQ")
    COMPLETED = ("COMPLETED", "CD")
    FAILED = ("FAILED", "F")
    CANCELLED = ("CANCELLED", "CA")
    TIMEOUT = ("TIMEOUT", "TO")
    OUT_OF_MEMORY = ("OUT_OF_MEMORY", "OOM")
    NODE_FAIL = ("NODE_FAIL", "NF")
    PREEMPTED = ("PREEMPTED", "PR")
    DEADLINE = ("DEADLINE", "DL")
    BOOT_FAIL = ("BOOT_FAIL", "BF")

    @property
    def long(self) -> str:
        return self.value[0]

    @property
    def short(self) -> str:
        return self.value[1]

    @property
    def rank(self) -> int:
        """Its position when listings are sorted by state."""
        return _RANKS[self]

    @property
    def is_waiting(self) -> bool:
        return self is State.PENDING

    @property
    def accounted(self) -> "State":
        """As sacct shows it, without transitional states, which some clients take for final ones."""
        return State.RUNNING if self in _PASSING else self

    @property
    def is_active(self) -> bool:
        """Shown by squeue without -t."""
        return self in _ACTIVE


_PASSING = frozenset({State.CONFIGURING, State.COMPLETING})
_ACTIVE = frozenset({State.PENDING, State.CONFIGURING, State.RUNNING, State.COMPLETING, State.SUSPENDED})

_ORDER = "PENDING RUNNING CONFIGURING SUSPENDED COMPLETING COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE"
_RANKS = {state: (_ORDER.split().index(state.value[0]) if state.value[0] in _ORDER.split() else 99) for state in State}
VALID_STATES = (
    "PENDING,RUNNING,SUSPENDED,COMPLETED,CANCELLED,FAILED,TIMEOUT,NODE_FAIL,PREEMPTED,BOOT_FAIL,DEADLINE,OUT_OF_MEMORY,COMPLETING,"
    "CONFIGURING,RESIZING,RESV_DEL_HOLD,REQUEUED,REQUEUE_FED,REQUEUE_HOLD,REVOKED,SIGNALING,SPECIAL_EXIT,STAGE_OUT,STOPPED"
)

# By the state of the allocation, or for a failed one by its cause.
_OF_STATE = {
    "Pending": State.PENDING,
    "Staging": State.PENDING,
    "Starting": State.CONFIGURING,
    "Running": State.RUNNING,
    "Checkpointing": State.RUNNING,
    "Suspended": State.PENDING,  # it waits in the queue; tools take other words for an end or for a pause
    "Stopping": State.COMPLETING,
    "Completed": State.COMPLETED,
    "Failed": State.FAILED,
    "Cancelled": State.CANCELLED,
}
_OF_CAUSE = {
    "oom": State.OUT_OF_MEMORY,
    "walltime": State.TIMEOUT,
    "node": State.NODE_FAIL,
    "preempted": State.PREEMPTED,
    "deadline": State.DEADLINE,
}
_REASON_OF_CAUSE = {
    "exit": "NonZeroExitCode",
    "signal": "JobLaunchFailure",  # Slurm's own state, and the only one that clients know
    "oom": "OutOfMemory",
    "walltime": "TimeLimit",
    "node": "NodeDown",
    "launch": "JobLaunchFailure",
    "deadline": "DeadLine",
}


def state_of(state: str, cause: str = "") -> State:
    """The state name of an allocation in this state, ended for this cause."""
    return _OF_CAUSE.get(cause, State.FAILED) if state == "Failed" else _OF_STATE[state]


def end_reason(state: str, cause: str) -> str:
    """The reason of a job that has ended, in one word."""
    return _REASON_OF_CAUSE.get(cause, "None") if state == "Failed" else "None"


def find_state(word: str) -> State | None:
    """A state by its long or short name, in any case."""
    wanted = word.strip().upper()
    return next((state for state in State if wanted in state.value), None)


def names_of(state: State) -> tuple[str, ...]:
    """The allocation states that are shown as this one."""
    if state in _OF_CAUSE.values():
        return ("Failed",)
    return tuple(name for name, shown in _OF_STATE.items() if shown is state)
