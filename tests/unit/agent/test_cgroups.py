"""Where control groups lie, and what is read out of them."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.agent.shim import cgroups, limits
from lattice.agent.shim.cgroups import Cgroup, CgroupRoot, open_root
from lattice.agent.shim.confinement.storage import block_devices
from lattice.agent.shim.hierarchies import Hierarchies, find_hierarchies, parse_mountinfo, read_key, write_text
from lattice.agent.shim.limits import Limits
from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.shim import clear_away
from lattice.agent.shim.step import StepCgroup
from lattice.testing import eventually
from tests.conftest import missing

HYBRID = """\
25 20 0:22 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
27 25 0:24 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
28 25 0:25 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw
"""
JOINED = """\
26 25 0:23 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
27 25 0:24 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
28 25 0:25 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
"""
PURE = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
NO_LIMITS = Limits()
ODD_PLACE = "30 23 0:26 / /mnt/control\\040groups rw - cgroup2 none rw\n"


@pytest.mark.parametrize(
    ("mountinfo", "unified", "v1"),
    [
        (HYBRID, "/sys/fs/cgroup/unified", {"cpu": "/sys/fs/cgroup/cpu", "memory": "/sys/fs/cgroup/memory"}),
        (JOINED, None, {"cpu": "/sys/fs/cgroup/cpu,cpuacct", "pids": "/sys/fs/cgroup/pids"}),
        (PURE, "/sys/fs/cgroup", {}),
        (ODD_PLACE, "/mnt/control groups", {}),
        ("25 20 0:22 / / rw - ext4 /dev/vda rw\n", None, {}),
    ],
)
def test_hierarchies_are_found_where_they_are_mounted(mountinfo: str, unified: str | None, v1: dict[str, str]) -> None:
    found = parse_mountinfo(mountinfo)
    assert (found.unified, found.v1) == (unified, v1)


def test_root_without_a_v2_hierarchy_is_refused() -> None:
    with pytest.raises(OSError, match="no cgroup v2"):
        CgroupRoot("lattice/n1", Hierarchies(None, {"memory": "/sys/fs/cgroup/memory"}))


@pytest.mark.parametrize("name", ["", "/", "..", "lattice/..", "lattice//n1", "/lattice", "a\0b"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a cgroup name"):
        CgroupRoot(name, Hierarchies(str(tmp_path)))
    root = CgroupRoot("lattice", Hierarchies(str(tmp_path)))
    with pytest.raises(ValueError, match="not a cgroup name"):
        root.create(name, NO_LIMITS)


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
    v2 = Cgroup(path, held=("memory",)).usage()
    assert (v2.cpu_s, v2.peak_memory_mb, v2.oom_kills) == (2.5, 3, 1)
    v1 = Cgroup(path, {"memory": path}, ("memory",)).usage()
    assert (v1.cpu_s, v1.peak_memory_mb, v1.oom_kills) == (2.5, 5, 2)
    (tmp_path / "io.stat").write_text("8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=5 wbytes=1\n")
    (tmp_path / "pids.peak").write_text("7\n")
    counted = Cgroup(path, counted=("io", "pids")).usage()
    assert (counted.read_bytes, counted.written_bytes, counted.peak_pids) == (15, 21, 7)
    bare = Cgroup(path).usage()
    assert (bare.cpu_s, bare.peak_memory_mb, bare.oom_kills) == (2.5, None, 0)


V2_FILES = ("memory.max", "memory.swap.max", "cpu.max", "pids.max", "cpuset.cpus")


def as_v2_kernel(monkeypatch: pytest.MonkeyPatch, top: Path, handed_down: str) -> None:
    """A tree of folders that looks like pure v2 to its reader."""
    for folder in (top, top / "lattice", top / "lattice" / "n1"):
        folder.mkdir(exist_ok=True)
        (folder / "cgroup.subtree_control").write_text(handed_down)
    make = os.mkdir

    def mkdir_as_the_kernel(path: str, mode: int = 0o777) -> None:
        make(path, mode)
        for name in V2_FILES:
            Path(path, name).touch()

    def write_as_the_kernel(path: str, text: str) -> None:
        if path.endswith("/cgroup.subtree_control"):
            Path(path).write_text(f"{Path(path).read_text()} {text.replace('+', '')}".strip())
        else:
            write_text(path, text)

    monkeypatch.setattr(os, "mkdir", mkdir_as_the_kernel)
    monkeypatch.setattr(cgroups, "write_text", write_as_the_kernel)


def test_controller_that_a_limit_needs_is_handed_down_on_pure_v2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_v2_kernel(monkeypatch, tmp_path, "")
    group = CgroupRoot("lattice/n1", Hierarchies(str(tmp_path))).create("alloc-7.1", Limits(memory_mb=100))
    assert group.held == ("memory",)
    for above in (tmp_path, tmp_path / "lattice", tmp_path / "lattice" / "n1"):
        assert (above / "cgroup.subtree_control").read_text().split() == ["memory", "pids", "io"]
    assert group.counted == ("memory", "pids", "io")


def test_steps_count_for_themselves_on_pure_v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_v2_kernel(monkeypatch, tmp_path, "memory pids io")
    group = CgroupRoot("lattice/n1", Hierarchies(str(tmp_path))).create("alloc-7.1", Limits(memory_mb=100))
    folder = Path(group.path)
    (folder / "cgroup.procs").write_text("4711\n")
    (folder / "main").mkdir()
    (folder / "main" / "cgroup.procs").touch()
    (folder / "cgroup.subtree_control").touch()
    assert group.split() == ("memory", "pids", "io")
    assert (folder / "main" / "cgroup.procs").read_text() == "4711"
    assert (folder / "cgroup.subtree_control").read_text().split() == ["memory", "pids", "io"]
    assert group.folder == str(folder / "main")
    (folder / "memory.events").write_text("oom_kill 3\n")
    (folder / "memory.events.local").write_text("oom_kill 0\n")
    (folder / "main" / "memory.events").write_text("oom_kill 1\n")
    assert group.usage().oom_kills == 1  # the other two were a step's


def test_limits_of_pure_v2_land_in_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_v2_kernel(monkeypatch, tmp_path, "memory cpu pids cpuset")
    limits = Limits(memory_mb=100, cpus=1.5, pids=64, cpuset=(0, 2))
    group = CgroupRoot("lattice/n1", Hierarchies(str(tmp_path))).create("alloc-7.1", limits)
    folder = tmp_path / "lattice" / "n1" / "alloc-7.1"
    assert group.held == ("memory", "cpu", "pids", "cpuset")
    assert group.folder == str(folder)
    assert group.join_files == ()
    assert [(folder / name).read_text() for name in V2_FILES] == [str(100 << 20), "0", "150000 100000", "64", "0,2"]


def test_rates_of_storage_are_written_for_each_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = tmp_path / "disks"
    for name, size, number in (
        ("sda", "8", "8:0"),
        ("loop0", "4", "7:0"),
        ("loop1", "0", "7:1"),
        ("zram0", "9", "252:0"),
    ):
        (disks / name).mkdir(parents=True)
        (disks / name / "size").write_text(f"{size}\n")
        (disks / name / "dev").write_text(f"{number}\n")
    assert block_devices(str(disks)) == ["7:0", "8:0"]
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(limits, "block_devices", lambda: ["8:0"])
    monkeypatch.setattr(limits, "write_text", lambda path, text: said.append((os.path.basename(path), text)))
    both, slow = Limits(io=(20, 5)), Limits(io=(0, 5))
    assert both.controllers() == slow.controllers() == ("io",)
    both.write_v1("io", "/g")
    both.write_v2("io", "/g")
    assert said == [
        ("blkio.throttle.read_bps_device", "8:0 20"),
        ("blkio.throttle.write_bps_device", "8:0 5"),
        ("io.max", "8:0 rbps=20 wbps=5"),
    ]
    said.clear()
    slow.write_v1("io", "/g")
    slow.write_v2("io", "/g")
    assert said == [("blkio.throttle.write_bps_device", "8:0 5"), ("io.max", "8:0 wbps=5")]


def test_a_kernel_that_only_counts_storage_limits_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_v2_kernel(monkeypatch, tmp_path, "io")
    root = CgroupRoot("lattice/n1", Hierarchies(str(tmp_path)))
    assert not root.can_limit("io")
    assert root.create("alloc-7.1", Limits(io=(20, 5))).held == ()
    (tmp_path / "lattice" / "n1" / "io.max").touch()
    assert root.can_limit("io")
    assert parse_mountinfo("27 25 0:24 / /c/blkio rw - cgroup cgroup rw,blkio\n").v1 == {"io": "/c/blkio"}


def test_process_with_one_thread_joins_v1_groups_without_the_lock_of_all_forks() -> None:
    twins = {"cpu": "/c/cpu,cpuacct/a", "pids": "/c/pids/a", "memory": "/c/memory/a", "cpuset": "/c/cpu,cpuacct/a"}
    group = Cgroup("/c/unified/a", twins)
    assert group.folders == ("/c/unified/a", "/c/cpu,cpuacct/a", "/c/pids/a", "/c/memory/a")
    assert group.join_files == ("/c/cpu,cpuacct/a/tasks", "/c/pids/a/tasks", "/c/memory/a/tasks")
    assert group.all_join_files == (*group.join_files, "/c/unified/a/cgroup.procs")
    assert StepCgroup(group, "s1").join_files[-1] == "/c/memory/a/s1/tasks"


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
    group = root.create("alloc-1.1", NO_LIMITS)
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
    if not root.can_limit("memory"):
        pytest.fail("this machine has root but no memory controller")
    group = root.create("alloc-1.1", Limits(memory_mb=64))
    memory = group.twins.get("memory")
    name = "memory.limit_in_bytes" if memory else "memory.max"
    assert int(Path(memory or group.path, name).read_text()) == 64 << 20
    assert group.held == ("memory",)
    assert root.create("alloc-2.1", NO_LIMITS).held == ()


@pytest.mark.root
def test_share_of_the_cpus_is_not_exceeded(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", Limits(cpus=0.2))
    if "cpu" not in group.held:
        missing("the cpu controller")
    spin = "echo go; exec python3 -c 'import time\nwhile time.process_time() < 0.3: pass'"
    with start_in(group, spin) as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        assert process.wait(60) == 0
    assert time.monotonic() - began > 1.0  # 0.3 s of CPU at a fifth of one
    assert group.usage().throttled_s is not None
    # On a busy machine it gets less than that anyway, but more than a fiftieth.
    slow = root.create("alloc-1.2", Limits(cpus=0.02))
    with start_in(slow, "while :; do :; done"):
        try:
            eventually(lambda: slow.usage().throttled_s, "it was held back")
        finally:
            slow.kill()


@pytest.mark.root
def test_processes_beyond_the_limit_are_refused_and_counted(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", Limits(pids=8))
    assert group.held == ("pids",)
    bomb = "exec python3 -c 'import os\nfor _ in range(50): os.fork() or os.pause' 2>/dev/null"
    with start_in(group, bomb) as process:
        process.wait(30)
    usage = group.usage()
    assert usage.refused_forks > 0
    assert usage.peak_pids is None or usage.peak_pids <= 8
    group.kill()


@pytest.mark.root
def test_work_stays_on_the_cpus_it_was_given(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", Limits(cpuset=(0,)))
    if "cpuset" not in group.held:
        missing("the cpuset controller")
    escape = "exec python3 -c 'import os\ntry: os.sched_setaffinity(0, {0, 1})\nexcept OSError: pass\nprint(os.sched_getaffinity(0))'"
    with start_in(group, escape) as process:
        assert process.stdout is not None
        assert process.stdout.read() == b"{0}\n"


@pytest.mark.root
def test_folders_that_processes_made_below_are_removed_with_the_group(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", NO_LIMITS)
    os.makedirs(f"{group.path}/own/deeper")
    assert group.remove()
    assert not os.path.exists(group.path)


@pytest.mark.root
def test_sweep_ends_what_another_shim_left(root: CgroupRoot) -> None:
    group = root.create("alloc-1.1", Limits(memory_mb=64, pids=50, cpus=1.0))
    with start_in(group, "trap '' TERM; echo go; while :; do sleep 300; done") as process:
        assert process.stdout is not None
        process.stdout.readline()
        began = time.monotonic()
        assert root.sweep(10) == []
        assert time.monotonic() - began < 5
        assert process.wait(10) == -signal.SIGKILL
    hierarchies = find_hierarchies()
    for top in (hierarchies.unified, *hierarchies.v1.values()):
        assert not os.path.exists(f"{top}/{root.name}/alloc-1.1")


class Hanging(Cgroup):
    """Its processes hang in the kernel, and end after they were killed for the third time."""

    kills = 0

    def kill(self) -> None:
        self.kills += 1
        if self.kills == 3:
            super().kill()


@pytest.mark.root
def test_what_hung_too_long_for_the_next_shim_is_removed_when_it_is_gone(root: CgroupRoot) -> None:
    loop, group = Loop(), root.create("alloc-1.1", NO_LIMITS)
    hanging = Hanging(group.path, group.twins)

    def look() -> None:
        if os.path.exists(group.path):
            loop.call_at(boot_now() + 0.01, look)
        else:
            loop.stop()

    with start_in(group, "echo go; exec sleep 300") as process:
        assert process.stdout is not None
        process.stdout.readline()
        clear_away(loop, [hanging], again_s=0.01)
        look()
        loop.run()
        assert process.wait(10) == -signal.SIGKILL


@pytest.mark.root
def test_name_in_use_is_refused_and_a_stale_folder_is_not(root: CgroupRoot) -> None:
    first = root.create("alloc-1.1", NO_LIMITS)
    assert root.create("alloc-1.1", NO_LIMITS).path == first.path
    with start_in(first, "echo go; exec sleep 300") as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(FileExistsError):
            root.create("alloc-1.1", NO_LIMITS)
        assert first.populated()
        first.kill()
