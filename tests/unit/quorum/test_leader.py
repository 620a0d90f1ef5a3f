"""What a server says that cannot campaign: once, and not twice a second for as long as it is cut off."""

import asyncio
import logging
from typing import cast

import pytest

from lattice.quorum.etcd import leader
from lattice.quorum.etcd.client import EtcdClient, EtcdUnavailable
from lattice.quorum.etcd.leader import EtcdLeadership


class NoMajority:
    """A client whose member knows no leader."""

    def __init__(self) -> None:
        self.tries = 0
        self.tried_enough = asyncio.Event()

    async def grant(self, ttl_s: int, timeout_s: float) -> None:
        self.tries += 1
        if self.tries == 20:
            self.tried_enough.set()
        raise EtcdUnavailable("etcdserver: no leader")


def test_a_server_without_a_majority_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(leader, "_TICK_S", 0.001)
    client = NoMajority()

    async def scenario() -> None:
        leadership = EtcdLeadership(cast("EtcdClient", client), "s1", "h:1")
        campaign = asyncio.create_task(leadership.campaign())
        async with asyncio.timeout(10):
            await client.tried_enough.wait()
        campaign.cancel()
        await asyncio.gather(campaign, return_exceptions=True)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [record.getMessage() for record in caplog.records] == [
        "server s1 cannot campaign now: etcdserver: no leader"
    ]
