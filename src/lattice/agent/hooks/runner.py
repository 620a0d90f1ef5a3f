"""Runs the launch hooks of a node: in order before a run starts, in reverse after it ended, undoing exactly what was prepared."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path

from lattice.agent.hooks.protocol import NOTHING_LEFT, Finished, HookFailed, Launch, LaunchHook, Left
from lattice.agent.hooks.record import close_record, read_record, write_record
from lattice.ports.nodes.agents import RunKey, StartOrder

IMAGES = "images"
CONTAINER = "container"
DATA = "data"
ACCESS = "access"

_log = logging.getLogger(__name__)


class _Turns:
    """Who prepares or undoes a run, one after the other: what is undone while it is still being made would stay."""

    def __init__(self) -> None:
        self._locks: dict[RunKey, tuple[asyncio.Lock, int]] = {}  # and how many have it or wait for it

    @contextlib.asynccontextmanager
    async def of(self, key: RunKey) -> AsyncIterator[None]:
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = lock, users + 1
        try:
            async with lock:
                yield
        finally:
            users = self._locks[key][1] - 1
            if users:
                self._locks[key] = lock, users
            else:
                del self._locks[key]


class HookRunner:
    """`folder_of` says where a run keeps its record. A hook that is no longer configured leaves its part of a record behind: it is
    logged, since nothing is left to undo it."""

    def __init__(
        self,
        hooks: Sequence[LaunchHook],
        folder_of: Callable[[RunKey], Path],
        settle: Callable[[Mapping[str, object]], None] = lambda _: None,
    ) -> None:
        self._hooks = tuple(hooks)
        self.settle = settle  # called when the shim has answered a request, or will never be asked
        # Tells the servers how far a hook is, if there is something to tell; False when the run is not wanted any more.
        self.say: Callable[[RunKey, str], bool] = lambda key, text: True
        self.copies: Callable[[RunKey], None] = lambda key: None  # tells them that a run has only results left to copy
        self.can_mount: Callable[[], bool] = lambda: False
        self._folder_of = folder_of
        self._bare: set[RunKey] = set()  # runs for which nothing was left, as far as this agent prepared them
        self._abandoned: dict[RunKey, asyncio.Event] = {}
        self._turns = _Turns()  # who comes second to undo a run finds nothing left

    def add(self, hook: LaunchHook) -> None:
        """One more, after the others."""
        self._hooks = (*self._hooks, hook)

    @property
    def needs_undo(self) -> bool:
        """Whether any hook may have something to undo; those of images and access never do."""
        return any(hook.name not in (IMAGES, CONTAINER, ACCESS) for hook in self._hooks)

    def has_left(self, key: RunKey) -> bool:
        """Whether there may be something to undo for the run; to be asked once, at its end."""
        is_bare = key in self._bare
        self._bare.discard(key)
        has_left = self.needs_undo and (not is_bare or any(hook.undoes_unrecorded for hook in self._hooks))
        if not has_left:
            self._abandoned.pop(key, None)
        return has_left

    async def prepare(self, order: StartOrder, request: dict[str, object]) -> None:
        """All hooks in order. Raises HookFailed or RunImpossible after what had been prepared was undone and let go."""
        async with self._turns.of(order.key):
            await self._prepare(order, request)

    async def _prepare(self, order: StartOrder, request: dict[str, object]) -> None:
        record: dict[str, Left] = {}
        for hook in self._hooks:
            if not hook.applies(order):
                continue
            try:
                if not self.say(order.key, ""):
                    raise HookFailed("it was stopped while its node was being prepared")
                launch = Launch(
                    order=order,
                    request=request,
                    leave=self._leaver(order.key, hook.name, record),
                    say=partial(self.say, order.key),
                    can_mount=self.can_mount,
                )
                await self._bounded(hook, hook.prepare(launch))
            except Exception:
                self.settle(request)
                await self._undo(order.key, order.allocation_id, has_started=False)
                raise
        if not record:
            self._bare.add(order.key)

    def abandon(self, key: RunKey) -> None:
        """Hooks that save something of the run stop doing so, now or when they are undone."""
        self._abandoned.setdefault(key, asyncio.Event()).set()

    async def undo(self, key: RunKey, allocation_id: str, *, has_started: bool = False) -> str:
        """In reverse, after hooks that still prepare the run have ended; what went wrong, in words. `has_started` undoes unrecorded
        runs too, where a hook asks for it."""
        async with self._turns.of(key):
            is_bare = key in self._bare
            self._bare.discard(key)
            if is_bare and not (has_started and any(hook.undoes_unrecorded for hook in self._hooks)):
                self._abandoned.pop(key, None)
                return ""
            return await self._undo(key, allocation_id, has_started=has_started)

    async def _undo(self, key: RunKey, allocation_id: str, *, has_started: bool) -> str:
        folder = self._folder_of(key)
        record = read_record(folder)
        if record is None:
            record = {hook.name: NOTHING_LEFT for hook in self._hooks if has_started and hook.undoes_unrecorded}
        by_name = {hook.name: hook for hook in self._hooks}
        problems = []
        abandoned = self._abandoned.setdefault(key, asyncio.Event())
        for name in reversed(list(record)):
            hook = by_name.get(name)
            if hook is None:
                _log.error("run %s: hook %s is not configured any more; what it left is not undone", key, name)
                continue
            try:
                finished = Finished(
                    key=key,
                    allocation_id=allocation_id,
                    left=record[name],
                    abandoned=abandoned,
                    copies=partial(self.copies, key),
                )
                await self._bounded(hook, hook.undo(finished))
            except HookFailed as failure:
                _log.error("undoing %s: %s", name, failure, extra={"allocation_id": allocation_id, "run": key.run})
                problems.append(str(failure))
            except Exception as error:  # noqa: BLE001 - the run's end waits for this
                _log.exception("undoing %s", name, extra={"allocation_id": allocation_id, "run": key.run})
                problems.append(f"{name}: {type(error).__name__}")
        if record:
            close_record(folder)
        self._abandoned.pop(key, None)
        return "; ".join(problems)

    def _leaver(self, key: RunKey, name: str, record: dict[str, Left]) -> Callable[[Left], None]:
        def leave(left: Left) -> None:
            record[name] = dict(left)
            try:
                write_record(self._folder_of(key), record)
            except OSError as error:
                raise HookFailed(f"{name}: cannot write its record: {error.strerror}") from error

        return leave

    @staticmethod
    async def _bounded(hook: LaunchHook, work: Coroutine[None, None, None]) -> None:
        try:
            await asyncio.wait_for(work, hook.timeout_s)
        except TimeoutError:
            raise HookFailed(f"{hook.name} took longer than {hook.timeout_s:g} s") from None
