"""The output of an allocation as it is written: each stream by a thread and a connection of its own."""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from lattice.cli.context import Context
from lattice_sdk.calls.streams import ALL_OF_IT, LogsPart
from lattice_sdk.models.records import LogChunk

STREAMS = ("stdout", "stderr")
LOOK_S = 0.2
RED, PLAIN = b"\x1b[31m", b"\x1b[0m"


class Followed(NamedTuple):
    """What is followed of an allocation: all of both streams, or a part."""

    streams: Sequence[str] = STREAMS
    tail: int | None = None
    node: str = ""
    run: int | None = None
    part: LogsPart = ALL_OF_IT


ALL = Followed()


class Follower:
    """Passes every piece of output to `show`, one at a time, until the allocation has ended."""

    def __init__(
        self,
        context: Context,
        allocation_id: str,
        show: Callable[[LogChunk], None],
        followed: Followed = ALL,
    ) -> None:
        self._context = context
        self._id = allocation_id
        self._show = show
        self._followed = followed
        self._lock = threading.Lock()
        self._failures: list[BaseException] = []
        self._noted_run = 0
        self._threads = [
            threading.Thread(target=self._follow, args=(stream,), daemon=True) for stream in followed.streams
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Wait for the last byte; raises what went wrong in a thread, and at once if the output is read no longer."""
        wait_for_all(self._threads, self._failures)

    def _follow(self, stream: str) -> None:
        try:
            with self._context.connect() as client:
                chunks = client.stream_logs(
                    self._id,
                    stream=stream,
                    tail=self._followed.tail,
                    node=self._followed.node,
                    run=self._followed.run,
                    part=self._followed.part,
                    restarted=self._restarted,
                )
                for chunk in chunks:
                    with self._lock:
                        self._show(chunk)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            self._failures.append(error)

    def _restarted(self, run: int) -> None:
        with self._lock:
            if run > self._noted_run:
                self._noted_run = run
                self._context.note(f"run {run} of {self._id} begins")


def wait_for_all(
    threads: Sequence[threading.Thread], failures: Sequence[BaseException], fatal: Sequence[BaseException] = ()
) -> None:
    """Raises the first failure when all have ended; a fatal one and a closed pipe at once: the others may write nothing for days."""
    for thread in threads:
        while thread.is_alive():
            thread.join(LOOK_S)
            for failure in (*fatal, *(each for each in failures if isinstance(each, BrokenPipeError))):
                raise failure
    for failure in (*fatal, *failures):
        raise failure


def write_output(context: Context, stream: str, data: bytes) -> None:
    """Each stream to its own; stderr is red on a terminal."""
    streams = context.streams
    if stream == "stdout":
        streams.stdout.write(data)
        streams.stdout.flush()
        return
    streams.stdout.flush()
    streams.stderr.write(RED + data + PLAIN if context.is_stderr_coloured else data)
    streams.stderr.flush()
