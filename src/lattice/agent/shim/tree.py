"""Tracking by the process tree, for a shim that may not make cgroups (it is not root).

The shim is a subreaper, so whatever survives its parent becomes the shim's own child. While a run's
main process lives, the run is that process and its descendants. Afterwards it is those children of
the shim that are no main process and can be traced to the run: by the session that the run began,
by the variable that marks its environment, or because no other run is left. What cannot be traced
is killed when the last run has ended. Our own children keep their pids until we reap them, so a pid
taken from that list cannot be a stranger's.
"""

from __future__ import annotations

import os
import select
import signal
import time

from lattice.agent.shim.confinement.usage import Usage
from lattice.agent.shim.hierarchies import read_bytes
from lattice.agent.shim.namespace import View
from lattice.agent.shim.signals import open_pidfds, send_signals, signal_members

MARKER = "LATTICE_RUN_DIR"


def parents() -> dict[int, tuple[int, str]]:
    """Parent and state of every process of the machine."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = read_bytes(f"/proc/{name}/stat")
        except OSError:
            continue
        state, parent = stat[stat.rindex(b")") + 2 :].split(maxsplit=2)[:2]
        found[int(name)] = (int(parent), state.decode())
    return found


def marked_run(pid: int) -> str | None:
    """The run folder in a process's environment; None where it has none or it may not be read."""
    try:
        environment = read_bytes(f"/proc/{pid}/environ")
    except OSError:
        return None
    prefix = f"{MARKER}=".encode()
    for entry in environment.split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def own_children() -> list[int]:
    try:
        # Complete, because only this thread removes entries (by reaping).
        return list(map(int, read_bytes(f"/proc/self/task/{os.getpid()}/children").split()))
    except FileNotFoundError:
        me = os.getpid()
        return [pid for pid, (parent, _) in parents().items() if parent == me]


class ProcessTree:
    """One run's processes. `view` is what they see of the file system; it is closed with the run."""

    __slots__ = ("_cpu_s", "_forest", "directory", "main", "session", "view")

    held: tuple[str, ...] = ()  # the tree of processes limits nothing

    def __init__(self, forest: Forest, directory: str) -> None:
        self._forest = forest
        self._cpu_s = 0.0
        self.directory = directory
        self.main: int | None = None
        self.session = 0
        self.view = View()

    def close_view(self) -> None:
        self.view.close()

    @property
    def folder(self) -> str:
        return ""

    @property
    def join_files(self) -> tuple[str, ...]:
        return ()

    all_join_files = join_files

    def open_events(self) -> int | None:
        return None

    def pids(self) -> list[int]:
        """Members that are not dead yet, parents first."""
        table = parents()
        below: dict[int, list[int]] = {}
        for pid, (parent, _) in table.items():
            below.setdefault(parent, []).append(pid)
        members = [] if self.main is None else [self.main]
        members += self._forest.orphans_of(self)
        for pid in members:
            members.extend(below.get(pid, ()))
        return [pid for pid in members if table.get(pid, (0, "Z"))[1] not in "ZX"]

    def populated(self) -> bool:
        return self.main is not None or bool(self._forest.orphans_of(self))

    def signal(self, *numbers: int) -> None:
        signal_members(self.pids, numbers)

    def kill(self) -> None:
        """May miss a process that is being forked just now; it then becomes our child, which is
        reported by its parent's SIGCHLD, and the caller kills again."""
        self.signal(signal.SIGKILL)

    def add_usage(self, cpu_s: float) -> None:
        self._cpu_s += cpu_s

    def usage(self) -> Usage:
        return Usage(self._cpu_s or None)

    def remove(self) -> bool:
        self.close_view()
        self._forest.forget(self)
        return True


class Forest:
    """All runs of a shim without cgroups."""

    def __init__(self, state_dir: str) -> None:
        self._state_dir = state_dir
        self._trees: list[ProcessTree] = []
        self._claims: dict[int, ProcessTree] = {}
        self._spared: set[int] = set()

    def can_limit(self, _controller: str) -> bool:
        return False

    def create(self, directory: str) -> ProcessTree:
        tree = ProcessTree(self, directory)
        self._trees.append(tree)
        return tree

    def started(self, tree: ProcessTree, pid: int) -> None:
        tree.main = tree.session = pid

    def spare(self, pid: int) -> None:
        """A child of the shim's own, which is part of no run and ends by itself."""
        self._spared.add(pid)

    def reaped(self, pid: int, cpu_s: float) -> None:
        """Must be called for every reaped process: its pid may be reused from now on."""
        self._spared.discard(pid)
        tree = self._claims.pop(pid, None)
        for candidate in self._trees:
            if candidate.main == pid:
                candidate.main, tree = None, candidate
        if tree is not None:
            tree.add_usage(cpu_s)

    def forget(self, tree: ProcessTree) -> None:
        if tree in self._trees:
            self._trees.remove(tree)
        self._claims = {pid: owner for pid, owner in self._claims.items() if owner is not tree}
        if not self._trees:
            signal_members(self._children, (signal.SIGKILL,))

    def _children(self) -> list[int]:
        return [pid for pid in own_children() if pid not in self._spared]

    def orphans_of(self, tree: ProcessTree) -> list[int]:
        mains = {other.main for other in self._trees}
        return [pid for pid in self._children() if pid not in mains and self._owner(pid) is tree]

    def _owner(self, pid: int) -> ProcessTree | None:
        owner = self._claims.get(pid) or self._trace(pid)
        if owner is not None:
            self._claims[pid] = owner
        return owner

    def _trace(self, pid: int) -> ProcessTree | None:
        try:
            session = os.getsid(pid)
        except ProcessLookupError:
            return None
        directory = marked_run(pid)
        for tree in self._trees:
            if session == tree.session or directory == tree.directory:
                return tree
        return self._trees[0] if len(self._trees) == 1 else None

    def sweep(self, timeout_s: float) -> list[str]:
        """Kill what an earlier shim of this state directory left; pids that outlived that."""
        until = time.monotonic() + timeout_s
        strays = self._strays()
        while strays and (left := until - time.monotonic()) > 0:
            fds = open_pidfds(strays)
            still = set(self._strays())
            poller = select.poll()
            for pid, fd in fds.items():
                if pid in still:
                    send_signals(fd, (signal.SIGKILL,))
                    poller.register(fd, select.POLLIN)
            poller.poll(min(left, 0.2) * 1000)
            for fd in fds.values():
                os.close(fd)
            strays = self._strays()
        return [str(pid) for pid in strays]

    def _strays(self) -> list[int]:
        return [
            pid
            for pid, (_, state) in parents().items()
            if state not in "ZX" and (marked_run(pid) or "").startswith(f"{self._state_dir}/")
        ]

    def remove(self) -> None:
        """Nothing of a forest is on disk."""
