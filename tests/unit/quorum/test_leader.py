"""What a server says that cannot campaign: once, and not twice a second for as long as it is cut off; how it gives up the key."""

import asyncio
import logging
from typing import ClassVar, cast

import pytest

from lattice.quorum.etcd import leader
from lattice.quorum.etcd.client import EtcdClient, EtcdUnavailable
from lattice.quorum.etcd.leader import EtcdLeadership
from lattice.wire.pb import etcd_pb2 as pb


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


class SlowMember:
    """Answers what takes the key, but the next write gets no answer in time."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.revision = 7
        self.renewed: list[int] = []

    async def grant(self, ttl_s: int, timeout_s: float) -> pb.LeaseGrantResponse:
        return pb.LeaseGrantResponse(ID=5)

    async def keep_alive(self, lease: int, timeout_s: float) -> int:
        self.renewed.append(lease)
        return 4

    async def txn(self, request: pb.TxnRequest, timeout_s: float) -> pb.TxnResponse:
        self.written.append(request.success[0].request_put.value)
        if len(self.written) == 2:
            raise EtcdUnavailable("Deadline Exceeded")
        responses = [pb.ResponseOp(), pb.ResponseOp(response_range=pb.RangeResponse())]
        return pb.TxnResponse(succeeded=True, header=pb.ResponseHeader(revision=self.revision), responses=responses)


def test_the_key_is_offered_again_if_there_was_no_answer_and_with_a_whole_lease(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader, "_TICK_S", 0.001)
    client = SlowMember()

    async def scenario() -> None:
        leadership = EtcdLeadership(cast("EtcdClient", client), "s1", "h:1")
        await leadership.campaign()
        client.renewed.clear()
        await leadership.resign("s2")
        assert not leadership.is_leader

    asyncio.run(scenario())
    assert [b'"s2"' in value for value in client.written] == [False, True, True]
    assert client.renewed == [5]


class SlowDisk:
    """Nothing that changes etcd is answered within less than a second."""

    def __init__(self) -> None:
        self.given_s: list[float] = []

    async def grant(self, ttl_s: int, timeout_s: float) -> pb.LeaseGrantResponse:
        await self._answer(timeout_s)
        return pb.LeaseGrantResponse(ID=5)

    async def _answer(self, timeout_s: float) -> None:
        self.given_s.append(timeout_s)
        if timeout_s < 1:
            await asyncio.sleep(timeout_s + 0.01)
            raise EtcdUnavailable("Deadline Exceeded")

    async def txn(self, request: pb.TxnRequest, timeout_s: float) -> pb.TxnResponse:
        await self._answer(timeout_s)
        responses = [pb.ResponseOp(), pb.ResponseOp(response_range=pb.RangeResponse())]
        return pb.TxnResponse(succeeded=True, header=pb.ResponseHeader(revision=7), responses=responses)

    async def keep_alive(self, lease: int, timeout_s: float) -> int:
        return 4


def test_a_slow_etcd_is_given_more_time_until_there_is_a_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "_TICK_S", 0.001)
    client = SlowDisk()

    async def scenario() -> None:
        leadership = EtcdLeadership(cast("EtcdClient", client), "s1", "h:1")
        async with asyncio.timeout(30):
            await leadership.campaign()
        assert leadership.is_leader
        await leadership.resign("s2")

    asyncio.run(scenario())
    assert client.given_s[:5] == [0.5, 0.5, 1.0, 1.0, 0.5]  # short again when there is a leader
    assert client.given_s[-1] == 1.0


def test_a_member_that_refuses_at_once_is_not_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was killed: how soon the next server leads depends on short tries."""
    monkeypatch.setattr(leader, "_TICK_S", 0.001)

    class Killed(NoMajority):
        given_s: ClassVar[list[float]] = []

        async def grant(self, ttl_s: int, timeout_s: float) -> None:
            self.given_s.append(timeout_s)
            await super().grant(ttl_s, timeout_s)

    client = Killed()

    async def scenario() -> None:
        leadership = EtcdLeadership(cast("EtcdClient", client), "s1", "h:1")
        campaign = asyncio.create_task(leadership.campaign())
        async with asyncio.timeout(30):
            await client.tried_enough.wait()
        campaign.cancel()
        await asyncio.gather(campaign, return_exceptions=True)

    asyncio.run(scenario())
    assert set(client.given_s) == {0.5}
