"""What an agent knows: its runs, what was asked of it, and what it keeps after the end.

`AgentState` is written by `lattice.agent.machine.decide` alone. Everything in it is a frozen record in a dict, so that
the driver may read it freely between two steps.
"""

import math
from dataclasses import dataclass, field

import msgspec

from lattice.core.model.work.usage import NO_USAGE, Usage
from lattice.ports.nodes.agents import EndCause, Greeting, KnownRun, NamedPort, Order, Phase, Report, RunKey, StartOrder


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended: what its `Report` says of it."""

    cause: EndCause
    exit_code: int = 0
    signal: int = 0
    message: str = ""
    cpu_s: float = 0.0
    peak_memory_mb: int = 0
    elapsed_s: float = 0.0
    usage: Usage = NO_USAGE
    never_ran: bool = False


class StopRequest(msgspec.Struct, frozen=True):
    """A stop that was asked for and holds until the run is gone."""

    grace_s: float
    why: str


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run on this node, from its acceptance until its folder is removed.

    `launched` says that the shim was or will be asked to fork it; `settled` that its output is where it
    belongs, so that the end may be reported.
    """

    key: RunKey
    phase: Phase
    allocation_id: str = ""
    launched: bool = False
    fence: bool = False
    summary: bool = False
    started_boot_s: float = 0.0
    stop: StopRequest | None = None
    walltime_s: float | None = None
    token: str = ""  # one that came while the launch was under way
    is_paused: bool = False
    end: End | None = None
    settled: bool = False
    acknowledged_seq: int = 0
    sent_s: float = -math.inf
    kept_since_s: float = 0.0
    stored_bytes: int = 0
    epoch: int = 0  # the history of the cluster that it belongs to, 0 = not known
    submission: str = ""  # which one its number means, empty = not known
    ports: tuple[NamedPort, ...] = ()  # reported with the start
    instance: int = 0
    order: StartOrder | None = None  # of a service: what it is started again from, with the present attempt
    last: End | None = None  # how the attempt before this one ended
    due_s: float = 0.0  # boot clock: when the next attempt may start
    is_cleared: bool = True  # nothing is left of the attempt before
    probe_failure: str = ""  # why the attempt is ended

    @property
    def attempt(self) -> int:
        return self.order.attempt if self.order is not None else 1

    @property
    def running_seq(self) -> int:
        """The number of the report that the present attempt runs; that of its end is one more, of the end before one less."""
        return 2 * self.attempt - 1

    @property
    def ended_seq(self) -> int:
        return self.running_seq + 1

    @property
    def is_resting(self) -> bool:
        """Between two attempts."""
        return self.last is not None and not self.launched and self.phase is Phase.STARTING

    @property
    def alive(self) -> bool:
        """Whether processes of this run may exist."""
        return self.launched and self.phase is not Phase.ENDED


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much is kept of runs whose end was acknowledged."""

    keep_s: float = 7 * 86400.0
    max_bytes: int = 10 << 30
    max_runs: int = 5000


@dataclass(slots=True)
class AgentState:
    """The agent's memory. `decide.step`, and what it is made of, alone changes it; `recovery.recall` makes it."""

    retention: Retention = field(default_factory=Retention)  # fixed
    # A run is in one of the two: open until its end was acknowledged, then kept for readers, oldest first, until it is pruned.
    runs: dict[RunKey, Run] = field(default_factory=dict)
    kept: dict[RunKey, Run] = field(default_factory=dict)
    kept_bytes: int = 0  # always the sum over `kept`
    # By number of the allocation. An order waits for its launch, or a run may have processes: at most one of each, and a launch moves
    # the number from the first to the second. A newer run waits there until the older one is gone from `live`.
    waiting: dict[int, StartOrder] = field(default_factory=dict)
    live: dict[int, RunKey] = field(default_factory=dict)
    highest: dict[int, int] = field(default_factory=dict)  # the highest run known, open or kept; lower ones are refused
    shim_up: bool = False  # its list was compared with `runs`; without it nothing is launched and nothing confirmed
    # The session. A stream that ends takes all of it back.
    welcomed: bool = False  # reports are sent now; those of before are sent again
    session_to_confirm: int | None = None  # until Confirmed is sent, which is once
    stale: frozenset[RunKey] = frozenset()  # runs that the server did not name: each is ended before Confirmed is sent
    has_stale_steps: bool = False  # the same of steps, which the driver of steps ends
    # As the last server said; kept while there is none, and over a restart of the agent.
    heartbeat_interval_s: float = 0.0
    down_after_s: float = 0.0
    # The time of the last tick: since boot for limits, the other one for what is kept.
    now_s: float = 0.0
    wall_s: float = 0.0
    epoch: int = 0  # the newest history of the cluster that was served, 0 = none yet; only rises

    @property
    def unfinished(self) -> int:
        """Runs that live, or whose results and output are still being saved: a server counts them as running."""
        return len(self.live) + sum(run.phase is Phase.ENDED and not run.settled for run in self.runs.values())

    def find(self, key: RunKey) -> Run | None:
        return self.runs.get(key) or self.kept.get(key)

    def change(self, key: RunKey, **changes: object) -> None:
        """Of an open run, which is replaced as a whole."""
        self.runs[key] = msgspec.structs.replace(self.runs[key], **changes)


# Stimuli: what happened.


class Connected(msgspec.Struct, frozen=True, kw_only=True):
    """A stream to a server is open; nothing was said on it yet."""


