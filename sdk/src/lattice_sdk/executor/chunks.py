"""Futures, and the chunks of calls that become tasks of a group."""

import pickle
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Generic, TypeVar

from lattice_sdk.errors import LatticeError
from lattice_sdk.executor.pickles import outcomes

T = TypeVar("T")

NOTHING = pickle.dumps(None)  # where the calls bring their own functions

TASKS_PER_SLOT = 4  # as multiprocessing does: a slow chunk does not keep the others waiting


class TaskFailed(LatticeError):
    """The task of a call ended without its result; the text says how it ended."""


class RemoteFuture(Future[T], Generic[T]):
    """A call on the cluster. Until it is done it can be cancelled, also while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.chunk: Chunk | None = None

    def cancel(self) -> bool:
        if not super().cancel():
            return False
        if self.chunk is not None:
            self.chunk.forsake()
        return True

    def running(self) -> bool:
        return not self.done() and self.chunk is not None and self.chunk.is_running

    def settle(self, value: T | None, error: BaseException | None) -> None:
        """Done, unless it was cancelled before."""
        if self.set_running_or_notify_cancel():
            if error is not None:
                self.set_exception(error)
            else:
                self.set_result(value)  # type: ignore[arg-type]


class Chunk:
    """Calls, as bytes, that run one after the other in one task. `abandon` is called when all of them were cancelled."""

    def __init__(self, data: bytes, futures: list["RemoteFuture[object]"]) -> None:
        self.data = data
        self.futures = futures
        self.is_running = False
        self.id = ""  # of the task, once it is submitted
        self.abandon: Callable[[Chunk], None] = lambda _chunk: None
        for future in futures:
            future.chunk = self

    @property
    def is_forsaken(self) -> bool:
        return all(future.cancelled() for future in self.futures)

    def forsake(self) -> None:
        if self.is_forsaken:
            self.abandon(self)

    def settle(self, path: Path, ending: Callable[[], BaseException]) -> None:
        """Results from the file of the task; `ending` says what became of the rest."""
        found = list(outcomes(path)) if not self.is_forsaken else []
        for future, (_ok, value, error) in zip(self.futures, found, strict=False):
            future.settle(value, error)
        missing = self.futures[len(found) :]
        if any(not future.cancelled() for future in missing):
            self.fail(missing, ending())

    def fail(self, futures: list["RemoteFuture[object]"], error: BaseException) -> None:
        for future in futures:
            future.settle(None, error)


class Group:
    """Chunks that are submitted together, and the directory that they share."""

    def __init__(self, chunks: list[Chunk], function: bytes = NOTHING) -> None:
        self.chunks = chunks
        self.function = function
        self.directory = Path()
        self.id = ""

    @property
    def may_be_joined(self) -> bool:
        return self.function == NOTHING

    def write(self, directory: Path, search_path: list[str]) -> None:
        self.directory = directory
        (directory / "path").write_bytes(pickle.dumps(search_path))
        (directory / "function").write_bytes(self.function)
        for index, chunk in enumerate(self.chunks):
            (directory / f"{index}.in").write_bytes(chunk.data)
            chunk.data = b""  # arguments may be large, and are written

    def output_of(self, index: int) -> Path:
        return self.directory / f"{index}.out"


def chosen_chunksize(count: int, slots: int) -> int:
    """Calls per task, so that each slot of the cluster gets several tasks."""
    return max(1, -(-count // (max(1, slots) * TASKS_PER_SLOT)))
