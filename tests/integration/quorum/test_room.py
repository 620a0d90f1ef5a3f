"""A log without room: any server with the state makes some, and nothing that was acknowledged is lost."""

import asyncio
import logging
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from lattice.core.machine.outcomes import Accepted
from lattice.ports.quorum.log import LogFull, LogUnavailable
from lattice.quorum.archive.archive import SqliteArchive
from lattice.quorum.disk_space import RoomWatch, disk_problem
from lattice.quorum.replica import LogReplica
from lattice.quorum.snapshots.folders import SnapshotFolder
from lattice.testing import HandClock
from tests.integration.quorum.etcd_world import Etcd, in_time, running_etcd
from tests.unit.quorum.world import founding, run, running, submission, submit, until

QUOTA = 16 << 20


def server_of(etcd: Etcd, folder: Path) -> tuple[LogReplica, Callable[[], Awaitable[bool]]]:
    """A replica over the members, and how it asks whether they are full."""
    log = etcd.log()
    replica = LogReplica(
        log=log,
        archive=SqliteArchive(folder / "archive.db"),
        snapshots=SnapshotFolder(folder / "snapshots"),
        clock=HandClock(),
        shared_head=log.head,
    )
    return replica, log.is_full


async def filled(replica: LogReplica) -> list[int]:
    """Submits until the log takes nothing more; what was acknowledged."""
    acknowledged: list[int] = []
    for _ in range(100):
        try:
            outcome = await replica.propose(submission(payload=os.urandom(900_000)), actor="ada")
        except LogFull:
            return acknowledged
        assert isinstance(outcome, Accepted)
        acknowledged.append(outcome.number)
    raise AssertionError("the log is never full")


async def lead(replica: LogReplica) -> None:
    await replica.lead(lambda: True)
    await replica.propose_many(founding(), "system")


def test_a_server_that_only_follows_makes_room_in_a_full_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        leader, _ = server_of(etcd, tmp_path / "one")
        follower, is_full = server_of(etcd, tmp_path / "two")
        async with running(leader), running(follower):
            await lead(leader)
            acknowledged = await filled(leader)
            await follower.wait_for(leader.applied_index)
            assert await is_full()
            watch = RoomWatch(is_full, lambda: follower.snapshot_now(makes_room=True), every_s=0.1)
            task = asyncio.create_task(watch.run())
            await until(lambda: watch.made == 1, "room is made")
            task.cancel()
            assert not await is_full()
            assert await submit(leader, "goes on") not in acknowledged
            assert set(acknowledged) <= set(leader.state.allocations)
            digest = leader.state.digest()
        again, _ = server_of(etcd, tmp_path / "two")
        async with running(again):
            assert again.state.digest() == digest

    with running_etcd(tmp_path / "etcd", quota_bytes=QUOTA) as etcd:
        in_time(scenario())


def test_a_snapshot_that_cannot_be_recorded_trims_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        leader, is_full = server_of(etcd, tmp_path / "one")
        async with running(leader):
            await lead(leader)
            await filled(leader)
            written = await leader.snapshot_now()
            assert leader.state.snapshot.index == written.index
            assert not await is_full()
            await submit(leader, "goes on")

    with running_etcd(tmp_path / "etcd", quota_bytes=QUOTA) as etcd, caplog.at_level(logging.WARNING):
        in_time(scenario())
    assert "trimming it first" in caplog.text


def test_what_keeps_from_making_room_is_said_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[bool | Exception] = [LogUnavailable("nobody answers"), True, True, False]
    makers: list[Exception | None] = [OSError(28, "No space left on device"), None]

    async def is_full() -> bool:
        answer = answers.pop(0) if answers else False
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def make_room() -> None:
        trouble = makers.pop(0)
        if trouble is not None:
            raise trouble

    async def scenario() -> None:
        watch = RoomWatch(is_full, make_room, every_s=0.001)
        task = asyncio.create_task(watch.run())
        await until(lambda: watch.made == 1, "room is made")
        task.cancel()

    with caplog.at_level(logging.WARNING):
        run(scenario())
    for words in ("cannot determine whether", "cannot free space", "it has space again"):
        assert words in caplog.text


@pytest.mark.root
def test_a_disk_without_room_is_a_problem(tmp_path: Path) -> None:
    assert disk_problem(tmp_path) == ""
    assert "cannot access" in disk_problem(tmp_path / "nowhere")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        assert disk_problem(small) == ""
        (small / "ballast").write_bytes(bytes((1 << 20) - 8192))
        assert "is full: 0 MiB free" in disk_problem(small)
    finally:
        subprocess.run(["umount", small], check=True)
