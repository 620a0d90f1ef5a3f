"""What steps with a container of their own see, and the containers that are kept under a name for further steps of their run.

A container is a mount namespace that others made. Its steps enter it; a descriptor here keeps one that has a name, with the files that
its steps changed, until the run has ended. So nothing of it lies on a disk, it survives the agent, and it is gone with the shim.
Standard library only: the shim lives on this.
"""

from __future__ import annotations

import errno
import os

from lattice.agent.shim.launch import mapping
from lattice.agent.shim.namespace import View, open_namespace
from lattice.agent.shim.step import StepCgroup, StepKey

Body = dict[str, object]
RunKey = tuple[int, int]

MAX_KEPT = 64  # of one run; each holds a loop device


class _Kept:
    __slots__ = ("about", "fd")

    def __init__(self, fd: int, about: str) -> None:
        self.fd, self.about = fd, about


class _Running:
    __slots__ = ("about", "group", "is_writable", "name")

    def __init__(self, name: str, group: StepCgroup, about: str, *, is_writable: bool) -> None:
        self.name, self.group, self.about, self.is_writable = name, group, about, is_writable


class Containers:
    """`enter` and `left` come once per step that asks for a view; `drop` when its run is over."""

    def __init__(self) -> None:
        self._kept: dict[RunKey, dict[str, _Kept]] = {}
        self._running: dict[StepKey, _Running] = {}

    def enter(self, key: StepKey, group: StepCgroup, request: Body) -> None:
        """Lets the group of the step see what the request says. Raises OSError and ValueError, and nothing was kept then."""
        asked = mapping(request, "view")
        if not asked:
            return
        name = str(asked.get("name") or "")
        if asked.get("join"):
            found = self._joined(key[:2], name)
            group.own_view(View(os.dup(found.group.view.namespace)))
            self._running[key] = _Running(name, group, found.about, is_writable=found.is_writable)
            return
        group.own_view(View(open_namespace(asked.get("source"))))
        about = str(asked.get("about") or "")
        self._running[key] = _Running(name, group, about, is_writable=bool(asked.get("writable")))
        if asked.get("keep"):
            self._keep(key[:2], name, asked["keep"], about)

    def _joined(self, run: RunKey, name: str) -> _Running:
        found = [each for key, each in self._running.items() if key[:2] == run and each.name == name]
        for running in sorted(found, key=lambda each: not each.is_writable):
            if running.group.view.namespace >= 0:
                return running
        raise OSError(errno.ESRCH, f'the container "{name}" does not run any more')

    def _keep(self, run: RunKey, name: str, source: object, about: str) -> None:
        kept = self._kept.setdefault(run, {})
        if len(kept) >= MAX_KEPT:
            raise OSError(errno.EMFILE, f"the allocation has {MAX_KEPT} containers with names on this node already")
        fd = open_namespace(source)
        if name in kept:
            os.close(kept.pop(name).fd)
        kept[name] = _Kept(fd, about)

    def left(self, key: StepKey) -> None:
        """The step is over."""
        self._running.pop(key, None)

    def has_kept(self, run: RunKey) -> bool:
        return bool(self._kept.get(run))

    def drop(self, run: RunKey) -> None:
        for kept in self._kept.pop(run, {}).values():
            os.close(kept.fd)

    def runs(self) -> list[list[int]]:
        """Those of which containers are kept."""
        return [list(run) for run, kept in self._kept.items() if kept]

    def told(self, run: RunKey) -> Body:
        """By name: where what is kept can be opened, and what runs."""
        kept = {name: [each.fd, each.about] for name, each in self._kept.get(run, {}).items()}
        running: dict[str, list[object]] = {}
        for key, each in self._running.items():
            if key[:2] == run and (each.is_writable or each.name not in running):
                running[each.name] = [each.is_writable, each.about]
        return {"ok": True, "pid": os.getpid(), "kept": kept, "running": running}
