"""Versions of etcd that are refused, and what is said when there is none."""

import asyncio
from pathlib import Path

import pytest

from lattice.quorum.etcd.version import UnusableEtcd, Version, check_version, installed_version


@pytest.mark.parametrize(
    "version", [(2, 3, 8), (3, 3, 27), (3, 4, 0), (3, 4, 20), (3, 4, 21), (3, 5, 0), (3, 5, 3), (3, 5, 5)]
)
def test_versions_that_lose_or_damage_data_are_refused(version: Version) -> None:
    with pytest.raises(UnusableEtcd, match=r"3\.4\.22 or newer, or 3\.5\.6 or newer"):
        check_version(version)


@pytest.mark.parametrize("version", [(3, 4, 22), (3, 4, 23), (3, 4, 40), (3, 5, 6), (3, 5, 21), (3, 6, 0)])
def test_good_versions_are_taken(version: Version) -> None:
    check_version(version)


def program(folder: Path, says: str) -> str:
    path = folder / "etcd"
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def test_the_installed_version_is_read(tmp_path: Path) -> None:
    assert asyncio.run(installed_version(program(tmp_path, "etcd Version: 3.5.9"))) == (3, 5, 9)


def test_an_old_one_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnusableEtcd, match=r"etcd 3\.5\.4 is known to damage"):
        asyncio.run(installed_version(program(tmp_path, "etcd Version: 3.5.4")))


def test_another_program_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(UnusableEtcd, match="does not look like etcd"):
        asyncio.run(installed_version(program(tmp_path, "hello")))


def test_a_missing_one_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(UnusableEtcd, match=r"not installed; install etcd .*Debian: etcd-server"):
        asyncio.run(installed_version(str(tmp_path / "nothing")))
