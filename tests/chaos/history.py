"""What was asked, what was done to the cluster, what was seen: the record that the checker judges.

Nothing here knows how Lattice works inside; it is what a user could have written down."""

import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ACTIVE = frozenset({"Starting", "Running", "Checkpointing", "Stopping"})
TERMINAL = frozenset({"Completed", "Failed", "Cancelled"})


@dataclass(frozen=True)
class Submission:
    """One request; `number` is None when no answer ever came, so that it may or may not have happened."""

    request_id: str
    number: int | None


@dataclass(frozen=True)
class Seen:
    """One allocation in one listing."""

    number: int
    state: str
    run: int
    nodes: tuple[str, ...] = ()
    cause: str | None = None


@dataclass(frozen=True)
class Listing:
    """All allocations as one answer of the server gave them."""

    at: float
    allocations: tuple[Seen, ...]


@dataclass(frozen=True)
class Execution:
    """A command that really began, as it wrote itself. Times are seconds since boot."""

    number: int
    run: int
    node: str
    started: float
    last_alive: float
    reached_end: bool = False


@dataclass(frozen=True)
class Fault:
    """`loses_work` when a run that ended well may rightly be repeated: its node, or its shim, was gone with the news."""

    at: float
    what: str
    loses_work: bool


@dataclass
class History:
    """Filled from several threads."""

    submissions: list[Submission] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)  # held, never released, cancel acknowledged
    listings: list[Listing] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)
    final: tuple[Seen, ...] = ()
    archived_after_s: float = 1e9  # how long after its end an allocation stays in the listings
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def submitted(self, submission: Submission) -> None:
        with self._lock:
            self.submissions.append(submission)

    def cancelled_while_held(self, number: int) -> None:
        with self._lock:
            self.cancelled.append(number)

    def listed(self, items: list[dict[str, Any]]) -> None:
        with self._lock:
            self.listings.append(Listing(time.monotonic(), tuple(map(seen, items))))

    def backlog(self) -> int:
        """How much had not ended when somebody last looked."""
        with self._lock:
            newest = self.listings[-1].allocations if self.listings else ()
        return sum(seen.state not in TERMINAL for seen in newest)

    def fault(self, what: str, *, loses_work: bool) -> None:
        with self._lock:
            self.faults.append(Fault(time.monotonic(), what, loses_work))


def seen(item: dict[str, Any]) -> Seen:
    return Seen(
        number=item["number"], state=item["state"], run=item["run"], nodes=tuple(item["nodes"]), cause=item["cause"]
    )


# The shell itself writes, with one write per line, so that no line is ever mixed with another's.
COMMAND = """
say() { read -r up rest < /proc/uptime; echo "$1 $LATTICE_ALLOC_ID $LATTICE_RUN $LATTICE_NODE_ID $up $$" >> "$0"; }
say begin
ticks=%d; while [ $ticks -gt 0 ]; do sleep 0.1; say tick; ticks=$((ticks - 1)); done
say end
exit %d
"""


def recording(journal: Path, ticks: int, code: int) -> list[str]:
    """An argument vector that lives for `ticks` tenths of a second and tells the journal about it."""
    return ["/bin/sh", "-c", COMMAND % (ticks, code), str(journal)]


def read_journal(journal: Path) -> list[Execution]:
    lives: dict[tuple[str, ...], Execution] = {}
    for line in journal.read_text().splitlines() if journal.exists() else ():
        word, allocation_id, run, node, uptime, pid = line.split()
        at = float(uptime)
        key = (allocation_id, run, node, pid)
        if word == "begin":
            lives[key] = Execution(int(allocation_id.removeprefix("a")), int(run), node, at, at)
        else:
            lives[key] = replace(lives[key], last_alive=at, reached_end=word == "end")
    return list(lives.values())
