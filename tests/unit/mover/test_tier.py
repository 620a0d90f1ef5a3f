"""The hot tier: copies appear whole, keep owner and mode, and are continued where another mover stopped."""

import os
from pathlib import Path

import pytest

from lattice.integrations.directory.source import DirectorySource
from lattice.mover.pace import Pace
from lattice.mover.tier import BadCopyName, HotTier
from lattice.ports.data.sources import SourceChanged, SourceError

NAME = f"{'0' * 32}.1"


@pytest.fixture
def tier(tmp_path: Path) -> HotTier:
    tier = HotTier(tmp_path / "hot")
    tier.prepare()
    return tier


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    folder = tmp_path / "warm" / "set"
    (folder / "sub").mkdir(parents=True)
    (folder / "a").write_bytes(b"a" * 1000)
    (folder / "sub" / "b").write_bytes(b"b" * 2000)
    (folder / "sub" / "link").symlink_to("../a")
    return folder


def source_of(warm: Path) -> DirectorySource:
    return DirectorySource(str(warm.parent), str(warm))


def fill(tier: HotTier, warm: Path, counts: list[int] | None = None) -> None:
    source = source_of(warm)
    tier.fill(NAME, source, source.listing(), (counts if counts is not None else []).append)


def test_a_copy_has_the_bytes_and_the_rights_of_its_source(tier: HotTier, warm: Path) -> None:
    (warm / "a").chmod(0o4750)
    counts: list[int] = []
    fill(tier, warm, counts)
    copy = tier.folder / NAME
    assert (copy / "sub" / "b").read_bytes() == b"b" * 2000
    assert os.readlink(copy / "sub" / "link") == "../a"
    assert (copy / "a").stat().st_mode & 0o7777 == 0o550
    assert (tier.folder.stat().st_mode & 0o777, sum(counts)) == (0o700, 3000)
    made = tier.version_of(NAME)
    assert made is not None
    assert (made.size, made.files, made.version) == (3000, 3, source_of(warm).listing().version)


@pytest.mark.root
def test_a_copy_belongs_to_the_owner_of_its_source(tier: HotTier, warm: Path) -> None:
    os.chown(warm / "a", 12345, 54321)
    fill(tier, warm)
    found = (tier.folder / NAME / "a").stat()
    assert (found.st_uid, found.st_gid) == (12345, 54321)


def test_nothing_has_its_name_before_it_is_whole_and_another_mover_continues(tier: HotTier, warm: Path) -> None:
    source = source_of(warm)

    def stop(count: int) -> None:
        raise InterruptedError

    with pytest.raises((InterruptedError, SourceError)):
        tier.fill(NAME, source, source.listing(), stop)
    assert not tier.has(NAME)
    partial = tier.folder / "partial" / NAME
    (partial / "a").unlink()
    (partial / "a").write_bytes(b"half")  # what a killed mover leaves
    (partial / "stray").write_bytes(b"of an older listing")
    fill(tier, warm)
    assert (tier.folder / NAME / "a").read_bytes() == b"a" * 1000
    assert not (tier.folder / NAME / "stray").exists()
    assert not partial.exists()


def test_a_file_that_is_whole_is_not_copied_twice(tier: HotTier, warm: Path) -> None:
    source = source_of(warm)
    found = source.listing()
    (warm / "late").write_bytes(b"late")
    with pytest.raises(SourceChanged):
        tier.fill(NAME, source, found, lambda count: None)
    kept = (tier.folder / "partial" / NAME / "a").stat().st_ino
    fill(tier, warm)
    assert (tier.folder / NAME / "a").stat().st_ino == kept
    assert (tier.folder / NAME / "late").read_bytes() == b"late"


def test_a_file_that_was_a_folder_is_replaced(tier: HotTier, warm: Path) -> None:
    (tier.folder / "partial" / NAME).write_bytes(b"a file of an earlier try")
    fill(tier, warm)
    (tier.folder / "partial" / NAME / "a").mkdir(parents=True)
    os.rename(tier.folder / NAME, tier.folder / "gone" / "x")
    fill(tier, warm)
    assert (tier.folder / NAME / "a").read_bytes() == b"a" * 1000


def test_what_is_removed_is_gone_and_a_restart_clears_what_was_left(tier: HotTier, warm: Path) -> None:
    fill(tier, warm)
    tier.note_failure(NAME, 2, "why")
    assert (tier.folder / "failed" / NAME).exists()
    tier.remove(NAME)
    tier.remove(NAME)
    assert not tier.has(NAME)
    assert tier.version_of(NAME) is None
    assert [list((tier.folder / each).iterdir()) for each in ("failed", "gone", "versions")] == [[], [], []]
    (tier.folder / "gone" / "left").mkdir()
    tier.prepare()
    assert not (tier.folder / "gone" / "left").exists()


@pytest.mark.parametrize("name", ["", "../x", "a.1", f"{'0' * 32}.x", f"{'0' * 32}.1/.."])
def test_names_that_are_no_copies_are_refused(tier: HotTier, name: str) -> None:
    with pytest.raises(BadCopyName):
        tier.remove(name)
    with pytest.raises(BadCopyName):
        tier.has(name)


def test_bytes_are_spread_over_time() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    pace = Pace(sleep, lambda: now[0])
    pace.spend(1_000_000)
    assert slept == []
    pace.rate = 1000.0
    for _ in range(10):
        pace.spend(1000)
    assert sum(slept) == pytest.approx(10 - 0.25, abs=0.01)
