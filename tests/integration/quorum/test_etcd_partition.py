"""A leader that is cut off from its followers: it acknowledges nothing, the others go on, afterwards all agree."""

import asyncio
import time
from pathlib import Path

import pytest

from lattice.ports.quorum.log import Conflict, LogUnavailable
from lattice.quorum.etcd.leader import EtcdLeadership
from lattice.quorum.logs.etcd import EtcdLog
from tests.integration.quorum.etcd_networks import Network, etcd_on_hosts
from tests.integration.quorum.etcd_world import Etcd, in_time

pytestmark = pytest.mark.root


async def opened(log: EtcdLog) -> EtcdLog:
    await log.open()
    return log


def test_the_deposed_leader_writes_nothing_and_the_majority_goes_on(tmp_path: Path) -> None:
    async def scenario(etcd: Etcd, network: Network) -> None:
        leader = await etcd.leader()
        others = [name for name in etcd.members if name != leader]
        alone = await opened(etcd.log(leader, append_within_s=2))
        majority = await opened(etcd.log(*others))
        last = 0
        for _ in range(10):
            last = await alone.append(last, b"before")
        network.cut_off(leader)
        refused = asyncio.create_task(alone.append(last, b"from the minority"))
        begin = time.monotonic()
        for _ in range(10):
            last = await majority.append(last, b"from the majority")
        print(f"\n{time.monotonic() - begin:.2f} s until the majority had ten entries")  # noqa: T201
        with pytest.raises(LogUnavailable):
            await refused
        with pytest.raises(LogUnavailable):
            await alone.head()
        network.heal(leader)
        await etcd.wait_ready()
        patient = await opened(etcd.log(leader))
        with pytest.raises(Conflict):
            await patient.append(10, b"late")
        assert [entry.payload for entry in await patient.read(1, 100)] == [b"before"] * 10 + [b"from the majority"] * 10
        for log in (alone, majority, patient):
            await log.close()

    with etcd_on_hosts(tmp_path) as (etcd, network):
        in_time(scenario(etcd, network))


def test_leadership_moves_to_the_majority_and_the_one_cut_off_knows(tmp_path: Path) -> None:
    async def scenario(etcd: Etcd, network: Network) -> None:
        first = await etcd.leader()
        second = next(name for name in etcd.members if name != first)
        clients = [etcd.client(name) for name in (first, second)]
        a, b = (
            EtcdLeadership(client, name, etcd.members[name].client_endpoint)
            for client, name in zip(clients, (first, second), strict=True)
        )
        await a.open()
        await b.open()
        before = await a.campaign()
        lost = asyncio.Event()
        a.on_loss(lost.set)
        network.cut_off(first)
        begin = time.monotonic()
        assert await b.campaign() > before
        print(f"\na new leader after {time.monotonic() - begin:.2f} s")  # noqa: T201
        await lost.wait()
        assert not a.is_leader
        for leadership in (a, b):
            await leadership.close()
        for client in clients:
            await client.close()

    with etcd_on_hosts(tmp_path) as (etcd, network):
        in_time(scenario(etcd, network))
