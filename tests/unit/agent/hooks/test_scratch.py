"""The scratch directory of a run: made for its user, removed with all that is in it, and nothing else with it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.hooks.scratch import ScratchHook, scratch_features
from lattice.agent.removal import remove_tree
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.nodes.data import StageOutOrder
from tests.conftest import require_program

KEY = RunKey(7, 1)


def prepared(root: Path, cpus: int, scratch_mb: int = 0) -> tuple[dict[str, Any], dict[str, str]]:
    request: dict[str, Any] = {"env": {}, "uid": os.getuid(), "gid": os.getgid()}
    left: dict[str, str] = {}
    order = StartOrder(key=KEY, allocation_id="a7", cpus=cpus, scratch_mb=scratch_mb)
    asyncio.run(ScratchHook(root, 8).prepare(Launch(order=order, request=request, leave=left.update)))
    return request, left


def undo(root: Path, left: dict[str, str]) -> None:
    asyncio.run(ScratchHook(root, 8).undo(Finished(key=KEY, allocation_id="a7", left=left)))


def test_whole_node_gets_a_directory_for_temporary_files(tmp_path: Path) -> None:
    request, left = prepared(tmp_path, 8)
    folder = tmp_path / "7.1"
    assert left == {"folder": str(folder)}
    assert request["env"] == {"LATTICE_SCRATCH": str(folder), "TMPDIR": str(folder)}
    assert "mounts" not in request
    assert folder.stat().st_mode & 0o777 == 0o700


def test_share_of_a_node_gets_a_tmp_of_its_own(tmp_path: Path) -> None:
    request, _ = prepared(tmp_path, 2)
    assert [(each["kind"], each["target"]) for each in request["mounts"]] == [("bind", "/tmp"), ("tmpfs", "/dev/shm")]
    assert (tmp_path / "7.1" / "tmp").stat().st_mode & 0o7777 == 0o1777
    assert request["env"]["TMPDIR"] == "/tmp"


def test_scratch_of_a_size_is_a_file_system_in_a_file(tmp_path: Path) -> None:
    require_program("mke2fs")
    request, left = prepared(tmp_path, 2, 32)
    image = tmp_path / "7.1.img"
    assert next((each["kind"], each["target"], each["source"]) for each in request["mounts"]) == (
        "disk",
        str(tmp_path / "7.1"),
        str(image),
    )
    assert (image.stat().st_size, image.stat().st_mode & 0o777) == (32 << 20, 0o600)
    assert image.read_bytes()[1024 + 56 : 1024 + 58] == b"\x53\xef"  # the mark of ext4
    prepared(tmp_path, 2, 16)  # an agent that died left the first one
    assert image.stat().st_size == 16 << 20
    undo(tmp_path, left)
    undo(tmp_path, left)
    assert os.listdir(tmp_path) == []


def test_more_than_the_disk_has_is_refused_by_its_figures(tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match=r"scratch: 1,073,741,824 MB were asked for, [\d,]+ MB are free"):
        prepared(tmp_path, 8, 1 << 30)


def test_a_node_offers_sizes_where_its_shim_and_programs_can(tmp_path: Path) -> None:
    require_program("mke2fs")
    assert scratch_features(None, ("disk",)) == set()
    assert scratch_features(tmp_path, ("bind",)) == set()
    assert scratch_features(tmp_path, ("bind", "disk")) <= {"scratch"}


def test_everything_of_the_run_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    _, left = prepared(tmp_path, 2)
    (tmp_path / "7.1" / "deep").mkdir()
    (tmp_path / "7.1" / "out").symlink_to(kept)
    undo(tmp_path, left)
    undo(tmp_path, left)
    assert not (tmp_path / "7.1").exists()
    assert (kept / "file").exists()


def test_directory_that_a_user_replaced_by_a_link_is_not_written_through(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    (tmp_path / "7.1").symlink_to(elsewhere)
    prepared(tmp_path, 2)
    assert list(elsewhere.iterdir()) == []
    assert not (tmp_path / "7.1").is_symlink()


def test_record_that_names_another_directory_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with pytest.raises(HookFailed, match="is not the directory of run"):
        undo(tmp_path, {"folder": str(tmp_path / "other")})
    assert (tmp_path / "other").exists()


def test_scratch_on_nvme_is_a_feature_through_volumes_too(tmp_path: Path) -> None:
    number = tmp_path.stat().st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    for devices, layout, expected in (
        ("disk", {"sda": ()}, False),
        ("nvme", {"nvme0n1p2": ()}, True),
        ("raid", {"md0": ("nvme0n1", "nvme1n1")}, True),
        ("mixed", {"dm-0": ("nvme0n1", "sdb")}, False),
        ("memory", {}, False),
    ):
        folder = tmp_path / devices
        folder.mkdir()
        for device, below in layout.items():
            for each in below:
                (folder / "all" / each).mkdir(parents=True)
                (folder / "all" / device / "slaves").mkdir(parents=True, exist_ok=True)
                (folder / "all" / device / "slaves" / each).symlink_to(folder / "all" / each)
            (folder / "all" / device).mkdir(parents=True, exist_ok=True)
            (folder / name).symlink_to(folder / "all" / device)
        assert ("nvme_scratch" in scratch_features(tmp_path / "not-yet-made", (), folder)) is expected, devices
    assert scratch_features(None, (), tmp_path / "nvme") == set()


def test_a_directory_that_is_deeper_than_calls_go_is_removed(tmp_path: Path) -> None:
    _, left = prepared(tmp_path, 8)
    deep(tmp_path / "7.1")
    undo(tmp_path, left)
    assert os.listdir(tmp_path) == []


def test_below_an_open_directory_it_is_removed_as_well(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    deep(tmp_path / "a")
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        remove_tree("a", dir_fd=fd)
    finally:
        os.close(fd)
    assert os.listdir(tmp_path) == []


def deep(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=fd)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    os.close(fd)


def with_defaults(root: Path, **fields: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of several kinds
    request: dict[str, Any] = {"env": {}, "uid": os.getuid(), "gid": os.getgid()}
    order = StartOrder(key=KEY, allocation_id="a7", **fields)
    launch = Launch(order=order, request=request, leave=lambda left: None, can_mount=lambda: True)
    asyncio.run(ScratchHook(root, 8).prepare(launch))
    return request


@pytest.mark.root
def test_the_directory_has_a_name_that_work_may_rely_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local, root = tmp_path / "scratch" / "local", tmp_path / "root"
    monkeypatch.setattr("lattice.agent.hooks.scratch.LOCAL", local)
    assert with_defaults(root)["mounts"] == [
        {"kind": "empty", "target": str(local), "source": ""},
        {"kind": "bind", "target": f"{local}/a7", "source": str(root / "7.1")},
    ]
    assert "mounts" not in with_defaults(root, no_defaults=True)
    (local / "of-the-site").mkdir()
    assert "mounts" not in with_defaults(root)
    monkeypatch.setattr("lattice.agent.hooks.scratch.LOCAL", root)
    assert "mounts" not in with_defaults(root)


def test_output_is_made_for_the_work(tmp_path: Path) -> None:
    out = StageOutOrder(source="output", target="file:///warm/out", made=True)
    assert with_defaults(tmp_path, stage_out=(out,))["env"]["LATTICE_OUTPUT"] == str(tmp_path / "7.1" / "output")
    assert (tmp_path / "7.1" / "output").is_dir()
    assert "LATTICE_OUTPUT" not in with_defaults(tmp_path)["env"]
