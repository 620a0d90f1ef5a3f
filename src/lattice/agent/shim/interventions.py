"""What may be done to a run between its start and its end: signals, also one shortly before the limit, hints, and pauses.

A paused run keeps everything it has. Its group is frozen, or its processes are stopped where there are no groups, and its
walltime is paused until it is resumed. An end that is asked for meanwhile thaws it first, so that it can hear SIGTERM.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from lattice.agent.shim.cgroups import Cgroup
from lattice.agent.shim.launch import MAX_SIGNAL, integer, target
from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.run import Group, Key, Run
from lattice.agent.shim.signals import hint_members
from lattice.agent.shim.step import freeze
from lattice.agent.shim.steps import StepTable

Body = dict[str, object]


class Interventions:
    """`ends` is what happens when a run has reached its limit."""

    def __init__(self, loop: Loop, steps: StepTable, ends: Callable[[Run], None]) -> None:
        self._loop = loop
        self._steps = steps
        self._ends = ends

    def handle(self, operation: str, key: Key, run: Run | None, request: Body) -> Body:
        if operation == "hint":
            return self._hint(key, run, integer(request, "signal", 0, MAX_SIGNAL), dry=bool(request.get("dry")))
        if operation == "signal":
            self._send(key, run, integer(request, "signal", 0, MAX_SIGNAL), target(request))
        elif operation == "pause":
            self.pause(key, run)
        else:
            self.resume(key, run)
        return {"ok": True, "phase": run.phase if run is not None else ""}

    # Signals.

    def _send(self, key: Key, run: Run | None, number: int, to: str) -> None:
        if to != "entrypoint":
            self._steps.signal_all(key, number)
        if run is None or run.over or to == "steps":
            return
        if to == "all" and run.group is not None:
            # Tasks of steps have theirs already; a second one could end what handles the first.
            tasks = self._steps.pids_of(key) if isinstance(run.group, Cgroup) else set()
            _signal_group(run.group, number, tasks)
        elif run.pid and not run.main_gone:
            os.kill(run.pid, number)  # not reaped, so the pid is still its own

    def _hint(self, key: Key, run: Run | None, number: int, *, dry: bool) -> Body:
        """A signal for those processes alone that catch it, so that nothing dies of it; 0 = only count, `dry` = only say which."""
        lists = [group.pids for _, group in self._steps.groups_of(key)]
        if run is not None and not run.over and run.group is not None:
            lists.append(run.group.pids)
        members: set[int] = set()
        caught: set[int] = set()
        for pids in lists:
            caught |= hint_members(pids, number, members, dry=dry)
        return {"ok": True, "pids": sorted(caught), "members": len(members)}

    # The limit.

    def set_walltime(self, run: Run, walltime_s: float) -> None:
        """Counted from the start of the run, without its pauses; 0 = none."""
        run.walltime_s = walltime_s
        run.cancel_limits()
        if walltime_s <= 0 or run.paused_at:
            return
        end = run.started_boot_s + run.paused_s + walltime_s
        run.wall_timer = self._loop.call_at(end, lambda: self._ends(run))
        if run.early is not None:
            _, before_s, _ = run.early
            run.early_timer = self._loop.call_at(end - before_s, lambda: self._warn(run))

    def _warn(self, run: Run) -> None:
        early, run.early, run.early_timer = run.early, None, None
        if early is not None and not run.over and not run.ending:
            number, _, to = early
            self._send(run.key, run, number, to)

    # Pauses.

    def pause(self, key: Key, run: Run | None) -> None:
        self._steps.freeze(key, is_frozen=True)
        if run is None or run.over or run.ending or run.paused_at:
            return
        run.paused_at = boot_now()
        run.cancel_limits()
        if run.group is not None:
            freeze(run.group, is_frozen=True)

    def resume(self, key: Key, run: Run | None) -> None:
        self._steps.freeze(key, is_frozen=False)
        if run is None or run.over or not run.paused_at:
            return
        run.paused_s += boot_now() - run.paused_at
        run.paused_at = 0.0
        if run.group is not None:
            freeze(run.group, is_frozen=False)
        self.set_walltime(run, run.walltime_s)


def _signal_group(group: Group, number: int, except_for: set[int]) -> None:
    if not except_for:
        group.signal(number)
        return
    for pid in group.pids():
        if pid not in except_for:
            fd = -1
            try:
                fd = os.pidfd_open(pid)
                if pid in group.pids():
                    signal.pidfd_send_signal(fd, number)
            except (ProcessLookupError, PermissionError):
                continue
            finally:
                if fd >= 0:
                    os.close(fd)
