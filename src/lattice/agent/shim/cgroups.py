"""Control groups: which hierarchies this machine has, and one group per run.

A run's group lies at ROOT/NAME in the v2 hierarchy, wherever that is mounted (pure v2 at
/sys/fs/cgroup, hybrid at /sys/fs/cgroup/unified). It serves tracking, signals and kill. Memory is
limited in the same folder on pure v2, in a twin folder of the v1 memory hierarchy otherwise, and
only for runs that ask for it. A group is gone when `populated()` is false: then no process of the
run is left, however it forked or changed its session.

ROOT belongs to exactly one shim: `sweep` kills everything below it.
Standard library only, and no module that is slow to import: the shim lives on this.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time

from lattice.agent.shim.signals import signal_members

MOUNTINFO = "/proc/self/mountinfo"
READ_BYTES = 1 << 16
# The folder at the top of the v2 hierarchy below which all nodes of a machine have theirs.
TOP = "lattice"


class Usage:
    """What a run has used; None where it was not measured."""

    __slots__ = ("cpu_s", "oom_kills", "peak_memory_mb")

    def __init__(self, cpu_s: float | None = None, peak_memory_mb: float | None = None, oom_kills: int = 0) -> None:
        self.cpu_s = cpu_s
        self.peak_memory_mb = peak_memory_mb
        self.oom_kills = oom_kills


class Hierarchies:
    """Mount points of the hierarchies in use; None where there is none."""

    __slots__ = ("memory_v1", "unified")

    def __init__(self, unified: str | None, memory_v1: str | None) -> None:
        self.unified = unified
        self.memory_v1 = memory_v1


def parse_mountinfo(text: str) -> Hierarchies:
    unified: str | None = None
    memory_v1: str | None = None
    for line in text.splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(), source.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        point = fields[4].encode().decode("unicode_escape")
        if kind[0] == "cgroup2" and unified is None:
            unified = point
        elif kind[0] == "cgroup" and "memory" in kind[2].split(",") and memory_v1 is None:
            memory_v1 = point
    return Hierarchies(unified, memory_v1)


def find_hierarchies() -> Hierarchies:
    with open(MOUNTINFO, encoding="utf-8", errors="replace") as file:
        return parse_mountinfo(file.read())


def is_plain_name(name: str) -> bool:
    return bool(name) and "/" not in name and "\0" not in name and name not in {".", ".."}


def read_bytes(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, READ_BYTES):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def write_text(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def read_key(path: str, key: bytes) -> int:
    """The figure behind `key` in a file of "key value" lines; 0 where file or key is missing."""
    try:
        words = read_bytes(path).split()
    except OSError:
        return 0
    try:
        return int(words[words.index(key) + 1])
    except (ValueError, IndexError):
        return 0


def read_figure(path: str) -> int:
    try:
        return int(read_bytes(path))
    except (OSError, ValueError):
        return 0


def subfolders(path: str) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def remove_folders(path: str) -> bool:
    """Remove a group and those that its processes made below it; False while one is in use."""
    try:
        os.rmdir(path)
    except FileNotFoundError:
        return True
    except OSError:
        below = [remove_folders(folder) for folder in subfolders(path)]
        if not below or not all(below):
            return False
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return True
        except OSError:
            return False
    return True


class Cgroup:
    """One run's group."""

    __slots__ = ("limited", "memory", "path", "v2_memory")

    def __init__(self, path: str, memory: str | None, *, v2_memory: bool) -> None:
        self.path = path
        self.memory = memory
        self.v2_memory = v2_memory
        self.limited = memory is not None or v2_memory

    @property
    def folder(self) -> str:
        """Where a process can be born as a member."""
        return self.path

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files into which a process born in `folder` writes 0 to become a full member."""
        return () if self.memory is None else (f"{self.memory}/cgroup.procs",)

    @property
    def all_join_files(self) -> tuple[str, ...]:
        """The same for a process born elsewhere."""
        return (*self.join_files, f"{self.path}/cgroup.procs")

    def pids(self) -> list[int]:
        pids: list[int] = []
        folders = [self.path]
        while folders:
            folder = folders.pop()
            try:
                pids.extend(map(int, read_bytes(f"{folder}/cgroup.procs").split()))
            except OSError as error:
                # ENODEV: removed meanwhile; EOPNOTSUPP: a threaded group, listed by its domain.
                if error.errno not in {errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP}:
                    raise
            folders.extend(subfolders(folder))
        return pids

    def populated(self) -> bool:
        try:
            return b"populated 0" not in read_bytes(f"{self.path}/cgroup.events")
        except OSError as error:
            # Not to know is not to be empty.
            return error.errno not in {errno.ENOENT, errno.ENODEV}

    def open_events(self) -> int | None:
        """A descriptor that reports EPOLLPRI whenever `populated()` may have changed."""
        try:
            return os.open(f"{self.path}/cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None

    def signal(self, *numbers: int) -> None:
        signal_members(self.pids, numbers)

    def kill(self) -> None:
        """SIGKILL to all in one step. Without cgroup.kill (Linux before 5.14) a member that is being
        forked just now can slip through, so callers repeat this until `populated()` is false."""
        try:
            write_text(f"{self.path}/cgroup.kill", "1")
        except FileNotFoundError:
            self.signal(signal.SIGKILL)

    def usage(self) -> Usage:
        cpu_us = read_key(f"{self.path}/cpu.stat", b"usage_usec")
        cpu_s = cpu_us / 1e6 if cpu_us else None
        if self.memory is not None:
            peak = read_figure(f"{self.memory}/memory.max_usage_in_bytes")
            kills = read_key(f"{self.memory}/memory.oom_control", b"oom_kill")
        elif self.v2_memory:
            peak = read_figure(f"{self.path}/memory.peak")
            kills = read_key(f"{self.path}/memory.events", b"oom_kill")
        else:
            return Usage(cpu_s)
        return Usage(cpu_s, peak / (1 << 20) if peak else None, kills)

    def remove(self) -> bool:
        """True when no folder is left. Never kills."""
        gone = remove_folders(self.path)
        if self.memory is not None:
            gone = remove_folders(self.memory) and gone
        return gone


class CgroupRoot:
    """The folder below which one shim keeps the groups of its runs."""

    __slots__ = ("_v2_memory_on", "hierarchies", "memory_root", "name", "unified_root")

    def __init__(self, name: str, hierarchies: Hierarchies) -> None:
        if hierarchies.unified is None:
            raise OSError(errno.ENOENT, "no cgroup v2 hierarchy is mounted")
        if not all(is_plain_name(part) for part in name.split("/")):
            raise ValueError(f"not a cgroup name: {name!r}")
        self.name = name
        self.hierarchies = hierarchies
        self.unified_root = f"{hierarchies.unified}/{name}"
        v1 = hierarchies.memory_v1
        self.memory_root = None if v1 is None else f"{v1}/{name}"
        self._v2_memory_on = False
        os.makedirs(self.unified_root, exist_ok=True)

    def can_limit_memory(self) -> bool:
        if self.memory_root is None:
            return self._enable_v2_memory()
        try:
            os.makedirs(self.memory_root, exist_ok=True)
        except OSError:
            return False
        return True

    def _enable_v2_memory(self) -> bool:
        """Hand the memory controller down to the runs' folders (pure v2)."""
        if self._v2_memory_on:
            return True
        self._v2_memory_on = self.hand_down("memory")
        return self._v2_memory_on

    def hand_down(self, controller: str) -> bool:
        """Whether the groups below have the controller; only in a hierarchy that is the only one."""
        folder = str(self.hierarchies.unified)
        try:
            for part in ("", *self.name.split("/")):
                folder = f"{folder}/{part}" if part else folder
                if controller.encode() not in read_bytes(f"{folder}/cgroup.subtree_control").split():
                    write_text(f"{folder}/cgroup.subtree_control", f"+{controller}")
        except OSError:
            return False
        return True

    def create(self, name: str, memory_mb: int) -> Cgroup:
        """A new, empty group, limited in memory where that is asked for and possible
        (`limited` of the result tells). OSError when it cannot be made or the name is in use."""
        if not is_plain_name(name):
            raise ValueError(f"not a cgroup name: {name!r}")
        limit = memory_mb << 20 if memory_mb > 0 and self.can_limit_memory() else 0
        group = Cgroup(
            f"{self.unified_root}/{name}",
            f"{self.memory_root}/{name}" if limit and self.memory_root is not None else None,
            v2_memory=self._v2_memory_on,
        )
        try:
            self._make(group.path)
            if group.memory is not None:
                self._make(group.memory)
                # The limit of memory plus swap may never be below that of memory alone.
                write_text(f"{group.memory}/memory.limit_in_bytes", str(limit))
                if os.path.exists(f"{group.memory}/memory.memsw.limit_in_bytes"):
                    write_text(f"{group.memory}/memory.memsw.limit_in_bytes", str(limit))
            elif limit:
                write_text(f"{group.path}/memory.max", str(limit))
                if os.path.exists(f"{group.path}/memory.swap.max"):
                    write_text(f"{group.path}/memory.swap.max", "0")
        except OSError:
            group.remove()
            raise
        group.limited = limit > 0
        return group

    @staticmethod
    def _make(path: str) -> None:
        try:
            os.mkdir(path, 0o755)
        except FileExistsError:
            # Left over from an earlier run whose folder was busy when it should have gone.
            if not remove_folders(path):
                raise
            os.mkdir(path, 0o755)

    def leftovers(self) -> list[Cgroup]:
        """Groups that exist, in whichever hierarchy."""
        names = {os.path.basename(path) for path in subfolders(self.unified_root)}
        if self.memory_root is not None:
            names.update(os.path.basename(path) for path in subfolders(self.memory_root))
        return [
            Cgroup(
                f"{self.unified_root}/{name}",
                None if self.memory_root is None else f"{self.memory_root}/{name}",
                v2_memory=False,
            )
            for name in sorted(names)
        ]

    def sweep(self, timeout_s: float) -> list[str]:
        """Kill and remove every group below the root; names of those that are still there when
        the time is over (a process stuck in the kernel)."""
        until = time.monotonic() + timeout_s
        groups = self.leftovers()
        for group in groups:
            if group.populated():
                group.kill()
        left = []
        for group in groups:
            _wait_until_empty(group, until)
            while not group.remove() and time.monotonic() < until:
                time.sleep(0.005)
            if os.path.isdir(group.path) or (group.memory and os.path.isdir(group.memory)):
                left.append(os.path.basename(group.path))
        return left

    def remove(self) -> None:
        """Remove the root and, when no other shim uses them, the folders above it."""
        for root, top in (
            (self.unified_root, self.hierarchies.unified),
            (self.memory_root, self.hierarchies.memory_v1),
        ):
            folder = root
            while folder is not None and folder != top:
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    pass
                except OSError:
                    break
                folder = os.path.dirname(folder)


