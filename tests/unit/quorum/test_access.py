"""A server without the authority's key, which therefore has no user of etcd: it says so where operators look."""

from pathlib import Path
from typing import cast

import pytest

from lattice.quorum.etcd.client import EtcdClient
from lattice.quorum.peers.access import Access
from lattice.quorum.trust.certificates import CLIENT_NAME, CertificateFolder, create_authority, install, issue
from lattice.testing import scenario


@scenario
async def test_a_server_without_a_user_says_how_it_gets_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    authority, own = CertificateFolder(tmp_path / "authority"), CertificateFolder(tmp_path / "own")
    create_authority(authority)
    install(own, issue(authority, ["127.0.0.1"], name="s1", user=CLIENT_NAME))
    access = Access(cast("EtcdClient", None), own)
    assert access.warning == ""
    await access.enter()
    assert "names no user of etcd" in access.warning
    assert f"{own.authority_key} is missing or cannot be used: copy it from another server" in access.warning
    assert access.warning in caplog.text
