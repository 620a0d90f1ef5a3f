"""Probes that are commands: run as the work's user inside its group and file system, for a bounded time.

A command has a folder of its own below the group of the run, so that it can be killed alone and ends with the run. What it leaves
behind is killed when it ends. Only the beginning of its output is kept; the rest is read and dropped, so that it never waits for us.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable

from lattice.agent.shim.cgroups import Cgroup
from lattice.agent.shim.launch import Launch, seconds
from lattice.agent.shim.loop import Loop, Timer, boot_now
from lattice.agent.shim.run import Key, Run
from lattice.agent.shim.spawn import Inheritance, Wiring, describe_failure, spawn
from lattice.agent.shim.tree import MARKER, Forest, ProcessTree

Body = dict[str, object]

MAX_OUTPUT = 1024
READ_BYTES = 64 << 10
MAX_READS = 16  # of one look at the pipe: others wait for the loop
MAX_RUNNING = 4  # of one run; it has three probes at most
DEFAULT_S = 5.0
REMOVE_AGAIN_S = 0.05
REMOVE_TRIES = 20


class ProbeGroup(Cgroup):
    """Inside the group of the run, whose limits hold it; it counts nothing for itself, so the run's processes need not move."""

    __slots__ = ("_parent",)

    def __init__(self, parent: Cgroup, name: str) -> None:
        super().__init__(f"{parent.path}/{name}")
        self._parent = parent
        os.makedirs(self.path, 0o755, exist_ok=True)

    @property
    def join_files(self) -> tuple[str, ...]:
        return self._parent.join_files

    def close_view(self) -> None:
        """The parent's."""


class _Command:
    __slots__ = (
        "error",
        "group",
        "key",
        "launch",
        "link",
        "output",
        "output_fd",
        "pid",
        "report_fd",
        "request_id",
        "timer",
    )

    def __init__(self, key: Key, link: int, request_id: object) -> None:
        self.key, self.link, self.request_id = key, link, request_id  # whose probe it is, and whom it answers: once
        self.pid = 0  # 0 before the fork; reaped exactly when it leaves `_by_pid`
        self.group: Cgroup | ProcessTree | None = None  # its own, below the run's; removed after the end
        self.output = b""  # never longer than MAX_OUTPUT
        # Open and watched exactly while they are not negative; `_close` alone closes them.
        self.output_fd = self.report_fd = -1
        self.error = ""  # the first reason stays: what happened to a command that was killed for time is its time
        self.launch: Launch | None = None  # for the sentence that says why there was no exec
        self.timer: Timer | None = None  # when its time is over; cancelled by `_close`


class ProbeCommands:
    """All that run now. `reply` answers the request that asked for one, when it has ended."""

    def __init__(
        self,
        loop: Loop,
        tracker: object,
        inheritance: Inheritance,
        reply: Callable[[int, object, Body], bool],
    ) -> None:
        self._loop = loop
        self._tracker = tracker
        self._inheritance = inheritance
        self._reply = reply
        # From the fork until `reaped`: a pid in here belongs to no other process.
        self._by_pid: dict[int, _Command] = {}
        self._count = 0  # of all that were started; names their groups, so it never falls

    def start(self, link: int, key: Key, run: Run | None, request: Body) -> Body | None:
        """None: the answer follows when the command has ended."""
        if (
            run is None
            or run.launch is None
            or run.group is None
            or run.phase != "running"
            or run.ending
            or run.main_gone
        ):
            return {"ok": False, "error": "the instance is not running"}
        if sum(each.key == key for each in self._by_pid.values()) >= MAX_RUNNING:
            return {"ok": False, "error": "too many probes of the instance run already"}
        command = _Command(key, link, request.get("id"))
        try:
            within_s = seconds(request, "within_s", DEFAULT_S)
            self._fork(command, run, request)
        except (OSError, ValueError) as error:
            self._close(command)
            return {"ok": False, "error": f"the command cannot be started: {error}"}
        self._by_pid[command.pid] = command
        self._loop.watch(command.output_fd, select.EPOLLIN, lambda _mask: self._read(command))
        command.timer = self._loop.call_at(boot_now() + within_s, lambda: self._expire(command, within_s))
        return None

    def _fork(self, command: _Command, run: Run, request: Body) -> None:
        if run.launch is None or run.group is None:
            raise ValueError("the run has no process")
        launch = command.launch = run.launch.of_task({"argv": request.get("argv")})
        self._count += 1
        if isinstance(run.group, Cgroup):
            command.group = ProbeGroup(run.group, f"probe-{self._count}")
        elif isinstance(self._tracker, Forest):
            directory = f"{run.directory}/probe-{self._count}"
            launch.env[MARKER.encode()] = os.fsencode(directory)
            command.group = self._tracker.create(directory)
        if command.group is None:
            raise ValueError("the run has no group")
        theirs: list[int] = []
        try:
            command.report_fd, report_w = self._inheritance.open_pipe()
            theirs.append(report_w)
            command.output_fd, output_w = self._inheritance.open_pipe()
            theirs.append(output_w)
            command.pid = spawn(launch, command.group, self._inheritance, Wiring(output_w, output_w), report_w)
        finally:
            for fd in theirs:
                os.close(fd)
        if isinstance(command.group, ProcessTree) and isinstance(self._tracker, Forest):
            self._tracker.started(command.group, command.pid)

    def _read(self, command: _Command) -> None:
        for _ in range(MAX_READS):
            try:
                piece = os.read(command.output_fd, READ_BYTES)
            except BlockingIOError:
                return
            if not piece:
                self._loop.unwatch(command.output_fd)
                return
            command.output += piece[: MAX_OUTPUT - len(command.output)]

    def _expire(self, command: _Command, within_s: float) -> None:
        command.error = f"it did not end within {within_s:g} s"
        self._kill(command)

    @staticmethod
    def _kill(command: _Command) -> None:
        if command.group is not None:
            command.group.kill()

    def end(self, key: Key) -> None:
        """The run has ended. Where it has a group they are dead already; a tree of processes does not reach them."""
        for command in self._by_pid.values():
            if command.key == key:
                self._kill(command)

    def reaped(self, pid: int, status: int) -> bool:
        """Whether the process was a command; it is answered for."""
        command = self._by_pid.pop(pid, None)
        if command is None:
            return False
        self._kill(command)
        if command.output_fd >= 0:
            self._read(command)
        self._close(command)
        code = os.waitstatus_to_exitcode(status)
        body: Body = {
            "ok": not command.error,
            "error": command.error,
            "exit_code": max(0, code),
            "signal": max(0, -code),
            "output": command.output.decode("utf-8", "replace"),
        }
        self._reply(command.link, command.request_id, body)
        return True

    def _close(self, command: _Command) -> None:
        if command.timer is not None:
            command.timer.cancel()
        if command.report_fd >= 0:
            try:
                said = os.read(command.report_fd, 256)
            except OSError:
                said = b""
            if said and not command.error and command.launch is not None:
                command.error = describe_failure(command.launch, said)
            os.close(command.report_fd)
        if command.output_fd >= 0:
            self._loop.unwatch(command.output_fd)
            os.close(command.output_fd)
        command.report_fd = command.output_fd = -1
        if command.group is not None:
            self._remove(command.group, REMOVE_TRIES)

    def _remove(self, group: Cgroup | ProcessTree, tries: int) -> None:
        if not group.remove() and tries > 0:
            group.kill()
            self._loop.call_at(boot_now() + REMOVE_AGAIN_S, lambda: self._remove(group, tries - 1))
