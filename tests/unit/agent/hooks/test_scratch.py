"""The scratch directory of a run: made for its user, removed with all that is in it, and nothing else with it."""

import asyncio
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.hooks import scratch_files
from lattice.agent.hooks.protocol import Finished, HookFailed, Launch
from lattice.agent.hooks.scratch import NO_SCRATCH, ScratchHook, ScratchSettings, scratch_features, step_variables
from lattice.agent.hooks.scratch_files import lies_in_memory, why_no_memory, why_no_sizes
from lattice.agent.removal import remove_tree
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.ports.nodes.data import StageOutOrder
from tests.conftest import require_program

KEY = RunKey(7, 1)


def prepared(
    root: Path,
    scratch_mb: int = 0,
    *,
    in_memory: bool = False,
    cwd: str = "/",
    **fields: Any,  # noqa: ANN401 - fields of several kinds
) -> tuple[dict[str, Any], dict[str, str]]:
    request: dict[str, Any] = {"env": {}, "uid": os.getuid(), "gid": os.getgid(), "memory_mb": 64, "cwd": cwd}
    left: dict[str, str] = {}
    order = StartOrder(key=KEY, allocation_id="a7", scratch_mb=scratch_mb, **fields)
    hook = ScratchHook(root, in_memory=in_memory)
    asyncio.run(hook.prepare(Launch(order=order, request=request, leave=left.update)))
    return request, left


def undo(root: Path, left: dict[str, str]) -> None:
    asyncio.run(ScratchHook(root).undo(Finished(key=KEY, allocation_id="a7", left=left)))


def test_every_run_gets_a_directory_and_a_tmp_of_its_own(tmp_path: Path) -> None:
    request, left = prepared(tmp_path)
    folder = tmp_path / "7.1"
    assert left == {"folder": str(folder)}
    assert request["env"] == {"LATTICE_SCRATCH": str(folder), "TMPDIR": "/tmp"}
    own = [("bind", str(folder)), ("bind", "/tmp"), ("tmpfs", "/dev/shm")]
    assert [(each["kind"], each["target"]) for each in request["mounts"]] == own
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "tmp").stat().st_mode & 0o7777 == 0o1777


def test_a_step_finds_the_directory_of_its_node_and_keeps_what_its_script_has_changed(tmp_path: Path) -> None:
    settings = ScratchSettings(folder=tmp_path)
    assert step_variables(settings, KEY, {}) == step_variables(NO_SCRATCH, KEY, {}) == {}
    prepared(tmp_path)
    own = {"LATTICE_SCRATCH": str(tmp_path / "7.1")}
    assert step_variables(settings, KEY, {"TMPDIR": "/home/of/login"}) == {**own, "TMPDIR": "/tmp"}
    inside = {"LATTICE_SCRATCH": "/n1/7.1", "TMPDIR": "/fast", "LATTICE_OUTPUT": "/n1/7.1/output"}
    assert step_variables(settings, KEY, inside) == {**own, "LATTICE_OUTPUT": str(tmp_path / "7.1" / "output")}


def test_scratch_of_a_size_is_a_file_system_in_a_file(tmp_path: Path) -> None:
    require_program("mke2fs")
    request, left = prepared(tmp_path, 32)
    image = tmp_path / "7.1.img"
    assert next((each["kind"], each["target"], each["source"]) for each in request["mounts"]) == (
        "disk",
        str(tmp_path / "7.1"),
        str(image),
    )
    assert (image.stat().st_size, image.stat().st_mode & 0o777) == (32 << 20, 0o600)
    assert image.stat().st_blocks * 512 >= 32 << 20, "others could fill the disk below it"
    assert image.read_bytes()[1024 + 56 : 1024 + 58] == b"\x53\xef"  # the mark of ext4
    prepared(tmp_path, 16)  # an agent that died left the first one
    assert image.stat().st_size == 16 << 20
    undo(tmp_path, left)
    undo(tmp_path, left)
    assert os.listdir(tmp_path) == []


def test_more_than_the_disk_has_is_refused_by_its_figures(tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match=r"scratch: 1,073,741,824 MB were asked for, [\d,]+ MB are free"):
        prepared(tmp_path, 1 << 30)


def test_a_node_offers_sizes_where_its_shim_and_its_disk_can(tmp_path: Path) -> None:
    disk = ScratchSettings(folder=tmp_path)
    assert scratch_features(NO_SCRATCH, ("disk",)) == set()
    assert scratch_features(disk, ("bind",), tmp_path) == set()
    assert scratch_features(disk, ("bind", "disk"), tmp_path) == {"scratch", "disk_scratch"}
    lacking = ScratchSettings(folder=tmp_path, problem="mke2fs is not installed")
    assert scratch_features(lacking, ("bind", "disk"), tmp_path) == set()
    assert lacking.why_not() == {"scratch": "mke2fs is not installed"}
    memory = ScratchSettings(folder=tmp_path, in_memory=True)
    assert scratch_features(memory, ("bind",), tmp_path) == {"scratch", "memory_scratch"}


