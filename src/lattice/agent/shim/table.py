"""The life of all runs: start, stop, walltime, end.

A run has ended when its main process was reaped, its group is empty and what its processes wrote is
in the files. Only then is status.json written, and only after that the agent told. Leftovers of a
main process that ended by itself are killed immediately; when the end was asked for, all processes share
the grace period, because a script's shell often dies before the program that has to save its work.

Theory. A run is driven by four sources: requests of the agent, the death of children (`reap`), pipes and group events, and
timers. Each may come at any moment and in any order, also twice, so none of them decides alone that a run is over. Whatever
happened, the same question is asked at the end of it: `_finish_if_empty`, which looks at the facts (main process reaped, group
empty, no step alive, copier gone) and not at what led there. The question costs little and is harmless when asked too often;
forgetting to ask it leaves a run that never ends. So every new source of change ends by asking it.

Killing works the same way. A process that is just being forked, or that forks while it is killed, escapes any single signal:
SIGKILL is therefore repeated, further and further apart, until the group is empty. A group that cannot
be removed yet is tried again later: that is no reason to keep the agent waiting.

What survives the shim is status.json alone. It is written before any event is sent, so an agent that reads it knows at least as
much as one that got the event. See docs/architecture/agent.md.
"""

from __future__ import annotations

import functools
import os
import select
import signal
from collections.abc import Callable

from lattice.agent.shim.cgroups import MAIN, Cgroup, CgroupRoot
from lattice.agent.shim.confinement.kernel_log import KernelLog
from lattice.agent.shim.confinement.memory_policy import can_set
from lattice.agent.shim.files import MAX_S, lay, tell_copier
from lattice.agent.shim.health.commands import ProbeCommands
from lattice.agent.shim.hierarchies import CONTROLLERS
from lattice.agent.shim.interventions import Interventions
from lattice.agent.shim.launch import Launch, integer, seconds
from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.namespace import BIND, NAMESPACE
from lattice.agent.shim.output import RingFile, Stream
from lattice.agent.shim.rootless.views import make_view, mount_kinds
from lattice.agent.shim.run import Group, Key, Run, in_words, make_folder
from lattice.agent.shim.spawn import Inheritance, describe_failure, read_report, spawn
from lattice.agent.shim.step import StepTrees, figures_of, place_of
from lattice.agent.shim.steps import StepTable
from lattice.agent.shim.tree import MARKER, Forest, ProcessTree

Body = dict[str, object]

PROTOCOL = (1, 2)  # the oldest and the newest version of the requests that this shim understands
KILL_AGAIN_S = 0.1
MAX_KILL_AGAIN_S = 10.0
REMOVE_AGAIN_S = 0.05
REMOVE_TRIES = 10
SAVE_AGAIN_S = 5.0
# The record of a run that ended before anyone could look at it is not needed.
SAVE_RUNNING_S = 0.2
MAX_SHUTDOWN_S = 15.0


