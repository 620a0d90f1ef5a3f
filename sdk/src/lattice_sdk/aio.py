"""The client that awaits: for services, agents and notebooks, where a loop runs already."""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import TypeVar

import msgspec

from lattice_sdk.asynchronous.session import AsyncSession
from lattice_sdk.asynchronous.streams import AsyncEventReader, AsyncStepStream, changes, chunks, lines, metric_events
from lattice_sdk.calls.allocations import EVERYTHING, seconds
from lattice_sdk.calls.audit import EVERYTHING as WHOLE_AUDIT
from lattice_sdk.calls.completion import completed_async, names_of, watched
from lattice_sdk.calls.every import Calls
from lattice_sdk.calls.streams import (
    ALL_OF_IT,
    LogsPart,
    audit_export_request,
    dropped_counter,
    logs_request,
    metrics_request,
    step_request,
    watch_request,
)
from lattice_sdk.client import DEFAULT_TIMEOUT_S, PAGE_SIZE, source_of_token
from lattice_sdk.models.audit import AuditFilter
from lattice_sdk.models.changes import Event
from lattice_sdk.models.records import Allocation, AllocationFilter, LogChunk, LogLine, Page
from lattice_sdk.models.telemetry.metrics import MetricEvent
from lattice_sdk.operation import Awaiting, Steps
from lattice_sdk.ports.tunnels import Tunnel, open_tunnel
from lattice_sdk.protocol import HEADER as PROTOCOL
from lattice_sdk.retry import DEFAULT_RETRY_FOR_S, RetryPolicy, silent
from lattice_sdk.transport import Endpoint, parse_endpoints

T = TypeVar("T")

NOW = "now"  # kind of the first event of a watch over named allocations: how it stands


