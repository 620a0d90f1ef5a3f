"""Figures of the log and the replica: run by `pytest -m bench -s`. The walls are far behind what a quiet machine does."""

import asyncio
import gc
import os
import time
from pathlib import Path

import pytest

from lattice.ports.clock import SystemClock
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.replica import LogReplica, ReplicaCounters
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.testing import scenario
from tests.unit.quorum.world import founded, running, submission, until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]
COMMAND = submission(payload=os.urandom(400))


def server(folder: Path, counters: ReplicaCounters | None = None, snapshot_every: int = 10**9) -> LogReplica:
    return LogReplica(
        log=SqliteLog(folder / "log.sqlite"),
        archive=SqliteArchive(folder / "archive.sqlite"),
        snapshots=SnapshotFolder(folder / "snapshots"),
        clock=SystemClock(),
        snapshot_every=snapshot_every,
        counters=counters,
    )


async def load(replica: LogReplica, count: int, concurrency: int, prefix: str = "") -> float:
    """Commands per second, each proposer waiting for its answer before the next."""
    ids = iter(range(count))

    async def propose() -> None:
        for n in ids:
            await replica.propose(COMMAND, actor="ada", command_id=f"{prefix}{n}")

    started = time.perf_counter()
    await asyncio.gather(*(propose() for _ in range(concurrency)))
    return count / (time.perf_counter() - started)


@pytest.mark.parametrize(("concurrency", "at_least"), [(1, 300), (32, 5_000), (512, 10_000)])
@scenario
async def test_durable_submissions_per_second(tmp_path: Path, concurrency: int, at_least: int) -> None:
    latencies: list[float] = []
    counters = ReplicaCounters(on_commit=lambda seconds, commands: latencies.append(seconds))
    async with founded(server(tmp_path, counters)) as replica:
        rate = await load(replica, 2_000 if concurrency == 1 else 20_000, concurrency)
    latencies.sort()
    p50, p99 = latencies[len(latencies) // 2], latencies[len(latencies) * 99 // 100]
    print(f"\n{concurrency} proposers: {rate:.0f}/s, commit p50 {p50 * 1e3:.2f} ms, p99 {p99 * 1e3:.2f} ms")  # noqa: T201
    assert rate > at_least


async def longest_stall(of: asyncio.Event) -> float:
    worst = 0.0
    while not of.is_set():
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        worst = max(worst, time.perf_counter() - before - 0.001)
    return worst


def test_snapshot_and_start_with_100_000_allocations(tmp_path: Path) -> None:
    async def fill_and_snapshot() -> None:
        async with founded(server(tmp_path, snapshot_every=100_000)) as replica:
            await load(replica, 99_900, 500)
            gc.collect()
            gc.freeze()
            over = asyncio.Event()
            stall = asyncio.create_task(longest_stall(over))
            await load(replica, 200, 10, "trigger")
            keeper = replica.snapshots
            assert keeper is not None
            await until(lambda: keeper.taken > 0, "the snapshot is taken")
            over.set()
            worst = await stall
            print(f"\nsnapshot {keeper.last_duration_s:.2f} s, longest stall {worst * 1e3:.1f} ms")  # noqa: T201
            assert worst < 0.1
            await load(replica, 50_000, 500, "behind")
            # Stopping would take another snapshot: the start below shall have the commands to read.
            keeper.note(-(10**6), 0, replica.state)

    async def start() -> None:
        replica = server(tmp_path)
        started = time.perf_counter()
        async with running(replica):
            seconds = time.perf_counter() - started
            replayed = replica.counters.replayed
            print(f"start {seconds:.2f} s: snapshot of 100,000 allocations and {replayed} commands")  # noqa: T201
            assert replayed >= 50_000
            assert seconds < 10

    asyncio.run(fill_and_snapshot())
    gc.unfreeze()
    asyncio.run(start())
