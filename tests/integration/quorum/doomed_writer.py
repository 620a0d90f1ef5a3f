"""A process that proposes as fast as it can and says on stdout what was acknowledged, until somebody kills it."""

import asyncio
import os
import random
import sys
from pathlib import Path

from lattice.core.machine.commands import ArchiveAllocations, CancelAllocation
from lattice.core.machine.outcomes import Accepted
from lattice.ports.clock import SystemClock
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots.folders import SnapshotFolder
from tests.unit.quorum.world import founding, submission


class WholeLog(SqliteLog):
    """Keeps everything, so that a replay from the first entry stays possible."""

    async def trim(self, before: int) -> None:
        """Forgets nothing."""


def replica_over_whole_log(folder: Path) -> LogReplica:
    return LogReplica(
        log=WholeLog(folder / "log.sqlite"),
        archive=SqliteArchive(folder / "archive.sqlite"),
        snapshots=SnapshotFolder(folder / "snapshots"),
        clock=SystemClock(),
        snapshot_every=150,
    )


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def propose_forever(replica: LogReplica, choice: random.Random) -> None:
    while True:
        command_id = f"{choice.getrandbits(64):016x}"
        outcome = await replica.propose(submission(command_id), actor="ada", command_id=command_id)
        assert isinstance(outcome, Accepted)
        say(f"submitted {outcome.number} {command_id}")
        if choice.random() < 0.4:
            number = outcome.number
            await replica.propose(CancelAllocation(number=number), actor="ada")
            say(f"ended {number} {command_id}")
            await replica.propose(ArchiveAllocations(numbers=(number,)), actor="system")
            say(f"archived {number} {command_id}")


async def main(folder: Path) -> None:
    replica = replica_over_whole_log(folder)
    await replica.start()
    await replica.propose_many(founding(), "system")
    choice = random.Random(os.getpid())
    await asyncio.gather(*(propose_forever(replica, choice) for _ in range(8)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
