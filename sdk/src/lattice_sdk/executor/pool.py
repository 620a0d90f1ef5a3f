"""`Executor`: Python functions as tasks of the cluster, with the interface of `concurrent.futures`."""

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor as StandardExecutor
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import ParamSpec, TypeVar

from lattice_sdk.client import Client
from lattice_sdk.executor.chunks import Chunk, Group, RemoteFuture, chosen_chunksize
from lattice_sdk.executor.dispatch import MAX_GROUP, Dispatcher
from lattice_sdk.executor.pickles import NotPicklable, dumped
from lattice_sdk.executor.progress import ProgressLine
from lattice_sdk.specification import AllocationSpec

P = ParamSpec("P")
T = TypeVar("T")


class Executor(StandardExecutor):
    """Runs functions as tasks of the cluster; also for `loop.run_in_executor`.

    `spec` says what each task gets (one CPU unless given) and how long it may take; its entrypoint and tasks are set here.
    `directory` must be shared with the nodes; by default it is below the home directory. `progress` shows a line on stderr,
    by default on a terminal. Functions and arguments are sent by cloudpickle where it is installed (the extra `executor`),
    else by pickle. A future that is not done can be cancelled, also while its task runs.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        spec: AllocationSpec | None = None,
        directory: str | os.PathLike[str] | None = None,
        progress: bool | None = None,
    ) -> None:
        own = client.twin() if client is not None else Client.from_environment()
        line = ProgressLine(sys.stderr, shown=progress)
        wanted = spec or AllocationSpec(cpus=1, name="executor")
        self._dispatcher = Dispatcher(own, wanted, _own_directory(directory), line)
        self._is_shut = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """A future for one call, which becomes one task."""
        self._check_open()
        future: RemoteFuture[T] = RemoteFuture()
        try:
            data = dumped([(fn, args, kwargs)])
        except NotPicklable as error:
            future.settle(None, error)
            return future
        self._dispatcher.order(Group([Chunk(data, [future])]))  # type: ignore[list-item]
        return future

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[object],
        timeout: float | timedelta | None = None,
        chunksize: int | None = None,
    ) -> Iterator[T]:
        """Results in order. The calls are one task group; a task has `chunksize` of them, chosen by their number when not given.

        The walltime limit is that of a task, for all its calls together. Raises NotPicklable.
        """
        self._check_open()
        if chunksize is not None and chunksize < 1:
            raise ValueError("chunksize must be at least 1")
        limit_s = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        deadline = None if limit_s is None else time.monotonic() + limit_s
        rows = list(zip(*iterables, strict=False))
        futures: list[RemoteFuture[object]] = [RemoteFuture() for _ in rows]
        size = chunksize or (chosen_chunksize(len(rows), self._dispatcher.slots()) if rows else 1)
        chunks = [
            Chunk(dumped([(None, row, {}) for row in rows[start : start + size]]), futures[start : start + size])
            for start in range(0, len(rows), size)
        ]
        function = dumped(fn)
        for start in range(0, len(chunks), MAX_GROUP):
            self._dispatcher.order(Group(chunks[start : start + MAX_GROUP], function))
        return _results(futures, deadline)  # type: ignore[arg-type]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """No more calls. With `cancel_futures` those that are not done are cancelled, on the cluster as well."""
        self._is_shut = True
        if cancel_futures:
            for chunk in self._dispatcher.open_chunks():
                for future in chunk.futures:
                    future.cancel()
        if wait:
            self._finish()
        else:
            threading.Thread(target=self._finish, daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        """An interrupt cancels what is not done; any other end waits for it."""
        is_interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.shutdown(cancel_futures=is_interrupted)
        return None

    def _check_open(self) -> None:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")

    def _finish(self) -> None:
        self._dispatcher.wait()
        self._dispatcher.close()


def _results(futures: list[RemoteFuture[T]], deadline: float | None) -> Iterator[T]:
    """One after the other; those that are not read any more are cancelled."""

    def results() -> Iterator[T]:
        remaining = list(reversed(futures))
        try:
            while remaining:
                yield remaining[-1].result(None if deadline is None else max(0.0, deadline - time.monotonic()))
                remaining.pop()
        finally:
            for future in remaining:
                future.cancel()

    return results()


def _own_directory(chosen: str | os.PathLike[str] | None) -> Path:
    """For this user alone, because what lies there is run."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    parent = Path(chosen) if chosen is not None else Path(home) / "lattice" / "executor"
    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=parent)).resolve()
