"""One step as the shim knows it: its tasks, what they are fed, how they ended, and the file that tells the agent.

As with runs, all of it is plain data on one event loop, written by `StepTable` alone unless a comment says otherwise.
See docs/architecture/steps.md.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import struct
import termios
import time

from lattice.agent.shim.cgroups import Cgroup
from lattice.agent.shim.confinement.kernel_log import Victim, out_of_memory
from lattice.agent.shim.confinement.measuring import figures_of_group, figures_of_processes
from lattice.agent.shim.confinement.usage import Usage, waited_storage
from lattice.agent.shim.hierarchies import write_text
from lattice.agent.shim.journal import Journal
from lattice.agent.shim.launch import Launch, integer
from lattice.agent.shim.loop import Loop, Timer, boot_now
from lattice.agent.shim.namespace import View
from lattice.agent.shim.output import replace_file
from lattice.agent.shim.pmi.starting import PmiService
from lattice.agent.shim.terminals.terminal import Terminal
from lattice.agent.shim.tree import ProcessTree

StepKey = tuple[int, int, int]
Body = dict[str, object]

MAX_INPUT_BYTES = 4 << 20
MAX_JOINED = 256  # clients that join a step and feed it, besides the one that launched it
MAX_ADDRESSED = 1024  # stretches of its input that are for one task, and that some task has not passed yet
SHELL_SAW_KILL = 128 + signal.SIGKILL  # what a shell answers when its command died of SIGKILL
NOT_FOUND = 127  # the same of a command that it cannot start
END_OF_INPUT = b"\x04"  # what a terminal takes for it


class StepCgroup(Cgroup):
    """A group inside the allocation's own, so that a step can be killed and measured alone. The limits are the allocation's."""

    __slots__ = ("_owns_view", "_parent")

    def __init__(self, parent: Cgroup, name: str) -> None:
        twins: dict[str, str] = {
            each: f"{parent.twins[each]}/{name}" for each in ("memory", "pids") if each in parent.twins
        }
        super().__init__(f"{parent.path}/{name}", twins, counted=(*twins, *parent.split()))
        self._parent = parent
        self.view = parent.view  # the parent's, and closed by it
        self._owns_view = False

    def own_view(self, view: View) -> None:
        """The step sees this instead of what its parent sees."""
        self.view, self._owns_view = view, True

    def close_view(self) -> None:
        if self._owns_view:
            self.view.close()
        self.view = View()

    @property
    def join_files(self) -> tuple[str, ...]:
        folders = {**self._parent.twins, **self.twins}
        return tuple(f"{folder}/tasks" for folder in dict.fromkeys(folders.values()))

    @property
    def full_name(self) -> str:
        """As the kernel's log ends the name of the group."""
        return "/".join(self.path.rsplit("/", 2)[1:])

    def make(self) -> None:
        for folder in (self.path, *self.twins.values()):
            os.makedirs(folder, 0o755, exist_ok=True)


class StepTrees:
    """The same for a shim without cgroups: the process trees of all tasks."""

    __slots__ = ("_trees", "view")

    def __init__(self, view: View) -> None:
        """`view` is closed by others."""
        self._trees: list[ProcessTree] = []
        self.view = view

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

    def pids(self) -> list[int]:
        return [pid for tree in self._trees for pid in tree.pids()]

    def usage(self) -> Usage:
        cpu_s = sum(tree.usage().cpu_s or 0.0 for tree in self._trees)
        return Usage(cpu_s or None)

    @property
    def full_name(self) -> str:
        """The kernel counts nothing here."""
        return ""

    def remove(self) -> bool:
        for tree in self._trees:
            tree.remove()
        return True


StepGroup = StepCgroup | StepTrees


def figures_of(group: Cgroup | ProcessTree | StepTrees) -> Body:
    """What a living group uses now."""
    if isinstance(group, Cgroup):
        return figures_of_group(group.usage(), group.pids(), group.path, group.twins)
    return figures_of_processes(group.usage(), group.pids())