@pytest.mark.root
def test_what_a_directory_can_be_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_program("mke2fs")
    assert why_no_sizes(tmp_path) == ""
    assert os.listdir(tmp_path) == []
    monkeypatch.setattr("lattice.agent.shim.namespace.LOOP_CONTROL", "/dev/no-loops")
    assert why_no_sizes(tmp_path).startswith(f"this node cannot mount a file system in a file of {tmp_path}: ")
    monkeypatch.setattr(scratch_files, "SEARCHED", str(tmp_path))
    assert why_no_sizes(tmp_path) == "mke2fs is not installed"
    assert os.listdir(tmp_path) == []


@pytest.mark.root
def test_sizes_do_not_depend_on_the_file_system_below(tmp_path: Path) -> None:
    require_program("mke2fs")
    for name in ("lower", "upper", "work", "over"):
        (tmp_path / name).mkdir()
    layers = f"lowerdir={tmp_path}/lower,upperdir={tmp_path}/upper,workdir={tmp_path}/work"
    subprocess.run(["mount", "-t", "overlay", "-o", layers, "overlay", tmp_path / "over"], check=True)
    try:
        assert not lies_in_memory(tmp_path / "over")
        assert why_no_sizes(tmp_path / "over") == ""
    finally:
        subprocess.run(["umount", tmp_path / "over"], check=True)


@pytest.mark.root
def test_a_directory_in_memory_is_as_large_as_asked_for_or_as_the_memory_of_the_run(tmp_path: Path) -> None:
    folder = tmp_path / "7.1"
    for asked, size in ((0, 64), (32, 32)):
        request, left = prepared(tmp_path, asked, in_memory=True)
        assert lies_in_memory(folder)
        assert os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize == size << 20
        assert "disk" not in [each["kind"] for each in request["mounts"]]
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
        undo(tmp_path, left)
        undo(tmp_path, left)
        assert os.listdir(tmp_path) == []
    with pytest.raises(
        HookFailed, match="65 MB were asked for; scratch of this node lies in memory, of which the run has 64"
    ):
        prepared(tmp_path, 65, in_memory=True)


@pytest.mark.root
def test_what_another_view_of_the_file_system_still_holds_of_a_directory_in_memory_is_empty(tmp_path: Path) -> None:
    _, left = prepared(tmp_path, in_memory=True)
    (tmp_path / "7.1" / "secret").write_text("x")
    hold = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f"echo; read go; ls {tmp_path}/7.1"]
    with subprocess.Popen(hold, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        undo(tmp_path, left)
        assert other.communicate("go\n")[0] == ""
    assert os.listdir(tmp_path) == []


@pytest.mark.root
def test_memory_is_found_below_a_directory_that_lies_in_it(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tmp_path], check=True)
    try:
        assert lies_in_memory(tmp_path / "not-yet-made")
        assert why_no_memory(tmp_path) == ""
        assert os.listdir(tmp_path) == []
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_everything_of_the_run_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    _, left = prepared(tmp_path)
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
    prepared(tmp_path)
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
        assert (
            "nvme_scratch" in scratch_features(ScratchSettings(folder=tmp_path / "not-yet-made"), (), folder)
        ) is expected, devices
    assert scratch_features(NO_SCRATCH, (), tmp_path / "nvme") == set()


def test_a_directory_that_is_deeper_than_calls_go_is_removed(tmp_path: Path) -> None:
    _, left = prepared(tmp_path)
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
    asyncio.run(ScratchHook(root).prepare(launch))
    return request


@pytest.mark.root
def test_the_directory_has_a_name_that_work_may_rely_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local, root = tmp_path / "scratch" / "local", tmp_path / "root"
    monkeypatch.setattr("lattice.agent.hooks.scratch.LOCAL", local)
    folder = {"kind": "bind", "target": str(root / "7.1"), "source": str(root / "7.1")}
    always = [
        {"kind": "bind", "target": "/tmp", "source": str(root / "7.1" / "tmp")},
        {"kind": "tmpfs", "target": "/dev/shm", "source": ""},
    ]
    assert with_defaults(root)["mounts"] == [
        folder,
        {"kind": "empty", "target": str(local), "source": ""},
        {"kind": "bind", "target": f"{local}/a7", "source": str(root / "7.1")},
        *always,
    ]
    assert with_defaults(root, no_defaults=True)["mounts"] == [folder, *always]
    (local / "of-the-site").mkdir()
    assert with_defaults(root)["mounts"] == [folder, *always]
    monkeypatch.setattr("lattice.agent.hooks.scratch.LOCAL", root)
    assert with_defaults(root)["mounts"] == [folder, *always]


def test_output_is_made_for_the_work(tmp_path: Path) -> None:
    out = StageOutOrder(source="output", target="file:///warm/out", made=True)
    assert with_defaults(tmp_path, stage_out=(out,))["env"]["LATTICE_OUTPUT"] == str(tmp_path / "7.1" / "output")
    assert (tmp_path / "7.1" / "output").is_dir()
    assert "LATTICE_OUTPUT" not in with_defaults(tmp_path)["env"]
