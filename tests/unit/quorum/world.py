"""Commands and clocks for tests of the log and the replica."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from lattice.core.machine.commands import (
    AnyCommand,
    ArchiveAllocations,
    CancelAllocation,
    SetTenant,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.site.tenants import Tenant, Vcluster
from lattice.core.model.work.allocations import Request
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.losses import Losses
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.testing import HandClock

_T = TypeVar("_T")


def run(scenario: Coroutine[Any, Any, _T]) -> _T:
    return asyncio.run(asyncio.wait_for(scenario, 60))


async def until(condition: Callable[[], bool], what: str) -> None:
    """Returns when the condition holds; fails after 60 s."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"not in 60 s: {what}"
        await asyncio.sleep(0.002)


def founding() -> list[AnyCommand]:
    return [
        SetTenant(tenant=Tenant(name="default"), create=True),
        SetVcluster(vcluster=Vcluster(name="default", default_walltime_s=3600), create=True),
    ]


def submission(name: str = "work", payload: bytes = b"#!/bin/sh\ntrue\n") -> SubmitAllocation:
    return SubmitAllocation(
        name=name,
        user="ada",
        account="ada",
        tenant="default",
        vcluster="default",
        request=Request(),
        payload=payload,
    )


async def submit(replica: LogReplica, name: str = "work", command_id: str = "") -> int:
    """The number of a new allocation."""
    outcome = await replica.propose(submission(name), actor="ada", command_id=command_id)
    assert isinstance(outcome, Accepted)
    return outcome.number


async def finish(replica: LogReplica, number: int) -> None:
    """Ends a pending allocation and archives it."""
    await replica.propose_many([CancelAllocation(number=number), ArchiveAllocations(numbers=(number,))], "ada")


def replica_at(
    folder: Path,
    *,
    snapshots: SnapshotFolder | None = None,
    snapshot_every: int = 1_000_000,
    accepts_loss: bool = False,
) -> LogReplica:
    """A replica as a server has it."""
    return LogReplica(
        log=SqliteLog(folder / "log.sqlite"),
        archive=SqliteArchive(folder / "archive.sqlite"),
        snapshots=snapshots or SnapshotFolder(folder / "snapshots"),
        clock=HandClock(),
        snapshot_every=snapshot_every,
        losses=Losses(folder, accepts=accepts_loss),
    )


@asynccontextmanager
async def running(replica: LogReplica) -> AsyncIterator[LogReplica]:
    await replica.start()
    try:
        yield replica
    finally:
        await replica.stop()


@asynccontextmanager
async def founded(replica: LogReplica) -> AsyncIterator[LogReplica]:
    """Running, with the default tenant and vCluster made."""
    async with running(replica):
        await replica.propose_many(founding(), "system")
        yield replica
