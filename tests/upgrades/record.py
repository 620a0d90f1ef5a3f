"""Records what this release writes: `python -m tests.upgrades.record 0.2.0` makes the folder of that name, once, at a release.

A recorded folder is never written again: it stands for the clusters, agents and clients that run that release.
::

    data/ snapshot.bin expected.json   a small cluster: its data folder, a backup of it, what it holds
    walk/ walk.json                    a long log of all kinds of commands, with a snapshot, and what it leads to
    schema.json                        every record of log and snapshots that it reads
    messages.jsonl                     every message of the wire contract
    agent/                             folders of runs and steps, as an agent and its shim leave them on a node
    api.jsonl                          requests of clients and their answers, REST and gRPC
    audit/                             an export of the audit chain, its keys, an archived segment
    server.yaml server.json            every key of the configuration, and how it is read
    node/                              what an agent and its shim leave on a node, and say to each other
    wheels/                            both wheels, to run its programs beside later ones
"""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace

from lattice.core.machine import commands as cmd
from lattice.core.machine.levels import NEWEST, OLDEST
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.nodes.drift import Baseline, Difference
from lattice.core.model.nodes.nodes import Hardware, Share
from lattice.core.model.site.reservations import AdvanceReservation
from lattice.core.model.site.tenants import SENSITIVE, Project, Tenant, Vcluster
from lattice.core.model.work.allocations import PartPhase, Request
from lattice.core.model.work.notifications import Notify, NotifyDefault, Occasion
from lattice.core.model.work.steps import StepRecord
from lattice.quorum.backup.objects import pack
from lattice.quorum.backup.service import BackupService
from lattice.quorum.replica import LogReplica
from tests.upgrades.agent_folders import record_agent
from tests.upgrades.api_examples import record_api
from tests.upgrades.audit_files import record_audit
from tests.upgrades.configuration import record_configuration
from tests.upgrades.node_files import record_node
from tests.upgrades.replicas import NOW_MS, remove_locks, replica_of
from tests.upgrades.schema import record_schema
from tests.upgrades.walk import record_walk
from tests.upgrades.wheels import record_wheels
from tests.upgrades.wire_messages import record_messages

HERE = Path(__file__).parent
EXPECTED = "expected.json"


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


def rarities(running: int) -> list[cmd.AnyCommand]:
    """Commands that random ones seldom get accepted; the last one submits a DAG."""
    difference = Difference(component="kernel", expected="6.1", actual="6.2")
    baseline = Baseline(vcluster="batch", fingerprint="a" * 64)
    step = StepRecord(step=0, run=1, name="mpirun", nodes=("n2",), tasks=4, started_at=NOW_MS, ended_at=NOW_MS + 5)
    hour = AdvanceReservation(name="course", start_at=NOW_MS + 3_600_000, end_at=NOW_MS + 7_200_000, nodes=("n1",))
    return [
        cmd.SetVcluster(vcluster=Vcluster(name="ward", scheduler=SENSITIVE, default_walltime_s=60), create=True),
        cmd.RecordSteps(number=running, steps=(step,)),
        cmd.NoteTimeLimit(number=running, run=1, percent=50),
        cmd.SetNotifyDefault(default=NotifyDefault(user="ada", notify=Notify(on=(Occasion.END,), to=("mail:a@b.c",)))),
        cmd.SetReservation(reservation=hour, create=True),
        cmd.SetReservation(reservation=replace(hour, name="gone"), create=True),
        cmd.DeleteReservation(name="gone"),
        cmd.SetBaseline(baseline=baseline),
        cmd.NoteDrift(node="n1", vcluster="batch", expected="a" * 64, actual="b" * 64, differences=(difference,)),
        cmd.DegradeNode(node="n2", reason="silent"),
        cmd.RecoverNode(node="n2"),
        cmd.SubmitDag(
            name="flow",
            user="ada",
            tenant="physics",
            members=(
                cmd.DagMember(ref="first", submission=submission("first")),
                cmd.DagMember(ref="then", submission=submission("then"), needs=((cmd.Edge(ref="first"),),)),
            ),
        ),
    ]


async def record(target: Path) -> None:
    """Everything that a release leaves behind or says."""
    await record_cluster(target)
    await record_walk(target)
    await record_api(target)
    await record_audit(target)
    record_messages(target)
    record_agent(target)
    record_schema(target)
    record_configuration(target)
    await record_node(target)
    record_wheels(target)


async def record_cluster(target: Path) -> None:
    data = target / "data"
    replica = replica_of(data)
    await replica.start()
    await propose(replica, *(cmd.RaiseLevel(level=level) for level in range(OLDEST + 1, NEWEST + 1)))
    await found(replica)
    finished = await ran(replica, "finished", "n1", ended=True)
    running = await ran(replica, "running", "n2", ended=False)
    waiting = await propose(replica, submission("waiting", project="lhc", tags=(("k", "v"),)))
    group = await propose(replica, submission("group", tasks=((1, 10, 1),), concurrency=2))
    await propose(replica, cmd.ArchiveAllocations(numbers=(finished,)))
    flow = await propose(replica, *rarities(running))
    await BackupService(replica, data, target, "server", "sqlite").create(str(target / "backup"))
    held = await propose(replica, submission("held"))
    await propose(replica, cmd.HoldAllocation(number=held), cmd.CancelAllocation(number=waiting))
    expected = {
        "digest": replica.state.digest(),
        "finished": finished,
        "running": running,
        "waiting": waiting,
        "group": group,
        "held": held,
        "flow": flow,
        "level": NEWEST,
    }
    await replica.stop()
    remove_locks(data)
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
