"""The life of all steps of a node: launch, signals, end. What their tasks write and read is in `streams/step_streams.py`.

A step has ended when every task was reaped, its group is empty and what its processes wrote is in the journal. Leftovers of
tasks that ended by themselves are killed immediately. A step lives inside its allocation: on a node where that has a run its group
lies in the run's, and the end of the run's main process is the end of the step; elsewhere the step brings a group along.

Theory. As with runs (`table.py`), whatever happened ends with one question, `_settle`: are all tasks reaped, and is the group empty?
The answer comes from the facts. What differs is that a step has many processes and one end. A task that failed is reported
at once, because the client may want the others ended; that is not decided here. The first cause of an end stays, so that the
deaths it brings about do not become its reason: what the PMI service asked for, the limit, and what the kernel killed for lack of
memory are each noted before the tasks that die of it are judged (`hear_pmi` and `_blame_memory` in `reaped`).

A step that cannot be started in part is not undone: its other tasks run, and the one that failed says why. Asked for again, a launch
starts nothing, also by another agent: status.json in the folder of the step says that it was started before. A run that ends takes
its steps with it, and is itself over only when the last of them is (`emptied`).
See docs/architecture/steps.md.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
from collections.abc import Callable

from lattice.agent.shim.cgroups import Cgroup, CgroupRoot
from lattice.agent.shim.confinement.kernel_log import KernelLog
from lattice.agent.shim.confinement.usage import Usage
from lattice.agent.shim.containers.views import Containers
from lattice.agent.shim.journal import STDERR, STDOUT
from lattice.agent.shim.launch import MAX_SIGNAL, Launch, integer, limits_of, path, seconds
from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.namespace import View, mounts_of
from lattice.agent.shim.pmi.early import ask_for_pmix
from lattice.agent.shim.pmi.libraries import LOOK_AFTER_S
from lattice.agent.shim.pmi.starting import offer_service
from lattice.agent.shim.rootless.views import make_view
from lattice.agent.shim.run import Run
from lattice.agent.shim.spawn import Inheritance, Wiring, describe_failure, read_report, spawn
from lattice.agent.shim.step import (
    Step,
    StepCgroup,
    StepGroup,
    StepKey,
    StepTrees,
    Task,
    freeze,
    set_window,
    signal_foreground,
    step_key,
)
from lattice.agent.shim.streams.step_streams import HOLD_S, StepStreams
from lattice.agent.shim.terminals.terminal import Terminal
from lattice.agent.shim.tree import MARKER, Forest, ProcessTree

Body = dict[str, object]

CHECK_AGAIN_S = 0.01
MAX_CHECK_AGAIN_S = 2.0
MAX_TASKS_PER_NODE = 4096
# How long the agent waits at most for what running ranks did with their service.
# The pause doubles each time, so that ranks that never stop do not keep the leader busy.
MAX_NEWS_PAUSE_S = 60.0
NO_PROGRAM = "-"  # of a step whose tasks all have arguments of their own


class StepTable:
    """`run_of` finds the run inside which a step lives; None where the allocation has none on this node. `finish_run` ends it with a
    code."""

    def __init__(
        self,
        loop: Loop,
        tracker: CgroupRoot | Forest,
        inheritance: Inheritance,
        output_limit: int,
        *,
        tell: Callable[[Body], None],
        run_of: Callable[[tuple[int, int]], Run | None],
        finish_run: Callable[[tuple[int, int], int], None],
        emptied: Callable[[], None],
        kernel_log: KernelLog,
    ) -> None:
        self._loop = loop
        self._tracker = tracker
        self._inheritance = inheritance
        self._limit = output_limit
        self._tell = tell
        self._streams = StepStreams(loop, tell)  # owns input and output of every step; life and death are here
        self._run_of = run_of
        self._finish_run = finish_run
        self._emptied = emptied
        self._kernel_log = kernel_log
        # Every step that the agent has not forgotten, and those of them that have not ended. `RunTable` reads `live`.
        self._steps: dict[StepKey, Step] = {}
        self.live: dict[StepKey, Step] = {}
        # Tasks by pid, from the fork until `reaped` gets them: a pid in here belongs to no other process. Services likewise.
        self._tasks: dict[int, tuple[Step, Task]] = {}
        self._services: dict[int, Step] = {}  # a step whose service is in here is not over
        # Groups of allocations without a run on this node, with the live steps inside. Made by the first of these, removed with
        # the last: a group with an entry here has at least one step, or containers are kept for further ones, whose memory it counts.
        self._holders: dict[tuple[int, int], tuple[Cgroup | ProcessTree, set[StepKey]]] = {}
        self.containers = Containers()

    # Requests.

    def handle(self, operation: str, request: Body) -> Body:
        key = step_key(request)
        if operation == "launch_step":
            return self._launch(key, request)
        step = self._steps.get(key)
        if step is None:
            return {"ok": False, "error": f"unknown step {key[0]}.{key[1]}.{key[2]}"}
        if operation == "forget_step":
            if not step.is_over:
                return {"ok": False, "error": "the step has not ended"}
            del self._steps[key]
        elif operation == "feed_step":
            return self._streams.feed(step, request)
        elif operation == "read_step":
            self._streams.was_read(step, integer(request, "upto", 0))
        elif not step.is_over:
            self._command(step, operation, request)
        return {"ok": True, "phase": step.phase}

    def _command(self, step: Step, operation: str, request: Body) -> None:
        if operation == "signal_step":
            self._signal(step, integer(request, "signal", 0, MAX_SIGNAL))
        elif operation == "end_step":
            grace_s = seconds(request, "grace_s", step.grace_s)
            self._terminate(step, "stopped", grace_s, str(request.get("why") or ""))
        elif operation == "shrink_step":
            step.tell_ended(request.get("places"))
        elif operation == "resize_step":
            self._streams.resize(step, request)
        else:
            raise ValueError(f"unknown op {operation!r}")

    def statuses(self) -> list[Body]:
        return [step.status() for step in self._steps.values()]

    def groups_of(self, run: tuple[int, int] | None) -> list[tuple[StepKey, Cgroup | StepTrees]]:
        """Of living steps, and as step -1 those that hold them where the run has no script; None = of all runs."""
        steps = [(key, step.group) for key, step in self.live.items() if step.group]
        holders = [((*key, -1), group) for key, (group, _) in self._holders.items() if isinstance(group, Cgroup)]
        return [each for each in (*holders, *steps) if run in (None, each[0][:2])]

    def has_any(self, run: tuple[int, int]) -> bool:
        return any(key[:2] == run for key in self.live)

    def end_all(
        self, run: tuple[int, int] | None = None, why: str = "the allocation has ended", grace_s: float = 0.0
    ) -> None:
        """End the steps of one run, or all of them."""
        for key, step in list(self.live.items()):
            if run is None or key[:2] == run:
                self._terminate(step, "stopped", grace_s, why)

    def signal_all(self, run: tuple[int, int], number: int) -> None:
        """To the tasks of all steps of the run."""
        for key, step in list(self.live.items()):
            if key[:2] == run:
                self._signal(step, number)

    def pids_of(self, run: tuple[int, int]) -> set[int]:
        """Everything that belongs to steps of the run."""
        groups = [step.group for key, step in self.live.items() if key[:2] == run]
        return {pid for group in groups if isinstance(group, StepCgroup) for pid in group.pids()}

    def freeze(self, run: tuple[int, int], *, is_frozen: bool) -> None:
        """Suspend the steps of the run, or resume them; for nodes and systems where its own group does not hold them."""
        number = signal.SIGSTOP if is_frozen else signal.SIGCONT
        for key, step in self.live.items():
            if key[:2] != run or step.group is None:
                continue
            if isinstance(step.group, StepTrees):
                step.group.signal(number)
            elif key[:2] in self._holders:
                freeze(self._holders[key[:2]][0], is_frozen=is_frozen)

    # Launch.

    def _launch(self, key: StepKey, request: Body) -> Body:
        """Start the step once, however often it is asked for. Tasks that cannot be started have failed; the others run."""
        step = self._steps.get(key)
        if step is not None:
            return {"ok": True, "phase": step.phase}
        directory = request.get("dir")
        if not isinstance(directory, str) or not directory.startswith("/"):
            return {"ok": False, "error": "dir is not an absolute path"}
        if os.path.exists(f"{directory}/status.json"):
            return {"ok": False, "error": "the step has been started before"}
        run = self._run_of(key[:2])
        if run is not None and (run.over or run.main_gone or run.ending):
            return {"ok": False, "error": "the allocation is ending"}
        tasks = request.get("tasks")
        if not isinstance(tasks, list) or not 0 < len(tasks) <= MAX_TASKS_PER_NODE:
            return {"ok": False, "error": f"a step has 1 to {MAX_TASKS_PER_NODE} tasks on a node"}
        self._inheritance.check_room(len(self._tasks) + len(tasks))
        step = Step(key, directory, self._limit)
        step.grace_s = seconds(request, "grace_s", 0.0)
        step.hold_until = boot_now() + HOLD_S
        if isinstance(terminal := request.get("terminal"), dict):
            step.terminal = Terminal(terminal, boot_now())
            self._streams.begin(step, request)
        try:
            step.group = self._make_group(key, run, request)
        except (OSError, ValueError) as error:
            step.journal.close()
            if isinstance(error, OSError) and error.errno == errno.ESRCH:
                return {"ok": False, "error": error.strerror, "errno": error.errno}
            raise
        step.memory_limit_mb = run.memory_limit_mb if run is not None else limits_of(request).memory_mb
        self._steps[key] = self.live[key] = step
        self._start_tasks(step, tasks, request)
        self._look_for_mpi(step)
        time_s = seconds(request, "time_s", 0.0)
        if time_s > 0:
            when = step.started_boot_s + time_s
            step.wall_timer = self._loop.call_at(when, lambda: self._terminate(step, "walltime", step.grace_s, ""))
        step.save()
        self._await_client(step)
        self._settle(step)
        return {"ok": True, "phase": step.phase}

    def _await_client(self, step: Step) -> None:
        """Hang up a terminal that no client has read for too long; what ignores that keeps running."""
        due_s = step.terminal.due_boot_s() if step.terminal is not None and not step.is_over else 0.0
        if step.terminal is None or not due_s:
            return
        if due_s > boot_now():
            step.client_timer = self._loop.call_at(due_s, lambda: self._await_client(step))
            return
        step.terminal.was_hung_up = True
        step.why = step.why or "no client came back in time"
        self._signal(step, signal.SIGHUP)
        self._signal(step, signal.SIGCONT)

    def _make_group(self, key: StepKey, run: Run | None, request: Body) -> StepCgroup | StepTrees:
        """Inside the group of the run, so that its memory limit holds for both; else inside one that the steps share."""
        if isinstance(self._tracker, Forest):
            if request.get("view"):
                raise OSError(errno.EPERM, "this node cannot mount for a step: its agent is not root")
            return StepTrees(self._view_in_trees(key, run, request))
        parent = run.group if run is not None else None
        if not isinstance(parent, Cgroup):
            parent = self._holder_of(key, request)
        if not isinstance(parent, Cgroup):
            raise ValueError("the allocation has no group on this node")
        group = StepCgroup(parent, f"step-{key[2]}")
        try:
            group.make()
            self.containers.enter(key, group, request)
        except (OSError, ValueError):
            self.containers.left(key)
            self._remove(group, 10)
            self._release_holder(key)
            raise
        return group

    def _offer_pmi(self, step: Step, launch: Launch, tasks: list[object], request: Body) -> None:
        """Open what the step's ranks reach its service by. A node that cannot do that runs no task: they would run as programs of one
        rank each."""
        ranks = [integer(task, "rank", 0) for task in tasks if isinstance(task, dict)]
        group = step.group if isinstance(step.group, StepCgroup) else None
        step.pmi, step.error = offer_service(request, launch, ranks, group, self._inheritance)
        if step.pmi is not None:
            step.pmi.watch(self._loop, lambda: self._begin_pmi(step))

    def _look_for_mpi(self, step: Step) -> None:
        """Processes that have run for a while are looked at by the service. Not those that only wait for a busy machine: they get as
        long again as it took to start them."""
        if step.pmi is not None and isinstance(step.group, StepCgroup) and not step.are_tasks_gone:
            now_s = boot_now()
            when = now_s + LOOK_AFTER_S[0] + (now_s - step.started_boot_s)
            step.look_timer = self._loop.call_at(when, lambda: self._begin_pmi(step, is_called=False))

    def _begin_pmi(self, step: Step, *, is_called: bool = True) -> None:
        """Fork the step's service: a rank or another node calls, or it is time to look at the processes, which can be left undone."""
        if step.pmi is None or not step.pmi.can_begin or step.is_over or step.is_killing:
            return
        try:
            step.pmi.begin(self._loop, lambda: self._heed_pmi(step))
        except OSError as error:
            if is_called:
                self._terminate(step, "pmi", 0.0, f"cannot start the PMI service: {error}")
            return
        self._services[step.pmi.pid] = step
        if isinstance(self._tracker, Forest):
            self._tracker.spare(step.pmi.pid)

    def _heed_pmi(self, step: Step) -> None:
        why, grace_s = step.pmi.verdict if step.pmi is not None else ("", 0.0)
        if why and step.ending != "pmi":
            self._terminate(step, "pmi", grace_s, why)
        elif step.has_news and step.news_timer is None:
            step.news_timer = self._loop.call_at(boot_now() + step.news_pause_s, lambda: self._tell_news(step))

    def _tell_news(self, step: Step) -> None:
        step.news_timer = None
        step.news_pause_s = min(2 * step.news_pause_s, MAX_NEWS_PAUSE_S)
        self._report(step)

    def _view_in_trees(self, key: StepKey, run: Run | None, request: Body) -> View:
        """What the tasks of a step see where there are no groups: what the run sees or, without one, what steps of it share."""
        if run is not None and run.group is not None:
            return run.group.view
        return self._holder_of(key, request).view if request.get("mounts") else View()

    def _holder_of(self, key: StepKey, request: Body) -> Cgroup | ProcessTree:
        """What steps share on a node where the allocation runs no script: limits, and what they see of the file system."""
        directory = str(request.get("dir"))
        if key[:2] not in self._holders:
            self._holders[key[:2]] = (self._make_holder(key, directory, request), set())
        holder, steps = self._holders[key[:2]]
        steps.add(key)
        try:
            if holder.view.namespace < 0:  # a step before, with a container of its own, brought nothing
                holder.view = make_view(mounts_of(request), directory, self._tracker)
        except (OSError, ValueError):
            self._release_holder(key)
            raise
        return holder

    def _make_holder(self, key: StepKey, directory: str, request: Body) -> Cgroup | ProcessTree:
        if isinstance(self._tracker, Forest):
            return ProcessTree(self._tracker, directory)  # without a process of its own; the forest does not know it
        return self._tracker.create(f"alloc-{key[0]}.{key[1]}", limits_of(request))

    def _start_tasks(self, step: Step, tasks: list[object], request: Body) -> None:
        launch = None
        try:
            launch = Launch({**request, "argv": request.get("argv") or [NO_PROGRAM]})
            self._offer_pmi(step, launch, tasks, request)
        except ValueError as error:
            step.error = str(error)
        for asked in tasks:
            if not isinstance(asked, dict):
                raise ValueError("a task is an object")
            task = Task(integer(asked, "rank", 0))
            step.tasks.append(task)
            try:
                if step.error or launch is None:
                    raise ValueError(step.error)
                if not (asked.get("argv") or request.get("argv")):
                    raise ValueError("argv is empty")
                self._start_task(step, task, launch.of_task(asked), asked, request)
            except (OSError, ValueError) as error:
                task.is_gone = True
                task.error = str(error)
                self._close_task(task)

    def _start_task(self, step: Step, task: Task, launch: Launch, asked: Body, request: Body) -> None:
        """Fork one task. Our ends of its pipes are in the task as soon as they exist, so that `_close_task` finds all of them."""
        task.launch = launch
        group = step.group
        if group is not None:
            task.launch.namespace = group.view.namespace
        tree = None
        if isinstance(group, StepTrees) and isinstance(self._tracker, Forest):
            task.launch.env[MARKER.encode()] = os.fsencode(step.directory)
            tree = self._tracker.create(step.directory)
            group.add(tree)
        theirs: list[int] = []
        try:
            report, report_w = self._inheritance.open_pipe()
            theirs.append(report_w)
            task.report_fd = report
            wiring = self._wire(task, asked, theirs, request)
            if step.pmi is not None and (end := step.pmi.end_of(task.rank)) >= 0:
                wiring.pmi, wiring.wait = end, ask_for_pmix
                step.pmi.add_variables(task.rank, task.launch.env)
            home = tree if isinstance(group, StepTrees) else group
            if home is None:
                raise ValueError("the step has no group")
            task.pid = spawn(task.launch, home, self._inheritance, wiring, report_w)
        finally:
            # Before any other fork: a copy of these in another child would keep the pipes open.
            for fd in theirs:
                os.close(fd)
        if tree is not None and isinstance(self._tracker, Forest):
            self._tracker.started(tree, task.pid)
        self._tasks[task.pid] = (step, task)
        self._loop.watch(report, select.EPOLLIN, lambda _mask: self._exec_known(task))
        for fd in task.outputs:
            self._streams.watch_output(step, task, fd)

    def _wire(self, task: Task, asked: Body, theirs: list[int], request: Body) -> Wiring:
        if asked.get("pty"):
            master, slave = os.openpty()
            theirs.append(slave)
            for fd in (master, slave):
                os.set_inheritable(fd, False)
            os.set_blocking(master, False)
            set_window(master, request)
            task.is_terminal = True
            task.input_fd, task.cursor = master, 0
            task.outputs[master] = STDOUT
            return Wiring(slave, slave, slave, terminal=True)
        wiring = Wiring(-1, -1)
        wiring.in_path, wiring.out_path, wiring.err_path = (path(asked, name) for name in ("stdin", "stdout", "stderr"))
        wiring.truncate = bool(asked.get("truncate"))
        if asked.get("has_input"):
            wiring.stdin, task.input_fd = os.pipe()
            theirs.append(wiring.stdin)
            os.set_blocking(task.input_fd, False)
            task.cursor = 0
        if not wiring.out_path:
            out, wiring.out = self._inheritance.open_pipe()
            theirs.append(wiring.out)
            task.outputs[out] = STDOUT
        if not wiring.err_path:
            err, wiring.err = self._inheritance.open_pipe()
            theirs.append(wiring.err)
            task.outputs[err] = STDERR
        return wiring

    def _exec_known(self, task: Task) -> None:
        if task.report_fd < 0:
            return
        report = read_report(self._loop, task.report_fd)
        if report is None:
            return
        task.report_fd = -1
        if report and task.launch is not None:
            task.error = describe_failure(task.launch, report)
        task.launch = None

    # End.

    def _signal(self, step: Step, number: int) -> None:
        if number == signal.SIGKILL:
            self._terminate(step, "stopped", 0.0, "killed")
            return
        for task in step.tasks:
            if task.pid and not task.is_gone:
                # A hang-up is for the shell as well.
                if step.terminal is not None and signal_foreground(task, number) and number != signal.SIGHUP:
                    continue
                # Not reaped, so both are still its own. It may not have begun its session yet.
                try:
                    os.killpg(task.pid, number)
                except ProcessLookupError:
                    os.kill(task.pid, number)

    def _terminate(self, step: Step, cause: str, grace_s: float, why: str) -> None:
        """Ask the step to end, and see to it. The first cause and the first grace period stay; grace 0 kills at once."""
        if step.is_over or step.group is None:
            return
        if not step.ending and not step.are_tasks_gone:
            step.ending, step.why = cause, why
        if step.is_killing:
            return
        if grace_s <= 0:
            self._kill(step)
            return
        step.group.signal(signal.SIGTERM, signal.SIGCONT)
        if step.kill_timer is None:
            step.kill_timer = self._loop.call_at(boot_now() + grace_s, lambda: self._kill(step))

    def _kill(self, step: Step, again_s: float = CHECK_AGAIN_S) -> None:
        """Kill the whole group, and again until it is empty."""
        if step.is_over or step.group is None:
            return
        step.is_killing = True
        step.group.kill()
        step.kill_pmi()
        for task in step.tasks:
            if task.pid and not task.is_gone:
                os.kill(task.pid, signal.SIGKILL)  # it may not have joined its group yet
        if step.kill_timer is not None:
            step.kill_timer.cancel()
        later_s = min(again_s * 2, MAX_CHECK_AGAIN_S)
        step.kill_timer = self._loop.call_at(boot_now() + again_s, lambda: self._kill(step, later_s))
        self._finish_if_empty(step)

    def reaped(self, pid: int, status: int, used: resource.struct_rusage) -> None:
        """A child died; nothing happens unless it was a task or a service."""
        if pid in self._services:
            self._service_ended(self._services.pop(pid))
            return
        step, task = self._tasks.pop(pid, (None, None))
        if step is None or task is None:
            return
        task.record_exit(status, used)
        step.hear_pmi()
        if task.was_killed and step.group is not None:
            self._blame_memory(step, step.group, step.group.usage())
        self._exec_known(task)
        self._streams.stop_input(task)
        step.trim_input()
        if task.has_failed and not step.are_tasks_gone:
            self._report(step)
        self._heed_pmi(step)
        self._settle(step)

    def _blame_memory(self, step: Step, group: StepGroup, usage: Usage) -> None:
        if usage.oom_kills:
            step.blame_memory(usage, self._kernel_log.victims_in(group.full_name))

    def _service_ended(self, step: Step) -> None:
        if step.pmi is not None and step.pmi.was_missed(are_tasks_gone=step.are_tasks_gone):
            self._terminate(step, "pmi", 0.0, "the step's PMI service was killed")
        self._settle(step)

    def settle(self) -> None:
        """Without cgroups only the death of processes tells that a step may be empty."""
        for step in list(self.live.values()):
            self._settle(step)

    def _settle(self, step: Step) -> None:
        if step.are_tasks_gone and not self._finish_if_empty(step) and not step.is_killing:
            self._kill(step)

    def _finish_if_empty(self, step: Step) -> bool:
        has_service = step.pmi is not None and step.pmi.pid
        if step.group is not None and step.are_tasks_gone and not has_service and not step.group.populated():
            self._finish(step)
        return step.is_over

    def _finish(self, step: Step) -> None:
        """In this order: the journal is complete, status.json says so, then the events for the reader, the agent and the run above."""
        for timer in (step.wall_timer, step.kill_timer, step.client_timer, step.look_timer, step.news_timer):
            if timer is not None:
                timer.cancel()
        step.wall_timer = step.kill_timer = step.client_timer = step.look_timer = step.news_timer = None
        step.close_pmi(self._loop)
        for task in step.tasks:
            self._streams.drain(step, task)
            self._close_task(task)
        step.journal.close()
        group, step.group = step.group, None
        if group is not None:
            usage = group.usage()
            self._blame_memory(step, group, usage)
            step.judge(usage)
            self._remove(group, 10)
        self.containers.left(step.key)
        self._release_holder(step.key)
        step.ended_boot_s = boot_now()
        step.phase = "ended"
        del self.live[step.key]
        step.save()
        self._streams.tell_growth(step)
        self._report(step)
        if step.terminal is not None and step.terminal.ends_run:
            self._finish_run(step.key[:2], step.exit_code())
        self._emptied()

    def _close_task(self, task: Task) -> None:
        fds = {task.report_fd, task.input_fd, *task.outputs}
        task.report_fd = task.input_fd = -1
        task.outputs = {}
        for fd in fds:
            if fd >= 0:
                self._loop.unwatch(fd)
                os.close(fd)

    def _remove(self, group: Cgroup | StepTrees | ProcessTree, tries: int) -> None:
        if not group.remove() and tries > 0:
            self._loop.call_at(boot_now() + 0.05 * (11 - tries), lambda: self._remove(group, tries - 1))

    def _release_holder(self, key: StepKey) -> None:
        holder, steps = self._holders.get(key[:2], (None, set()))
        steps.discard(key)
        if holder is not None and not steps and not self.containers.has_kept(key[:2]):
            del self._holders[key[:2]]
            self._remove(holder, 10)

    def drop_containers(self, run: tuple[int, int]) -> None:
        """The run is over: no further step of it comes."""
        self.containers.drop(run)
        self._release_holder((*run, -1))

    def _report(self, step: Step) -> None:
        self._tell({"event": "step", **step.status()})
