"""Members of a real cluster, as an operator moves them."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from lattice.quorum.etcd import members
from lattice.quorum.etcd.change_lock import only_one
from lattice.quorum.etcd.client import EtcdClient, EtcdRefused, EtcdUnavailable
from lattice.quorum.etcd.members import MembersError, MemberStatus
from tests.integration.quorum.etcd_world import Etcd, in_time, running_etcd, until


def test_members_are_listed_lead_and_leave(tmp_path: Path) -> None:
    async def leads(client: EtcdClient, name: str) -> None:
        async def done() -> bool:
            return [status.name for status in await members.list_members(client) if status.is_leader] == [name]

        await until(done, f"{name} leads")

    async def added(client: EtcdClient, url: str) -> bool:
        """Only a cluster whose members have been connected for some seconds takes one."""
        try:
            await client.add_learner(url)
        except EtcdUnavailable:
            return False
        return True

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
            with pytest.raises(MembersError, match="already has a vote"):
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
            # A learner that never started has no name, and is named by its address.
            await until(lambda: added(client, "https://127.0.0.1:9"), "the cluster takes a learner")
            with pytest.raises(MembersError, match="cannot promote member"):
                await members.promote(client, "127.0.0.1:9")
            await members.remove(client, "127.0.0.1:9")
            assert [status.name for status in await members.list_members(client)] == ["s1", "s2"]

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd))


def test_one_change_at_a_time_and_who_waited_learns_that_it_is_done(tmp_path: Path) -> None:
    done: list[str] = []

    async def is_done() -> bool:
        return bool(done)

    async def change(client: EtcdClient, name: str) -> bool:
        async with only_one(client, is_done) as is_ours:
            if is_ours:
                await asyncio.sleep(0.5)
                done.append(name)
            return is_ours

    async def scenario(etcd: Etcd) -> None:
        async with etcd.client() as first, etcd.client() as second:
            outcomes = await asyncio.gather(change(first, "one"), change(second, "two"))
            assert sorted(outcomes) == [False, True]
            assert len(done) == 1
            done.clear()
            assert await change(first, "one")  # it was released

    with running_etcd(tmp_path, 1) as etcd:
        in_time(scenario(etcd))


def test_a_member_that_knows_no_leader_for_a_moment_is_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def status(number: int, *, leader: bool = False, healthy: bool = True) -> MemberStatus:
        return MemberStatus(
            member_id=number, name=f"s{number}", peer_url="", endpoint=f"e{number}", is_leader=leader, healthy=healthy
        )

    seen = [
        [status(1, healthy=False), status(2), status(3, healthy=False)],
        [status(1), status(2), status(3)],
        [status(1, leader=True), status(2), status(3)],
    ]

    async def look(client: EtcdClient) -> list[MemberStatus]:
        return seen.pop(0) if len(seen) > 1 else seen[0]

    class Client:
        moves = 0
        removed: list[int] = []  # noqa: RUF012 - of this test alone

        def at(self, endpoint: str) -> "Client":
            return self

        async def __aenter__(self) -> "Client":
            return self

        async def __aexit__(self, *_: object) -> None:
            return

        async def move_leader(self, member: int) -> None:
            Client.moves += 1
            if Client.moves == 1:
                raise EtcdRefused("etcdserver: not leader")

        async def remove(self, member: int) -> None:
            self.removed.append(member)

    monkeypatch.setattr(members, "list_members", look)
    monkeypatch.setattr(members, "_SETTLE_PAUSE_S", 0.001)
    client = cast("EtcdClient", Client())

    async def scenario() -> None:
        await members.remove(client, "s2")
        await members.remove(client, "s1")

    asyncio.run(scenario())
    assert Client.removed == [2, 1]
    assert Client.moves == 2
