"""The election: one leader, a new one when it is gone, handed over when asked."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from lattice.ports.quorum.leadership import Leadership
from lattice.quorum.etcd.keys import EPOCH
from lattice.quorum.etcd.leader import EtcdLeadership
from lattice.quorum.logs.epochs import new_epoch
from lattice.testing import scenario
from lattice.wire.pb import etcd_pb2 as pb
from tests.integration.quorum.etcd_world import Etcd, in_time, running_etcd, until


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as etcd:
        yield etcd


@pytest.fixture
def etcd(one: Etcd) -> Etcd:
    asyncio.run(one.wipe())
    return one


@asynccontextmanager
async def server(etcd: Etcd, name: str, member: str = "s1", lease_s: int = 4) -> AsyncIterator[EtcdLeadership]:
    others = [other for other in etcd.members if other != member]
    client = etcd.client(member, *others)
    leadership = EtcdLeadership(client, name, etcd.members[member].client_endpoint, lease_s=lease_s, settled_s=0)
    await leadership.open()
    try:
        yield leadership
    finally:
        await leadership.close()
        await client.close()


async def knows(leadership: Leadership, name: str) -> None:
    async def done() -> bool:
        return leadership.leader_name == name

    await until(done, f"{name} is known to lead")


@scenario
async def test_one_leads_and_the_others_know_who(etcd: Etcd) -> None:
    async with server(etcd, "a") as a, server(etcd, "b") as b, server(etcd, "c") as c:
        assert await a.campaign() == a.epoch > 0
        assert (a.is_leader, b.is_leader, c.is_leader) == (True, False, False)
        waiting = [asyncio.create_task(other.campaign()) for other in (b, c)]
        for each in (a, b, c):
            await knows(each, "a")
            assert each.epoch == a.epoch
        assert not any(task.done() for task in waiting)
        for task in waiting:
            task.cancel()


@scenario
async def test_of_many_campaigners_one_wins_and_every_resignation_makes_another(etcd: Etcd) -> None:
    async with server(etcd, "a") as a, server(etcd, "b") as b, server(etcd, "c") as c:
        epochs = list[int]()
        for _ in range(5):
            campaigns = {asyncio.create_task(each.campaign()): each for each in (a, b, c)}
            done, waiting = await asyncio.wait(campaigns, return_when=asyncio.FIRST_COMPLETED)
            assert len(done) == 1
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            leader = campaigns[done.pop()]
            assert [each for each in (a, b, c) if each.is_leader] == [leader]
            epochs.append(leader.epoch)
            await leader.resign()
        assert epochs == sorted(set(epochs))


@scenario
async def test_a_resignation_is_told_once_and_followed_at_once(etcd: Etcd) -> None:
    losses = list[str]()
    async with server(etcd, "a", lease_s=30) as a, server(etcd, "b", lease_s=30) as b:
        a.on_loss(lambda: losses.append("a"))
        await a.campaign()
        campaign = asyncio.create_task(b.campaign())
        begin = time.monotonic()
        await a.resign()
        assert not a.is_leader
        await campaign
        assert time.monotonic() - begin < 15  # the lease lasts 30
        await knows(a, "b")
        assert losses == ["a"]
        assert b.epoch > 0


@scenario
async def test_leadership_is_handed_to_the_one_that_was_named(etcd: Etcd) -> None:
    async with server(etcd, "a") as a, server(etcd, "b") as b, server(etcd, "c") as c:
        for _ in range(3):
            await a.campaign()
            campaigns = [asyncio.create_task(each.campaign()) for each in (b, c)]
            await knows(c, "a")
            await a.resign("c")
            await campaigns[1]
            assert not b.is_leader
            campaigns[0].cancel()
            await knows(a, "c")
            await c.resign("a")


@scenario
async def test_a_leader_that_stops_renewing_is_sure_of_nothing_and_replaced(etcd: Etcd) -> None:
    losses = list[str]()
    async with server(etcd, "a", lease_s=2) as a, server(etcd, "b") as b:
        await a.campaign()
        a.on_loss(lambda: losses.append("a"))
        stopped = a._renewer
        assert stopped is not None
        stopped.cancel()
        await b.campaign()
        assert not a.is_leader
        await knows(a, "b")
        assert losses == ["a"]


@scenario
async def test_a_restore_raises_the_epoch_above_all_former_ones(etcd: Etcd) -> None:
    async with server(etcd, "a") as a, etcd.client() as client:
        before = await a.campaign()
        await a.resign()
        await client.put(pb.PutRequest(key=EPOCH, value=b"%d" % new_epoch()))
        assert await a.campaign() > before + (1 << 40)


def test_a_leader_killed_with_its_member_is_replaced_before_its_lease_has_ended(tmp_path: Path) -> None:
    async def scenario(etcd: Etcd) -> None:
        first = await etcd.leader()
        second, third = (name for name in etcd.members if name != first)
        async with server(etcd, "b", second, 30) as b, server(etcd, "c", third, 30) as c:
            dying = etcd.client(first)
            a = EtcdLeadership(dying, "a", etcd.members[first].client_endpoint, lease_s=30)
            await a.open()
            await a.campaign()
            campaigns = [asyncio.create_task(each.campaign()) for each in (b, c)]
            await knows(b, "a")
            begin = time.monotonic()
            etcd.kill(first)
            done, waiting = await asyncio.wait(campaigns, return_when=asyncio.FIRST_COMPLETED)
            gap_s = time.monotonic() - begin
            assert len(done) == 1
            for task in waiting:
                task.cancel()
            print(f"\na new leader after {gap_s:.2f} s")  # noqa: T201
            assert gap_s < 20
            await a.close()
            await dying.close()

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd))
