"""The output of several allocations as it is written: each line behind the name of the one that wrote it."""

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue

from lattice.cli.context import Context
from lattice.cli.following import Followed, Follower, wait_for_all
from lattice.cli.views.log_lines import LineBuffer
from lattice_sdk.models.records import GAP, Allocation, AllocationFilter, LogChunk

CONCURRENCY = 16  # each with a connection for each stream; more of them wait, and nothing of theirs is lost meanwhile
ONE_PAGE = 10_000

ShowLines = Callable[[str, LogChunk, list[bytes]], None]


class ManyFollower:
    """Passes the lines of allocations and of all tasks of groups to `show`, until all have ended."""

    def __init__(
        self,
        context: Context,
        found: Sequence[Allocation],
        show: ShowLines,
        followed: Followed,
    ) -> None:
        self._context, self._show = context, show
        self._followed = followed
        self._groups = {each.id for each in found if each.task_counts is not None}
        self._alone = [each.id for each in found if each.task_counts is None]
        self._seen: set[str] = set()
        self._waiting: SimpleQueue[str] = SimpleQueue()
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._fatal: list[BaseException] = []  # no further tasks are found

    def follow(self) -> None:
        """Until the last byte; raises what went wrong with one of them, and at once if the output is read no longer."""
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(CONCURRENCY)]
        threads.append(threading.Thread(target=self._find, daemon=True))
        for thread in threads:
            thread.start()
        wait_for_all(threads, self._failures, self._fatal)

    def _find(self) -> None:
        try:
            for name in itertools.chain(self._alone, self._tasks()):
                if name not in self._seen:
                    self._seen.add(name)
                    self._waiting.put(name)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            self._fatal.append(error)
        for _ in range(CONCURRENCY):
            self._waiting.put("")

    def _tasks(self) -> Iterator[str]:
        """The tasks of the groups as they start, some more than once."""
        if not self._groups:
            return
        # The stream is opened before the states are read: no start falls between the two.
        with self._context.connect() as client:
            changes = client.watch(sorted(self._groups), what=["allocation"])
            try:
                yield from self._started()
                living = self._living()
                for event in changes if living else ():
                    if event.kind == GAP:
                        yield from self._started()
                        living = self._living()
                    elif event.group_id in self._groups and event.run:
                        yield f"{event.group_id}_{event.task_index}"
                    elif event.is_terminal:
                        living.discard(event.id)
                    if not living:
                        break
            finally:
                changes.close()

    def _started(self) -> Iterator[str]:
        for group in sorted(self._groups):
            wanted = AllocationFilter(group=group, is_archive_included=True)
            for task in self._context.client.iter_allocations(wanted, page_size=ONE_PAGE):
                if task.run:
                    yield f"{task.group_id}_{task.task_index}"

    def _living(self) -> set[str]:
        return {group for group in self._groups if not self._context.client.get_allocation(group).is_terminal}

    def _work(self) -> None:
        while name := self._waiting.get():
            try:
                self._follow_one(name)
            except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
                self._failures.append(error)

    def _follow_one(self, name: str) -> None:
        buffers: defaultdict[tuple[str, str], LineBuffer] = defaultdict(LineBuffer)
        last: dict[tuple[str, str], LogChunk] = {}

        def show(chunk: LogChunk) -> None:
            source = chunk.node, chunk.stream
            last[source] = chunk
            self._put(name, chunk, buffers[source].feed(chunk.data))

        follower = Follower(self._context, name, show, self._followed)
        follower.start()
        follower.finish()
        for source, buffer in buffers.items():
            if rest := buffer.rest():
                self._put(name, last[source], [rest + b"\n"])

    def _put(self, name: str, chunk: LogChunk, lines: list[bytes]) -> None:
        with self._lock:
            if lines:
                self._show(name, chunk, lines)
