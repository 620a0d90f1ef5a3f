"""Data folders of servers that have seen much work, written directly instead of living through it."""

import asyncio
import time
from pathlib import Path

from lattice.core.machine.apply import apply
from lattice.core.machine.codec import encode_batch
from lattice.core.machine.commands import (
    AnyCommand,
    CancelAllocation,
    Envelope,
    SetTenant,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.outcomes import Accepted
from lattice.core.machine.state import State
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Allocation, Request
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.wire.work.payloads import Work, encode_work

BATCH = 64


class Population:
    """A state and the clock of its commands."""

    def __init__(self) -> None:
        self.state = State.empty()
        self.at = int(time.time() * 1000) - 10_000_000
        self.payload = encode_work(Work(argv=("true",), env={"PATH": "/usr/bin"}, cwd="/tmp"))  # noqa: S108
        self.do(SetTenant(tenant=Tenant(name="default"), create=True))
        self.do(SetVcluster(vcluster=Vcluster(name="default", default_walltime_s=3600), create=True))

    def do(self, command: AnyCommand) -> int:
        outcome = apply(self.state, self.envelope(command))
        if not isinstance(outcome, Accepted):
            raise AssertionError(outcome)
        return outcome.number

    def envelope(self, command: AnyCommand) -> Envelope:
        self.at += 1
        return Envelope(at=self.at, command=command, actor="bench")

    def submission(self, nodes: int = 1) -> SubmitAllocation:
        return SubmitAllocation(
            name="work",
            user="root",
            account="root",
            tenant="default",
            vcluster="default",
            request=Request(nodes=nodes),
            payload=self.payload,
        )


def finished_and_pending(allocations: int) -> Population:
    """Nine of ten finished, the rest pending; all in the hot state."""
    population = Population()
    for count in range(allocations):
        number = population.do(population.submission())
        if count % 10:
            population.do(CancelAllocation(number=number))
    return population


def write_population(data: Path, population: Population, commands_after: int) -> None:
    """A snapshot of the population and a log of further commands behind it."""
    data.mkdir(parents=True, mode=0o700)
    SnapshotFolder(data / "snapshots").write(1, population.state.frozen_view())
    asyncio.run(_write_log(data / "log.db", population, commands_after))


async def _write_log(path: Path, population: Population, commands: int) -> None:
    log = SqliteLog(path)
    await log.open()
    last = await log.append(0, encode_batch("0", []))
    for first in range(0, commands, BATCH):
        count = min(BATCH, commands - first)
        envelopes = [population.envelope(population.submission()) for _ in range(count)]
        last = await log.append(last, encode_batch(str(first), envelopes))
    await log.close()


def write_archived(data: Path, *, pending: int, archived: int) -> None:
    """A small hot state beside a large archive."""
    population = Population()
    finished = []
    for _ in range(archived):
        number = population.do(population.submission())
        population.do(CancelAllocation(number=number))
        finished.append((population.state.allocations[number], population.payload))
        population.state.drop_allocation(number)
        population.state.drop_payload(number)
    for _ in range(pending):
        population.do(population.submission())
    write_population(data, population, commands_after=0)
    asyncio.run(_write_archive(data / "archive.db", finished))


async def _write_archive(path: Path, finished: list[tuple[Allocation, bytes]]) -> None:
    archive = SqliteArchive(path)
    await archive.open()
    archive.add(1, finished)
    await archive.flush(1)
    await archive.close()