def _wait_until_empty(group: Cgroup, until: float) -> None:
    fd = group.open_events()
    if fd is None:
        return
    try:
        poller = select.poll()
        poller.register(fd, select.POLLPRI)
        while group.populated() and (left := until - time.monotonic()) > 0:
            os.pread(fd, READ_BYTES, 0)
            if not group.populated():
                return
            poller.poll(min(left, 0.2) * 1000)
            group.kill()
    finally:
        os.close(fd)


def enclosing_group() -> str:
    """The cgroup of a run inside which this process itself lives; empty outside of any."""
    for line in read_bytes("/proc/self/cgroup").decode("utf-8", "replace").splitlines():
        if line.startswith(f"0::/{TOP}/"):
            return line[len("0::/") :]
    return ""


def open_root(name: str) -> CgroupRoot | None:
    """The root of that name, made if it is missing; None where cgroups cannot be used: no v2
    hierarchy or no permission. A cluster inside an allocation stays inside it, so that the end of
    the allocation is its end, too."""
    try:
        hierarchies = find_hierarchies()
        if outer := enclosing_group():
            name = f"{outer}/{name}"
            hierarchies = Hierarchies(hierarchies.unified, None)
        root = CgroupRoot(name, hierarchies)
        # Moving into a group is refused unless the common ancestor can be written, too.
        for folder in (root.unified_root, hierarchies.unified):
            if not os.access(f"{folder}/cgroup.procs", os.W_OK):
                return None
    except OSError:
        return None
    return root