def place_of(group: Cgroup | ProcessTree | StepTrees) -> Body:
    """Where the kernel counts what it uses: its folders or, without cgroups, its processes."""
    if isinstance(group, Cgroup):
        return {"path": group.path, "twins": group.twins}
    return {"pids": group.pids()}


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
        "oom",
        "outputs",
        "peak_mb",
        "pid",
        "rank",
        "report_fd",
        "signal",
        "storage",
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
        self.is_terminal = False  # set before the fork: what it writes passes a terminal, which merges both streams
        self.is_gone = False  # reaped, or never started; never False again
        # Below: how it ended, each set once. The first two in wait's words, unless a rank asked for the end of all with another code.
        self.exit_code = 0
        self.signal = 0
        self.error = ""  # why it was never executed
        # What it and its reaped children used, for groups that count nothing.
        self.cpu_s = 0.0
        self.peak_mb = 0.0
        self.storage = (0, 0)  # bytes read and written
        self.oom = ""  # why the kernel killed it, or a process of it, if that was for lack of memory

    @property
    def has_failed(self) -> bool:
        return self.is_gone and bool(self.error or self.signal or self.exit_code)

    @property
    def status(self) -> int:
        if self.signal:
            return 128 + self.signal
        return NOT_FOUND if self.error else self.exit_code

    def record_exit(self, status: int, used: resource.struct_rusage) -> None:
        self.is_gone = True
        self.cpu_s, self.peak_mb = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        self.storage = waited_storage(used)
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)

    def count_as(self, code: int) -> None:
        """What the rank said itself about its end, when it did not get to it."""
        if not self.exit_code:
            self.exit_code, self.signal = code, 0

    def end(self) -> dict[str, object]:
        end: dict[str, object] = {
            "rank": self.rank,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "error": self.error,
        }
        if self.oom:
            end["oom"] = self.oom
        return end

    @property
    def was_killed(self) -> bool:
        """By SIGKILL, or its shell saw that happen to a command."""
        return self.signal == signal.SIGKILL or self.exit_code == SHELL_SAW_KILL


