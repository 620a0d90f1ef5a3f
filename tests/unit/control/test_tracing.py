"""What is recorded of a cluster's work, and when."""

import asyncio
import stat
from pathlib import Path

from lattice.control.work.tracing import TraceCapture
from lattice.core.machine.commands import (
    CancelAllocation,
    ClaimCopy,
    RaiseLevel,
    ReportCopy,
    SetSetting,
    SettleData,
    SetVcluster,
    SubmitAllocation,
)
from lattice.core.machine.levels import NEWEST
from lattice.core.machine.outcomes import Accepted
from lattice.core.model.data.copies import CopyPhase, key_of
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.core.model.work.allocations import Request
from lattice.testing import scenario
from lattice.wire.files.traces import Completed, NodeListed, Started, Submitted, TraceLine, decode_trace_line
from lattice.wire.work.payloads import Work, encode_work
from tests.unit.control.world import World


async def switched(world: World, value: str) -> None:
    await world.do(SetSetting(key="scheduler.trace_capture", value=value))


def lines_of(folder: Path) -> list[list[TraceLine]]:
    return [[decode_trace_line(line) for line in file.read_text().splitlines()] for file in sorted(folder.iterdir())]


@scenario
async def test_nothing_is_recorded_unless_it_is_asked_for(tmp_path: Path) -> None:
    world = World()
    await world.prepare("n1")
    capture = TraceCapture(world.replica, world.clock, tmp_path / "traces")
    await world.running("n1")
    await capture.flush()
    assert not (tmp_path / "traces").exists()


