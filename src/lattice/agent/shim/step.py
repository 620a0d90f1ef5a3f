"""One step as the shim knows it: its tasks, what they are fed, how they ended, and the file that tells the agent.

As with runs, all of it is plain data on one event loop, written by `StepTable` alone unless a comment says otherwise.
See docs/architecture/steps.md.
"""

from __future__ import annotations

import json
import os
import time

from lattice.agent.shim.cgroups import Cgroup, Usage
from lattice.agent.shim.journal import Journal
from lattice.agent.shim.launch import Launch
from lattice.agent.shim.loop import Timer, boot_now
from lattice.agent.shim.output import replace_file
from lattice.agent.shim.tree import ProcessTree

StepKey = tuple[int, int, int]

MAX_INPUT_BYTES = 4 << 20
END_OF_INPUT = b"\x04"  # what a terminal takes for it


class StepCgroup(Cgroup):
    """A group inside the allocation's own, so that a step can be killed and measured alone. The limits are the allocation's."""

    __slots__ = ("_parent",)

    def __init__(self, parent: Cgroup, name: str) -> None:
        memory = parent.twins.get("memory")
        super().__init__(f"{parent.path}/{name}", {"memory": f"{memory}/{name}"} if memory else {})
        self.held = tuple(self.twins)
        self._parent = parent
        self.namespace = parent.namespace  # the parent's, and closed by it

    def close_namespace(self) -> None:
        self.namespace = -1

    @property
    def join_files(self) -> tuple[str, ...]:
        folders = {**self._parent.twins, **self.twins}
        return tuple(f"{folder}/tasks" for folder in dict.fromkeys(folders.values()))

    def make(self) -> None:
        for folder in (self.path, *self.twins.values()):
            os.makedirs(folder, 0o755, exist_ok=True)


class StepTrees:
    """The same for a shim without cgroups: the process trees of all tasks."""

    __slots__ = ("_trees",)

    def __init__(self) -> None:
        self._trees: list[ProcessTree] = []

    def add(self, tree: ProcessTree) -> None:
        self._trees.append(tree)

    def populated(self) -> bool:
        return any(tree.populated() for tree in self._trees)

    def signal(self, *numbers: int) -> None:
        for tree in self._trees:
            tree.signal(*numbers)

    def kill(self) -> None:
        for tree in self._trees:
            tree.kill()

    def usage(self) -> Usage:
        cpu_s = sum(tree.usage().cpu_s or 0.0 for tree in self._trees)
        return Usage(cpu_s or None)

    def remove(self) -> bool:
        for tree in self._trees:
            tree.remove()
        return True


StepGroup = StepCgroup | StepTrees


class Task:
    """One rank. `cursor` is how much of the step's input it was given; -1 when it takes none (any more)."""

    __slots__ = (
        "cpu_s",
        "cursor",
        "error",
        "exit_code",
        "input_fd",
        "is_gone",
        "is_terminal",
        "launch",
        "outputs",
        "peak_mb",
        "pid",
        "rank",
        "report_fd",
        "signal",
    )

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.launch: Launch | None = None  # until exec is known, for the sentence that says why there was none
        self.pid = 0  # 0 = never forked; safe to signal while `is_gone` is False: not reaped, so still its own
        # Descriptors are open exactly while they are not negative. The master of a terminal is both `input_fd` and a key of
        # `outputs`: it is closed once, by `_close_task`.
        self.report_fd = -1
        self.input_fd = -1
        # Never before `Step.base` while it is not negative: what a task has not taken yet is still in `Step.pending`.
        self.cursor = -1
        self.outputs: dict[int, int] = {}  # descriptor to stream
        self.is_terminal = False
        self.is_gone = False  # reaped, or never started; never False again
        self.exit_code = 0  # these two in wait's words
        self.signal = 0
        self.error = ""  # why it was never executed
        self.cpu_s = 0.0
        self.peak_mb = 0.0

    @property
    def has_failed(self) -> bool:
        return self.is_gone and bool(self.error or self.signal or self.exit_code)

    def record_exit(self, status: int, cpu_s: float, peak_kb: float) -> None:
        self.is_gone = True
        self.cpu_s, self.peak_mb = cpu_s, peak_kb / 1024
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)

    def end(self) -> dict[str, object]:
        return {"rank": self.rank, "exit_code": self.exit_code, "signal": self.signal, "error": self.error}