class LatticeClient(Awaiting, Calls):
    """A cluster, as an asynchronous program sees it.

    `address` is a host (with `port`), a URL, or several of these in a list or joined by commas; when one does not answer, the next
    is asked. A call that gets no answer is repeated under the same request id for up to `retry_for` seconds (0 = never), then
    Unreachable is raised. One client serves any number of tasks.
    With `stale` reads are answered from what the server has, even if it cannot reach the others: that may be old.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        port: int | None = None,
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        tenant: str = "",
        headers: Mapping[str, str] | None = None,
        retry_for: float = DEFAULT_RETRY_FOR_S,
        timeout: float = DEFAULT_TIMEOUT_S,
        note: Callable[[str], None] = silent,
        ca_file: str | os.PathLike[str] | None = None,
        insecure_http: bool = False,
        stale: bool = False,
    ) -> None:
        addresses = _endpoints(address, port, insecure_http=insecure_http)
        said = {_header(name): value for name, value in (headers or {}).items()}
        if tenant:
            said["X-Lattice-Tenant"] = tenant
        self._session = AsyncSession(
            addresses,
            source_of_token(token, token_file, addresses),
            policy=RetryPolicy(retry_for_s=retry_for, note=note),
            timeout_s=timeout,
            headers=(("User-Agent", "lattice-sdk"), PROTOCOL, *said.items()),
            ca_file=os.fspath(ca_file or ""),
            stale=stale,
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "LatticeClient":
        """A client for the cluster that the commands find: by variables, the configuration files, or on this machine.

        Raises NotConfigured, a LatticeError, when there is none.
        """
        from lattice_sdk.site.place import open_found

        return open_found(cls, environment)

    async def __aenter__(self) -> "LatticeClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    async def _run(self, steps: Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._session.call(request))
        except StopIteration as end:
            value: T = end.value
            return value

    async def list_allocations(
        self, wanted: AllocationFilter = EVERYTHING, *, state: str = "", limit: int | None = None
    ) -> list[Allocation]:
        """All of them, or the newest `limit`, newest first; `state` takes several, joined by commas."""
        if state:
            wanted = msgspec.structs.replace(wanted, states=tuple(state.split(",")))
        found: list[Allocation] = []
        async for allocation in self.iter_allocations(wanted, page_size=min(limit or PAGE_SIZE, PAGE_SIZE)):
            if limit is not None and len(found) >= limit:
                break
            found.append(allocation)
        return found

    def iter_allocations(
        self, wanted: AllocationFilter = EVERYTHING, *, page_size: int = PAGE_SIZE
    ) -> AsyncGenerator[Allocation, None]:
        """All of them, newest first, page by page."""
        return _all(lambda cursor: self.page_of_allocations(wanted, limit=page_size, cursor=cursor))

    def iter_history(
        self, wanted: AllocationFilter = EVERYTHING, *, page_size: int = PAGE_SIZE
    ) -> AsyncGenerator[Allocation, None]:
        """Everything that has ended, newest first, page by page."""
        return _all(lambda cursor: self.history(wanted, limit=page_size, cursor=cursor))

    async def logs(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
        part: LogsPart = ALL_OF_IT,
    ) -> bytes:
        """What was written so far, as it was written, or the part of it that is wanted."""
        pieces = self.iter_logs(allocation_id, stream=stream, tail=tail, node=node, run=run, part=part)
        return b"".join([piece async for piece in pieces])

    def iter_logs(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
        part: LogsPart = ALL_OF_IT,
        dropped: Callable[[int], None] | None = None,
    ) -> AsyncIterator[bytes]:
        """The same in pieces, for output that may be larger than memory; `dropped` hears how many bytes of its beginning are gone."""
        request = logs_request(allocation_id, stream=stream, tail=tail, node=node, run=run, part=part)
        return self._session.pieces(request, dropped_counter(dropped))

    def export_audit(self, wanted: AuditFilter = WHOLE_AUDIT) -> AsyncIterator[bytes]:
        """The audit chain with its signatures, in pieces, for `lattice_sdk.audit_export.verify_export`."""
        return self._session.pieces(audit_export_request(wanted), lambda headers: None)

    def stream_logs(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
        part: LogsPart = ALL_OF_IT,
    ) -> AsyncGenerator[LogLine, None]:
        """Lines of output as they are written, until the allocation has ended."""
        return lines(self.stream_output(allocation_id, stream=stream, tail=tail, node=node, run=run, part=part))

    def stream_output(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
        part: LogsPart = ALL_OF_IT,
        restarted: Callable[[int], None] | None = None,
    ) -> AsyncGenerator[LogChunk, None]:
        """Output as it comes, byte for byte; `restarted` hears of each new run."""
        request = logs_request(allocation_id, stream=stream, tail=tail, node=node, run=run, part=part, follow=True)
        return chunks(AsyncEventReader(self._session, request), restarted)

    async def as_completed(
        self, allocations: Iterable[str | Allocation], *, timeout: float | timedelta | None = None
    ) -> AsyncGenerator[Allocation, None]:
        """Each of them as soon as it has ended; WaitTimedOut when the last one takes longer than `timeout`."""
        names = names_of(allocations)
        deadline = None if timeout is None else monotonic() + seconds(timeout)
        reader = AsyncEventReader(self._session, watch_request(watched(names), None, (), ("allocation",)))
        await reader.begin()
        async for allocation in completed_async(self, names, changes(reader), deadline):
            yield allocation

    async def connect_port(self, allocation_id: str, port: int | str, *, node: str = "") -> Tunnel:
        """A connection to a port on which a process of a running allocation listens. It waits when it reads and writes: use threads."""
        return await asyncio.to_thread(open_tunnel, self._session.twin(), allocation_id, port, node)

    def follow_step(self, allocation_id: str, step: int, *, screen: bool = False) -> AsyncStepStream:
        """What the tasks of a step write as they write it, until they have ended; `screen`: of a terminal its last screen first."""
        return AsyncStepStream(AsyncEventReader(self._session, step_request(allocation_id, step, screen=screen)))

    async def stream_metrics(
        self, allocation_id: str, metrics: Sequence[str] = (), *, alerts_only: bool = False, history: str = ""
    ) -> AsyncGenerator[MetricEvent, None]:
        """What an allocation uses, window by window as its nodes measure it, and alerts about it, until it has ended.

        `history` begins with the windows of that long before, such as 10m.
        """
        reader = AsyncEventReader(
            self._session, metrics_request(allocation_id, metrics, alerts_only=alerts_only, history=history)
        )
        await reader.begin()
        try:
            async for event in metric_events(reader):
                yield event
        finally:
            await reader.close()

    async def watch(
        self,
        allocation_ids: str | Sequence[str] = (),
        *,
        since: int | None = None,
        user: str = "",
        tenant: str = "",
        project: str = "",
        tags: Sequence[str] = (),
        what: Sequence[str] = (),
    ) -> AsyncGenerator[Event, None]:
        """Changes of state from now on, or after the log index `since`; `tags` are KEY=VALUE, `what` as in `Event`.

        Of named allocations the first events, of the kind NOW, say how they stand, and the watch ends when all of them have ended.
        """
        names = [allocation_ids] if isinstance(allocation_ids, str) else list(allocation_ids)
        request = watch_request(names, since, tags, what, user=user, tenant=tenant, project=project)
        reader = AsyncEventReader(self._session, request)
        await reader.begin()
        living: set[str] = set()
        try:
            for name in names if since is None else ():
                allocation = await self.status(name)
                yield _standing(allocation)
                if not allocation.is_terminal:
                    living.add(allocation.id)
            if names and since is None and not living:
                return
            async for event in changes(reader):
                yield event
                if event.is_terminal and event.id in living:
                    living.discard(event.id)
                    if not living:
                        return
        finally:
            await reader.close()


async def _all(page: Callable[[str], Awaitable[Page[T]]]) -> AsyncGenerator[T, None]:
    cursor: str | None = ""
    while cursor is not None:
        part = await page(cursor)
        for item in part.items:
            yield item
        cursor = part.next_cursor or None


def _standing(allocation: Allocation) -> Event:
    return Event(
        index=0,
        kind=NOW,
        id=allocation.id,
        number=allocation.number,
        state=allocation.state,
        name=allocation.name,
        user=allocation.user,
        tenant=allocation.tenant,
        cause=allocation.cause,
        exit_code=allocation.exit_code,
        nodes=allocation.nodes,
        run=allocation.run,
        group_id=allocation.group_id,
    )


def _endpoints(address: str | Sequence[str], port: int | None, *, insecure_http: bool) -> list[Endpoint]:
    texts = address.split(",") if isinstance(address, str) else address
    found = parse_endpoints((_with_port(text.strip(), port) for text in texts), insecure_http=insecure_http)
    if not found:
        raise ValueError("a client needs at least one address")
    return found


def _with_port(text: str, port: int | None) -> str:
    return text if port is None or "://" in text else f"{text}:{port}"


def _header(name: str) -> str:
    return "X-Lattice-Tenant" if name.lower() == "x-tenant" else name
