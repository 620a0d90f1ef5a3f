"""Loops over what is kept and sent, each with one bad and one good item; the table is in test_poisoned.py."""

import asyncio
from pathlib import Path

from lattice.control.audit.sealing import Auditing
from lattice.control.retention.ended import EndedRetention
from lattice.control.work import tracing
from lattice.control.work.archiving import Archiving
from lattice.control.work.log_retention import LogDeletion
from lattice.control.work.notifying import Notifying, NotifyingSettings
from lattice.control.work.tracing import TraceCapture
from lattice.core.machine.commands import SetSetting
from lattice.core.model.site.audit import AuditNote
from lattice.core.model.work.notifications import Notification, Notify, Occasion
from lattice.integrations.directory.store import DirectoryStore
from lattice.ports.site.retention import LogRetention
from lattice.wire.files.chunks import Place
from lattice.wire.files.retained import Retained, ended_name
from lattice.wire.files.retained import write as write_retained
from lattice.wire.files.traces import TraceLine
from tests.unit.control.poison import Patch, poison
from tests.unit.control.test_auditing import Desk
from tests.unit.control.world import World


class OneDeafReader:
    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, notification: Notification) -> None:
        self.sent.append(notification.to)


async def notifications(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    mail = OneDeafReader()
    made = Notifying(world.replica, world.clock, {"mail": mail}, NotifyingSettings())
    poison(patch, Notifying, "_send_first", lambda self, lane: lane.destination == "mail:bad")
    poison(patch, Notifying, "_passed_percent", lambda self, number, run, now: number == bad)
    told = Notify(on=(Occasion.BEGIN, Occasion.TIME_LIMIT_80), to=("mail:bad", "mail:good"))
    bad, good = [await world.submit(walltime_s=100, notify=told) for _ in range(2)]
    for number, node in ((bad, "n1"), (good, "n2")):
        await world.place(number, node)
        await world.started(number, node)
    world.clock.pass_s(85)
    task = asyncio.create_task(made.run())
    async with asyncio.timeout(10):
        while len(mail.sent) < 3:  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0)
    task.cancel()
    assert mail.sent == ["mail:good"] * 3  # both began, one is near its limit


async def archive(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1", "n2")
    made = Archiving(world.replica, world.clock, after_s=10)
    bad, good = await world.running("n1"), await world.running("n2")
    await world.ended(bad, "n1")
    await world.ended(good, "n2")
    poison(patch, Archiving, "_may_leave", lambda self, number: number == bad)
    world.clock.pass_s(20)
    assert await made.archive_due() == 1
    assert list(world.state.allocations) == [bad]
    patch.undo()
    assert await made.archive_due() == 1  # it was not forgotten


async def log_retention(patch: Patch, folder: Path) -> None:
    world, store = World(), DirectoryStore(folder / "objects")
    await world.prepare("n1")
    world.clock.pass_s(10_000)
    names = [f"default/-/a{number}/logs/run-1/stdout/n1/{Place(at_ms=1).name}" for number in (1, 2)]
    for name in names:
        await store.put(name, b"x")
    made = LogDeletion(world.replica, world.clock, store, LogRetention(default_s=1.0))
    poison(patch, LogDeletion, "_is_over", lambda self, name, known: "/a1/" in name)
    assert await made.delete_old() == 1
    assert [name async for name in store.names("")] == names[:1]
    patch.undo()
    assert await made.delete_old() == 1


async def ended_retention(patch: Patch, folder: Path) -> None:
    world, store = World(), DirectoryStore(folder / "objects")
    await world.prepare("n1")
    world.clock.pass_s(10_000_000)
    for number in (1, 2):
        fields = {"number": number, "user": "ada", "tenant": "default", "ended_at": 1, "count": 1, "bytes": 1}
        record = Retained(root="/ck", directory=f"/ck/default/-/a{number}/checkpoints", **fields)  # type: ignore[arg-type]
        await store.put(ended_name(number), write_retained(record))
    made = EndedRetention(
        world.replica, world.clock, store, world.links, LogRetention(), lambda: ("n1",), folder / "traces"
    )
    poison(patch, EndedRetention, "_ask", lambda self, record, nodes: record.number == 1)
    assert await made.expire() == 1
    patch.undo()
    assert await made.expire() == 2


async def audit(patch: Patch, folder: Path) -> None:
    desk = Desk(folder)
    await desk.auditing.begin()
    poison(patch, Auditing, "seal_due", lambda self: True)
    patch.setattr("lattice.control.audit.sealing.EVERY_S", 0.0)
    looked: list[Auditing] = []

    async def forget_old(self: Auditing) -> None:
        looked.append(self)

    patch.setattr(Auditing, "forget_old", forget_old)
    desk.auditing.tell(AuditNote(kind="login"))
    await desk.auditing.turn()
    assert [entry.entry.kind for entry in desk.replica.state.audit.entries.values()][-1] == "login"
    assert looked == [desk.auditing]


async def traces(patch: Patch, folder: Path) -> None:
    world = World()
    await world.prepare("n1")
    made = TraceCapture(world.replica, world.clock, folder / "traces")
    await world.do(SetSetting(key="scheduler.trace_capture", value="true"))

    def is_bad(line: TraceLine) -> bool:
        return getattr(getattr(line, "alloc", None), "id", "") == f"a{bad}"

    poison(patch, tracing, "encode_trace_line", is_bad)
    bad, good = await world.submit(), await world.submit()
    await made.flush()
    (file,) = (folder / "traces").iterdir()
    assert (f'"a{good}"' in file.read_text(), f'"a{bad}"' in file.read_text()) == (True, False)
