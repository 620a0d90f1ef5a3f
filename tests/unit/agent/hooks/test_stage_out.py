"""Results that leave a scratch directory: copied whole, never half, and kept where they could not be."""

import asyncio
import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.hooks.stage_out import StageOutHook
from lattice.agent.removal import remove_tree
from lattice.agent.results.copier import Copier
from lattice.agent.results.kept import KeptScratch
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.nodes.data import StageOutOrder

KEY = RunKey(7, 1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "scratch" / "7.1" / "results" / "deep").mkdir(parents=True)
    (tmp_path / "scratch" / "7.1" / "results" / "deep" / "a").write_bytes(b"one")
    (tmp_path / "scratch" / "7.1" / "results" / "b").write_bytes(os.urandom(100_000))
    return tmp_path / "scratch"


def prepared(root: Path, source: str, target: Path | str) -> dict[str, str]:
    request: dict[str, Any] = {"env": {}, "uid": os.getuid(), "gid": os.getgid()}
    left: dict[str, str] = {}
    order = StartOrder(
        key=KEY, allocation_id="a7", stage_out=(StageOutOrder(source=source, target=f"file://{target}"),)
    )
    asyncio.run(StageOutHook(root, "n1").prepare(Launch(order=order, request=request, leave=left.update)))
    return left


def undo(root: Path, left: dict[str, str], *, is_abandoned: bool = False) -> None:
    async def run() -> None:
        finished = Finished(key=KEY, allocation_id="a7", left=left)
        if is_abandoned:
            finished.abandoned.set()
        await StageOutHook(root, "n1", tries_after_s=(0.01,)).undo(finished)

    asyncio.run(run())


def test_a_directory_goes_to_its_target_with_names_and_times(root: Path, tmp_path: Path) -> None:
    left = prepared(root, "results", tmp_path / "out" / "{id}" / "{node}")
    undo(root, left)
    undo(root, left)
    target = tmp_path / "out" / "a7" / "n1"
    assert (target / "deep" / "a").read_bytes() == b"one"
    assert (target / "b").read_bytes() == (root / "7.1" / "results" / "b").read_bytes()
    assert (target / "b").stat().st_mtime_ns == (root / "7.1" / "results" / "b").stat().st_mtime_ns
    assert sorted(os.listdir(target)) == ["b", "deep"]


def test_a_file_becomes_its_target_or_goes_into_it(root: Path, tmp_path: Path) -> None:
    undo(root, prepared(root, "results/deep/a", tmp_path / "single"))
    assert (tmp_path / "single").read_bytes() == b"one"
    (tmp_path / "there").mkdir()
    undo(root, prepared(root, "results/deep/a", tmp_path / "there"))
    assert (tmp_path / "there" / "a").read_bytes() == b"one"


def test_links_and_holes_stay_what_they_are(root: Path, tmp_path: Path) -> None:
    results = root / "7.1" / "results"
    (results / "link").symlink_to("/etc/passwd")
    os.mkfifo(results / "pipe")
    with open(results / "sparse", "wb") as file:
        file.seek(50 << 20)
        file.write(b"end")
    undo(root, prepared(root, "results", tmp_path / "out"))
    assert os.readlink(tmp_path / "out" / "link") == "/etc/passwd"
    assert not (tmp_path / "out" / "pipe").exists()
    assert (tmp_path / "out" / "sparse").stat().st_blocks * 512 < 1 << 20
    assert (tmp_path / "out" / "sparse").read_bytes() == (results / "sparse").read_bytes()


def test_what_the_work_did_not_leave_is_named(root: Path, tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match=r"^stage-out: the work left no missing$"):
        undo(root, prepared(root, "missing", tmp_path / "out"))
    assert (root / "7.1").exists()


