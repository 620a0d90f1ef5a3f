"""Control groups: one group per run, in every hierarchy that holds one of its limits.

A run's group lies at ROOT/NAME in the v2 hierarchy, wherever that is mounted (pure v2 at
/sys/fs/cgroup, hybrid at /sys/fs/cgroup/unified). It serves tracking, signals and kill. Limits are
written to the same folder on pure v2, to twin folders in the v1 hierarchies of their controllers
otherwise, and only for runs that ask for them. A group is gone when `populated()` is false: then no
process of the run is left, however it forked or changed its session.

ROOT belongs to exactly one shim: `sweep` kills everything below it.
Standard library only, and no module that is slow to import: the shim lives on this.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import time

from lattice.agent.shim.confinement.devices import DeviceGate
from lattice.agent.shim.confinement.usage import Usage, read_usage
from lattice.agent.shim.hierarchies import (
    READ_BYTES,
    Hierarchies,
    find_hierarchies,
    read_bytes,
    read_key,
    write_text,
)
from lattice.agent.shim.limits import IO_V1, IO_V2, Limits, fill_parent_v1
from lattice.agent.shim.namespace import View
from lattice.agent.shim.signals import signal_members

# The folder at the top of the v2 hierarchy below which all nodes of a machine have theirs.
TOP = "lattice"
# The group inside a run's own that holds what is no step, once there is a step.
MAIN = "main"
SPLIT_TRIES = 20
# Controllers of v2 that count at no cost once the groups have them.
COUNTED = ("memory", "pids", "io")
SPLIT = (*COUNTED, "cpu")


def is_plain_name(name: str) -> bool:
    return bool(name) and "/" not in name and "\0" not in name and name not in {".", ".."}


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
    """One run's group. `twins` are its folders in v1 hierarchies by controller, `held` the controllers whose limits hold it.

    `counted` are the controllers that count what it uses, limited or not.
    `view` is what its processes see of the file system; it is closed with the group.
    """

    __slots__ = ("counted", "held", "is_split", "max_pids", "path", "twins", "view")

    def __init__(
        self,
        path: str,
        twins: dict[str, str] | None = None,
        held: tuple[str, ...] = (),
        counted: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.twins = twins or {}
        self.held = held
        self.counted = counted or held
        self.is_split = False
        self.max_pids = 0  # the limit of its processes, where that is known
        self.view = View()

    @property
    def folder(self) -> str:
        """Where a process can be born as a member."""
        return f"{self.path}/{MAIN}" if self.is_split else self.path

    @property
    def folders(self) -> tuple[str, ...]:
        """All of its folders, each once: controllers may share a hierarchy."""
        return (self.path, *dict.fromkeys(self.twins.values()))

    @property
    def join_files(self) -> tuple[str, ...]:
        """Files into which a process born in `folder`, as long as it has one thread, writes 0 to become a full member.

        A thread that moves itself takes no lock; a process that moves (cgroup.procs) stops every fork and exit of the machine for
        an RCU grace period, some 10 ms.
        """
        return tuple(f"{folder}/tasks" for folder in dict.fromkeys(self.twins.values()))

    @property
    def all_join_files(self) -> tuple[str, ...]:
        """The same for a process born elsewhere."""
        return (*self.join_files, f"{self.folder}/cgroup.procs")

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
        usage = read_usage(self.path, self.twins, self.counted, self.max_pids)
        if usage.oom_kills and self.is_split:
            # On v2 the counter of a group includes those below it; the steps' are theirs.
            own = (f"{self.path}/memory.events.local", f"{self.path}/{MAIN}/memory.events")
            usage.oom_kills = sum(read_key(file, b"oom_kill") for file in own)
        return usage

    def split(self) -> tuple[str, ...]:
        """Makes it possible to have groups inside that count for themselves; the controllers that these have.

        On v2 a group cannot have both processes and such groups, so its processes move into one of them. Only when the first
        step comes: a move is slow, and most runs never need it.
        """
        inner = tuple(each for each in self.counted if each not in self.twins and each in SPLIT)
        if not inner or self.is_split:
            return inner
        wanted = " ".join(f"+{controller}" for controller in inner)
        for _ in range(SPLIT_TRIES):
            try:
                os.makedirs(f"{self.path}/{MAIN}", 0o755, exist_ok=True)
                _move_all(self.path, f"{self.path}/{MAIN}")
                write_text(f"{self.path}/cgroup.subtree_control", wanted)
            except OSError as error:
                if error.errno != errno.EBUSY:  # something forked meanwhile
                    return ()
            else:
                self.is_split = True
                return inner
        return ()

    def close_view(self) -> None:
        self.view.close()

    def remove(self) -> bool:
        """True when no folder is left. Never kills."""
        self.close_view()
        gone = [remove_folders(folder) for folder in self.folders]
        return all(gone)


class CgroupRoot:
    """The folder below which one shim keeps the groups of its runs."""

    __slots__ = ("_usable", "gate", "hierarchies", "name", "roots", "unified_root")

    def __init__(self, name: str, hierarchies: Hierarchies) -> None:
        if hierarchies.unified is None:
            raise OSError(errno.ENOENT, "no cgroup v2 hierarchy is mounted")
        if not all(is_plain_name(part) for part in name.split("/")):
            raise ValueError(f"not a cgroup name: {name!r}")
        self.name = name
        self.hierarchies = hierarchies
        self.unified_root = f"{hierarchies.unified}/{name}"
        self.roots = {controller: f"{point}/{name}" for controller, point in hierarchies.v1.items()}
        self._usable: dict[str, bool] = {}  # by controller, once it was tried
        self.gate = DeviceGate()
        os.makedirs(self.unified_root, exist_ok=True)

    def can_limit(self, controller: str) -> bool:
        """Whether groups below the root can be limited by the controller; tried once."""
        return self._has(controller) and (controller != "io" or self._slows_down())

    def _slows_down(self) -> bool:
        """Whether this kernel can do more than count what is read and written."""
        folder, file = (self.roots["io"], IO_V1[0]) if "io" in self.roots else (self.unified_root, IO_V2)
        return os.path.exists(f"{folder}/{file}")

    def _has(self, controller: str) -> bool:
        known = self._usable.get(controller)
        if known is None:
            known = self._usable[controller] = self._try(controller)
        return known

    def _try(self, controller: str) -> bool:
        if controller == "devices":
            self.gate.probe(self.unified_root, has_v1="devices" in self.roots)
            return self.gate.way == "bpf" or (self.gate.way == "v1" and self._open_v1(controller))
        return self._open_v1(controller) if controller in self.roots else self.hand_down(controller)

    def _is_in_v1(self, controller: str) -> bool:
        return controller in self.roots and (controller != "devices" or self.gate.way == "v1")

    def _open_v1(self, controller: str) -> bool:
        folder = self.hierarchies.v1[controller]
        try:
            for part in self.name.split("/"):
                folder = f"{folder}/{part}"
                os.makedirs(folder, exist_ok=True)
                fill_parent_v1(controller, folder)
        except OSError:
            return False
        return True

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

    def create(self, name: str, limits: Limits) -> Cgroup:
        """A new, empty group with those of the limits that are possible here (`held` of the result tells).
        OSError when it cannot be made or the name is in use."""
        if not is_plain_name(name):
            raise ValueError(f"not a cgroup name: {name!r}")
        held = tuple(controller for controller in limits.controllers() if self.can_limit(controller))
        twins = {controller: f"{self.roots[controller]}/{name}" for controller in held if self._is_in_v1(controller)}
        more = (controller for controller in COUNTED if controller not in self.roots and self._has(controller))
        counted = tuple(dict.fromkeys((*held, *more)))
        group = Cgroup(f"{self.unified_root}/{name}", twins, held, counted)
        group.max_pids = limits.pids
        try:
            for folder in group.folders:
                self._make(folder)
            for controller in held:
                if controller in twins:
                    limits.write_v1(controller, twins[controller])
                elif controller == "devices":
                    self.gate.attach(group.path, limits.devices or ())
                else:
                    limits.write_v2(controller, group.path)
        except OSError:
            group.remove()
            raise
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
        names = {os.path.basename(path) for root in self._all_roots() for path in subfolders(root)}
        return [
            Cgroup(
                f"{self.unified_root}/{name}",
                {controller: f"{root}/{name}" for controller, root in self.roots.items()},
            )
            for name in sorted(names)
        ]

    def _all_roots(self) -> tuple[str, ...]:
        return (self.unified_root, *dict.fromkeys(self.roots.values()))

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
            if any(os.path.isdir(folder) for folder in group.folders):
                left.append(os.path.basename(group.path))
        return left

    def remove(self) -> None:
        """Remove the root and, when no other shim uses them, the folders above it."""
        tops = {self.hierarchies.unified, *self.hierarchies.v1.values()}
        for root in self._all_roots():
            folder = root
            while folder not in tops:
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    pass
                except OSError:
                    break
                folder = os.path.dirname(folder)


def _move_all(path: str, target: str) -> None:
    for pid in read_bytes(f"{path}/cgroup.procs").split():
        try:
            write_text(f"{target}/cgroup.procs", pid.decode())
        except ProcessLookupError:
            continue  # it has ended meanwhile


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
            hierarchies = Hierarchies(hierarchies.unified)
        root = CgroupRoot(name, hierarchies)
        # Moving into a group is refused unless the common ancestor can be written, too.
        for folder in (root.unified_root, hierarchies.unified):
            if not os.access(f"{folder}/cgroup.procs", os.W_OK):
                return None
    except OSError:
        return None
    return root
