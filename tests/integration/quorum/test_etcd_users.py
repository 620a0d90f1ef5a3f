"""etcd lets in the users of the servers: a server that has none, or none any more, is refused by every member."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from lattice.quorum.etcd import users
from lattice.quorum.etcd.client import EtcdClient, EtcdDenied, EtcdRefused
from lattice.quorum.etcd.member import EtcdMember
from lattice.quorum.etcd.settings import MemberFailed
from lattice.quorum.trust.certificates import CertificateFolder, install, issue
from lattice.wire.pb import etcd_pb2 as pb
from tests.integration.quorum.etcd_world import Etcd, in_time, running_etcd, settings_for, until

SERVERS = ("s1", "s2", "s3")
KEY = b"lattice/test"


class Servers:
    """Members, and a client certificate of its own for each server."""

    def __init__(self, etcd: Etcd, folder: Path) -> None:
        self.etcd = etcd
        self._folder = folder
        self.folders = {name: self.issued(name) for name in SERVERS}

    def issued(self, name: str, again: str = "") -> CertificateFolder:
        folder = CertificateFolder(self._folder / f"{name}{again}")
        install(folder, issue(self.etcd.certificates, ["127.0.0.1"], name=name))
        return folder

    def client(self, name: str, *at: str) -> EtcdClient:
        members = [self.etcd.members[each].client_listen for each in at] or self.etcd.endpoints
        return EtcdClient(members, self.folders[name])

    async def admit_all(self) -> None:
        async with self.client("s1") as client:
            for name in SERVERS:
                await users.add(client, self.folders[name].user())
            assert await users.require(client, SERVERS)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running_etcd(tmp_path / "etcd", 3) as etcd:
        yield Servers(etcd, tmp_path / "servers")


async def refused(client: EtcdClient) -> None:
    """Every way to read, to write, and to change the cluster."""
    put = pb.RequestOp(request_put=pb.PutRequest(key=KEY, value=b"no"))
    attempts: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: client.range(pb.RangeRequest(key=KEY)),
        lambda: client.range(pb.RangeRequest(key=KEY, serializable=True)),
        lambda: client.put(pb.PutRequest(key=KEY, value=b"no")),
        lambda: client.txn(pb.TxnRequest(success=[put])),
        lambda: client.hash_kv(0, 5.0),
        lambda: client.add_learner("https://127.0.0.1:1"),
        lambda: client.remove(1),
        client.defragment,
        client.users,
        lambda: client.add_user("s9:1"),
        lambda: client.grant_role("root", "root"),
    )
    for attempt in attempts:
        with pytest.raises(EtcdDenied, match="this server is not a member"):
            await attempt()
    watch = client.watch(pb.WatchCreateRequest(key=KEY, start_revision=1))
    async with contextlib.aclosing(watch):
        answers = [answer async for answer in watch]
    assert answers[-1].canceled
    assert not any(answer.events for answer in answers)


async def served(client: EtcdClient) -> None:
    """Everything that a server does."""
    await client.put(pb.PutRequest(key=KEY, value=b"yes"))
    assert (await client.range(pb.RangeRequest(key=KEY))).kvs[0].value == b"yes"
    lease = (await client.grant(30)).ID
    await client.put(pb.PutRequest(key=KEY + b"/lease", lease=lease))
    assert await client.keep_alive(lease) > 0
    await client.revoke(lease)
    revision = (await client.range(pb.RangeRequest(key=KEY))).header.revision
    assert (await client.hash_kv(0, 5.0)).hash
    await client.compact(revision - 1, physical=True)
    await client.defragment()
    assert not await client.alarms()
    assert len(await client.members()) == 3
    assert (await client.status()).leader
    watch = client.watch(pb.WatchCreateRequest(key=KEY, start_revision=revision + 1))
    async with contextlib.aclosing(watch):
        await anext(watch)
        await client.put(pb.PutRequest(key=KEY, value=b"seen"))
        assert (await anext(watch)).events[0].kv.value == b"seen"


def test_only_users_are_let_in_once_every_server_has_one(servers: Servers) -> None:
    async def scenario() -> None:
        async with servers.client("s1") as client, servers.etcd.client() as unnamed:
            await users.add(client, servers.folders["s1"].user())
            assert not await users.require(client, SERVERS)
            await unnamed.put(pb.PutRequest(key=KEY))
            await servers.admit_all()
            await refused(unnamed)
            assert not unnamed.is_away
            for name in SERVERS:
                async with servers.client(name, name) as own:
                    await served(own)
            # The leader does this at the beginning of every turn.
            assert await users.require(client, SERVERS)

    in_time(scenario())


def test_a_promotion_is_judged_by_the_leader_whichever_member_is_asked(servers: Servers) -> None:
    """A follower of etcd 3.4 would hand it on without a user, again and again until the request times out."""

    async def scenario() -> None:
        await servers.admit_all()
        for at in SERVERS:
            async with servers.client("s1", at) as client:
                with pytest.raises(EtcdRefused, match="member not found"):
                    await client.promote(1)

    in_time(scenario())


def test_a_removed_server_is_refused_by_every_member_and_stays_refused(servers: Servers) -> None:
    async def scenario() -> None:
        await servers.admit_all()
        async with contextlib.AsyncExitStack() as stack:
            removed = [await stack.enter_async_context(servers.client("s3", at)) for at in SERVERS]
            for client in removed:
                await served(client)
            client = await stack.enter_async_context(servers.client("s1"))
            await users.revoke(client, "s3")
            await users.revoke(client, "s3")
            # Over connections that were open, over new ones, and after a restart of the member.
            for one in removed:
                await refused(one)
                one.reload()
                await refused(one)
            servers.etcd.kill("s2")
            servers.etcd.start("s2")
            await servers.etcd.wait_ready()
            again = await stack.enter_async_context(servers.client("s3", "s2"))
            await refused(again)
            await served(client)
            # One that joins under the same name is let in, with certificates of its own only.
            former, servers.folders["s3"] = servers.folders["s3"], servers.issued("s3", "-again")
            await users.replace(client, "s3", servers.folders["s3"].user())
            await served(await stack.enter_async_context(servers.client("s3", "s3")))
            await refused(await stack.enter_async_context(EtcdClient(servers.etcd.endpoints, former)))

    in_time(scenario())


def test_the_certificate_of_a_member_opens_nothing_at_the_port_of_clients(servers: Servers, tmp_path: Path) -> None:
    async def scenario() -> None:
        await servers.admit_all()
        folder = servers.folders["s3"]
        borrowed = CertificateFolder(tmp_path / "borrowed")
        borrowed.current.mkdir(parents=True)
        borrowed.trusted.write_bytes(folder.trusted.read_bytes())
        borrowed.client_key.write_bytes(folder.member_key.read_bytes())
        borrowed.client_certificate.write_bytes(folder.member_certificate.read_bytes())
        async with EtcdClient(servers.etcd.endpoints, borrowed) as client:
            await refused(client)

    in_time(scenario())


def test_a_server_with_a_certificate_but_no_invitation_cannot_join(servers: Servers, tmp_path: Path) -> None:
    async def scenario() -> None:
        await servers.admit_all()
        member = EtcdMember(settings_for(tmp_path, "s4", servers.issued("s4")))
        with pytest.raises(MemberFailed, match="run `lattice admin raft members add s4`"):
            await member.join(servers.etcd.endpoints)

    in_time(scenario())


def test_leftover_users_are_deleted(servers: Servers) -> None:
    async def scenario() -> None:
        await servers.admit_all()
        async with servers.client("s1") as client, servers.client("s3", "s1") as removed:
            await users.keep_only(client, await client.users(), ["s1", "s2"])
            await refused(removed)
            assert sorted(await client.users()) == sorted(
                ["root", servers.folders["s1"].user(), servers.folders["s2"].user()]
            )

    in_time(scenario())


def test_requests_succeed_while_users_come_and_go(servers: Servers) -> None:
    async def scenario() -> None:
        await servers.admit_all()
        done = asyncio.Event()
        written = 0

        async def write(name: str) -> None:
            nonlocal written
            async with servers.client(name, name) as client:
                while not done.is_set():
                    put = pb.RequestOp(request_put=pb.PutRequest(key=KEY))
                    await client.txn(pb.TxnRequest(success=[put]))
                    written += 1

        async def some_more() -> bool:
            return written > enough

        async with servers.client("s1") as client, asyncio.TaskGroup() as group:
            writers = [group.create_task(write(name)) for name in SERVERS for _ in range(2)]
            for number in range(20):
                await users.add(client, f"s4:{number}")
                enough = written
                await until(some_more, "the others write on")
            await users.revoke(client, "s4")
            done.set()
            await asyncio.gather(*writers)

    in_time(scenario())