class RunTable:
    """All runs of this node. `reply` answers a request on its link, if that still exists; `tell` sends an event to every agent that listens."""

    def __init__(
        self,
        loop: Loop,
        tracker: CgroupRoot | Forest,
        inheritance: Inheritance,
        output_limit: int,
        *,
        reply: Callable[[int, object, Body], bool],
        tell: Callable[[Body], None],
    ) -> None:
        self._loop = loop
        self._tracker = tracker
        self._inheritance = inheritance
        self._output_limit = output_limit
        self._reply = reply
        self._tell = tell
        # Every run that the agent has not forgotten. A run leaves it by `forget` alone, and only after its end.
        self._runs: dict[Key, Run] = {}
        # Runs that have not ended: entered by `_launch`, removed by `_finish`. Always a part of `_runs`.
        self._live: dict[Key, Run] = {}
        # Children by pid, from the fork until `reap` has collected them: a pid in here belongs to no other process.
        self._mains: dict[int, Run] = {}
        self._copiers: dict[int, Run] = {}  # the same of the processes that carry output into users' files
        # Who asked for the shutdown, to be answered last; after `_closing` nothing is started any more, and it is never False again.
        self._farewells: list[tuple[int, object]] = []
        self._closing = False
        self._kernel_log = KernelLog()
        self._steps = StepTable(
            loop,
            tracker,
            inheritance,
            output_limit,
            tell=tell,
            run_of=self._runs.get,
            finish_run=self._finish_run,
            emptied=self._step_ended,
            kernel_log=self._kernel_log,
        )
        self._probes = ProbeCommands(loop, tracker, inheritance, reply)
        self._interventions = Interventions(
            loop, self._steps, lambda run: self._terminate(run, "walltime", run.grace_s, "")
        )

    # Requests. Each answers immediately, or with None when the answer follows.

    def handle(self, link: int, request: Body) -> Body | None:
        operation = request.get("op")
        if operation == "start":
            return self._start(link, request)
        if operation == "list":
            return self._list()
        if operation == "probe":
            return self._probes.start(link, _key(request), self._live.get(_key(request)), request)
        if operation == "processes":
            return self._processes(_key(request))
        if operation == "containers":
            run = self._live.get(_key(request))
            group = run.group if run is not None else None
            view = -1 if group is None else group.view.namespace
            return self._steps.containers.told(_key(request)) | {"view": view}
        if operation == "measure":
            return self._measure(_key(request) if "number" in request else None, figures_of, "groups")
        if operation == "groups":
            return self._measure(None, place_of, "places")
        if operation == "shutdown":
            self._farewells.append((link, request.get("id")))
            self.shutdown()
            return None
        if str(operation).endswith("_step"):
            return (
                _refusal("the shim is shutting down") if self._closing else self._steps.handle(str(operation), request)
            )
        if operation in ("signal", "hint", "pause", "resume"):
            key = _key(request)
            return self._interventions.handle(str(operation), key, self._runs.get(key), request)
        actions = {"stop": self._stop, "update": self._update, "forget": self._forget, "finish": self._finish_as}
        actions["drop_containers"] = self._drop_containers
        action = actions.get(str(operation))
        if action is None:
            return _refusal(f"unknown op {operation!r}")
        return action(_key(request), request)

    def _start(self, link: int, request: Body) -> Body | None:
        """Start a run, or answer for one that was started: agents repeat a request whose answer got lost."""
        key = _key(request)
        run = self._runs.get(key)
        if run is None:
            directory = request.get("dir")
            if not isinstance(directory, str) or not directory.startswith("/"):
                return _refusal("dir is not an absolute path")
            if self._closing:
                return _refusal("the shim is shutting down")
            # Start at most once, also across a restart of the shim and after forget.
            if os.path.exists(f"{directory}/status.json"):
                return _refusal(f"run {key[0]}.{key[1]} has been started before")
            run = self._launch(Run(key, directory), request)
        if run.phase == "starting":
            run.waiters.append((link, request.get("id")))
            return None
        return run.answer()

    def _stop(self, key: Key, request: Body) -> Body:
        """Also of a run that has ended, where it does nothing: the agent cannot know."""
        run = self._runs.get(key)
        if run is None:
            return _refusal(f"unknown run {key[0]}.{key[1]}")
        grace_s = seconds(request, "grace_s", run.grace_s)
        self._terminate(run, "stopped", grace_s, str(request.get("why") or ""))
        return {"ok": True, "phase": run.phase}

    def _finish_as(self, key: Key, request: Body) -> Body:
        self._finish_run(key, integer(request, "exit_code", 0, 255))
        return {"ok": True}

    def _finish_run(self, key: Key, code: int) -> None:
        """End the run as if it had ended by itself with this code; nothing happens where it is about to end anyway."""
        run = self._live.get(key)
        if run is not None and not run.ending and not run.main_gone:
            run.finish_code = code
            self._terminate(run, "stopped", 0.0, "")

    def _update(self, key: Key, request: Body) -> Body:
        run = self._live.get(key)
        if run is None:
            return _refusal(f"run {key[0]}.{key[1]} is not running")
        self._interventions.set_walltime(run, seconds(request, "walltime_s", 0.0))
        return {"ok": True, "phase": run.phase}

    def _list(self) -> Body:
        kinds, problem = mount_kinds(self._tracker)
        return {
            "ok": True,
            "runs": [run.status() for run in self._runs.values()],
            "steps": self._steps.statuses(),
            "cgroup": isinstance(self._tracker, CgroupRoot),
            "memory_limit": self._tracker.can_limit("memory"),
            "mounts": BIND in kinds,
            "pmi_service": True,
            "pmix_service": True,
            "terminals": True,
            "hints": True,
            "holds": True,
            "memory_policies": can_set(),
            "task_cpus": True,
            "step_views": NAMESPACE in kinds,
            "containers": self._steps.containers.runs(),
            "mount_kinds": kinds,
            "mount_problem": problem,
            "limits": [name for name in CONTROLLERS if self._tracker.can_limit(name)],
            "pid": os.getpid(),
            "protocol": list(PROTOCOL),
        }

    def _measure(self, key: Key | None, tell: Callable[[Cgroup | ProcessTree | StepTrees], Body], name: str) -> Body:
        """What runs and their steps use now, or where the kernel counts it; all of them without a key."""
        live = [run for run in self._live.values() if key in (None, run.key)]
        groups = [((*run.key, -1), run.group) for run in live if run.group is not None] + self._steps.groups_of(key)
        figures = [
            {"number": number, "run": run, "step": step if step >= 0 else None, **tell(group)}
            for (number, run, step), group in groups
        ]
        return {"ok": True, name: figures}

    def _processes(self, key: Key) -> Body:
        """Living processes of the run and of its steps."""
        run = self._live.get(key)
        groups = [group for _, group in self._steps.groups_of(key)] + ([run.group] if run and run.group else [])
        return {"ok": True, "pids": sorted({pid for group in groups for pid in group.pids()})}

    def _forget(self, key: Key, _request: Body) -> Body:
        if key in self._live:
            return _refusal(f"run {key[0]}.{key[1]} has not ended")
        self._runs.pop(key, None)
        return {"ok": True}

    def _drop_containers(self, key: Key, _request: Body) -> Body:
        self._steps.drop_containers(key)
        return {"ok": True}

    def shutdown(self) -> None:
        """Kill everything and stop the loop when it is gone."""
        self._closing = True
        for run in list(self._live.values()):
            self._terminate(run, "stopped", 0.0, "shutdown")
        self._steps.end_all(why="shutdown")
        self._loop.call_at(boot_now() + MAX_SHUTDOWN_S, self._loop.stop)
        self._stop_if_done()

    def _stop_if_done(self) -> None:
        if self._closing and not self._live and not self._steps.live:
            self._loop.stop()

    def _step_ended(self) -> None:
        """A run whose main process is gone may have waited for its last step."""
        for run in list(self._live.values()):
            if run.main_gone:
                self._finish_if_empty(run)
        self._stop_if_done()

    def say_goodbye(self) -> None:
        """Answer those who asked for the shutdown; after this a new shim may be started."""
        for link, request_id in self._farewells:
            self._reply(link, request_id, {"ok": True})

    # Start.

    def _launch(self, run: Run, request: Body) -> Run:
        """Enter the run first, then start it: whatever fails from here on is the end of a run, with a record, and no refusal."""
        self._runs[run.key] = self._live[run.key] = run
        try:
            make_folder(run.directory)
            launch = run.launch = Launch(request)
            run.grace_s, run.early = launch.grace_s, launch.early
            run.group = self._make_group(run, launch)
            run.held = run.group.held
            run.group.view = make_view(launch.mounts, run.directory, self._tracker)
            launch.namespace = run.group.view.namespace
            if launch.holds:
                return self._hold(run, launch)
            self._fork(run, launch, run.group)
        except (OSError, ValueError) as error:
            run.error = in_words(error)
            run.errno = error.errno or 0 if isinstance(error, OSError) else 0
            self._finish(run)
            return run
        if isinstance(self._tracker, Forest) and isinstance(run.group, ProcessTree):
            self._tracker.started(run.group, run.pid)
        self._mains[run.pid] = run
        self._loop.watch(run.report_fd, select.EPOLLIN, lambda _mask: self._exec_known(run))
        for stream in run.streams.values():
            self._resume(stream)
        self._interventions.set_walltime(run, launch.walltime_s)
        return run

    def _hold(self, run: Run, launch: Launch) -> Run:
        """A run without a process of its own: its group and what it sees are there for steps, until it is stopped."""
        run.phase, run.launch = "running", None
        self._interventions.set_walltime(run, launch.walltime_s)
        run.save_timer = self._loop.call_at(boot_now() + SAVE_RUNNING_S, lambda: self._save(run))
        return run

    def _make_group(self, run: Run, launch: Launch) -> Group:
        run.memory_limit_mb = launch.limits.memory_mb
        if isinstance(self._tracker, Forest):
            launch.env[MARKER.encode()] = os.fsencode(run.directory)
            return self._tracker.create(run.directory)
        return self._tracker.create(launch.cgroup or f"alloc-{run.name}", launch.limits)

    def _fork(self, run: Run, launch: Launch, group: Group) -> None:
        """Fork the copier, then the main process. On a failure nothing stays open that is not watched."""
        self._inheritance.check_room(len(self._live))
        report, report_w = self._inheritance.open_pipe()
        try:
            plumbing = lay(launch, self._inheritance)
            if plumbing.copier:
                run.copier = plumbing.copier
                self._copiers[run.copier] = run
                if isinstance(self._tracker, Forest):
                    self._tracker.spare(run.copier)
            try:
                run.pid = spawn(launch, group, self._inheritance, plumbing.wiring, report_w)
            except OSError:
                plumbing.close()
                raise
        except OSError:
            os.close(report)
            raise
        finally:
            os.close(report_w)
        # Before any other fork: a copy of these in another child would keep the pipes open.
        plumbing.close_theirs()
        run.report_fd = report
        run.note_fd = plumbing.note
        run.has_files = bool(plumbing.copier)
        for name, fd in plumbing.logs.items():
            file = RingFile(f"{run.directory}/{name}", self._output_limit)
            run.streams[name] = Stream(fd, file)

    def _exec_known(self, run: Run) -> None:
        """The report pipe spoke: closed by exec, or the reason why there was none."""
        if run.report_fd < 0 or run.launch is None:
            return
        report = read_report(self._loop, run.report_fd)
        if report is None:
            return
        run.report_fd = -1
        if report:
            run.error = describe_failure(run.launch, report)
            return
        run.phase = "running"
        run.launch = run.launch if run.launch.is_probed else None
        run.save_timer = self._loop.call_at(boot_now() + SAVE_RUNNING_S, lambda: self._save(run))
        self._answer_waiters(run)

    def _answer_waiters(self, run: Run) -> bool:
        waiters, run.waiters = run.waiters, []
        answered = [self._reply(link, request_id, run.answer()) for link, request_id in waiters]
        return any(answered)

    # Output.

    def _resume(self, stream: Stream) -> None:
        if stream.fd >= 0:
            self._loop.watch(stream.fd, select.EPOLLIN, functools.partial(self._output_came, stream))

    def _output_came(self, stream: Stream, _mask: int) -> None:
        length = stream.take()
        if length > 0:
            pause = stream.pause_after(length, boot_now())
            if pause:
                self._loop.unwatch(stream.fd)
                self._loop.call_at(pause, functools.partial(self._resume, stream))
        elif length == 0:
            self._loop.unwatch(stream.fd)
            stream.close()

    # End.

    def _terminate(self, run: Run, cause: str, grace_s: float, why: str) -> None:
        """Ask the run to end, and see to it. Harmless when repeated: the first cause stays, the shortest grace counts.

        After `main_gone` the cause is not noted any more: the run had ended by itself, only leftovers are killed.
        """
        if run.over or run.group is None:
            return
        if not run.main_gone and not run.ending:
            run.ending, run.why = cause, why
        if is_held := not run.pid and run.phase == "running":
            run.main_gone = True  # there never was one
        if run.killing:
            return
        if grace_s <= 0:
            self._kill(run)
            return
        self._interventions.resume(run.key, run)
        kill_at = boot_now() + grace_s
        first = not run.kill_at
        if first or kill_at < run.kill_at:
            run.kill_at = kill_at
            self._set_kill_timer(run, kill_at, KILL_AGAIN_S)
        if first:
            # Stopped processes have to wake up to see it.
            run.group.signal(signal.SIGTERM, signal.SIGCONT)
            if isinstance(self._tracker, Forest):
                self._steps.end_all(run.key, grace_s=grace_s)
            if run.phase == "starting" and not run.main_gone:
                os.kill(run.pid, signal.SIGTERM)
        if is_held:
            self._settle(run)

    def _set_kill_timer(self, run: Run, when: float, again_s: float) -> None:
        if run.kill_timer is not None:
            run.kill_timer.cancel()
        run.kill_timer = self._loop.call_at(when, lambda: self._kill(run, again_s))

    def _kill(self, run: Run, again_s: float = KILL_AGAIN_S) -> None:
        """Kill the whole group, and again until it is empty."""
        if run.over or run.group is None:
            return
        run.killing = True
        self._steps.end_all(run.key)
        self._set_kill_timer(run, boot_now() + again_s, min(again_s * 2, MAX_KILL_AGAIN_S))
        run.group.kill()
        if run.pid and not run.main_gone:
            # It may not have joined its group yet. Not reaped, so the pid is still its own.
            os.kill(run.pid, signal.SIGKILL)
        self._finish_if_empty(run)

    def reap(self) -> None:
        """Collect every dead child, then see which runs that ends."""
        touched: list[Run] = []
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            cpu_s = used.ru_utime + used.ru_stime
            if isinstance(self._tracker, Forest):
                self._tracker.reaped(pid, cpu_s)
            for each in self._live.values():
                each.heed_end_of(pid)
            if (copied := self._copiers.pop(pid, None)) is not None:
                copied.copier = 0
                touched.append(copied)
                continue
            run = self._mains.pop(pid, None)
            if run is not None:
                run.record_exit(status, used)
                self._exec_known(run)
                touched.append(run)
            elif not self._probes.reaped(pid, status):
                self._steps.reaped(pid, status, used)
        if isinstance(self._tracker, Forest):
            # Without cgroups only the death of its processes tells that a run may be empty.
            touched = list(self._live.values())
            self._steps.settle()
        for run in touched:
            self._settle(run)

    def _settle(self, run: Run) -> None:
        """End the run if nothing of it is left; otherwise see to it that this will be noticed."""
        if self._finish_if_empty(run) or run.group is None or not run.main_gone:
            return
        if run.event_fd < 0:
            self._watch_group(run, run.group)
        if run.killing or not run.ending:
            self._kill(run)
        else:
            self._finish_if_empty(run)

    def _finish_if_empty(self, run: Run) -> bool:
        """The one question that decides an end; may be asked at any moment."""
        is_empty = run.group is not None and run.main_gone and not run.group.populated()
        if is_empty and not self._steps.has_any(run.key):
            self._judge(run)
            if run.copier:
                self._await_copier(run)
            else:
                self._finish(run)
        return run.over

    def _await_copier(self, run: Run) -> None:
        """What was written last is on its way into the user's files; a file system that hangs is not waited for long."""
        if run.copier_timer is None:
            run.copier_timer = self._loop.call_at(boot_now() + MAX_S, lambda: self._give_up_copier(run))

    def _give_up_copier(self, run: Run) -> None:
        if run.copier:
            os.kill(run.copier, signal.SIGKILL)  # not reaped, so the pid is still its own
            self._copiers.pop(run.copier, None)
            run.copier = 0
            self._finish_if_empty(run)

    def _watch_group(self, run: Run, group: Group) -> None:
        fd = group.open_events()
        if fd is None:
            return
        run.event_fd = fd
        # Reading tells the kernel which state is known; from then on changes are reported.
        os.pread(fd, 256, 0)
        self._loop.watch(fd, select.EPOLLPRI, lambda _mask: self._group_changed(run))

    def _group_changed(self, run: Run) -> None:
        if run.event_fd >= 0:
            os.pread(run.event_fd, 256, 0)
            self._finish_if_empty(run)

    def _finish(self, run: Run) -> None:
        """In this order: the verdict, no timer and no descriptor is left, status.json, and only then the event.

        A start that failed has its answer and no event, unless no agent took the answer.
        """
        self._judge(run)
        self._release(run)
        group, run.group = run.group, None
        self._steps.drop_containers(run.key)
        if group is not None:
            group.close_view()
        run.close()
        run.launch = None
        del self._live[run.key]
        self._probes.end(run.key)
        self._save(run)
        answered = self._answer_waiters(run)
        if not run.error or (run.pid and not answered):
            number, attempt = run.key
            self._tell({"event": "ended", "number": number, "run": attempt, **run.outcome()})
        if group is not None:
            # Empty by now; the agent need not wait for its removal.
            self._remove_group(group, REMOVE_TRIES)
        self._stop_if_done()

    def _judge(self, run: Run) -> None:
        """The verdict, and for the copier the line that says it; a copier that hangs has a pipe with room enough."""
        if not run.cause:
            usage = run.group.usage() if run.group is not None else run.usage
            if usage.oom_kills and isinstance(run.group, Cgroup):
                run.victim = self._victim(run.group)
            run.judge(usage)
        if run.note_fd >= 0:
            tell_copier(run.note_fd, run.last_line().encode())
            run.note_fd = -1

    def _victim(self, group: Cgroup) -> str:
        """The last process that the kernel killed in the group, in the words of the message."""
        name = os.path.basename(group.path)
        found = self._kernel_log.victims_in(name, f"{name}/{MAIN}")
        return found[-1].text if found else ""

    def _release(self, run: Run) -> None:
        """Everything that could call back or leak; drains what is still in the pipes."""
        run.cancel_limits()
        for timer in (run.kill_timer, run.save_timer, run.copier_timer):
            if timer is not None:
                timer.cancel()
        run.kill_timer = run.save_timer = run.copier_timer = None
        if run.event_fd >= 0:
            self._loop.unwatch(run.event_fd)
            os.close(run.event_fd)
            run.event_fd = -1
        for name, stream in run.streams.items():
            if stream.fd >= 0:
                self._loop.unwatch(stream.fd)
                stream.drain()
            if name == "stderr" and not run.has_files:
                stream.add_line(run.last_line())
            stream.close()
            stream.file.close()
            run.lost[name] = stream.file.lost
        run.streams = {}

    def _remove_group(self, group: Group, tries: int) -> None:
        if not group.remove() and tries > 0:
            when = boot_now() + REMOVE_AGAIN_S * (1 + REMOVE_TRIES - tries)
            self._loop.call_at(when, lambda: self._remove_group(group, tries - 1))

    def _save(self, run: Run) -> None:
        """Write status.json; while the disk is full the record lives here and is tried again."""
        if not run.save() and self._runs.get(run.key) is run:
            run.save_timer = self._loop.call_at(boot_now() + SAVE_AGAIN_S, lambda: self._save(run))


def _refusal(text: str) -> Body:
    return {"ok": False, "error": text}


def _key(request: Body) -> Key:
    number, run = integer(request, "number", 0), integer(request, "run", 0)
    if number < 1 or run < 1:
        raise ValueError("number and run must be positive")
    return number, run
