"""kill -9 at random moments: what was acknowledged is there, and every way to the state gives the same state."""

import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.core.model.work.allocations import Allocation, AllocationState
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.replica import LogReplica
from lattice.testing import HandClock
from tests.conftest import sized
from tests.integration.quorum.doomed_writer import WholeLog, replica_over_whole_log
from tests.unit.quorum.world import run, running

ROOT = Path(__file__).resolve().parents[3]
ROUNDS = sized(10, 200)
Acknowledged = dict[int, tuple[str, str]]  # number -> what was said last, name


def write_until_killed(folder: Path, after_lines: int) -> list[str]:
    """All whole lines that the writer said before it was killed."""
    command = [sys.executable, "-m", "tests.integration.quorum.doomed_writer", str(folder)]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert writer.stdout is not None
    try:
        lines = [writer.stdout.readline() for _ in range(after_lines)]
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    with writer.stdout:
        lines += writer.stdout.readlines()
    assert all(lines), "the writer ended by itself"
    return [line.decode().strip() for line in lines if line.endswith(b"\n")]


def remember(acknowledged: Acknowledged, lines: list[str]) -> None:
    for line in lines:
        what, number, name = line.split()
        acknowledged[int(number)] = (what, name)


async def record_of(replica: LogReplica, number: int) -> tuple[Allocation, bool]:
    """The record, and whether it came from the archive."""
    if number in replica.state.allocations:
        return replica.state.allocations[number], False
    record = await replica.archived(number)
    assert isinstance(record, Allocation), f"allocation {number} is lost"
    return record, True


async def check(folder: Path, acknowledged: Acknowledged) -> None:
    replica = replica_over_whole_log(folder)
    async with running(replica):
        for number, (what, name) in acknowledged.items():
            record, is_archived = await record_of(replica, number)
            assert record.name == name
            assert what == "submitted" or record.state is AllocationState.CANCELLED
            assert what != "archived" or is_archived
    # Opened once more, for stopping may have taken a snapshot and recorded it.
    async with running(replica_over_whole_log(folder)) as again:
        digest = again.state.digest()
    assert await digest_of_whole_log(folder) == digest


async def digest_of_whole_log(folder: Path) -> str:
    log = WholeLog(folder / "log.sqlite")
    scratch = LogReplica(log=log, archive=SqliteArchive(None), snapshots=None, clock=HandClock())
    async with running(scratch):
        return scratch.state.digest()


@pytest.mark.timeout(1200)
def test_nothing_acknowledged_is_lost_over_many_kills(tmp_path: Path) -> None:
    choice = random.Random(ROUNDS)
    acknowledged: Acknowledged = {}
    for _ in range(ROUNDS):
        remember(acknowledged, write_until_killed(tmp_path, choice.randint(1, 400)))
        run(check(tmp_path, acknowledged))
    assert len(acknowledged) > 100
    snapshots = [path for path in (tmp_path / "snapshots").iterdir() if path.name.isdigit()]
    assert snapshots, "no snapshot was ever taken: the test tests less than it says"
