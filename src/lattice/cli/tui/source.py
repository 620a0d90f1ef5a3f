"""The way to the server: questions in threads of their own, the stream of changes, and whether anybody answers."""

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from lattice.cli.context import Context
from lattice.cli.errors import CommandError
from lattice_sdk.client import Client
from lattice_sdk.errors import ApiError, BadAnswer, LatticeError, Unreachable
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, LogChunk
from lattice_sdk.streams import LogStream, Watch

T = TypeVar("T")

ANSWER_WITHIN_S = 8.0
AGAIN_S = 1.0
ASKERS = 2
STREAMS = ("stdout", "stderr")


def is_gone(error: BaseException) -> bool:
    """Whether no server answered, or none that could decide."""
    return isinstance(error, Unreachable | BadAnswer) or (isinstance(error, ApiError) and error.status_code == 503)


class Source:
    """`post` hands a function to the thread of the screen; everything here may be called from that thread."""

    def __init__(self, context: Context, post: Callable[[Callable[[], None]], None]) -> None:
        self._context, self._post = context, post
        self._questions: queue.SimpleQueue[Callable[[Client], None]] = queue.SimpleQueue()

    def start(self, hear: Callable[[Event], None], live: Callable[[], None], lost: Callable[[], None]) -> None:
        """Each change goes to `hear`; `live` and `lost` hear when the stream of changes is there and when it is away."""
        for _ in range(ASKERS):
            threading.Thread(target=self._answer, daemon=True).start()
        threading.Thread(target=self._listen, args=(hear, live, lost), daemon=True).start()

    def ask(
        self, question: Callable[[Client], T], then: Callable[[T], None], failed: Callable[[Exception], None]
    ) -> None:
        def answer(client: Client) -> None:
            try:
                found = question(client)
            except (LatticeError, CommandError, OSError) as error:
                problem: Exception = error
                self._post(lambda: failed(problem))
            else:
                self._post(lambda: then(found))

        self._questions.put(answer)

    def _client(self) -> Client:
        return self._context.connect(answer_within_s=ANSWER_WITHIN_S)

    def _answer(self) -> None:
        with self._client() as client:
            while True:
                self._questions.get()(client)

    def _listen(self, hear: Callable[[Event], None], live: Callable[[], None], lost: Callable[[], None]) -> None:
        position: int | None = None
        is_lost = False
        pause = threading.Event()
        while True:
            try:
                with self._client() as client:
                    changes = client.watch(since=position)
                    if is_lost and position is None:
                        self._tell(hear, Event(index=0, kind=GAP))
                    is_lost = False
                    self._post(live)
                    for event in changes:
                        position = event.index or position
                        self._tell(hear, event)
            except (LatticeError, OSError):
                is_lost = True
                self._post(lost)
            pause.wait(AGAIN_S)

    def _tell(self, hear: Callable[[Event], None], event: Event) -> None:
        self._post(lambda: hear(event))

    def watch_changes(self, allocation_id: str, hear: Callable[[Event], None]) -> "Following":
        """All changes of one allocation that the servers remember, and those to come."""
        following = Following()

        def listen(client: Client) -> None:
            changes = following.keep(client.watch([allocation_id], since=1))
            for event in changes:
                if following.is_stopped:
                    return
                self._tell(hear, event)

        self._follow(listen, following, lambda _: None)
        return following

    def follow_log(
        self,
        allocation_id: str,
        tail: int,
        take: Callable[[str, LogChunk], None],
        ended: Callable[[str], None],
        restarted: Callable[[], None],
    ) -> "Following":
        """Both streams of its output; `ended` hears an empty text, or why there is no more."""
        following = Following(len(STREAMS))

        def reader(stream: str) -> Callable[[Client], None]:
            def listen(client: Client) -> None:
                chunks = following.keep(
                    client.stream_logs(
                        allocation_id, stream=stream, tail=tail, restarted=lambda _: self._post(restarted)
                    )
                )
                for chunk in chunks:
                    if following.is_stopped:
                        return
                    self._post(lambda chunk=chunk: take(stream, chunk))  # type: ignore[misc]

            return listen

        for stream in STREAMS:
            self._follow(reader(stream), following, ended)
        return following

    def _follow(self, listen: Callable[[Client], None], following: "Following", ended: Callable[[str], None]) -> None:
        def run() -> None:
            why = ""
            try:
                with self._client() as client:
                    listen(client)
            except (LatticeError, OSError) as error:
                why = str(error)
            if not following.is_stopped and following.is_last(why):
                self._post(lambda: ended(why))

        threading.Thread(target=run, daemon=True).start()


class Following:
    """Streams that end when the view that needs them is closed."""

    def __init__(self, count: int = 1) -> None:
        self.is_stopped = False
        self._streams: list[Any] = []
        self._left = count
        self._lock = threading.Lock()

    def keep(self, stream: "T") -> "T":
        with self._lock:
            self._streams.append(stream)
        return stream

    def is_last(self, why: str) -> bool:
        """Whether all have ended, or this one failed."""
        with self._lock:
            self._left -= 1
            return self._left <= 0 or bool(why)

    def stop(self) -> None:
        self.is_stopped = True
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            if isinstance(stream, Watch | LogStream):
                stream.stop()