def test_what_could_not_be_copied_is_kept_for_a_day_and_named(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    left = prepared(root, "results", tmp_path / "file" / "out")
    with pytest.raises(HookFailed) as failed:
        undo(root, left)
    kept = root / "kept" / "7.1"
    assert f"kept on node n1 in {kept} until" in str(failed.value)
    assert (kept / "results" / "deep" / "a").read_bytes() == b"one"
    assert not (root / "7.1").exists()
    with pytest.raises(HookFailed) as again:  # by an agent that follows one that died here
        undo(root, left)
    assert str(again.value) == str(failed.value)
    scratch = KeptScratch(root, "n1")
    assert scratch.sweep(time.time() + 23 * 3600) == 0
    assert scratch.sweep(time.time() + 25 * 3600) == 1
    assert os.listdir(root / "kept") == []


def test_work_that_is_cancelled_twice_keeps_the_rest(root: Path, tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match="given up before all was copied; all of it is kept on node n1"):
        undo(root, prepared(root, "results", tmp_path / "out"), is_abandoned=True)
    assert not (tmp_path / "out").exists()
    assert (root / "kept" / "7.1" / "results" / "b").exists()


def test_a_copy_that_failed_leaves_no_half_and_the_next_one_does_not_repeat_the_first(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, out = root / "7.1" / "results", tmp_path / "out"
    first = Copier()
    monkeypatch.setattr(os, "sendfile", _full)
    first.copy(str(results), str(out))
    assert (first.failures, first.is_final) == (2, False)
    assert [name for _, _, names in os.walk(out) for name in names] == []
    monkeypatch.undo()
    second = Copier()
    second.copy(str(results), str(out))
    moments = (out / "b").stat().st_ctime_ns
    third = Copier()
    third.copy(str(results), str(out))
    assert (third.files, third.bytes, third.failures) == (2, 100_003, 0)
    assert (out / "b").stat().st_ctime_ns == moments


def _full(*_: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.root
def test_it_has_the_rights_of_the_user_alone(root: Path, tmp_path: Path) -> None:
    for path in (tmp_path, root):
        path.chmod(0o755)
    (tmp_path / "private").mkdir(mode=0o700)
    left = prepared(root, "results", tmp_path / "private" / "out")
    left["asked"] = left["asked"].replace('"uid":0,"gid":0', '"uid":65534,"gid":65534')
    for path in (root / "7.1").rglob("*"):
        os.chown(path, 65534, 65534)
    os.chown(root / "7.1", 65534, 65534)
    parents = [path for path in tmp_path.parents if path != Path("/") and not path.stat().st_mode & 0o001]
    for path in parents:
        path.chmod(0o711)
    with pytest.raises(HookFailed, match="Permission denied"):
        undo(root, left)
    assert os.listdir(tmp_path / "private") == []


def test_an_agent_that_died_before_it_moved_what_it_keeps_lets_the_next_one_do_it(root: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    left = prepared(root, "results", tmp_path / "file" / "out")
    with pytest.raises(HookFailed) as failed:
        undo(root, left)
    os.rename(root / "kept" / "7.1", root / "7.1")
    with pytest.raises(HookFailed) as again:
        undo(root, left)
    assert str(again.value) == str(failed.value)
    assert (root / "kept" / "7.1" / "results" / "deep" / "a").read_bytes() == b"one"
    assert not (root / "7.1").exists()


def test_the_mount_point_of_an_image_that_is_kept_is_not_kept(root: Path) -> None:
    image = root / "7.1.img"
    image.write_bytes(b"ext4")
    kept, owner = KeptScratch(root, "n1"), (os.getuid(), os.getgid())
    assert "7.1.img (an ext4 file system) until" in kept.keep(root / "7.1", image, owner, "why")
    kept.move(root / "7.1", image, owner)
    assert sorted(os.listdir(root / "kept")) == ["7.1.img", "7.1.json"]


def test_the_longest_names_are_copied(root: Path, tmp_path: Path) -> None:
    name = "漢" * 85  # 255 bytes, what a file system takes
    (root / "7.1" / "results" / name).write_bytes(b"long")
    undo(root, prepared(root, "results", tmp_path / "out"))
    assert (tmp_path / "out" / name).read_bytes() == b"long"


def test_a_file_that_became_a_pipe_holds_nothing_up(root: Path, tmp_path: Path) -> None:
    path = root / "7.1" / "results" / "b"
    info = os.lstat(path)
    path.unlink()
    os.mkfifo(path)
    copier = Copier()
    copier._entry(str(path), str(tmp_path / "b"), info)
    assert copier.failed == [f"{path}: it is no file any more"]
    assert not copier.is_final
    assert os.listdir(tmp_path) == ["scratch"]


def test_long_paths_leave_room_for_where_the_results_are_kept() -> None:
    copier = Copier()
    copier._note("/x" * 2000 + "/end", OSError(errno.ENAMETOOLONG, "File name too long"))
    assert len(copier.failed[0]) < 400
    assert copier.failed[0].endswith("/x/end: File name too long")


def test_a_thousand_levels_are_copied(root: Path, tmp_path: Path) -> None:
    sources, targets = root / "7.1" / "results", tmp_path / "out"
    for _ in range(12):  # os.makedirs goes only so deep
        sources, targets = sources / ("d/" * 100), targets / ("d/" * 100)
        sources.mkdir(parents=True)
    undo(root, prepared(root, "results", tmp_path / "out"))
    assert targets.is_dir()
    remove_tree(tmp_path / "out")
    remove_tree(root / "7.1")


def test_servers_hear_that_only_results_are_left_as_long_as_they_are_copied(root: Path, tmp_path: Path) -> None:
    left = prepared(root, "results", tmp_path / "out")
    told: list[bool] = []

    async def run() -> None:
        finished = Finished(
            key=KEY, allocation_id="a7", left=left, copies=lambda: told.append((tmp_path / "out").exists())
        )
        await StageOutHook(root, "n1").undo(finished)
        heard = len(told)
        await asyncio.sleep(0)
        assert len(told) == heard

    asyncio.run(run())
    assert told == [False]
