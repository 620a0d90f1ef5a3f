"""Records what this release writes: `python -m tests.upgrades.record 0.1.0` makes the folder of that name, once, at a release.

A recorded folder is never written again: it stands for the data folders of clusters that run that release.
"""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from uuid import uuid4

from lattice.core.machine import commands as cmd
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.allocations import PartPhase, Request
from lattice.core.model.nodes import Hardware, Share
from lattice.core.model.tenants import Project, Tenant, Vcluster
from lattice.quorum.archive import SqliteArchive
from lattice.quorum.backup_desk import BackupDesk
from lattice.quorum.logs.sqlite import SqliteLog
from lattice.quorum.object_snapshots import pack
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots import SnapshotFolder
from tests.unit.quorum.world import HandClock

HERE = Path(__file__).parent
EXPECTED = "expected.json"


def replica_of(data: Path) -> LogReplica:
    return LogReplica(
        log=SqliteLog(data / "log.db"),
        archive=SqliteArchive(data / "archive.db"),
        snapshots=SnapshotFolder(data / "snapshots"),
        clock=HandClock(1_700_000_000_000),
    )


async def propose(replica: LogReplica, *commands: cmd.AnyCommand) -> int:
    """Every command accepted; the number that the last one gave."""
    number = 0
    for command in commands:
        outcome = await replica.propose(command, actor="ada", command_id=uuid4().hex)
        assert isinstance(outcome, Accepted), (command, outcome)
        number = outcome.number or number
    return number


def submission(name: str, **more: object) -> cmd.SubmitAllocation:
    fields = {
        "user": "ada",
        "account": "ada",
        "tenant": "physics",
        "vcluster": "batch",
        "payload": b"#!/bin/sh\ntrue\n",
    }
    return cmd.SubmitAllocation(name=name, request=Request(cpus=2), **{**fields, **more})  # type: ignore[arg-type]


async def found(replica: LogReplica) -> None:
    hardware = Hardware(cpus=8, memory_mb=16_000, group="g1", features=("cgroup",))
    await propose(
        replica,
        cmd.SetTenant(tenant=Tenant(name="physics"), create=True),
        cmd.SetProject(project=Project(tenant="physics", name="lhc"), create=True),
        cmd.SetVcluster(vcluster=Vcluster(name="batch", default_walltime_s=3600), create=True),
        cmd.SetSetting(key="archive.after_s", value="60"),
        *(
            step
            for node in ("n1", "n2", "n3")
            for step in (
                cmd.RegisterNode(node=node, hardware=hardware, address=f"{node}:1", boot_id="b", agent_version="0.1.0"),
                cmd.ConfirmNode(node=node),
            )
        ),
        cmd.DrainNode(node="n3", reason="a fan"),
    )


async def ran(replica: LogReplica, name: str, node: str, *, ended: bool) -> int:
    number = await propose(replica, submission(name))
    share = Share(node=node)
    running = cmd.ReportPart(number=number, run=1, node=node, seq=1, phase=PartPhase.RUNNING)
    await propose(replica, cmd.PlaceAllocation(number=number, run=1, shares=(share,)), running)
    if ended:
        await propose(
            replica, cmd.ReportPart(number=number, run=1, node=node, seq=2, phase=PartPhase.ENDED, exit_code=3)
        )
    return number


async def record(target: Path) -> None:
    data = target / "data"
    replica = replica_of(data)
    await replica.start()
    await found(replica)
    finished = await ran(replica, "finished", "n1", ended=True)
    running = await ran(replica, "running", "n2", ended=False)
    waiting = await propose(replica, submission("waiting", project="lhc", tags=(("k", "v"),)))
    group = await propose(replica, submission("group", tasks=((1, 10, 1),), concurrency=2))
    await propose(replica, cmd.ArchiveAllocations(numbers=(finished,)))
    await BackupDesk(replica, data, target, "server", "sqlite").create(str(target / "backup"))
    held = await propose(replica, submission("held"))
    await propose(replica, cmd.HoldAllocation(number=held), cmd.CancelAllocation(number=waiting))
    expected = {
        "digest": replica.state.digest(),
        "finished": finished,
        "running": running,
        "waiting": waiting,
        "group": group,
        "held": held,
    }
    await replica.stop()
    for leftover in data.glob("*.lock"):
        leftover.unlink()
    pack(target / "backup", target / "snapshot.bin")
    shutil.rmtree(target / "backup")
    (target / EXPECTED).write_text(json.dumps(expected, indent=2) + "\n")


def main() -> None:
    (release,) = sys.argv[1:]
    target = HERE / release
    if target.exists():
        raise SystemExit(f"{target} was recorded already; it stands for clusters that run {release}")
    asyncio.run(record(target))


if __name__ == "__main__":
    main()
