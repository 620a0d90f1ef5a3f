"""One run as the shim knows it: its record, its verdict and the file that tells the agent.

Phases: `starting` (forked, exec not yet known), `running`, `ended`. The verdict is made once, when
everything is over. An end that was asked for (stopped, walltime) outranks how the process then died;
an out-of-memory kill outranks the plain signal.

The record is plain data. Everything in a shim happens on one event loop, so no field needs a lock; what needs care is who
writes it. Unless a comment in `Run.__init__` says otherwise, that is `RunTable` alone. See docs/architecture/agent.md.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import time

from lattice.agent.shim.cgroups import Cgroup
from lattice.agent.shim.confinement.kernel_log import out_of_memory
from lattice.agent.shim.confinement.usage import Usage, waited_storage
from lattice.agent.shim.launch import Early, Launch
from lattice.agent.shim.loop import Timer, boot_now
from lattice.agent.shim.output import Stream, replace_file
from lattice.agent.shim.tree import ProcessTree
from lattice.core.model.work.endings import sentence, stopped_sentence

Key = tuple[int, int]
Group = Cgroup | ProcessTree

# What a shell answers when its command died of SIGKILL.
SHELL_SAW_KILL = 128 + signal.SIGKILL
OWN_ENDS = ("exit", "signal")
LOST_IMAGES = "its images were lost: a process that served them was killed"


class Run:
    """One run of one allocation on this node, from the request to start it until the agent forgets it.

    Four conditions make its end, in this order, and none is ever taken back: `main_gone`, the group is empty, no step of the
    run lives, `copier` is 0. The verdict of `judge` needs the first three, because the copier writes it down last. Then `close`
    closes the record, and from there on only `save_timer` changes.
    """

    __slots__ = (
        "cause",
        "copier",
        "copier_timer",
        "directory",
        "early",
        "early_timer",
        "ended_at",
        "ended_boot_s",
        "ending",
        "errno",
        "error",
        "event_fd",
        "exit_code",
        "finish_code",
        "grace_s",
        "group",
        "has_files",
        "held",
        "key",
        "kill_at",
        "kill_timer",
        "killing",
        "launch",
        "lost",
        "main_gone",
        "memory_limit_mb",
        "note_fd",
        "paused_at",
        "paused_s",
        "phase",
        "pid",
        "report_fd",
        "rusage",
        "save_timer",
        "signal",
        "started_at",
        "started_boot_s",
        "storage",
        "streams",
        "usage",
        "victim",
        "waiters",
        "wall_timer",
        "walltime_s",
        "why",
    )

    def __init__(self, key: Key, directory: str) -> None:
        self.key = (
            key  # number and run; never given twice, so a status.json in `directory` means that it was started before
        )
        self.directory = directory  # the agent's; the shim writes status.json and the output there, and deletes nothing
        # What to execute. Held until exec is known, for the sentence that says why there was none; it may hold a token.
        self.launch: Launch | None = None
        self.grace_s = 0.0  # between SIGTERM and SIGKILL, unless a stop says otherwise
        # All processes of the run. Set before the fork, so that a child can join it first; None again exactly from `_finish` on.
        self.group: Group | None = None
        self.phase = "starting"  # only forward: starting, running, ended. A run that could not exec skips the middle
        # The main process; 0 before the fork, and of a run that only holds the node for steps. Safe to signal while `main_gone` is False: not reaped, so still its own.
        self.pid = 0
        # The process that carries output into the user's files; 0 when there is none or it has gone. The run waits for it, but
        # not longer than `copier_timer`, which starts when nothing else is waited for.
        self.copier = 0
        self.copier_timer: Timer | None = None  # set once, and never moved: what it ends cannot gain time by being slow
        # Descriptors are open and watched exactly while they are not negative; the code that closes one sets it to -1 at once.
        self.report_fd = -1  # closed by exec, or says why exec failed
        self.has_files = False  # whether a copier writes the last line, into the log as well
        self.note_fd = -1  # to the copier: how the run ended, as the last line of the user's file
        self.event_fd = -1  # tells that the group became empty; opened when the main process is gone and others are not
        self.streams: dict[str, Stream] = {}  # pipes into the log files, by name; drained and emptied by `_release`
        self.waiters: list[tuple[int, object]] = []  # requests to start that wait for exec; each is answered once
        # The limit. Written by `Interventions` alone: the timers run exactly while there is a walltime and no pause.
        self.wall_timer: Timer | None = None
        self.early: Early | None = None  # None once it was sent: at most one per run, however often the limit moves
        self.early_timer: Timer | None = None  # never after `wall_timer`; None as soon as `early` is
        self.walltime_s = 0.0  # counted from the start without the pauses; 0 = none
        self.paused_at = 0.0  # 0 = not paused; never paused once an end was asked for
        self.paused_s = 0.0  # of all pauses that are over
        # The end. `kill_at` only comes nearer: a second stop may shorten the grace period and never prolongs it.
        self.kill_timer: Timer | None = None
        self.kill_at = 0.0  # 0 = SIGTERM was not sent yet
        self.save_timer: Timer | None = None  # the first record of a running run, or another try after a full disk
        self.main_gone = False  # reaped; its exit is in the fields below
        self.killing = False  # SIGKILL was sent and is repeated until the group is empty; never False again
        self.ending = ""  # what ended it (stopped, walltime), the first one that was asked for; "" = it ends by itself
        self.why = ""  # of that, for people; or what became of its images, if it ends by itself
        self.error = ""  # why it was never executed; outranks everything else in `judge`
        self.errno = 0  # of the system call that failed here, before there was a process
        self.finish_code = -1  # how it is said to have ended, whatever became of its processes
        # The verdict: `cause` is "" until `judge` sets it, once. Exit code and signal are wait's words until then.
        self.cause = ""
        self.exit_code = 0
        self.signal = 0
        # CPU seconds and MB of the main process and its reaped children, for groups that count nothing.
        self.rusage = (0.0, 0.0)
        self.storage: tuple[int, int] | None = None  # bytes that they read and wrote; None = they never ran
        self.usage = Usage()  # of the whole group, read once when it was empty
        self.lost = {"stdout": 0, "stderr": 0}  # bytes that the log files had no room for
        self.held: tuple[str, ...] = ()  # controllers whose limits hold the group
        self.memory_limit_mb = 0  # of the group, 0 = none or not known; set with it and never changed
        self.victim = ""  # whom the kernel killed at the memory limit, where its log says so
        # Limits and durations go by the clock since boot, which no user can set; the other pair is for people.
        self.started_boot_s = boot_now()
        self.started_at = time.time()
        self.ended_boot_s = 0.0
        self.ended_at = 0.0

    @property
    def name(self) -> str:
        return f"{self.key[0]}.{self.key[1]}"

    @property
    def over(self) -> bool:
        return self.phase == "ended"

    def cancel_limits(self) -> None:
        for timer in (self.wall_timer, self.early_timer):
            if timer is not None:
                timer.cancel()
        self.wall_timer = self.early_timer = None

    def record_exit(self, status: int, used: resource.struct_rusage) -> None:
        """How the main process went, in wait's words."""
        self.main_gone = True
        self.rusage = (used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
        self.storage = waited_storage(used)
        if os.WIFSIGNALED(status):
            self.signal = os.WTERMSIG(status)
        else:
            self.exit_code = os.WEXITSTATUS(status)

    def heed_end_of(self, pid: int) -> None:
        """Of a child of the shim, before anybody else can get its number."""
        if self.group is not None and self.group.view.pid == pid and not self.ending:
            self.why = LOST_IMAGES  # it reads errors now, and makes of them what it will

    def judge(self, usage: Usage) -> None:
        """The verdict, once; `main_gone` and the group's emptiness come before."""
        if self.storage is not None:
            usage.add_storage(*self.storage)
        self.usage = usage
        killed = self.signal == signal.SIGKILL or self.exit_code == SHELL_SAW_KILL
        if self.error:
            self.cause, self.exit_code, self.signal = "launch", 0, 0
        elif self.finish_code >= 0:
            self.cause, self.exit_code, self.signal = "exit", self.finish_code, 0
        elif self.ending:
            self.cause = self.ending
        elif usage.oom_kills and killed:
            self.cause = "oom"
        else:
            self.cause = "signal" if self.signal else "exit"

    def close(self) -> None:
        """Close the record; the verdict comes before."""
        self.ended_boot_s = boot_now()
        self.ended_at = time.time()
        self.phase = "ended"

    def last_line(self) -> str:
        """What the user finds at the end of stderr; nothing after exit code 0."""
        name = f"a{self.key[0]}"
        if self.cause == "stopped":
            told = stopped_sentence(name, self.why, walltime_s=self.walltime_s)
        else:
            message = self.error or self._lost_images()
            message = f"out of memory, {self._out_of_memory()}" if self.cause == "oom" else message
            told = sentence(
                name,
                self.cause,
                exit_code=self.exit_code,
                signal=self.signal,
                walltime_s=self.walltime_s,
                message=message,
            )
        return f"lattice: {told}\n" if told else ""

    def outcome(self) -> dict[str, object]:
        """The part of the record that is known after the end."""
        cpu_s = self.rusage[0] if self.usage.cpu_s is None else self.usage.cpu_s
        peak_mb = self.usage.peak_memory_mb
        outcome: dict[str, object] = {
            "cause": self.cause,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "cpu_s": round(cpu_s, 6),
            "peak_memory_mb": round(self.rusage[1] if peak_mb is None else peak_mb, 3),
            "elapsed_s": round(self.ended_boot_s - self.started_boot_s, 6),
            "why": self._lost_images() if self.cause in OWN_ENDS else self.why,
            "output_lost": self.lost,
        }
        outcome.update(self.usage.figures())
        if self.cause == "oom":
            outcome["why"] = self._out_of_memory()
        if self.error:
            outcome["error"] = self.error
        return outcome

    def _lost_images(self) -> str:
        return self.why if self.cause in OWN_ENDS and (self.exit_code or self.signal) else ""

    def _out_of_memory(self) -> str:
        return out_of_memory(self.memory_limit_mb, self.usage.peak_memory_mb, self.victim)

    def status(self) -> dict[str, object]:
        record: dict[str, object] = {
            "number": self.key[0],
            "run": self.key[1],
            "phase": self.phase,
            "pid": self.pid,
            "started_boot_s": self.started_boot_s,
            "started_at": self.started_at,
            "stopping": self.ending,
            "memory_limited": "memory" in self.held,
            "held": list(self.held),
        }
        if self.over:
            record["ended_at"] = self.ended_at
            record.update(self.outcome())
        return record

    def save(self) -> bool:
        """Write status.json; False when the disk refuses."""
        try:
            replace_file(f"{self.directory}/status.json", json.dumps(self.status()).encode())
        except OSError:
            return False
        return True

    def answer(self) -> dict[str, object]:
        """The answer to a start, first or repeated."""
        if self.error:
            return {"ok": False, "error": self.error, "errno": self.errno}
        answer: dict[str, object] = {
            "ok": True,
            "phase": self.phase,
            "pid": self.pid,
            "started_boot_s": self.started_boot_s,
        }
        if self.over:
            answer.update(self.outcome())
        return answer


def make_folder(path: str) -> None:
    """The agent has made it already, as a rule: asking costs one system call then."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    except FileNotFoundError:
        os.makedirs(path, 0o700, exist_ok=True)


def in_words(error: OSError | ValueError) -> str:
    """What went wrong, without the number that Python puts before its own words."""
    is_ours = isinstance(error, OSError) and error.strerror and not error.filename
    return str(error.strerror if is_ours and isinstance(error, OSError) else error)
