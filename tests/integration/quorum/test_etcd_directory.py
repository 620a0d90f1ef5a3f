"""Where servers are and who is invited, in a real etcd: seen by all, gone in time, used once."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from lattice.quorum.etcd.client import EtcdClient, EtcdUnavailable, bring_home
from lattice.quorum.peers import invitations
from lattice.quorum.peers.directory import ServerDirectory, ServerEntry
from lattice.quorum.peers.invitations import InvitationError
from lattice.testing import scenario
from lattice.wire.pb import etcd_pb2 as pb
from tests.integration.quorum.etcd_world import Etcd, free_address, in_time, running_etcd, until


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture(autouse=True)
def _empty(etcd: Etcd) -> None:
    in_time(etcd.wipe())


def entry(etcd: Etcd, name: str = "s1", internal: str = "") -> ServerEntry:
    settings = etcd.members["s1"]
    peer = settings.peer_listen if name == "s1" else "127.0.0.1:9"
    return ServerEntry(name=name, rest="http://h:1", grpc="h:2", client="h:3", peer=peer, internal=internal)


@scenario
async def test_what_one_server_writes_the_others_see(etcd: Etcd, tmp_path: Path) -> None:
    async with etcd.client() as here, etcd.client() as there:
        mine = ServerDirectory(here, [entry(etcd)], tmp_path / "mine.json")
        theirs = ServerDirectory(there, [], tmp_path / "theirs.json")
        changes: list[list[str]] = []
        theirs.on_change(lambda: changes.append(list(theirs.entries)))
        await theirs.open()
        assert dict(theirs.entries) == {}
        await mine.publish(entry(etcd, internal="h:4"))
        await until(lambda: _has(theirs, "h:4"), "the others see it")
        assert changes == [["s1"]]
        await mine.publish(entry(etcd, internal="h:5"))
        await until(lambda: _has(theirs, "h:5"), "the others see that it moved")
        # One that is no member of etcd is not shown, whoever wrote it down.
        await mine.publish(entry(etcd, "stranger", "h:6"))
        assert list(mine.entries) == ["s1"]
        await mine.forget("s1")
        assert mine.get("s1") == entry(etcd)  # as the configuration says: it is a member still
        await theirs.close()
        # Without etcd the last that was seen is known.
        again = ServerDirectory(there, [], tmp_path / "mine.json")
        assert again.get("s1") == entry(etcd)


async def _has(directory: ServerDirectory, internal: str) -> bool:
    found = directory.get("s1")
    return found is not None and found.internal == internal


@scenario
async def test_an_entry_that_cannot_be_read_hides_no_other(etcd: Etcd, tmp_path: Path) -> None:
    async with etcd.client() as client:
        directory = ServerDirectory(client, [], tmp_path / "cache.json")
        await directory.publish(entry(etcd))
        await client.put(pb.PutRequest(key=b"lattice/servers/s2", value=b"{"))
        await directory.look()
        assert list(directory.entries) == ["s1"]


@scenario
async def test_an_invitation_is_bound_to_the_first_keys_that_show_it(etcd: Etcd) -> None:
    async with etcd.client() as client:
        token = await invitations.invite(client, "s4", trusted=b"CA", servers=["h:1"], lifetime_s=60)
        assert [each.name for each in await invitations.pending(client)] == ["s4"]
        for wrong in (msgspec.structs.replace(token, secret="x"), msgspec.structs.replace(token, id="x")):
            with pytest.raises(InvitationError, match="unknown invitation"):
                await invitations.redeem(client, wrong.id, wrong.secret, b"keys")
        first = await invitations.redeem(client, token.id, token.secret, b"keys")
        assert first == await invitations.redeem(client, token.id, token.secret, b"keys")
        with pytest.raises(InvitationError, match="was already used"):
            await invitations.redeem(client, token.id, token.secret, b"other keys")


@scenario
async def test_of_two_servers_that_show_it_at_once_one_is_refused(etcd: Etcd) -> None:
    async with etcd.client() as client:
        token = await invitations.invite(client, "s4", trusted=b"CA", servers=[], lifetime_s=60)
        shown = (invitations.redeem(client, token.id, token.secret, b"%d" % number) for number in range(8))
        outcomes = await asyncio.gather(*shown, return_exceptions=True)
        assert sum(not isinstance(outcome, InvitationError) for outcome in outcomes) == 1


@scenario
async def test_a_server_that_shows_it_to_several_members_at_once_is_not_refused(etcd: Etcd) -> None:
    async with etcd.client() as client:
        token = await invitations.invite(client, "s4", trusted=b"CA", servers=[], lifetime_s=60)
        shown = (invitations.redeem(client, token.id, token.secret, b"keys") for _ in range(8))
        assert len({each.bound for each in await asyncio.gather(*shown)}) == 1


@scenario
async def test_a_newer_invitation_a_withdrawal_and_time_end_one(etcd: Etcd) -> None:
    async with etcd.client() as client:
        old = await invitations.invite(client, "s4", trusted=b"CA", servers=[], lifetime_s=60)
        new = await invitations.invite(client, "s4", trusted=b"CA", servers=[], lifetime_s=60)
        assert [each.id for each in await invitations.pending(client)] == [new.id]
        with pytest.raises(InvitationError):
            await invitations.redeem(client, old.id, old.secret, b"keys")
        await invitations.withdraw(client, new.id)
        await invitations.withdraw(client, new.id)
        brief = await invitations.invite(client, "s5", trusted=b"CA", servers=[], lifetime_s=2)

        async def is_over() -> bool:
            return not await invitations.pending(client)

        await until(is_over, "it has ended by itself")
        with pytest.raises(InvitationError, match="has expired"):
            await invitations.redeem(client, brief.id, brief.secret, b"keys")


@scenario
async def test_an_invitation_ends_in_time_although_etcd_keeps_it_longer(
    etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All leases begin anew when another member of etcd leads."""
    async with etcd.client() as client:
        token = await invitations.invite(client, "s4", trusted=b"CA", servers=[], lifetime_s=60)
        later = time.time() + 61
        monkeypatch.setattr("lattice.quorum.peers.invitations.time.time", lambda: later)
        assert await invitations.pending(client) == []
        with pytest.raises(InvitationError, match="has expired; create a new one"):
            await invitations.redeem(client, token.id, token.secret, b"keys")


@scenario
async def test_a_client_that_moved_on_comes_back_when_its_own_member_serves(etcd: Etcd) -> None:
    own, other = free_address(), etcd.members["s1"].client_listen
    answers = [False, True]

    async def serves() -> bool:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async with EtcdClient([own, other], etcd.certificates) as client:
        with pytest.raises(EtcdUnavailable):
            await client.status()
        assert (await client.status()).leader
        assert (client.is_away, client.endpoint) == (True, other)
        returning = asyncio.create_task(bring_home([client], serves, every_s=0.01))

        async def is_back() -> bool:
            return not client.is_away

        await until(is_back, "it is back")
        assert client.endpoint == own
        assert answers == [True]
        returning.cancel()
        await asyncio.gather(returning, return_exceptions=True)
