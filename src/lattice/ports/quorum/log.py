"""The replicated log as the rest of Lattice sees it: numbered entries, appended one after the other.

Errors of this boundary::

    LogError
    +- Conflict          another server appended at this index (fencing)
    +- LogFull           no room: nothing was written, a later try may succeed
    +- LogUnavailable    the log cannot be reached, or the outcome is unknown after all retries
    +- Trimmed           the entry asked for was trimmed; load a snapshot first
    +- LogCorrupt        the stored log is damaged: stop
    +- LogHeld           another process has the log open
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from msgspec import Struct


class LogError(Exception):
    """Any failure of the log."""


class Conflict(LogError):
    """The index was taken by another proposer; the caller is not (or no longer) the leader."""


class LogFull(LogError):
    """The log has no room for the entry; nothing was written."""


class LogUnavailable(LogError):
    """The log did not answer; the entry may or may not have been written."""


class Trimmed(LogError):
    """The entry was trimmed; `first_index` is the oldest that is left."""

    def __init__(self, first_index: int) -> None:
        super().__init__(f"entries before {first_index} were trimmed")
        self.first_index = first_index


class LogCorrupt(LogError):
    """The stored log cannot be trusted."""


class LogHeld(LogError):
    """Another process has the log open; two would overwrite each other."""


class Entry(Struct, frozen=True, gc=False):
    """One entry: a batch of commands, encoded."""

    index: int
    payload: bytes


class LogStart(Struct, frozen=True, kw_only=True):
    """Where a restored log begins: its first entry, which names what was restored and records who restored it.

    `epoch` is that of what follows, `former` that of what was restored.
    """

    index: int
    epoch: int
    payload: bytes
    former: int = 0


class Log(Protocol):
    """An append-only sequence of entries, indexes from 1 without gaps; a restored one begins where its state ends."""

    @property
    def epoch(self) -> int:
        """Which history this is, known once the log is open: it rises with every log that is begun or restored."""
        ...

    async def open(self) -> None:
        """Opens the log, creating it where it does not exist. Refuses a log that another process holds."""
        ...

    async def close(self) -> None:
        """Closes the log; harmless when repeated."""
        ...

    async def bounds(self) -> tuple[int, int]:
        """The oldest and the newest index; (1, 0) for an empty log."""
        ...

    async def append(self, expected_last: int, payload: bytes) -> int:
        """Appends durably behind `expected_last` and returns the new index.

        Raises Conflict when the newest index is another one, LogFull when there is no room.
        """
        ...

    async def read(self, first: int, limit: int) -> Sequence[Entry]:
        """Up to `limit` entries from index `first` on; empty at the end; Trimmed when `first` is gone."""
        ...

    def tail(self, first: int) -> AsyncIterator[Entry]:
        """All entries from `first` on, waiting for new ones; Trimmed when `first` is gone."""
        ...

    async def trim(self, before: int) -> None:
        """Forgets entries with an index below `before`; the newest entry is always kept."""
        ...
