"""Directories of checkpoints: below the root and never through a link; complete with a MANIFEST."""

import json
import os
from pathlib import Path

import pytest

from lattice.agent.checkpoints import directories as d

OWNER = (os.getuid(), os.getgid())
BASE = "physics/-/a7/checkpoints"


def made(root: Path, n: int, node: str = "") -> Path:
    return Path(d.make_checkpoint(str(root), f"{root}/{BASE}/{n}", OWNER, node))


def test_a_directory_is_made_once_and_is_the_users_alone(tmp_path: Path) -> None:
    d.make_base(str(tmp_path), f"{tmp_path}/{BASE}", OWNER[1])
    assert (tmp_path / BASE).stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "physics").stat().st_mode & 0o777 == 0o711
    folder = made(tmp_path, 1)
    (folder / "file").write_text("x")
    assert made(tmp_path, 1) == folder
    assert (folder / "file").exists()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert made(tmp_path, 1, "n1") == folder / "n1"


def test_a_root_that_is_missing_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        d.make_base(str(tmp_path / "away"), f"{tmp_path}/away/{BASE}", OWNER[1])
    assert not (tmp_path / "away").exists()


@pytest.mark.parametrize("path", ["/etc/cron.d", "/tmp", "{root}/../other/1", "{root}"])
def test_a_path_outside_of_the_root_is_refused(tmp_path: Path, path: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(OSError, match="does not lie below"):
        d.make_checkpoint(str(root), path.format(root=root), OWNER)


def test_a_link_in_the_place_of_a_directory_is_not_followed(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    (root / BASE).mkdir(parents=True)
    elsewhere.mkdir(mode=0o755)
    (root / BASE / "1").symlink_to(elsewhere)
    with pytest.raises(OSError):  # noqa: PT011 - as the kernel says it
        d.seal(str(root), f"{root}/{BASE}/1", OWNER, d.Manifest(allocation="a7", n=1, run=1, nodes=("n1",)))
    with pytest.raises(OSError):  # noqa: PT011
        d.answer_in(f"{root}/{BASE}/1")
    assert os.listdir(elsewhere) == []
    assert not d.is_complete(f"{root}/{BASE}/1")


def test_an_answer_is_a_plain_file(tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    assert d.answer_in(str(folder)) == ("", "")
    (folder / ".done").symlink_to("/etc/passwd")
    assert d.answer_in(str(folder)) == ("", "")
    (folder / ".failed").write_bytes(b"disk\nfull\x1b[0m" + b"x" * 9000)
    said, text = d.answer_in(str(folder))
    assert (said, text[:9], len(text) <= d.MAX_TEXT, text.isprintable()) == ("failed", "disk full", True, True)
    (folder / ".done").unlink()
    (folder / ".done").touch()
    assert d.answer_in(str(folder)) == ("done", "")


def test_a_pipe_in_the_place_of_the_failure_does_not_stall(tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    os.mkfifo(folder / ".failed")
    assert d.answer_in(str(folder)) == ("", "")


def test_the_manifest_makes_it_complete_also_when_it_is_written_again(tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    (folder / "state").write_bytes(b"x" * 1000)
    (folder / ".MANIFEST.new").symlink_to(tmp_path / "victim")
    manifest = d.Manifest(allocation="a7", n=1, run=2, nodes=("n1",), bytes=d.size_of(str(folder)))
    assert not d.is_complete(str(folder))
    for _ in range(2):
        d.seal(str(tmp_path), str(folder), OWNER, manifest)
    assert d.is_complete(str(folder))
    assert json.loads((folder / "MANIFEST").read_text())["bytes"] == 1000
    assert not (tmp_path / "victim").exists()


def test_only_earlier_ones_that_are_not_kept_are_removed(tmp_path: Path) -> None:
    for n in (1, 2, 3, 4, 9):
        (made(tmp_path, n) / "file").touch()
    (tmp_path / BASE / "notes").mkdir()
    removed = d.remove_others(str(tmp_path), f"{tmp_path}/{BASE}/4", {3})
    assert sorted(removed) == [1, 2]
    assert sorted(os.listdir(tmp_path / BASE)) == ["3", "4", "9", "notes"]


def test_sizes_count_files_and_follow_no_links(tmp_path: Path) -> None:
    folder = made(tmp_path, 1)
    (folder / "deep").mkdir()
    (folder / "deep" / "a").write_bytes(b"x" * 10)
    (folder / "b").write_bytes(b"x" * 5)
    (folder / "link").symlink_to("/usr")
    assert d.size_of(str(folder)) == 15
    assert d.size_of(str(folder / "gone")) == 0


def test_all_checkpoints_of_an_allocation_go_and_nothing_of_others(tmp_path: Path) -> None:
    (made(tmp_path, 1) / "file").write_text("x")
    other = tmp_path / "physics" / "-" / "a8" / "checkpoints"
    other.mkdir(parents=True)
    d.remove_all(str(tmp_path), f"{tmp_path}/{BASE}")
    d.remove_all(str(tmp_path), f"{tmp_path}/{BASE}")  # asked again
    assert not (tmp_path / "physics" / "-" / "a7").exists()
    assert other.exists()


@pytest.mark.parametrize("path", ["physics", "physics/-/a7", "physics/-/a7/checkpoints/1", "../x/-/a7/checkpoints"])
def test_only_the_directory_of_an_allocation_is_removed(tmp_path: Path, path: str) -> None:
    made(tmp_path, 1)
    with pytest.raises(OSError, match=r"is not where|does not lie"):
        d.remove_all(str(tmp_path), f"{tmp_path}/{path}")
    assert (tmp_path / BASE / "1").is_dir()


def test_nothing_is_gone_while_the_file_system_is_not_mounted(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        d.remove_all(f"{tmp_path}/away", f"{tmp_path}/away/{BASE}")


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim" / "checkpoints").mkdir(parents=True)
    (tmp_path / "root" / "physics" / "-").mkdir(parents=True)
    (tmp_path / "root" / "physics" / "-" / "a7").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"Not a directory|symbolic"):
        d.remove_all(f"{tmp_path}/root", f"{tmp_path}/root/{BASE}")
    assert (tmp_path / "victim" / "checkpoints").exists()


def test_a_probe_takes_time_and_leaves_nothing(tmp_path: Path) -> None:
    assert d.write_probe(str(tmp_path)) > 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        d.write_probe(str(tmp_path / "away"))
