"""The client: one method per operation of the API, in the API's words."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from types import TracebackType
from typing import TypeVar

import msgspec

from lattice_sdk.auth import TokenSource, given_token, no_token, token_file
from lattice_sdk.errors import BadAnswer, Invalid, WaitTimedOut
from lattice_sdk.models import (
    Allocation,
    AllocationFilter,
    CancelOutcome,
    Counts,
    Explanation,
    Node,
    Page,
    Project,
    QuorumInvitation,
    QuorumServer,
    QuorumStatus,
    RenewedCertificate,
    Reservation,
    SchedulerStatus,
    Setting,
    Submission,
    Tenant,
    Usage,
    Vcluster,
    Whoami,
)
from lattice_sdk.models_backups import Backup, RestoreOrder
from lattice_sdk.retry import DEFAULT_RETRY_FOR_S, RetryPolicy, silent
from lattice_sdk.session import PREFIX, Query, Request, Session
from lattice_sdk.streams import EventReader, LogStream, Watch
from lattice_sdk.transport import parse_endpoint, quote

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 30.0
BACKUP_TIMEOUT_S = 3600.0
LONGEST_POLL_S = 30.0
PAGE_SIZE = 1000
EVERYTHING = AllocationFilter()


class Client:
    """A cluster, as a program sees it.

    `endpoints` is one address or several (a list, or a text with commas); when one does not answer,
    the next is asked. A call that gets no answer is repeated under the same request id for up to
    `retry_for` seconds (0 = never), then Unreachable is raised; `note` hears of it after a second.
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
    ) -> None:
        texts = endpoints.split(",") if isinstance(endpoints, str) else endpoints
        addresses = [parse_endpoint(text) for text in texts if text.strip()]
        if not addresses:
            raise ValueError("a client needs at least one address")
        headers = (("User-Agent", "lattice-sdk"), ("Accept", "*/*"))
        self._session = Session(
            addresses,
            _token_source(token, token_file),
            policy=policy or RetryPolicy(retry_for_s=retry_for, note=note),
            timeout_s=timeout,
            headers=(*headers, ("X-Lattice-Tenant", tenant)) if tenant else headers,
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Client":
        """A client for what LATTICE_API_URL, LATTICE_TOKEN, LATTICE_TOKEN_FILE and LATTICE_TENANT say."""
        url = environment.get("LATTICE_API_URL") or environment.get("LATTICE_ENDPOINT")
        if not url:
            raise ValueError("LATTICE_API_URL is not set")
        return cls(
            url,
            token=environment.get("LATTICE_TOKEN") or None,
            token_file=environment.get("LATTICE_TOKEN_FILE") or None,
            tenant=environment.get("LATTICE_TENANT", ""),
        )

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

    # Allocations

    def submit(self, submission: Submission, *, request_id: str = "") -> Allocation:
        """The new allocation; a second call with the same `request_id` gives the same one."""
        body = msgspec.json.encode(submission)
        return self._write("POST", "/allocations", Allocation, body, request_id)

    def dry_run(self, submission: Submission) -> Explanation:
        """What would become of the submission now; refused as it would be. Nothing is submitted."""
        body = msgspec.json.encode(submission)
        return _decoded(self._call("POST", "/allocations", [("dry_run", "true")], body), Explanation)

    def explain(self, allocation_id: str) -> Explanation:
        """Why it waits, and when and where it will start as things are."""
        return self._read(_of("allocations", allocation_id, "explanation"), Explanation)

    def list_allocations(
        self, wanted: AllocationFilter = EVERYTHING, *, limit: int = 100, cursor: str = ""
    ) -> Page[Allocation]:
        """One page, newest first."""
        return self._read("/allocations", Page[Allocation], _page(wanted.query(), limit, cursor))

    def iter_allocations(
        self, wanted: AllocationFilter = EVERYTHING, *, page_size: int = PAGE_SIZE
    ) -> Iterator[Allocation]:
        """All of them, newest first, page by page."""
        return _all(lambda cursor: self.list_allocations(wanted, limit=page_size, cursor=cursor))

    def count_allocations(self, wanted: AllocationFilter = EVERYTHING) -> Counts:
        return self._read("/allocations/count", Counts, wanted.query())

    def get_allocation(self, allocation_id: str, *, details: bool = False) -> Allocation:
        """One allocation, archived or not; `details` adds what it runs, for those who may see it."""
        query = [("details", "true")] if details else []
        return self._read(_of("allocations", allocation_id), Allocation, query)

    def cancel(self, allocation_id: str, *, request_id: str = "") -> Allocation:
        path = _of("allocations", allocation_id)
        return self._write("DELETE", path, Allocation, None, request_id)

    def cancel_many(
        self,
        allocation_ids: Sequence[str] = (),
        *,
        states: Sequence[str] = (),
        all_mine: bool = False,
        request_id: str = "",
    ) -> list[CancelOutcome]:
        """Cancel these, or all one's own in some states; each has an outcome of its own."""
        body: dict[str, object] = {"ids": list(allocation_ids)}
        if all_mine:
            body = {"states": list(states), "all_mine": True}
        encoded = msgspec.json.encode(body)
        path = "/allocations/cancel"
        return self._write("POST", path, Page[CancelOutcome], encoded, request_id).items

    def hold(self, allocation_id: str, *, request_id: str = "") -> Allocation:
        """Keep a pending allocation from starting."""
        path = _of("allocations", allocation_id, "hold")
        return self._write("POST", path, Allocation, None, request_id)

    def release(self, allocation_id: str, *, request_id: str = "") -> Allocation:
        """Take a hold back."""
        path = _of("allocations", allocation_id, "release")
        return self._write("POST", path, Allocation, None, request_id)

    def requeue(self, allocation_id: str, *, request_id: str = "") -> Allocation:
        """Stop it and let the same allocation run again."""
        path = _of("allocations", allocation_id, "requeue")
        return self._write("POST", path, Allocation, None, request_id)

    def update(self, allocation_id: str, changes: Mapping[str, object], *, request_id: str = "") -> Allocation:
        """Change `walltime`, `priority` or `name`."""
        body = msgspec.json.encode(changes)
        path = _of("allocations", allocation_id)
        return self._write("PATCH", path, Allocation, body, request_id)

    def wait(self, allocation_id: str, *, timeout: float | None = None) -> Allocation:
        """The allocation once it has ended; WaitTimedOut when that takes longer than `timeout`."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            left = LONGEST_POLL_S if deadline is None else max(0.0, deadline - monotonic())
            allocation = self._poll(allocation_id, min(left, LONGEST_POLL_S))
            if allocation.is_terminal:
                return allocation
            if deadline is not None and monotonic() >= deadline:
                raise WaitTimedOut(f"{allocation.id} is still {allocation.state}")

    def _poll(self, allocation_id: str, poll_s: float) -> Allocation:
        request = Request(
            method="GET",
            path=PREFIX + _of("allocations", allocation_id, "wait"),
            query=[("timeout", f"{poll_s:g}")],
            timeout_s=poll_s + DEFAULT_TIMEOUT_S,
            is_patient=True,
        )
        return _decoded(self._session.call(request), Allocation)

    def logs(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
    ) -> bytes:
        """What was written so far, as it was written."""
        return b"".join(self.iter_logs(allocation_id, stream=stream, tail=tail, node=node, run=run))

    def iter_logs(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
        dropped: Callable[[int], None] | None = None,
    ) -> Iterator[bytes]:
        """The same in pieces, for output that may be larger than memory; `dropped` hears how many bytes of its beginning are gone."""
        path = PREFIX + _of("allocations", allocation_id, "logs")
        request = Request(method="GET", path=path, query=_log_query(stream, tail, node, run))

        def began(headers: dict[str, str]) -> None:
            count = headers.get("x-lattice-dropped-bytes", "")
            if dropped is not None and count.isdigit():
                dropped(int(count))

        return self._session.pieces(request, began)

    def stream_logs(
        self,
        allocation_id: str,
        *,
        stream: str = "stdout",
        tail: int | None = None,
        node: str = "",
        run: int | None = None,
        restarted: Callable[[int], None] | None = None,
    ) -> LogStream:
        """Output as it comes, until the allocation has ended; `restarted` hears of each new run."""
        path = PREFIX + _of("allocations", allocation_id, "logs", "stream")
        request = Request(method="GET", path=path, query=_log_query(stream, tail, node, run))
        return LogStream(EventReader(self._session, request), restarted=restarted)

    def watch(self, allocation_ids: Sequence[str] = (), *, since: int | None = None) -> Watch:
        """Changes of state from now on, or after the log index `since`."""
        query = [("ids", ",".join(allocation_ids))] if allocation_ids else []
        query += [("since", str(since))] if since is not None else []
        request = Request(method="GET", path=PREFIX + "/events", query=query)
        return Watch(EventReader(self._session, request))

    def history(self, wanted: AllocationFilter = EVERYTHING, *, limit: int = 100, cursor: str = "") -> Page[Allocation]:
        """One page of what has ended, archived or not, newest first."""
        return self._read("/accounting", Page[Allocation], _page(wanted.query(), limit, cursor))

    def iter_history(
        self, wanted: AllocationFilter = EVERYTHING, *, page_size: int = PAGE_SIZE
    ) -> Iterator[Allocation]:
        return _all(lambda cursor: self.history(wanted, limit=page_size, cursor=cursor))

    # Nodes

    def list_nodes(self, *, state: str = "", vcluster: str = "", group: str = "") -> list[Node]:
        query = _given(state=state, vcluster=vcluster, group=group)
        return self._everything("/nodes", Page[Node], query)

    def get_node(self, node_id: str) -> Node:
        return self._read(_of("nodes", node_id), Node)

    def drain_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Node:
        """Let nothing new start on it; what runs may end."""
        return self._node_order(node_id, "drain", reason, request_id)

    def undrain_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Node:
        return self._node_order(node_id, "undrain", reason, request_id)

    def disable_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Node:
        """Take it down at once; what runs on it is requeued or fails."""
        return self._node_order(node_id, "disable", reason, request_id)

    def enable_node(self, node_id: str, reason: str = "", *, request_id: str = "") -> Node:
        return self._node_order(node_id, "enable", reason, request_id)

    def _node_order(self, node_id: str, order: str, reason: str, request_id: str) -> Node:
        body = msgspec.json.encode({"reason": reason} if reason else {})
        return self._write("POST", _of("nodes", node_id, order), Node, body, request_id)

    # Tenants, vClusters, projects, settings

    def list_tenants(self) -> list[Tenant]:
        return self._everything("/tenants", Page[Tenant])

    def get_tenant(self, name: str) -> Tenant:
        return self._read(_of("tenants", name), Tenant)

    def create_tenant(self, fields: Mapping[str, object], *, request_id: str = "") -> Tenant:
        return self._write("POST", "/tenants", Tenant, msgspec.json.encode(fields), request_id)

    def update_tenant(self, name: str, changes: Mapping[str, object], *, request_id: str = "") -> Tenant:
        """Change the fields that are given; None takes a limit away."""
        body = msgspec.json.encode(changes)
        return self._write("PUT", _of("tenants", name), Tenant, body, request_id)

    def tenant_usage(self, name: str, days: int | None = None, *, user: str = "") -> Usage:
        query = _given(days=str(days or ""), user=user)
        return self._read(_of("tenants", name, "usage"), Usage, query)

    def user_usage(self, user: str = "", days: int | None = None) -> Usage:
        return self._read("/usage", Usage, _given(days=str(days or ""), user=user))

    def list_vclusters(self) -> list[Vcluster]:
        return self._everything("/vclusters", Page[Vcluster])

    def get_vcluster(self, name: str) -> Vcluster:
        return self._read(_of("vclusters", name), Vcluster)

    def create_vcluster(self, fields: Mapping[str, object], *, request_id: str = "") -> Vcluster:
        return self._write("POST", "/vclusters", Vcluster, msgspec.json.encode(fields), request_id)

    def update_vcluster(self, name: str, changes: Mapping[str, object], *, request_id: str = "") -> Vcluster:
        body = msgspec.json.encode(changes)
        return self._write("PUT", _of("vclusters", name), Vcluster, body, request_id)

    def vcluster_queue(self, name: str, *, limit: int = 100) -> list[Allocation]:
        """What is pending, in the order in which it is considered."""
        query = [("limit", str(limit))]
        return self._read(_of("vclusters", name, "queue"), Page[Allocation], query).items

    def list_projects(self) -> list[Project]:
        return self._everything("/projects", Page[Project])

    def create_project(self, fields: Mapping[str, object], *, request_id: str = "") -> Project:
        return self._write("POST", "/projects", Project, msgspec.json.encode(fields), request_id)

    def update_project(self, tenant: str, name: str, changes: Mapping[str, object], *, request_id: str = "") -> Project:
        body = msgspec.json.encode(changes)
        return self._write("PUT", _of("projects", tenant, name), Project, body, request_id)

    def list_reservations(self) -> list[Reservation]:
        return self._everything("/reservations", Page[Reservation])

    def get_reservation(self, name: str) -> Reservation:
        return self._read(_of("reservations", name), Reservation)

    def create_reservation(self, fields: Mapping[str, object], *, request_id: str = "") -> Reservation:
        """Keep nodes from `start` to `end` (or for `duration`), for `tenants` and `users` or for nobody."""
        return self._write("POST", "/reservations", Reservation, msgspec.json.encode(fields), request_id)

    def delete_reservation(self, name: str, *, request_id: str = "") -> None:
        self._call("DELETE", _of("reservations", name), (), None, request_id)

    def list_settings(self) -> list[Setting]:
        return self._everything("/settings", Page[Setting])

    def get_setting(self, key: str) -> Setting:
        return self._read(_of("settings", key), Setting)

    def set_setting(self, key: str, value: str, *, request_id: str = "") -> Setting:
        body = msgspec.json.encode({"value": value})
        return self._write("PUT", _of("settings", key), Setting, body, request_id)

    # The cluster itself

    def scheduler_status(self) -> SchedulerStatus:
        return self._read("/scheduler", SchedulerStatus)

    def quorum_status(self) -> QuorumStatus:
        """The servers: who leads, how far each has come, and whether their states agree."""
        return self._read("/raft/status", QuorumStatus)

    def transfer_leader(self, to: str = "") -> QuorumStatus:
        """Hands leadership to another server; the status once that leads."""
        body = msgspec.json.encode({"to": to})
        return self._write("POST", "/raft/transfer-leader", QuorumStatus, body, "")

    def list_servers(self) -> list[QuorumServer]:
        """The servers as members, and those that are invited."""
        return self._everything("/raft/members", Page[QuorumServer])

    def invite_server(self, name: str, *, valid_for_s: int = 3600, request_id: str = "") -> QuorumInvitation:
        """A single-use token by which a new server of this name joins."""
        body = msgspec.json.encode({"name": name, "valid_for_s": valid_for_s})
        return self._write("POST", "/raft/members", QuorumInvitation, body, request_id)

    def remove_server(self, name: str, *, request_id: str = "") -> list[QuorumServer]:
        """Takes a server out for good, or withdraws its invitation; the servers that are left."""
        return _decoded(
            self._call("DELETE", "/raft/members" + _of(name), (), None, request_id), Page[QuorumServer]
        ).items

    def promote_server(self, name: str, *, request_id: str = "") -> list[QuorumServer]:
        """Gives a server that has caught up its vote; the servers then."""
        path = "/raft/members" + _of(name) + "/promote"
        return self._write("POST", path, Page[QuorumServer], b"{}", request_id).items

    def rotate_certificates(self, *, request_id: str = "") -> list[RenewedCertificate]:
        """New keys and certificates for every server; nothing is restarted."""
        return self._write("POST", "/raft/rotate-certificates", Page[RenewedCertificate], b"{}", request_id).items

    def create_backup(self, path: str = "") -> Backup:
        """Makes a backup of the whole state, in a new folder of the server that leads."""
        body = msgspec.json.encode({"path": path})
        return self._write("POST", "/admin/backup", Backup, body, "", BACKUP_TIMEOUT_S)

    def list_backups(self) -> list[Backup]:
        """The backups in the folder of the server that leads, oldest first."""
        return self._everything("/admin/backup", Page[Backup])

    def verify_backup(self, path: str = "") -> Backup:
        """The newest backup, or the one named, after the server checked every byte of it."""
        return _decoded(
            self._call("GET", "/admin/backup/verify", _given(path=path), timeout_s=BACKUP_TIMEOUT_S), Backup
        )

    def restore_backup(self, path: str) -> RestoreOrder:
        """Lets the next start of the server begin with a backup."""
        body = msgspec.json.encode({"path": path})
        return self._write("POST", "/admin/restore", RestoreOrder, body, "", BACKUP_TIMEOUT_S)

    def whoami(self) -> Whoami:
        """Who the server takes the token's owner for."""
        return self._read("/whoami", Whoami)

    def is_healthy(self) -> bool:
        """True when a server answers and is ready; raises Unreachable or Unavailable otherwise."""
        answer = self._session.call(Request(method="GET", path="/healthz"))
        return _decoded(answer, dict[str, object]).get("status") == "ok"

    def _call(
        self,
        method: str,
        path: str,
        query: Query = (),
        body: bytes | None = None,
        request_id: str = "",
        timeout_s: float | None = None,
    ) -> bytes:
        headers = () if method == "GET" else (("X-Request-Id", request_id or new_request_id()),)
        target = PREFIX + path
        return self._session.call(
            Request(method=method, path=target, query=query, body=body, headers=headers, timeout_s=timeout_s)
        )

    def _read(self, path: str, kind: type[T], query: Query = ()) -> T:
        return _decoded(self._call("GET", path, query), kind)

    def _write(
        self,
        method: str,
        path: str,
        kind: type[T],
        body: bytes | None,
        request_id: str,
        timeout_s: float | None = None,
    ) -> T:
        return _decoded(self._call(method, path, (), body, request_id, timeout_s), kind)

    def _everything(self, path: str, kind: type[Page[T]], query: Query = ()) -> list[T]:
        return list(_all(lambda cursor: self._read(path, kind, [*query, *_given(cursor=cursor)])))


def new_request_id() -> str:
    """A name for one write, the same for each repeat of it."""
    return os.urandom(16).hex()


def _token_source(token: str | None, path: str | os.PathLike[str] | None) -> TokenSource:
    if token is not None:
        return given_token(token)
    return no_token if path is None else token_file(path)


def _decoded(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.MsgspecError as error:
        raise BadAnswer(f"cannot read the server's answer: {error}") from None


def _of(*segments: str) -> str:
    for segment in segments:
        if not segment.strip() or segment in {".", ".."}:
            raise Invalid(f'"{segment}" is not a name', code="invalid")
    return "".join(f"/{quote(segment)}" for segment in segments)


def _given(**parameters: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value in parameters.items() if value]


def _page(query: list[tuple[str, str]], limit: int, cursor: str) -> list[tuple[str, str]]:
    return [*query, ("limit", str(limit)), *_given(cursor=cursor)]


def _all(page: Callable[[str], Page[T]]) -> Iterator[T]:
    cursor: str | None = ""
    while cursor is not None:
        part = page(cursor)
        yield from part.items
        cursor = part.next_cursor or None


def _log_query(stream: str, tail: int | None, node: str, run: int | None) -> list[tuple[str, str]]:
    numbers = [("tail", tail), ("run", run)]
    given = [(key, str(value)) for key, value in numbers if value is not None]
    return [("stream", stream), *given, *_given(node=node)]
