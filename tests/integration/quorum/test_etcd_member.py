"""Our own member: begun, restarted, joined; dead with its server; reached by nobody without our certificates."""

import asyncio
import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from lattice.quorum.etcd.client import EtcdClient, EtcdError
from lattice.quorum.etcd.keys import HEAD
from lattice.quorum.etcd.member import EtcdMember
from lattice.quorum.etcd.settings import MemberFailed, MemberSettings, Origin, write_origin
from lattice.quorum.logs.etcd import EtcdLog
from lattice.quorum.trust.certificates import (
    CertificateFolder,
    rotate,
)
from lattice.testing import scenario
from lattice.wire.pb import etcd_pb2 as pb
from tests.conftest import require_program
from tests.integration.quorum.etcd_world import in_time, new_certificates, settings_for, until

PUT = pb.PutRequest(key=b"key", value=b"value")


@pytest.fixture
def certificates(tmp_path: Path) -> CertificateFolder:
    require_program("etcd")
    return new_certificates(tmp_path / "certificates")


@asynccontextmanager
async def stopping(*members: EtcdMember) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for member in members:
            await member.stop()


async def value_of(client: EtcdClient) -> bytes:
    found = (await client.range(pb.RangeRequest(key=b"key"))).kvs
    return found[0].value if found else b""


@scenario
async def test_a_member_begins_once_and_restarts_with_its_data(tmp_path: Path, certificates: CertificateFolder) -> None:
    settings = settings_for(tmp_path, "s1", certificates)
    first = EtcdMember(settings)
    async with stopping(first):
        await first.bootstrap()
        async with first.client() as client:
            await client.put(PUT)
    assert first.pid is None
    again = EtcdMember(settings)
    with pytest.raises(MemberFailed, match="without --bootstrap"):
        await again.bootstrap()
    async with stopping(again):
        await again.restart()
        async with again.client() as client:
            assert await value_of(client) == b"value"
    for path in (settings.folder, settings.data):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


@scenario
async def test_a_member_whose_data_are_gone_does_not_begin_an_empty_cluster(
    tmp_path: Path, certificates: CertificateFolder
) -> None:
    settings = settings_for(tmp_path, "s1", certificates)
    member = EtcdMember(settings)
    with pytest.raises(MemberFailed, match="never been a member"):
        await member.restart()
    async with stopping(member):
        await member.bootstrap()
    (settings.data / "member").rename(tmp_path / "lost")
    with pytest.raises(MemberFailed, match="data of member s1 is missing"):
        await EtcdMember(settings).restart()


@scenario
async def test_the_data_of_another_server_are_refused(tmp_path: Path, certificates: CertificateFolder) -> None:
    settings = settings_for(tmp_path, "s1", certificates)
    write_origin(settings, Origin(name="s1", token="", cluster={"s1": settings.peer_url}, is_joining=False))
    other = EtcdMember(replace(settings, name="s2"))
    with pytest.raises(MemberFailed, match="has the data of server s1, and this is s2; correct `name` or `data_dir`"):
        await other.restart()
    assert other.pid is None


@scenario
async def test_a_first_start_that_was_interrupted_goes_on(tmp_path: Path, certificates: CertificateFolder) -> None:
    settings = settings_for(tmp_path, "s1", certificates)
    cluster = {settings.name: settings.peer_url}
    write_origin(settings, Origin(name="s1", token="kept", cluster=cluster, is_joining=False))
    member = EtcdMember(settings)
    async with stopping(member):
        await member.bootstrap()
    with pytest.raises(MemberFailed, match="without --bootstrap"):
        await EtcdMember(settings).bootstrap()


@scenario
async def test_a_member_that_dies_is_started_again(tmp_path: Path, certificates: CertificateFolder) -> None:
    member = EtcdMember(settings_for(tmp_path, "s1", certificates))
    async with stopping(member), member.client() as client:
        await member.bootstrap()
        await client.put(PUT)
        former = member.pid
        assert former is not None
        os.kill(former, signal.SIGKILL)

        async def answers() -> bool:
            try:
                return await value_of(client) == b"value"
            except EtcdError:
                return False

        await until(answers, "the member answers again")
        assert member.pid not in (None, former)
        assert member.restarts == 1


