"""The client that waits: every operation of the API as a method, and the streams."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from lattice_sdk.auth import KeptLogin, TokenSource, given_token, no_token, token_file
from lattice_sdk.calls.allocations import EVERYTHING, seconds
from lattice_sdk.calls.audit import EVERYTHING as WHOLE_AUDIT
from lattice_sdk.calls.completion import completed, names_of, watched
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
from lattice_sdk.models.audit import AuditFilter
from lattice_sdk.models.records import Allocation, AllocationFilter, Page
from lattice_sdk.operation import Blocking, Steps, new_request_id
from lattice_sdk.protocol import HEADER as PROTOCOL
from lattice_sdk.retry import DEFAULT_RETRY_FOR_S, RetryPolicy, silent
from lattice_sdk.session import Session
from lattice_sdk.step_streams import StepStream
from lattice_sdk.streams import EventReader, LogStream, MetricStream, Watch
from lattice_sdk.transport import Endpoint, parse_endpoints

if TYPE_CHECKING:
    from lattice_sdk.ports.tunnels import Tunnel

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 30.0
PAGE_SIZE = 1000

__all__ = ["Client", "new_request_id"]

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")  # W3C trace context


class Client(Blocking, Calls):
    """A cluster, as a program sees it.

    `endpoints` is one address or several (a list, or a text with commas); when one does not answer,
    the next is asked. A call that gets no answer is repeated under the same request id for up to
    `retry_for` seconds (0 = never), then Unreachable is raised; `note` hears of it after a second.
    Without `token` and `token_file` the login that `lattice login` keeps is used. `ca_file` is whom to trust with https.
    With `stale` reads are answered from what the server has, even if it cannot reach the others: that may be old.
    Plain http to another machine is refused unless `insecure_http` asks for it.
    Keeps one connection open; use one client per thread.
    """

    def __init__(
        self,
        endpoints: str | Sequence[str],
        *,
        token: str | None = None,
        token_file: str | os.PathLike[str] | None = None,
        tenant: str = "",
        retry_for: float = DEFAULT_RETRY_FOR_S,
        timeout: float = DEFAULT_TIMEOUT_S,
        note: Callable[[str], None] = silent,
        policy: RetryPolicy | None = None,
        ca_file: str | os.PathLike[str] | None = None,
        insecure_http: bool = False,
        stale: bool = False,
        traceparent: str = "",
    ) -> None:
        texts = endpoints.split(",") if isinstance(endpoints, str) else endpoints
        addresses = parse_endpoints(texts, insecure_http=insecure_http)
        if not addresses:
            raise ValueError("a client needs at least one address")
        headers: tuple[tuple[str, str], ...] = (("User-Agent", "lattice-sdk"), ("Accept", "*/*"), PROTOCOL)
        if _TRACEPARENT.fullmatch(traceparent):
            headers = (*headers, ("traceparent", traceparent))
        self._session = Session(
            addresses,
            source_of_token(token, token_file, addresses),
            policy=policy or RetryPolicy(retry_for_s=retry_for, note=note),
            timeout_s=timeout,
            headers=(*headers, ("X-Lattice-Tenant", tenant)) if tenant else headers,
            ca_file=os.fspath(ca_file or ""),
            stale=stale,
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Client":
        """A client for the cluster that the commands find: by variables, the configuration files, or on this machine.

        Raises NotConfigured, a LatticeError, when there is none.
        """
        from lattice_sdk.site.place import open_found

        return open_found(cls, environment)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._session.close()

    def twin(self) -> "Client":
        """Another client for the same cluster, for another thread."""
        made = Client.__new__(Client)
        made._session = self._session.twin()
        return made

    def _run(self, steps: Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                request = steps.send(self._session.call(request))
        except StopIteration as end:
            value: T = end.value
            return value

    def list_allocations(
        self, wanted: AllocationFilter = EVERYTHING, *, limit: int = 100, cursor: str = ""
    ) -> Page[Allocation]:
        """One page, newest first."""
        return self.page_of_allocations(wanted, limit=limit, cursor=cursor)

    def iter_allocations(
        self, wanted: AllocationFilter = EVERYTHING, *, page_size: int = PAGE_SIZE
    ) -> Iterator[Allocation]:
        """All of them, newest first, page by page."""
        return _all(lambda cursor: self.list_allocations(wanted, limit=page_size, cursor=cursor))

    def iter_history(
        self, wanted: AllocationFilter = EVERYTHING, *, page_size: int = PAGE_SIZE
    ) -> Iterator[Allocation]:
        """Everything that has ended, newest first, page by page."""
        return _all(lambda cursor: self.history(wanted, limit=page_size, cursor=cursor))

    def logs(
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
        return b"".join(self.iter_logs(allocation_id, stream=stream, tail=tail, node=node, run=run, part=part))

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
    ) -> Iterator[bytes]:
        """The same in pieces, for output that may be larger than memory; `dropped` hears how many bytes of its beginning are gone."""
        request = logs_request(allocation_id, stream=stream, tail=tail, node=node, run=run, part=part)
        return self._session.pieces(request, dropped_counter(dropped))

    def export_audit(self, wanted: AuditFilter = WHOLE_AUDIT) -> Iterator[bytes]:
        """The audit chain with its signatures, in pieces, for `lattice_sdk.audit_export.verify_export`."""
        return self._session.pieces(audit_export_request(wanted))

    def stream_logs(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
        part: LogsPart = ALL_OF_IT,
        restarted: Callable[[int], None] | None = None,
    ) -> LogStream:
        """Output as it comes, until the allocation has ended; `restarted` hears of each new run."""
        request = logs_request(allocation_id, stream=stream, tail=tail, node=node, run=run, part=part, follow=True)
        return LogStream(EventReader(self._session, request), restarted=restarted)

    def as_completed(
        self, allocations: Iterable[str | Allocation], *, timeout: float | timedelta | None = None
    ) -> Iterator[Allocation]:
        """Each of them as soon as it has ended; WaitTimedOut when the last one takes longer than `timeout`."""
        names = names_of(allocations)
        deadline = None if timeout is None else monotonic() + seconds(timeout)
        # A session of its own: the stream is read by another thread.
        reader = EventReader(self._session.twin(), watch_request(watched(names), None, (), ("allocation",)))
        return completed(self, names, Watch(reader), deadline)

    def connect_port(self, allocation_id: str, port: int | str, *, node: str = "") -> "Tunnel":
        """A connection to a port on which a process of a running allocation listens, on its first node or another one of it."""
        from lattice_sdk.ports.tunnels import open_tunnel

        return open_tunnel(self._session, allocation_id, port, node)

    def follow_step(self, allocation_id: str, step: int, *, screen: bool = False) -> StepStream:
        """What the tasks of a step write as they write it, until they have ended; `screen`: of a terminal its last screen first."""
        return StepStream(EventReader(self._session, step_request(allocation_id, step, screen=screen)))

    def stream_metrics(
        self, allocation_id: str, metrics: Sequence[str] = (), *, alerts_only: bool = False, history: str = ""
    ) -> MetricStream:
        """What an allocation uses, window by window as its nodes measure it, and alerts about it, until it has ended.

        `history` begins with the windows of that long before, such as 10m.
        """
        return MetricStream(
            EventReader(
                self._session, metrics_request(allocation_id, metrics, alerts_only=alerts_only, history=history)
            )
        )

    def watch(
        self,
        allocation_ids: Sequence[str] = (),
        *,
        since: int | None = None,
        user: str = "",
        tenant: str = "",
        project: str = "",
        tags: Sequence[str] = (),
        what: Sequence[str] = (),
    ) -> Watch:
        """Changes of state from now on, or after the log index `since`; `tags` are KEY=VALUE, `what` as in `Event`.

        When the connection is lost, it is taken up again where it was, at the next server if need be.
        """
        request = watch_request(allocation_ids, since, tags, what, user=user, tenant=tenant, project=project)
        return Watch(EventReader(self._session, request))


def source_of_token(
    token: str | None, path: str | os.PathLike[str] | None, addresses: Sequence[Endpoint] = ()
) -> TokenSource:
    """Where the token comes from: itself, a file, the login that is kept for one of these servers, or nowhere."""
    if token is not None:
        return given_token(token)
    if path is not None:
        return token_file(path)
    kept = [str(each) for each in addresses if each.scheme != "unix"]
    return KeptLogin(kept) if kept else no_token


def _all(page: Callable[[str], Page[T]]) -> Iterator[T]:
    cursor: str | None = ""
    while cursor is not None:
        part = page(cursor)
        yield from part.items
        cursor = part.next_cursor or None
