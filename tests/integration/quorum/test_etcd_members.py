"""Members of a real cluster, as an operator moves them."""

from pathlib import Path

import pytest

from lattice.quorum.etcd import members
from lattice.quorum.etcd.client import EtcdClient, EtcdUnavailable
from lattice.quorum.etcd.members import MembersError
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
            # A learner that never started has no name, and is named by its address.
            await until(lambda: added(client, "https://127.0.0.1:9"), "the cluster takes a learner")
            with pytest.raises(MembersError, match="cannot get a vote now"):
                await members.promote(client, "127.0.0.1:9")
            await members.remove(client, "127.0.0.1:9")
            assert [status.name for status in await members.list_members(client)] == ["s1", "s2"]

    with running_etcd(tmp_path, 3) as etcd:
        in_time(scenario(etcd))
