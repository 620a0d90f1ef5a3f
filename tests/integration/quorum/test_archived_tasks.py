"""Tasks of archived groups: found one by one and in pages, from memory and from the file, and gone with their group."""

import sqlite3
from pathlib import Path

from lattice.core.machine import commands as cmd
from lattice.core.machine.parts.folded_tasks import FoldedTasks
from lattice.core.model.work.allocations import Allocation, AllocationState, RequeuePolicy, TaskGroup
from lattice.ports.quorum.archive import ArchiveFilter
from lattice.quorum.archive.archive import SqliteArchive
from tests.unit.core.machine.world import World
from tests.unit.quorum.world import run

TASKS = ArchiveFilter(with_groups=False)


def ended_group() -> tuple[TaskGroup, FoldedTasks, dict[int, Allocation]]:
    """Six tasks: 0 failed, 1 completed, the others were given up; and how each ended."""
    world = World()
    number = world.submit(tasks=((0, 5, 1),), requeue=RequeuePolicy.NEVER)
    for task, code in ((number + 1, 3), (number + 2, 0)):
        world.place(task, "n1")
        world.started(task, "n1")
        world.ended(task, "n1", exit_code=code)
    world.must(cmd.CancelAllocation(number=number))
    world.must(cmd.FoldTasks(numbers=(number + 1, number + 2)))
    ends = {n: record for n in range(number + 1, number + 7) if (record := world.state.find(n)) is not None}
    return world.state.groups[number], world.state.folded[number], ends


async def check(archive: SqliteArchive, group: TaskGroup, ends: dict[int, Allocation]) -> None:
    assert await archive.archived(group.number) == group
    for number, end in ends.items():
        assert await archive.archived(number) == end
    assert await archive.archived_page(TASKS, None, 100) == [ends[number] for number in sorted(ends, reverse=True)]
    assert [task.number for task in await archive.archived_page(TASKS, group.number + 4, 2)] == [
        group.number + 3,
        group.number + 2,
    ]
    failed = ArchiveFilter(with_groups=False, states=(AllocationState.FAILED,), group=group.number)
    assert [task.number for task in await archive.archived_page(failed, None, 100)] == [group.number + 1]
    assert await archive.archived_page(ArchiveFilter(with_tasks=False), None, 100) == [group]


def test_tasks_are_found_before_and_after_they_are_durable(tmp_path: Path) -> None:
    run(_found_before_and_after(tmp_path / "archive.db"))


async def _found_before_and_after(path: Path) -> None:
    group, rows, ends = ended_group()
    archive = SqliteArchive(path)
    await archive.open()
    archive.add(5, [(group, b"work")], {group.number: rows})
    await check(archive, group, ends)
    await archive.flush(5)
    await check(archive, group, ends)
    await archive.close()
    again = SqliteArchive(path)
    await again.open()
    await check(again, group, ends)
    await again.close()


def test_rows_go_with_their_group(tmp_path: Path) -> None:
    run(_gone_with_their_group(tmp_path / "archive.db"))


async def _gone_with_their_group(path: Path) -> None:
    group, rows, ends = ended_group()
    archive = SqliteArchive(path)
    await archive.open()
    archive.add(5, [(group, b"work")], {group.number: rows})
    await archive.flush(5)
    assert await archive.forget(group.ended_at + 1) == 1
    assert await archive.archived(next(iter(ends))) is None
    archive.add(6, [(group, b"work")], {group.number: rows})
    await archive.flush(6)
    assert await archive.rewind(5) == 1
    assert await archive.archived_page(TASKS, None, 100) == []
    await archive.close()
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT count(*) FROM task_rows").fetchone() == (0,)
    db.close()