SERVER = """
import asyncio, sys
from pathlib import Path
from lattice.quorum.trust.certificates import CertificateFolder
from lattice.quorum.etcd.member import EtcdMember
from lattice.quorum.etcd.settings import MemberSettings

async def main():
    folder, client, peer = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    member = EtcdMember(MemberSettings(name="s1", folder=folder / "s1", certificates=CertificateFolder(folder / "certificates"),
                                       client_listen=client, peer_listen=peer))
    await member.bootstrap()
    print(member.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_member_dies_with_its_server(tmp_path: Path, certificates: CertificateFolder) -> None:
    settings = settings_for(tmp_path, "s1", certificates)
    command = [sys.executable, "-c", SERVER, str(tmp_path), settings.client_listen, settings.peer_listen]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        watched = os.pidfd_open(pid)
        server.kill()
        server.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/stat").exists() and _state_of(pid) not in "ZX":
        assert time.monotonic() < deadline, "the member outlived its server"
        time.sleep(0.02)
    os.close(watched)


def _state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


@scenario
async def test_servers_join_as_learners_and_get_a_vote(tmp_path: Path, certificates: CertificateFolder) -> None:
    first, second = (EtcdMember(settings_for(tmp_path, name, certificates)) for name in ("s1", "s2"))
    async with stopping(second, first):
        await first.bootstrap()
        async with first.client() as client:
            await client.put(PUT)
        await second.join([first.settings.client_endpoint])
        async with second.client() as client:
            assert await value_of(client) == b"value"
            members = {member.name: member.isLearner for member in await client.members()}
        assert members == {"s1": False, "s2": False}
        await second.stop()
        # Interrupted and asked again: the same member, not another one.
        await second.join([first.settings.client_endpoint])
        async with first.client() as client:
            assert len(await client.members()) == 2


@scenario
async def test_a_server_has_joined_when_its_own_member_knows_of_its_vote(
    tmp_path: Path, certificates: CertificateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (EtcdMember(settings_for(tmp_path, name, certificates)) for name in ("s1", "s2"))
    promote = EtcdClient.promote
    heard = asyncio.Event()

    async def unheard(self: EtcdClient, member_id: int) -> None:
        """Promoted by the first one alone, while the second hears nothing."""
        pid = second.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        try:
            await promote(self, member_id)
        except EtcdError:
            os.kill(pid, signal.SIGCONT)
            raise

        def hear() -> None:
            heard.set()
            os.kill(pid, signal.SIGCONT)

        asyncio.get_running_loop().call_later(0.3, hear)

    monkeypatch.setattr(EtcdClient, "promote", unheard)
    async with stopping(second, first):
        await first.bootstrap()
        await second.join([first.settings.client_endpoint])
        assert heard.is_set()
        async with second.client() as client:
            assert not (await client.status()).isLearner


@scenario
async def test_a_name_is_taken_only_once(tmp_path: Path, certificates: CertificateFolder) -> None:
    first = EtcdMember(settings_for(tmp_path, "s1", certificates))
    twin = EtcdMember(settings_for(tmp_path / "elsewhere", "s1", certificates))
    async with stopping(twin, first):
        await first.bootstrap()
        with pytest.raises(MemberFailed, match="member s1 already exists"):
            await twin.join([first.settings.client_endpoint])
        async with first.client() as client:
            assert len(await client.members()) == 1


@scenario
async def test_a_port_in_use_is_named(tmp_path: Path, certificates: CertificateFolder) -> None:
    first = EtcdMember(settings_for(tmp_path, "s1", certificates))
    second = EtcdMember(
        MemberSettings(
            name="s2",
            folder=tmp_path / "s2",
            certificates=certificates,
            client_listen=first.settings.client_listen,
            peer_listen=settings_for(tmp_path, "s2", certificates).peer_listen,
        )
    )
    async with stopping(second, first):
        await first.bootstrap()
        with pytest.raises(MemberFailed, match="address already in use"):
            await second.bootstrap()
        assert second.pid is None


@scenario
async def test_nobody_gets_in_without_a_certificate_of_this_quorum(
    tmp_path: Path, certificates: CertificateFolder
) -> None:
    member = EtcdMember(settings_for(tmp_path, "s1", certificates))
    stranger = new_certificates(tmp_path / "stranger")
    # Trusts the member, but is not trusted by it.
    stranger.trusted.write_bytes(certificates.trusted.read_bytes())
    async with stopping(member):
        await member.bootstrap()
        async with EtcdClient([member.settings.client_endpoint], stranger) as client:
            with pytest.raises(EtcdError):
                await client.status()
        async with member.client() as client:
            assert (await client.status()).leader


@scenario
async def test_certificates_are_rotated_under_a_running_member(tmp_path: Path, certificates: CertificateFolder) -> None:
    member = EtcdMember(settings_for(tmp_path, "s1", certificates))
    async with stopping(member):
        await member.bootstrap()
        log = EtcdLog(client := member.client())
        await log.open()
        pid = member.pid
        for last in range(5):
            rotate(certificates, ["127.0.0.1"])
            client.reload()
            assert await log.append(last, b"entry") == last + 1
        assert member.pid == pid
        await log.close()


@pytest.mark.root
def test_a_member_whose_disk_is_full_says_so_and_comes_back_while_the_others_go_on(
    tmp_path: Path, certificates: CertificateFolder
) -> None:
    async def scenario(small: Path) -> None:
        folders = {"s1": tmp_path, "s2": tmp_path, "s3": small}
        members = [EtcdMember(settings_for(folder, name, certificates)) for name, folder in folders.items()]
        cluster = {member.settings.name: member.settings.peer_url for member in members}
        third = members[2]
        async with stopping(*members):
            await asyncio.gather(*(member.bootstrap("token", cluster) for member in members))
            log = EtcdLog(members[0].client([member.settings.client_endpoint for member in members[1:]]))
            await log.open()
            fill_up(small / "ballast")
            last = 0
            while third.restarts == 0:
                last = await log.append(last, os.urandom(1_000_000))
            assert "no space left on device" in third.last_words()
            last = await log.append(last, b"the others go on")
            (small / "ballast").unlink()
            await until(lambda: has_head(third, last), "the third member has everything")
            await log.close()

    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", small], check=True)
    try:
        in_time(scenario(small))
    finally:
        subprocess.run(["umount", small], check=True)


async def has_head(member: EtcdMember, index: int) -> bool:
    async with member.client() as client:
        try:
            found = (await client.range(pb.RangeRequest(key=HEAD))).kvs
        except EtcdError:
            return False
    return bool(found) and found[0].value == b"%d" % index


def fill_up(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 20))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


@pytest.mark.parametrize("has_own_authority", [True, False])
def test_a_member_among_servers_of_another_cluster_says_so(
    tmp_path: Path, certificates: CertificateFolder, monkeypatch: pytest.MonkeyPatch, *, has_own_authority: bool
) -> None:
    """The disk of a former cluster in a server of the one that has its addresses now."""
    monkeypatch.setattr(EtcdMember.wait_ready, "__defaults__", (8.0,))
    former = {name: settings_for(tmp_path / "former", name, certificates) for name in ("s1", "s2", "s3")}
    theirs = new_certificates(tmp_path / "others") if has_own_authority else certificates
    now = {name: replace(each, folder=tmp_path / "now" / name, certificates=theirs) for name, each in former.items()}

    async def scenario() -> None:
        for token, settings in (("former", former), ("now", now)):
            cluster = {name: each.peer_url for name, each in settings.items()}
            members = [EtcdMember(each) for each in settings.values()]
            async with stopping(*members):
                await asyncio.gather(*(member.bootstrap(token, cluster) for member in members))
        one, *others = EtcdMember(former["s1"]), EtcdMember(now["s2"]), EtcdMember(now["s3"])
        async with stopping(one, *others):
            await asyncio.gather(*(member.restart() for member in others))
            with pytest.raises(MemberFailed, match=r"belong to another cluster than the data in .*former"):
                await one.restart()

    in_time(scenario(), 120.0)
