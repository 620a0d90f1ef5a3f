"""A fence around each check that is a program: its own control group, limited in processes and memory, killed as a whole.

The groups of an agent lie in a folder of their own beside that of its shim, so that what a killed agent left behind is found and
ended by the next one. Where control groups cannot be written, the processes of a check are known by a variable in their environment.
"""

import os
import signal
import time
from pathlib import Path

from lattice.agent.shim.cgroups import TOP, Cgroup, CgroupRoot, open_root
from lattice.agent.shim.hierarchies import read_bytes, write_text
from lattice.agent.shim.limits import Limits
from lattice.agent.shim.signals import signal_members

MARK = "LATTICE_CHECK_RUN"
MAX_PROCESSES = 64
MAX_MEMORY_MB = 512
KILL_WITHIN_S = 5.0
SWEEP_S = 2.0
_POLL_S = 0.01


class Fence:
    """What one run of one check may not get out of; `mark` is unique to it."""

    def __init__(self, mark: str, group: Cgroup | None) -> None:
        self.mark = mark
        self._group = group

    @property
    def is_group(self) -> bool:
        return self._group is not None

    def take_in(self, pid: int) -> None:
        """Puts a process, which has no children yet, inside. Raises OSError."""
        if self._group is None:
            return
        for folder in self._group.folders:
            write_text(f"{folder}/cgroup.procs", str(pid))

    def members(self) -> list[int]:
        return self._group.pids() if self._group is not None else marked(self.mark)

    def is_empty(self) -> bool:
        return not self._group.populated() if self._group is not None else not marked(self.mark)

    def kill(self, within_s: float = KILL_WITHIN_S) -> bool:
        """Ends everything inside, by force; False when something did not go in that time. Blocks."""
        until = time.monotonic() + within_s
        while not self.is_empty():
            if self._group is not None:
                self._group.kill()
            else:
                self._kill_marked()
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL_S)
        return True

    def _kill_marked(self) -> None:
        """Halted first, until no pass finds more: who multiplies would else outrun the kills."""
        known: set[int] = set()
        while (found := set(self.members())) - known:
            known |= found
            signal_members(self.members, (signal.SIGSTOP,))
        signal_members(self.members, (signal.SIGKILL,))

    def remove(self) -> None:
        """Takes the empty fence down."""
        if self._group is not None:
            self._group.remove()


class Fences:
    """Makes fences for one agent."""

    def __init__(self, state_dir: Path) -> None:
        folder = os.stat(state_dir)
        self._tag = f"{folder.st_dev:x}-{folder.st_ino:x}"
        self._name = f"{TOP}/checks-{self._tag}"
        self._root: CgroupRoot | None = open_root(self._name)
        self._count = 0

    @property
    def has_groups(self) -> bool:
        return self._root is not None

    def sweep(self) -> list[str]:
        """Ends what an earlier agent left behind; names of what would not go. Blocks."""
        return self._root.sweep(SWEEP_S) if self._root is not None else []

    def close(self) -> None:
        """Takes down what this agent made; what still hangs stays for the next one."""
        self.sweep()
        if self._root is not None:
            self._root.remove()

    def make(self, check: str) -> Fence:
        """A new fence. Raises OSError where groups are in use and there is no room for one more."""
        self._count += 1
        name = f"{check}.{os.getpid()}.{self._count}"
        mark = f"{self._tag}.{name}"
        if self._root is None:
            return Fence(mark, None)
        return Fence(mark, self._root.create(name, Limits(memory_mb=MAX_MEMORY_MB, pids=MAX_PROCESSES)))


def marked(mark: str) -> list[int]:
    """Processes whose environment carries the mark."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if wanted in read_bytes(f"/proc/{entry.name}/environ").split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # gone, or another user's
    return found