class Step:
    """One step on this node, from its launch until the agent forgets it.

    It has ended when all its tasks are gone and its group is empty; then `group` becomes None, the journal is complete, and
    nothing of it changes any more.
    """

    __slots__ = (
        "base",
        "directory",
        "ended_boot_s",
        "ending",
        "error",
        "grace_s",
        "group",
        "has_eof",
        "held",
        "hold_until",
        "is_armed",
        "is_killing",
        "journal",
        "key",
        "kill_timer",
        "pending",
        "phase",
        "read_upto",
        "started_at",
        "started_boot_s",
        "tasks",
        "usage",
        "wall_timer",
        "why",
    )

    def __init__(self, key: StepKey, directory: str, journal_limit: int) -> None:
        self.key = key  # number, run, step; a status.json in `directory` means that it was started before
        self.directory = directory
        self.group: StepGroup | None = None  # set before the first fork, None again exactly from the end on
        self.tasks: list[Task] = []  # in the order of the request; none is added after the launch, none is ever removed
        self.journal = Journal(directory, journal_limit)
        self.phase = "running"  # only forward: running, ended
        self.grace_s = 0.0  # between SIGTERM and SIGKILL, unless an end says otherwise
        self.wall_timer: Timer | None = None
        self.kill_timer: Timer | None = None  # set by the first SIGTERM; a later end does not move it
        self.is_killing = False  # SIGKILL was sent and is repeated until the group is empty; never False again
        self.ending = ""  # what ended it, the first one that was asked for; "" = its tasks end by themselves
        self.why = ""  # of that, for people
        self.error = ""
        self.usage = Usage()  # of the whole group, read once when it was empty
        # Input: bytes from position `base` on that some task has not taken yet; `trim_input` drops what all have. Bounded by
        # MAX_INPUT_BYTES: the agent sends again what was not taken. After `has_eof` nothing is taken any more.
        self.pending = bytearray()
        self.base = 0
        self.has_eof = False
        # Output: how far it was read (never back), and until when its writers wait for readers. A descriptor in `held` is not
        # watched; `_resume` watches it again, because it was read or because `hold_until` has passed.
        self.read_upto = 0
        self.hold_until = 0.0
        self.held: list[tuple[Task, int]] = []
        self.is_armed = False  # the reader has seen everything and waits for one event about the next byte
        self.started_boot_s = boot_now()
        self.started_at = time.time()
        self.ended_boot_s = 0.0

    @property
    def is_over(self) -> bool:
        return self.phase == "ended"

    @property
    def are_tasks_gone(self) -> bool:
        return all(task.is_gone for task in self.tasks)

    def take_input(self, offset: int, data: bytes, *, eof: bool) -> int:
        """Keep what is new of the bytes at `offset`, if there is room; how many bytes were taken since the beginning."""
        end = self.base + len(self.pending)
        if offset > end or self.has_eof:
            return end
        fresh = data[end - offset :]
        if len(self.pending) + len(fresh) > MAX_INPUT_BYTES and self.pending:
            return end
        self.pending += fresh
        self.has_eof = eof and offset + len(data) >= end
        return end + len(fresh)

    def input_for(self, task: Task) -> memoryview:
        return memoryview(self.pending)[task.cursor - self.base :]

    def trim_input(self) -> None:
        """Forget what every task that takes input has taken."""
        cursors = [task.cursor for task in self.tasks if task.cursor >= 0]
        place = min(cursors) if cursors else self.base + len(self.pending)
        del self.pending[: place - self.base]
        self.base = place

    def outcome(self) -> dict[str, object]:
        cpu_s = sum(task.cpu_s for task in self.tasks) if self.usage.cpu_s is None else self.usage.cpu_s
        return {
            "tasks": [task.end() for task in self.tasks],
            "cause": self.ending or "exit",
            "why": self.why,
            "error": self.error,
            "cpu_s": round(cpu_s, 6),
            "peak_memory_mb": round(max((task.peak_mb for task in self.tasks), default=0.0), 3),
            "elapsed_s": round(self.ended_boot_s - self.started_boot_s, 6),
            "output_lost": self.journal.lost,
        }

    def status(self) -> dict[str, object]:
        number, run, step = self.key
        status: dict[str, object] = {"number": number, "run": run, "step": step, "phase": self.phase}
        if self.is_over:
            status.update(self.outcome())
        else:
            status["tasks"] = [task.end() for task in self.tasks if task.has_failed]
        return status

    def save(self) -> None:
        """Write status.json; a full disk leaves the record here, where `list` finds it."""
        try:
            replace_file(f"{self.directory}/status.json", json.dumps(self.status()).encode())
        except OSError:
            return
