"""Members and backups of a real cluster."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.ports.log import Conflict
from lattice.quorum import backup, members
from lattice.quorum.backup import BackupError
from lattice.quorum.etcd_client import EtcdClient
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.members import MembersError
from tests.conftest import require_program
from tests.integration.quorum.etcd_world import Etcd, in_time, running_etcd, settings_for, until


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    require_program("etcdctl")
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def etcd(one: Etcd) -> Etcd:
    asyncio.run(one.wipe())
    return one


async def filled(etcd: Etcd, count: int) -> EtcdLog:
    log = etcd.log()
    await log.open()
    for index in range(count):
        await log.append(index, b"entry %d" % (index + 1) + os.urandom(50))
    return log


def test_a_restored_cluster_has_the_log_and_refuses_servers_of_the_former_one(etcd: Etcd, tmp_path: Path) -> None:
    async def scenario() -> None:
        state = tmp_path / "state.bin"
        state.write_bytes(b"the state at some index")
        log = await filled(etcd, 30)
        await log.trim(11)
        before = list(await log.read(11, 20))
        async with etcd.client() as client:
            made = await backup.create(client, tmp_path / "backup", {"snapshots/20/state.bin": state})
        assert (made.epoch, made.first_index, made.last_index) == (1, 11, 30)
        await log.append(30, b"after the backup")
        await log.close()
        settings = settings_for(tmp_path, "r1", etcd.certificates)
        member = await backup.restore(tmp_path / "backup", settings)
        try:
            former, restored = EtcdLog(member.client()), EtcdLog(member.client())
            await former.open()
            await restored.open()
            assert restored.epoch == 2
            assert list(await restored.read(11, 100)) == before
            former._epoch = 1
            with pytest.raises(Conflict, match="epoch 2"):
                await former.append(30, b"from the former cluster")
            assert await restored.append(30, b"new history") == 31
            await former.close()
            await restored.close()
        finally:
            await member.stop()
        with pytest.raises(BackupError, match="empty folder"):
            await backup.restore(tmp_path / "backup", settings)

    in_time(scenario())


def test_a_backup_is_verified_entry_by_entry(etcd: Etcd, tmp_path: Path) -> None:
    async def scenario() -> None:
        await (await filled(etcd, 20)).close()
        async with etcd.client() as client:
            await backup.create(client, tmp_path / "backup")
        seen = list[int]()
        settings = settings_for(tmp_path, "check", etcd.certificates)
        await backup.verify_entries(tmp_path / "backup", settings, lambda index, payload: seen.append(index))
        assert seen == list(range(1, 21))
        assert not settings.folder.exists()

    in_time(scenario())


def test_a_damaged_backup_is_noticed_wherever_the_damage_is(etcd: Etcd, tmp_path: Path) -> None:
    async def make() -> None:
        await (await filled(etcd, 3)).close()
        (tmp_path / "state").write_bytes(b"state")
        async with etcd.client() as client:
            await backup.create(client, tmp_path / "good", {"state": tmp_path / "state"})
            with pytest.raises(BackupError, match="exists already"):
                await backup.create(client, tmp_path / "good")

    in_time(make())
    assert backup.verify(tmp_path / "good").last_index == 3
    names = [path.relative_to(tmp_path / "good") for path in (tmp_path / "good").rglob("*") if path.is_file()]
    assert sorted(str(name) for name in names) == ["etcd.db", "files/state", "manifest.json"]
    for name in names:
        bad = tmp_path / "bad"
        shutil.copytree(tmp_path / "good", bad)
        content = (bad / name).read_bytes()
        (bad / name).write_bytes(content[: len(content) // 2])
        with pytest.raises(BackupError, match=name.name):
            backup.verify(bad)
        (bad / name).unlink()
        with pytest.raises(BackupError, match=name.name):
            backup.verify(bad)
        shutil.rmtree(bad)


def test_a_backup_that_fails_leaves_nothing(etcd: Etcd, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with etcd.client() as client:
            with pytest.raises(BackupError, match="No such file"):
                await backup.create(client, tmp_path / "backup", {"state": tmp_path / "missing"})
            with pytest.raises(BackupError, match="not a name"):
                await backup.create(client, tmp_path / "backup", {"../../state": tmp_path / "missing"})
        assert list(tmp_path.iterdir()) == []

    in_time(scenario())


def test_members_are_listed_lead_and_leave(tmp_path: Path) -> None:
    async def leads(client: EtcdClient, name: str) -> None:
        async def done() -> bool:
            return [status.name for status in await members.list_members(client) if status.is_leader] == [name]

        await until(done, f"{name} leads")

    async def scenario(etcd: Etcd) -> None:
        async with etcd.client() as client:
            statuses = await members.list_members(client)
            assert [status.name for status in statuses] == ["s1", "s2", "s3"]
            assert all(status.healthy and not status.is_learner for status in statuses)
            for name in ("s1", "s3", "s2"):
                assert await members.transfer_leadership(client, name) == name
                await leads(client, name)
            with pytest.raises(MembersError, match="known: s1, s2, s3"):
                await members.transfer_leadership(client, "s9")
            with pytest.raises(MembersError, match="has a vote already"):
                await members.promote(client, "s1")
            etcd.kill("s3")
            dead = (await members.list_members(client))[2]
            assert (dead.name, dead.healthy) == ("s3", False)
            assert dead.problem
            with pytest.raises(MembersError, match="1 of 2 members would answer"):
                await members.remove(client, "s1")
            with pytest.raises(MembersError, match="cannot lead"):
                await members.transfer_leadership(client, "s3")
            await members.remove(client, "s3")
            assert [status.name for status in await members.list_members(client)] == ["s1", "s2"]

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd))
