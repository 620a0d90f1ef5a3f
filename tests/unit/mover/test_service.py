"""A mover and its end."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.mover.making import Answer
from lattice.mover.service import Mover
from lattice.mover.tier import HotTier
from lattice.ports.data.sources import Source
from lattice.wire.data.moving import CopyProgress, CopyReport, MoverTasks

LONG_S = 60.0


class SlowServers:
    """Servers that have no work and answer after a minute; the signal comes while the mover waits for them."""

    def __init__(self, number: signal.Signals) -> None:
        self.asked = 0
        self._number = number

    def ask(
        self, *, slots: int, wait_s: float, progress: list[CopyProgress], hot_total: int, hot_free: int
    ) -> MoverTasks:
        self.asked += 1
        os.kill(os.getpid(), self._number)
        select.select([], [], [], LONG_S)
        raise AssertionError("the mover waited for the answer")

    def report(self, *reports: CopyReport) -> Answer:
        raise AssertionError("there is nothing to report")


@pytest.fixture
def number() -> Iterator[signal.Signals]:
    before = signal.getsignal(signal.SIGUSR1)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def no_source(source: str) -> Source:
    raise AssertionError(source)


def test_an_idle_mover_ends_at_once_when_it_is_told_to(tmp_path: Path, number: signal.Signals) -> None:
    """Otherwise everybody who stops a cluster waits for the answer of a server that has no work for it."""
    tier = HotTier(tmp_path / "hot")
    tier.prepare()
    servers = SlowServers(number)
    mover = Mover(tier, no_source, lambda: servers)
    signal.signal(number, lambda *_: mover.end())
    mover.run()
    assert servers.asked == 1


def test_a_mover_that_was_ended_before_it_asks_does_not_ask(tmp_path: Path, number: signal.Signals) -> None:
    tier = HotTier(tmp_path / "hot")
    tier.prepare()
    servers = SlowServers(number)
    mover = Mover(tier, no_source, lambda: servers)
    mover.end()
    mover.run()
    assert servers.asked == 0
