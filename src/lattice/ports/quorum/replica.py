"""The replicated state as the API and the loops see it: propose commands, read the state, follow the events.

Errors of this boundary, besides those of `ports/quorum/log.py`::

    ReplicaStopped       no more commands are taken: shut down, or stopped because continuing would do harm
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from lattice.core.machine.commands import AnyCommand, Envelope
from lattice.core.machine.events import AnyEvent
from lattice.core.machine.outcomes import Outcome
from lattice.core.machine.state import State
from lattice.ports.quorum.archive import Archive

Subscriber = Callable[[int, Envelope, tuple[AnyEvent, ...]], None]


class ReplicaStopped(Exception):
    """The replica takes no more commands; whether one under way was committed is not known."""


class Replica(Archive, Protocol):
    """One copy of the state, kept up to the log. Everything here belongs to the event loop's thread."""

    @property
    def state(self) -> State:
        """The live state, for reading only; what is read without an `await` in between belongs together."""
        ...

    @property
    def applied_index(self) -> int:
        """The newest log entry that `state` contains completely."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether this replica appends to the log now."""
        ...

    async def propose(
        self, command: AnyCommand, *, actor: str, command_id: str = "", based_on: int | None = None
    ) -> Outcome:
        """What became of the command, once it is durable and applied.

        Raises LogFull when there was no room (nothing happened), Conflict when another proposer was first (nothing happened),
        LogUnavailable or ReplicaStopped when the outcome is unknown: repeat under the same `command_id`.
        `based_on` is the index the proposer looked at; without it the newest.
        """
        ...

    async def propose_many(
        self, commands: Sequence[AnyCommand], actor: str, *, based_on: int | None = None
    ) -> list[Outcome]:
        """The outcomes, in order, of commands that are applied one after the other; raises like `propose`."""
        ...

    def subscribe(self, callback: Subscriber, of: tuple[type, ...] = ()) -> Callable[[], None]:
        """Calls back with (index, envelope, events) right after each accepted command was applied; returns what ends that.

        `of` are kinds of events: without one of them among the events of a command there is no call.
        The callback must be short and must not raise; what it raises is logged and counted.
        """
        ...

    async def wait_for(self, index: int) -> None:
        """Returns when `applied_index` is at least `index`."""
        ...

    async def read_index(self) -> int:
        """An index that contains every command acknowledged before this call."""
        ...
