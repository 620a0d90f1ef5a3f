"""Certificates are renewed by themselves, and in time."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from lattice.quorum.etcd.client import EtcdClient
from lattice.quorum.peers.directory import ServerDirectory
from lattice.quorum.peers.membership import QuorumMembership
from lattice.quorum.peers.servers import QuorumServers
from lattice.quorum.trust.certificates import CertificateFolder, create_authority, install, issue
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
