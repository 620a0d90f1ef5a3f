"""Nodes, and test runs, without what PMIx needs: never a failure to start, and never a gap in silence."""

import glob
import logging
import shutil
import sys
from pathlib import Path

import pytest

from lattice.agent.pmix import building
from tests import conftest


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An installation where nothing was built yet."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(building, "_is_reachable", lambda folder: True)
    monkeypatch.setattr(building, "LIBRARIES", (str(tmp_path / "libpmix.so.2"),))
    (tmp_path / "libpmix.so.2").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("lacking", "why"),
    [
        ("library", "libpmix is not installed"),
        ("compiler", "there is no C compiler"),
        ("headers", "the headers of libpmix are not installed"),
    ],
)
def test_a_node_without_them_says_why_it_has_no_pmix(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, lacking: str, why: str
) -> None:
    if lacking == "library":
        (fresh / "libpmix.so.2").unlink()
    programs = {"compiler": None, "headers": "/usr/bin/cc"}
    monkeypatch.setattr(shutil, "which", lambda name: programs.get(lacking) if name in ("cc", "gcc") else None)
    monkeypatch.setattr(glob, "glob", lambda pattern: [pattern] if Path(pattern).exists() else [])
    with caplog.at_level(logging.INFO):
        assert building.find_host(fresh / "spare") is None
    assert why in caplog.text


def test_where_users_reach_neither_the_installation_nor_the_state_the_system_folder_takes_it(
    fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, tried = fresh / "run", list[Path]()
    monkeypatch.setattr(building, "SYSTEM_FOLDER", system)
    monkeypatch.setattr(building, "_is_reachable", lambda folder: folder == system)

    def made(folder: Path) -> building.PmixHost:
        tried.append(folder)
        return building.PmixHost(program="host", variables={})

    monkeypatch.setattr(building, "_host_in", made)
    assert building.find_host(fresh / "spare") is not None
    assert tried == [system]


def test_a_node_where_no_folder_takes_it_says_so(
    fresh: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(building, "_is_reachable", lambda folder: False)
    with caplog.at_level(logging.INFO):
        assert building.find_host(fresh / "spare") is None
    assert "no folder takes the server" in caplog.text


def test_a_run_of_the_tests_without_them_skips_loudly_and_fails_under_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "CI", False)
    with pytest.raises(pytest.skip.Exception, match="libpmix-dev is missing"):
        conftest.missing("libpmix-dev")
    monkeypatch.setattr(conftest, "CI", True)
    with pytest.raises(pytest.fail.Exception, match="libpmix-dev is missing and CI=true allows no gaps"):
        conftest.missing("libpmix-dev")
