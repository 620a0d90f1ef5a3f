"""Where control groups lie, and what is read out of them."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.agent.shim.cgroups import (
    Cgroup,
    CgroupRoot,
    Hierarchies,
    find_hierarchies,
    open_root,
    parse_mountinfo,
    read_key,
)

HYBRID = """\
25 20 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
27 25 0:24 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw
"""
PURE = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
ODD_PLACE = "30 23 0:26 / /mnt/control\\040groups rw - cgroup2 none rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "unified", "memory_v1"),
    [
        (HYBRID, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"),
        (PURE, "/sys/fs/cgroup", None),
        (ODD_PLACE, "/mnt/control groups", None),
        ("25 20 0:22 / / rw - ext4 /dev/vda rw\n", None, None),
    ],
)
def test_hierarchies_are_found_where_they_are_mounted(
    mountinfo: str, unified: str | None, memory_v1: str | None
) -> None:
    found = parse_mountinfo(mountinfo)
    assert (found.unified, found.memory_v1) == (unified, memory_v1)


def test_root_without_a_v2_hierarchy_is_refused() -> None:
    with pytest.raises(OSError, match="no cgroup v2"):
        CgroupRoot("lattice/n1", Hierarchies(None, "/sys/fs/cgroup/memory"))


@pytest.mark.parametrize("name", ["", "/", "..", "lattice/..", "lattice//n1", "/lattice", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a cgroup name"):
        CgroupRoot(name, Hierarchies(str(tmp_path), None))
    root = CgroupRoot("lattice", Hierarchies(str(tmp_path), None))
    with pytest.raises(ValueError, match="not a cgroup name"):
        root.create(name, 0)


def test_figures_that_are_missing_count_as_nothing(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    assert read_key(str(file), b"oom_kill") == 0
    file.write_text("low 0\noom 2\noom_kill 3\n")
    assert read_key(str(file), b"oom_kill") == 3
    assert read_key(str(file), b"max") == 0


def test_usage_is_read_from_either_generation(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\n")
    (tmp_path / "memory.peak").write_text(f"{3 << 20}\n")
    (tmp_path / "memory.events").write_text("oom_kill 1\n")
    (tmp_path / "memory.max_usage_in_bytes").write_text(f"{5 << 20}\n")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    path = str(tmp_path)
    v2 = Cgroup(path, None, v2_memory=True).usage()
    assert (v2.cpu_s, v2.peak_memory_mb, v2.oom_kills) == (2.5, 3, 1)
    v1 = Cgroup(path, path, v2_memory=False).usage()
    assert (v1.cpu_s, v1.peak_memory_mb, v1.oom_kills) == (2.5, 5, 2)
    bare = Cgroup(path, None, v2_memory=False).usage()
    assert (bare.cpu_s, bare.peak_memory_mb, bare.oom_kills) == (2.5, None, 0)


def test_limits_of_pure_v2_land_in_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (tmp_path, tmp_path / "lattice", tmp_path / "lattice" / "n1"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text("")
    make = os.mkdir

    def mkdir_as_the_kernel(path: str, mode: int = 0o777) -> None:
        make(path, mode)
        for name in ("memory.max", "memory.swap.max"):
            Path(path, name).write_text("max")

    root = CgroupRoot("lattice/n1", Hierarchies(str(tmp_path), None))
    monkeypatch.setattr(os, "mkdir", mkdir_as_the_kernel)
    group = root.create("alloc-7.1", 100)
    folder = tmp_path / "lattice" / "n1" / "alloc-7.1"
    assert group.limited
    assert group.folder == str(folder)
    assert (folder / "memory.max").read_text() == str(100 << 20)
    assert (folder / "memory.swap.max").read_text().startswith("0")
    for above in (tmp_path, tmp_path / "lattice", tmp_path / "lattice" / "n1"):
        assert (above / "cgroup.subtree_control").read_text() == "+memory"


@pytest.fixture
def root() -> Iterator[CgroupRoot]:
    opened = open_root(f"lattice/test-unit-{os.getpid()}")
    assert opened is not None
    yield opened
    opened.sweep(10)
    opened.remove()
    assert not os.path.exists(opened.unified_root)


def start_in(group: Cgroup, script: str) -> subprocess.Popen[bytes]:
    join = "".join(f"echo 0 >{path}; " for path in group.all_join_files)
    return subprocess.Popen(["sh", "-c", join + script], stdout=subprocess.PIPE)


@pytest.mark.root
def test_group_tracks_signals_and_kills_all_its_processes(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", 0)
    assert not group.populated()
    with start_in(group, "setsid sleep 300 >/dev/null & echo go; exec sleep 300") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"go\n"
        assert group.populated()
        pids = group.pids()
        assert process.pid in pids
        assert len(pids) == 2
        assert not group.remove()
        group.signal(signal.SIGSTOP)
        group.kill()
        assert process.wait(10) == -signal.SIGKILL
    assert root.sweep(10) == []
    assert not os.path.exists(group.path)


@pytest.mark.root
def test_memory_limit_is_set_where_the_kernel_keeps_it(root: CgroupRoot) -> None:
    if not root.can_limit_memory():
        pytest.fail("this machine has root but no memory controller")
    group = root.create("alloc-1.1", 64)
    name = "memory.limit_in_bytes" if group.memory else "memory.max"
    assert int(Path(group.memory or group.path, name).read_text()) == 64 << 20
    assert group.limited
    assert not root.create("alloc-2.1", 0).limited


@pytest.mark.root
def test_folders_that_processes_made_below_are_removed_with_the_group(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", 0)
    os.makedirs(f"{group.path}/own/deeper")
    assert group.remove()
    assert not os.path.exists(group.path)


@pytest.mark.root
def test_sweep_ends_what_another_shim_left(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", 64)
    with start_in(group, "trap '' TERM; echo go; while :; do sleep 300; done") as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        assert root.sweep(10) == []
        assert time.monotonic() - began < 5
        assert process.wait(10) == -signal.SIGKILL
    hierarchies = find_hierarchies()
    for top in (hierarchies.unified, hierarchies.memory_v1):
        assert not os.path.exists(f"{top}/{root.name}/alloc-1.1")


@pytest.mark.root
def test_name_in_use_is_refused_and_a_stale_folder_is_not(root: CgroupRoot) -> None:
    first = root.create("alloc-1.1", 0)
    assert root.create("alloc-1.1", 0).path == first.path
    with start_in(first, "echo go; exec sleep 300") as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(FileExistsError):
            root.create("alloc-1.1", 0)
        assert first.populated()
        first.kill()
