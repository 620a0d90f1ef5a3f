"""When the next snapshot is due: after as many commands as configured, of a small state earlier where no other server reads the log."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from lattice.quorum.replica import SNAPSHOT_EARLY, SNAPSHOT_EVERY
from lattice.quorum.snapshots.keeper import SnapshotKeeper


class Recorder(SnapshotKeeper):
    """Only notes that it would take one."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - those of the keeper
        unused: Any = None
        super().__init__(unused, unused, unused, unused, commands_since=0, **settings)
        self.started: list[int] = []

    def _start(self, index: int, state: Any) -> "asyncio.Task[None]":  # noqa: ANN401
        self.started.append(index)
        self._since = 0
        nothing: Any = None
        return nothing  # type: ignore[no-any-return]


def taken(allocations: int, **settings: int) -> list[int]:
    """The indexes at which 40,000 commands lead to a snapshot, beside so many allocations."""
    keeper = Recorder(**settings)
    state: Any = SimpleNamespace(allocations=dict.fromkeys(range(allocations)))
    for index in range(1, 41):
        keeper.note(1_000, index, state)
    return keeper.started


@pytest.mark.parametrize(
    ("allocations", "expected"),
    [
        (0, [5, 10, 15, 20, 25, 30, 35, 40]),
        (10_000, [5, 10, 15, 20, 25, 30, 35, 40]),
        (24_000, [12, 24, 36]),
        (1_000_000, [20, 40]),
    ],
)
def test_a_small_state_is_kept_earlier(allocations: int, expected: list[int]) -> None:
    assert taken(allocations, every=SNAPSHOT_EVERY, early=SNAPSHOT_EARLY) == expected


def test_others_who_read_the_log_get_all_of_it() -> None:
    assert taken(0, every=SNAPSHOT_EVERY) == [20, 40]


def test_a_shorter_time_is_kept() -> None:
    assert taken(1_000_000, every=2_000, early=SNAPSHOT_EARLY)[:3] == [2, 4, 6]
