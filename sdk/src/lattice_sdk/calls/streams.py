"""The requests behind streams and long answers, shared by the client that waits and the client that awaits."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from lattice_sdk.calls.audit import audit_query
from lattice_sdk.models.audit import AuditFilter
from lattice_sdk.operation import at, given
from lattice_sdk.session import PREFIX, Request


class LogsPart(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the output: lines that were begun from `since` to `until` (RFC 3339), each with its time in front where
    `timestamps` says so; or `limit` bytes from `offset`, of one node."""

    since: str = ""
    until: str = ""
    timestamps: bool = False
    offset: int | None = None
    limit: int | None = None


ALL_OF_IT = LogsPart()


def logs_request(
    allocation_id: str,
    *,
    stream: str,
    tail: int | None,
    node: str,
    run: int | None,
    part: LogsPart = ALL_OF_IT,
    follow: bool = False,
) -> Request:
    """Output written so far, or with `follow` also what is written from now on."""
    path = at("allocations", allocation_id, "logs", *(["stream"] if follow else []))
    query = given(
        stream=stream,
        tail=tail,
        run=run,
        node=node,
        since=part.since,
        until=part.until,
        timestamps="true" if part.timestamps else "",
        offset=part.offset,
        limit=part.limit,
    )
    return Request(method="GET", path=PREFIX + path, query=query)


def dropped_counter(dropped: Callable[[int], None] | None) -> Callable[[Mapping[str, str]], None]:
    """Tells `dropped` how many bytes of the beginning are gone, once the headers of an answer are here."""

    def began(headers: Mapping[str, str]) -> None:
        count = headers.get("x-lattice-dropped-bytes", "")
        if dropped is not None and count.isdigit():
            dropped(int(count))

    return began


def audit_export_request(wanted: AuditFilter) -> Request:
    return Request(method="GET", path=PREFIX + "/audit/export", query=audit_query(wanted))


def step_request(allocation_id: str, step: int, *, screen: bool = False) -> Request:
    path = PREFIX + at("allocations", allocation_id, "steps", str(step), "stream")
    return Request(method="GET", path=path, query=[("screen", "true")] if screen else [])


def watch_request(
    allocation_ids: Sequence[str], since: int | None, tags: Sequence[str], what: Sequence[str], **filters: str
) -> Request:
    query = [("ids", ",".join(allocation_ids))] if allocation_ids else []
    query += [("since", str(since))] if since is not None else []
    query += [("tag", tag) for tag in tags] + [("what", word) for word in what]
    query += [(key, value) for key, value in filters.items() if value]
    return Request(method="GET", path=PREFIX + "/events", query=query)


def metrics_request(
    allocation_id: str, metrics: Sequence[str], *, alerts_only: bool = False, history: str = ""
) -> Request:
    query = [("metric", ",".join(metrics))] if metrics else []
    query += [("alerts_only", "true")] if alerts_only else []
    query += [("history", history)] if history else []
    return Request(method="GET", path=PREFIX + at("allocations", allocation_id, "metrics", "stream"), query=query)