class Step:
    """One step on this node, from its launch until the agent forgets it.

    It has ended when all its tasks are gone and its group is empty; then `group` becomes None, the journal is complete, and
    nothing of it changes any more.
    """

    __slots__ = (
        "addressed",
        "base",
        "client_timer",
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
        "joined",
        "journal",
        "key",
        "kill_timer",
        "look_timer",
        "memory_limit_mb",
        "news_pause_s",
        "news_timer",
        "pending",
        "phase",
        "pmi",
        "read_upto",
        "started_at",
        "started_boot_s",
        "tasks",
        "terminal",
        "told_news",
        "usage",
        "wall_timer",
        "why",
    )

    def __init__(self, key: StepKey, directory: str, journal_limit: int) -> None:
        self.key = key  # number, run, step; a status.json in `directory` means that it was started before
        self.directory = directory  # the agent's; the shim writes journal and status.json there, and deletes nothing
        self.group: StepGroup | None = None  # set before the first fork, None again exactly from the end on
        self.tasks: list[Task] = []  # in the order of the request; none is added after the launch, none is ever removed
        self.journal = Journal(directory, journal_limit)  # only appended to; `read_upto` counts what readers have
        self.phase = "running"  # only forward: running, ended
        self.grace_s = 0.0  # between SIGTERM and SIGKILL, unless an end says otherwise
        self.wall_timer: Timer | None = None  # set at the launch, for steps with a limit of their own; never moved
        self.kill_timer: Timer | None = None  # set by the first SIGTERM; a later end does not move it
        self.terminal: Terminal | None = None  # set before the first fork, for steps that clients come and go at
        self.client_timer: Timer | None = None  # while a terminal waits for somebody to read it
        self.is_killing = False  # SIGKILL was sent and is repeated until the group is empty; never False again
        self.ending = ""  # what ended it, the first one that was asked for; "" = its tasks end by themselves
        self.why = ""  # of that, for people
        self.error = ""  # why none of its tasks was started; each task says the same of itself
        self.memory_limit_mb = 0  # of the allocation on this node, 0 = not known
        self.look_timer: Timer | None = None  # when its service begins to look at processes that have not spoken to it
        self.pmi: PmiService | None = None  # set before the first task is forked, for steps that ask for it
        self.told_news: dict[str, object] = {}  # what the agent knows of its service
        self.news_timer: Timer | None = None  # when it learns more
        self.news_pause_s = 1.0  # between two times
        self.usage = Usage()  # of the whole group, read once when it was empty
        # Input: bytes from position `base` on that some task has not taken yet; `trim_input` drops what all have. Bounded by
        # MAX_INPUT_BYTES: the agent sends again what was not taken. After `has_eof` nothing is taken any more.
        self.pending = bytearray()
        self.joined: dict[str, int] = {}  # bytes of clients that joined the step, by name
        self.addressed: list[tuple[int, int, int]] = []  # from, to, rank: input for this task alone, in order
        self.base = 0  # only rises: no task can go back behind it
        self.has_eof = False  # the end of input came, after all that was taken; never False again
        # Output: how far it was read (never back), and until when its writers wait for readers. A descriptor in `held` is not
        # watched; `_resume` watches it again, because it was read or because `hold_until` has passed.
        self.read_upto = 0
        self.hold_until = 0.0  # moved on by every read; a reader that is gone holds writers no longer than HOLD_S
        self.held: list[tuple[Task, int]] = []  # each once; emptied as a whole by `_resume` alone
        self.is_armed = False  # the reader has seen everything and waits for one event about the next byte
        # Limits and durations go by the clock since boot, which no user can set; the other time is for people.
        self.started_boot_s = boot_now()
        self.started_at = time.time()
        self.ended_boot_s = 0.0  # 0 while `phase` is running, set in the same moment

    @property
    def is_over(self) -> bool:
        return self.phase == "ended"

    @property
    def are_tasks_gone(self) -> bool:
        return all(task.is_gone for task in self.tasks)

    def exit_code(self) -> int:
        """The highest of its tasks, as a shell says it."""
        return max((task.status for task in self.tasks), default=0)

    def take_input(self, offset: int, data: bytes, *, eof: bool, client: str = "", task: int = -1) -> int:
        """Keep what is new of the bytes at `offset`, if there is room; how many bytes of this client were taken since its first.

        Who launched the step has no name, and its end of input ends that of the tasks. Others that join count their own bytes.
        `task` is the only one that gets them; -1 = all that take input.
        """
        end = self.base + len(self.pending)
        taken = self.joined.get(client, 0) if client else end - sum(self.joined.values())
        if client and (self.has_eof or (client not in self.joined and len(self.joined) >= MAX_JOINED)):
            return offset + len(data)  # no task will read it
        if offset > taken or self.has_eof:
            return taken
        fresh = data[taken - offset :]
        if len(self.pending) + len(fresh) > MAX_INPUT_BYTES and self.pending:
            return taken
        if task >= 0 and fresh and not self._address(end, end + len(fresh), task):
            return taken
        self.pending += fresh
        if client:
            self.joined[client] = taken + len(fresh)
        else:
            self.has_eof = eof and offset + len(data) >= taken
        return taken + len(fresh)

    def _address(self, begin: int, end: int, rank: int) -> bool:
        """Whether there is room to note whom this input is for."""
        if self.addressed and self.addressed[-1][1:] == (begin, rank):
            begin = self.addressed.pop()[0]
        elif len(self.addressed) >= MAX_ADDRESSED:
            return False
        self.addressed.append((begin, end, rank))
        return True

    def input_for(self, task: Task) -> memoryview:
        """What it has not taken, up to the next byte that is for another task; it passes those that come first."""
        stop = self.base + len(self.pending)
        for begin, end, rank in self.addressed:
            if end <= task.cursor or rank == task.rank:
                continue
            if begin > task.cursor:
                stop = begin
                break
            task.cursor = end
        return memoryview(self.pending)[task.cursor - self.base : stop - self.base]

    def trim_input(self) -> None:
        """Forget what every task that takes input has taken."""
        cursors = [task.cursor for task in self.tasks if task.cursor >= 0]
        place = min(cursors) if cursors else self.base + len(self.pending)
        del self.pending[: place - self.base]
        self.base = place
        self.addressed = [each for each in self.addressed if each[1] > place]

    def judge(self, usage: Usage) -> None:
        """Notes what it used."""
        usage.add_storage(*(sum(task.storage[place] for task in self.tasks) for place in (0, 1)))
        self.usage = usage

    def blame_memory(self, usage: Usage, victims: list[Victim]) -> None:
        """The kernel killed processes of the step at its memory limit. An end that was asked for before outranks that."""
        killed = [task for task in self.tasks if task.was_killed]
        if self.ending or not killed:
            return
        pids = {victim.pid for victim in victims}
        named = [task for task in killed if task.pid in pids]
        # A process below a task cannot be traced any more: the task is certain only when no other one was killed.
        blamed = named or killed[: len(killed) == 1]
        who = victims[-1].text if victims else ""
        ranks = ",".join(str(task.rank) for task in blamed)
        victim = " of ".join(filter(None, (who, f"rank {ranks}" if ranks else "")))
        self.ending, self.why = "oom", out_of_memory(self.memory_limit_mb, usage.peak_memory_mb, victim)
        for task in blamed:
            task.oom = self.why

    def close_pmi(self, loop: Loop) -> None:
        """Take what its service said last."""
        if self.pmi is not None:
            self.pmi.finish(loop)
            self._heed_abort()

    def tell_ended(self, places: object) -> None:
        """All tasks of these nodes of the step have ended."""
        if self.pmi is not None:
            self.pmi.tell_ended(places)

    def kill_pmi(self) -> None:
        if self.pmi is not None:
            self.pmi.kill()

    def hear_pmi(self) -> None:
        """Before the end of a task is reported: it may be the one that asked for the end of all."""
        if self.pmi is not None and self.pmi.hear():
            self._heed_abort()

    @property
    def has_news(self) -> bool:
        """Whether its service did something that the agent was not told."""
        return self.pmi is not None and self.pmi.news != self.told_news and not self.is_over

    def _heed_abort(self) -> None:
        """A rank that called abort and was killed before it could end has the code it asked for."""
        if self.pmi is not None and self.pmi.abort is not None:
            for task in self.tasks:
                if task.rank == self.pmi.abort[0] and task.is_gone:
                    task.count_as(self.pmi.abort[1])

    def outcome(self) -> dict[str, object]:
        cpu_s = sum(task.cpu_s for task in self.tasks) if self.usage.cpu_s is None else self.usage.cpu_s
        peak_mb = self.usage.peak_memory_mb
        if peak_mb is None:
            peak_mb = max((task.peak_mb for task in self.tasks), default=0.0)
        outcome: dict[str, object] = {
            "tasks": [task.end() for task in self.tasks],
            "cause": self.ending or "exit",
            "why": self.why,
            "error": self.error,
            "cpu_s": round(cpu_s, 6),
            "peak_memory_mb": round(peak_mb, 3),
            "elapsed_s": round(self.ended_boot_s - self.started_boot_s, 6),
            "output_lost": self.journal.lost,
        }
        outcome.update(self.usage.figures())
        return outcome

    def status(self) -> dict[str, object]:
        number, run, step = self.key
        status: dict[str, object] = {"number": number, "run": run, "step": step, "phase": self.phase}
        if self.is_over:
            status.update(self.outcome())
        else:
            status["tasks"] = [task.end() for task in self.tasks if task.has_failed]
            if self.ending == "pmi":
                status.update(cause=self.ending, why=self.why)
        if self.pmi is not None and self.pmi.news:
            status["pmi"] = self.told_news = self.pmi.news
        return status

    def save(self) -> None:
        """Write status.json; a full disk leaves the record here, where `list` finds it."""
        try:
            replace_file(f"{self.directory}/status.json", json.dumps(self.status()).encode())
        except OSError:
            return


def step_key(request: Body) -> StepKey:
    number, run = integer(request, "number", 0), integer(request, "run", 0)
    if number < 1 or run < 1:
        raise ValueError("number and run must be positive")
    return number, run, integer(request, "step", 0)


def freeze(group: Cgroup | ProcessTree, *, is_frozen: bool) -> None:
    """Suspend all processes of the group, or resume them."""
    if isinstance(group, Cgroup):
        try:
            write_text(f"{group.path}/cgroup.freeze", "1" if is_frozen else "0")
        except OSError:
            pass  # a kernel without it
        else:
            return
    group.signal(signal.SIGSTOP if is_frozen else signal.SIGCONT)


def signal_foreground(task: Task, number: int) -> bool:
    """Send a signal to what runs in the foreground of the task's terminal, as its keys would; False when there is none."""
    try:
        group = os.tcgetpgrp(task.input_fd)
        if group <= 0:
            return False
        os.killpg(group, number)
    except OSError:
        return False
    return True


def set_window(fd: int, request: Body) -> None:
    rows, columns = integer(request, "rows", 24, 10_000), integer(request, "columns", 80, 10_000)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows or 24, columns or 80, 0, 0))
