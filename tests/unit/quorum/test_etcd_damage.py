"""What a member that started without comparing its data does afterwards, and what is said of damaged ones."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lattice.quorum.etcd import damage
from lattice.quorum.etcd.client import EtcdClient, EtcdUnavailable
from lattice.quorum.etcd.damage import compare, is_served, remedy
from lattice.quorum.etcd.settings import MemberSettings
from lattice.quorum.trust.certificates import CertificateFolder
from lattice.wire.pb import etcd_pb2 as pb

SETTINGS = MemberSettings(
    name="s3",
    folder=Path("/data/etcd"),
    certificates=CertificateFolder(Path("/data/certificates")),
    client_listen="127.0.0.1:1",
    peer_listen="127.0.0.1:2",
)


class Member:
    """Answers like a member; hashes are (hash, compacted up to), None = it does not answer now."""

    endpoint = "127.0.0.1:9"

    def __init__(self, *hashes: tuple[int, int] | None, leader: int | None = None) -> None:
        self._hashes = list(hashes)
        self._leader = leader

    async def hash_kv(self, revision: int, timeout_s: float) -> pb.HashKVResponse:
        found = self._hashes.pop(0) if len(self._hashes) > 1 else self._hashes[0]
        if found is None:
            raise EtcdUnavailable("connection refused")
        header = pb.ResponseHeader(revision=revision or 7)
        return pb.HashKVResponse(header=header, hash=found[0], compact_revision=found[1])

    async def status(self, timeout_s: float) -> object:
        if self._leader is None:
            raise EtcdUnavailable("connection refused")
        return SimpleNamespace(leader=self._leader)


def clients(*members: Member) -> Sequence[EtcdClient]:
    return cast("Sequence[EtcdClient]", members)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damage, "COMPARE_EVERY_S", 0.001)


def compared(own: Member, *others: Member) -> bool:
    return asyncio.run(asyncio.wait_for(compare(clients(own)[0], clients(*others)), 10))


def test_it_waits_for_one_that_can_be_compared_with() -> None:
    assert compared(Member((5, 1)), Member(None, (5, 0), (5, 1)), Member(None))


def test_data_that_differ_again_and_again_are_told() -> None:
    assert not compared(Member((5, 1)), Member((6, 1)))


def test_a_difference_of_a_moment_is_none() -> None:
    assert compared(Member((5, 1)), Member((6, 1), (6, 1), (5, 1)))


@pytest.mark.parametrize(
    ("leaders", "is_one"), [([None, None], False), ([0, None], False), ([None, 3], True), ([], False)]
)
def test_a_member_compares_first_only_where_another_one_serves(leaders: list[int | None], is_one: bool) -> None:
    members = [Member((0, 0), leader=leader) for leader in leaders]
    assert asyncio.run(is_served(clients(*members))) is is_one


def test_a_damaged_member_is_told_with_what_to_do() -> None:
    said = remedy(SETTINGS, "tocommit(9187) is out of range [lastIndex(9100)]. Was the raft log corrupted?")
    assert "members remove s3" in said
    assert "members add s3" in said
    assert remedy(SETTINGS, "listen tcp 127.0.0.1:1: bind: address already in use") == ""