class Welcomed(msgspec.Struct, frozen=True, kw_only=True):
    greeting: Greeting
    has_stale_steps: bool = False  # steps are being ended, `StepsCleared` follows


class EpochBegun(msgspec.Struct, frozen=True, kw_only=True):
    """A server speaks for a later history of the cluster: the agent is about to register again."""

    epoch: int


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """The stream is gone."""


class Acknowledged(msgspec.Struct, frozen=True, kw_only=True):
    key: RunKey
    seq: int
    instance: int = 0


class RunStarted(msgspec.Struct, frozen=True, kw_only=True):
    key: RunKey
    started_boot_s: float
    ports: tuple[NamedPort, ...] = ()  # what it exposes


class RunRefused(msgspec.Struct, frozen=True, kw_only=True):
    """The run never ran: no account, no directory, exec failed; or the site's prologue did; or the node cannot write."""

    key: RunKey
    message: str
    cause: EndCause = EndCause.LAUNCH


class RunEnded(msgspec.Struct, frozen=True, kw_only=True):
    key: RunKey
    end: End


class RunCleared(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing is left of the attempt before: the next one may start."""

    key: RunKey


class ProbeFailed(msgspec.Struct, frozen=True, kw_only=True):
    """A liveness or startup probe of a service failed too often: the attempt has to end."""

    key: RunKey
    attempt: int
    message: str


class OutputSettled(msgspec.Struct, frozen=True, kw_only=True):
    """The final output is stored, or could not be (`problem`)."""

    key: RunKey
    stored_bytes: int
    problem: str = ""


class StepsCleared(msgspec.Struct, frozen=True, kw_only=True):
    """Every step that the server did not want here is gone."""


class ShimLost(msgspec.Struct, frozen=True, kw_only=True):
    """The shim does not answer any more."""


class ShimReady(msgspec.Struct, frozen=True, kw_only=True):
    """A shim answers. Work of this node that is in neither list has no process any more."""

    alive: dict[RunKey, float]  # to the start on the boot clock
    ended: dict[RunKey, End]
    lost_message: str


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    now_s: float  # boot clock
    heard_s: float  # boot clock at which a server was certainly there
    wall_s: float  # calendar clock, for retention


Stimulus = (
    Connected
    | Welcomed
    | EpochBegun
    | Disconnected
    | Order
    | Acknowledged
    | RunStarted
    | RunRefused
    | RunEnded
    | RunCleared
    | ProbeFailed
    | OutputSettled
    | StepsCleared
    | ShimLost
    | ShimReady
    | Tick
)


# Instructions: what the driver is to do.


class SendRegister(msgspec.Struct, frozen=True, kw_only=True):
    runs: tuple[KnownRun, ...]


class SendConfirmed(msgspec.Struct, frozen=True, kw_only=True):
    session: int


class SendReport(msgspec.Struct, frozen=True, kw_only=True):
    """That a run runs, for as long as since `started_boot_s` when the report leaves; or how it ended."""

    report: Report
    started_boot_s: float = 0.0


class LaunchRun(msgspec.Struct, frozen=True, kw_only=True):
    order: StartOrder


class StopRun(msgspec.Struct, frozen=True, kw_only=True):
    key: RunKey
    grace_s: float
    why: str


class UpdateRun(msgspec.Struct, frozen=True, kw_only=True):
    key: RunKey
    walltime_s: float


class SignalRun(msgspec.Struct, frozen=True, kw_only=True):
    """To the run, and to the steps of its allocation on this node."""

    key: RunKey
    signal: int
    to: str


class FinishRun(msgspec.Struct, frozen=True, kw_only=True):
    """End it as if it had ended by itself with this code."""

    key: RunKey
    exit_code: int


class PauseRun(msgspec.Struct, frozen=True, kw_only=True):
    key: RunKey
    is_paused: bool


class RenewToken(msgspec.Struct, frozen=True, kw_only=True):
    key: RunKey
    token: str


class SettleOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Store the final output, then answer with `OutputSettled`."""

    key: RunKey


class AbandonOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Results of the run are not copied any further."""

    key: RunKey


class ClearRun(msgspec.Struct, frozen=True, kw_only=True):
    """Another attempt, or another instance, follows in the same place: undo what the hooks made, then answer with `RunCleared`."""

    key: RunKey
    has_started: bool


class WatchInstance(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of a service runs: ask its probes."""

    order: StartOrder


class LeaveInstance(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt is over."""

    key: RunKey


class ForgetRun(msgspec.Struct, frozen=True, kw_only=True):
    """The end was acknowledged: mark the folder, let the shim drop the run."""

    key: RunKey
    launched: bool


class RemoveRun(msgspec.Struct, frozen=True, kw_only=True):
    """The retention passed: remove the folder."""

    key: RunKey


class PurgeRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run belongs to a former history: nothing may be left of it, from now on."""

    key: RunKey
    launched: bool


class StartShim(msgspec.Struct, frozen=True, kw_only=True):
    """Start or find a shim, then answer with `ShimReady`."""


Instruction = (
    SendRegister
    | SendConfirmed
    | SendReport
    | LaunchRun
    | StopRun
    | UpdateRun
    | SignalRun
    | FinishRun
    | PauseRun
    | RenewToken
    | SettleOutput
    | AbandonOutput
    | ClearRun
    | WatchInstance
    | LeaveInstance
    | ForgetRun
    | RemoveRun
    | PurgeRun
    | StartShim
)
