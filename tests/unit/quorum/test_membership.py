"""Certificates are renewed by themselves, and in time; members are listed as they are now; a slow etcd is asked again."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lattice.quorum.etcd import member
from lattice.quorum.etcd.client import EtcdClient, EtcdDenied, EtcdUnavailable
from lattice.quorum.peers.directory import ServerDirectory
from lattice.quorum.peers.membership import QuorumMembership
from lattice.quorum.peers.servers import QuorumServers
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue
from lattice.wire.pb import etcd_pb2 as pb
from tests.unit.quorum.world import until


def membership(folder: CertificateFolder, renewed: list[bool]) -> QuorumMembership:
    nothing = SimpleNamespace()
    return QuorumMembership(
        "s1",
        cast("EtcdClient", nothing),
        folder,
        cast("ServerDirectory", nothing),
        cast("QuorumServers", nothing),
        b"secret",
        ["127.0.0.1"],
        lambda: renewed.append(True),
    )


async def kept(server: QuorumMembership, until_then: Callable[[], bool]) -> None:
    keeping = asyncio.create_task(server.keep_renewed())
    try:
        await until(until_then, "it has looked at its certificates")
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


def test_certificates_near_their_end_are_renewed_and_used(tmp_path: Path) -> None:
    folder, renewed = CertificateFolder(tmp_path), list[bool]()
    create_authority(folder)
    # They begin an hour ago, for clocks that differ: ten minutes more are less than a third.
    install(folder, issue(folder, ["127.0.0.1"], name="s1", lifetime=timedelta(minutes=10)))
    before = folder.serial()
    asyncio.run(kept(membership(folder, renewed), lambda: bool(renewed)))
    assert renewed == [True]
    assert folder.serial() != before


def test_a_server_that_cannot_renew_says_when_they_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = CertificateFolder(tmp_path)
    create_authority(folder)
    install(folder, issue(folder, ["127.0.0.1"], lifetime=timedelta(minutes=10)))
    folder.authority_key.unlink()

    with caplog.at_level(logging.ERROR):
        asyncio.run(kept(membership(folder, []), lambda: bool(caplog.records)))
    assert folder.expires_at().isoformat() in caplog.text
    assert "cannot renew its certificates" in caplog.text


class Lagging:
    """A member of etcd that lists a removed one until it has caught up, which a read waits for."""

    def __init__(self) -> None:
        self.names = ["s1", "s2", "s3", "s4"]

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        self.names = ["s1", "s2", "s3"]
        return pb.RangeResponse()

    async def members(self) -> list[pb.Member]:
        return [pb.Member(name=name) for name in self.names]


def test_a_removed_member_is_not_listed_by_one_that_lags(tmp_path: Path) -> None:
    async def ask_all(_index: int | None) -> list[object]:
        return []

    server = QuorumMembership(
        "s1",
        cast("EtcdClient", Lagging()),
        CertificateFolder(tmp_path),
        cast("ServerDirectory", SimpleNamespace(get=lambda _name: None)),
        cast("QuorumServers", SimpleNamespace(ask_all=ask_all, leader_name="s1")),
        b"secret",
        [],
        lambda: None,
    )
    assert [each.name for each in asyncio.run(server.servers())] == ["s1", "s2", "s3"]


class Silent:
    """Members of etcd that give these answers to who asks for their list."""

    def __init__(self, *answers: Exception | list[pb.Member]) -> None:
        self.answers = list(answers)

    async def members(self) -> list[pb.Member]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def range(self, request: pb.RangeRequest) -> pb.RangeResponse:
        return pb.RangeResponse()


def test_a_server_that_joins_asks_again_when_no_member_answers_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "_POLL_S", 0)
    late = EtcdUnavailable("Deadline Exceeded")
    listed = [pb.Member(name="s1")]
    assert asyncio.run(member._listed(cast("EtcdClient", Silent(late, late, listed)))) == listed
    with pytest.raises(EtcdDenied):
        asyncio.run(member._listed(cast("EtcdClient", Silent(late, EtcdDenied("user name not found")))))
    monkeypatch.setattr(member, "_ADD_WITHIN_S", -1)
    with pytest.raises(EtcdUnavailable):
        asyncio.run(member._listed(cast("EtcdClient", Silent(late))))


def test_a_server_starts_though_the_others_are_not_listed_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        client = Silent(EtcdUnavailable("Deadline Exceeded"))
        directory = ServerDirectory(cast("EtcdClient", client), [], tmp_path / "servers.json")
        await directory.open()
        await directory.close()
        assert client.answers == []

    asyncio.run(scenario())