@scenario
async def test_a_recording_has_the_nodes_what_was_there_and_what_follows(tmp_path: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    before = await world.running("n1", walltime_s=60)
    capture = TraceCapture(world.replica, world.clock, tmp_path / "traces")
    await switched(world, "true")
    await capture.flush()
    number = await world.submit(walltime_s=90)
    world.clock.pass_s(5)
    await world.place(number, "n2")
    await world.started(number, "n2")
    world.clock.pass_s(10)
    await world.ended(number, "n2", exit_code=3)
    await capture.flush()
    ((*head, submitted, started, completed),) = lines_of(tmp_path / "traces")
    assert [line.node.id for line in head if isinstance(line, NodeListed)] == ["n1", "n2"]
    assert [line.alloc.id for line in head if isinstance(line, Submitted)] == [f"a{before}"]
    assert [line.alloc_id for line in head if isinstance(line, Started)] == [f"a{before}"]
    assert isinstance(submitted, Submitted)
    assert (submitted.alloc.id, submitted.alloc.walltime, submitted.alloc.user) == (f"a{number}", 90.0, "ada")
    assert isinstance(started, Started)
    assert (started.alloc_id, started.nodes) == (f"a{number}", ("n2",))
    assert isinstance(completed, Completed)
    assert (completed.alloc_id, completed.duration, completed.exit, completed.cause) == (f"a{number}", 10.0, 3, "exit")
    assert [float(line.ts) - float(submitted.ts) for line in (started, completed)] == [5.0, 15.0]
    (file,) = (tmp_path / "traces").iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@scenario
async def test_each_task_of_a_group_has_a_line_and_none_has_two(tmp_path: Path) -> None:
    world = World()
    await world.prepare("n1")
    capture = TraceCapture(world.replica, world.clock, tmp_path)
    await switched(world, "true")
    group = await world.submit(tasks=((0, 2, 1),))
    await world.place(group + 2, "n1")
    await world.do(CancelAllocation(number=group + 1))
    await capture.flush()
    ((_node, *lines),) = lines_of(tmp_path)
    assert [line.alloc.id for line in lines if isinstance(line, Submitted)] == [
        f"a{number}" for number in range(group + 1, group + 4)
    ]
    assert [line.alloc_id for line in lines if isinstance(line, Completed)] == [f"a{group + 1}"]


@scenario
async def test_each_recording_is_a_file_of_its_own(tmp_path: Path) -> None:
    world = World()
    await world.prepare("n1")
    capture = TraceCapture(world.replica, world.clock, tmp_path)
    await switched(world, "true")
    await switched(world, "false")
    await world.submit()
    await capture.flush()
    world.clock.pass_s(1)
    await switched(world, "true")
    await capture.flush()
    first, second = lines_of(tmp_path)
    assert (len(first), len(second)) == (1, 2)


@scenario
async def test_a_server_that_starts_goes_on_recording_and_ends_with_all_lines_written(tmp_path: Path) -> None:
    world = World()
    await world.prepare("n1")
    await switched(world, "true")
    capture = TraceCapture(world.replica, world.clock, tmp_path)
    task = asyncio.create_task(capture.run())
    await asyncio.sleep(0)
    await world.submit()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ((node, submitted),) = lines_of(tmp_path)
    assert isinstance(node, NodeListed)
    assert isinstance(submitted, Submitted)


@scenario
async def test_a_disk_that_fails_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    world = World()
    await world.prepare("n1")
    (tmp_path / "traces").write_text("in the way")
    capture = TraceCapture(world.replica, world.clock, tmp_path / "traces")
    await switched(world, "true")
    await capture.flush()
    await world.submit()
    await capture.flush()
    (tmp_path / "traces").unlink()
    await switched(world, "false")
    await switched(world, "true")
    await capture.flush()
    assert len(lines_of(tmp_path / "traces")) == 1


@scenario
async def test_sensitive_work_is_never_recorded(tmp_path: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    await world.do(SetVcluster(vcluster=Vcluster(name="hospital", scheduler=SENSITIVE), create=True))
    waiting = await world.submit(vcluster="hospital", name="patient-17")
    capture = TraceCapture(world.replica, world.clock, tmp_path / "traces")
    await switched(world, "true")
    number = await world.submit(vcluster="hospital", name="patient-18")
    await world.place(number, "n1")
    await world.started(number, "n1")
    await world.ended(number, "n1")
    seen = await world.submit(name="ordinary")
    await world.do(CancelAllocation(number=waiting))
    await capture.flush()
    (recorded,) = lines_of(tmp_path / "traces")
    assert [line.alloc.id for line in recorded if isinstance(line, Submitted)] == [f"a{seen}"]
    assert not any(isinstance(line, Started | Completed) for line in recorded)
    (file,) = (tmp_path / "traces").iterdir()
    assert "patient" not in file.read_text()


@scenario
async def test_a_start_says_how_long_its_data_took(tmp_path: Path) -> None:
    world = World()
    await world.do(RaiseLevel(level=NEWEST))
    await world.prepare("n1")
    capture = TraceCapture(world.replica, world.clock, tmp_path / "traces")
    await switched(world, "true")
    source = "s3://training/set"
    command = SubmitAllocation(
        name="work",
        user="ada",
        account="ada",
        tenant="default",
        vcluster="default",
        request=Request(),
        data=(source,),
        payload=encode_work(Work(argv=("true",))),
    )
    outcome = await world.replica.propose(command, actor="test")
    assert isinstance(outcome, Accepted)
    number = outcome.number
    world.clock.pass_s(1)
    key = key_of(source)
    await world.do(ClaimCopy(key=key, mover="m"))
    world.clock.pass_s(39)
    for phase in (CopyPhase.SIZED, CopyPhase.READY):
        told = ReportCopy(key=key, mover="m", generation=1, phase=phase, size=1, files=1, version="v", readers=("ada",))
        await world.do(told)
    await world.do(SettleData(numbers=(number,)))
    world.clock.pass_s(5)
    await world.place(number, "n1")
    await world.started(number, "n1")
    await capture.flush()
    ((*_, started),) = lines_of(tmp_path / "traces")
    assert isinstance(started, Started)
    assert (started.alloc_id, started.staging) == (f"a{number}", 40.0)
