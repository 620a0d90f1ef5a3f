"""Allocations in the order in which they end, told by the stream of events and not by asking again and again."""

from collections.abc import AsyncGenerator, Iterable, Iterator
from time import monotonic
from typing import Protocol

from lattice_sdk.calls.allocations import id_of
from lattice_sdk.errors import WaitTimedOut
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import GAP, Allocation

MAX_WATCHED = 1000  # ids that a server takes with one watch; beyond that everything visible is watched


class Waiting(Protocol):
    def status(self, allocation_id: str) -> Allocation: ...


class EventSource(Protocol):
    def __iter__(self) -> Iterator[Event]: ...
    def close(self) -> None: ...
    def stop(self) -> None: ...


def names_of(allocations: Iterable[str | Allocation]) -> list[str]:
    """Each id once, in the order given."""
    return list(dict.fromkeys(map(id_of, allocations)))


def watched(names: list[str]) -> list[str]:
    return names if len(names) <= MAX_WATCHED else []


class Open:
    """Which of them have not ended yet, by the id that events use."""

    def __init__(self, names: list[str], deadline: float | None) -> None:
        self.names = dict.fromkeys(names)
        self._deadline = deadline

    def left_s(self) -> float | None:
        """Seconds until the deadline. Raises WaitTimedOut when it has passed."""
        if self._deadline is None:
            return None
        left = self._deadline - monotonic()
        if left <= 0:
            raise WaitTimedOut(f"{len(self.names)} have not ended, among them {next(iter(self.names))}")
        return left

    def to_ask(self, event: Event) -> list[str]:
        """Of which the event may say that they have ended."""
        if event.kind == GAP:
            return list(self.names)
        return [event.id] if event.is_terminal and event.id in self.names else []


def completed(client: Waiting, names: list[str], events: EventSource, deadline: float | None) -> Iterator[Allocation]:
    """Those that have ended already first; `events` must have begun before."""
    import queue
    import threading

    waiting = Open(names, deadline)
    listener = None
    told: queue.SimpleQueue[Event | BaseException] = queue.SimpleQueue()

    def listen() -> None:
        try:
            for event in events:
                told.put(event)
        except BaseException as error:  # noqa: BLE001 - raised again by the thread that waits
            told.put(error)

    try:
        yield from _ended(client, names, waiting)
        if waiting.names:
            listener = threading.Thread(target=listen, daemon=True)
            listener.start()
        while waiting.names:
            try:
                event = told.get(timeout=waiting.left_s())
            except queue.Empty:
                continue
            if isinstance(event, BaseException):
                raise event
            yield from _ended(client, waiting.to_ask(event), waiting)
    finally:
        if listener is None:
            events.close()
        else:
            events.stop()


def _ended(client: Waiting, names: list[str], waiting: Open) -> Iterator[Allocation]:
    for name in names:
        allocation = client.status(name)
        if name != allocation.id:  # given by its number
            waiting.names.pop(name, None)
            waiting.names[allocation.id] = None
        if allocation.is_terminal and waiting.names.pop(allocation.id, 0) is None:
            yield allocation


class Awaiting(Protocol):
    async def status(self, allocation_id: str) -> Allocation: ...


async def completed_async(
    client: Awaiting, names: list[str], events: AsyncGenerator[Event, None], deadline: float | None
) -> AsyncGenerator[Allocation, None]:
    """The same on the event loop; `events` must have begun before."""
    import asyncio

    waiting = Open(names, deadline)
    to_ask = names
    try:
        while True:
            for name in to_ask:
                allocation = await client.status(name)
                if name != allocation.id:
                    waiting.names.pop(name, None)
                    waiting.names[allocation.id] = None
                if allocation.is_terminal and waiting.names.pop(allocation.id, 0) is None:
                    yield allocation
            if not waiting.names:
                return
            try:
                async with asyncio.timeout(waiting.left_s()):
                    to_ask = waiting.to_ask(await anext(events))
            except TimeoutError:
                waiting.left_s()
                raise
    finally:
        await events.aclose()
