"""Spans to a collector of OpenTelemetry, as JSON over HTTP (OTLP/HTTP, `POST ENDPOINT/v1/traces`).

A collector that is slow or gone costs nothing but spans: those that do not fit are dropped and counted.
"""

import asyncio
import logging
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lattice.ports.site.traces import Span

MAX_WAITING = 4096
BATCH = 512
EVERY_S = 1.0
TIMEOUT_S = 5.0
_INTERNAL, _OK, _ERROR = 1, 1, 2

_log = logging.getLogger(__name__)


class OtlpExporter:
    """Implements `SpanSink`; `run` sends. `headers` go with each request: a credential of the collector, for example."""

    def __init__(self, endpoint: str, service: str, server: str, headers: Mapping[str, str] | None = None) -> None:
        self._url = f"{endpoint.rstrip('/')}/v1/traces"
        self._resource = _attributes({"service.name": service, "service.instance.id": server})
        self._headers = {**(headers or {}), "content-type": "application/json"}
        self._waiting: deque[Span] = deque()
        self.dropped = self.sent = 0
        self._was_told = False

    def add(self, span: Span) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(span)

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.flush()

    async def flush(self) -> None:
        """Sends what waits; keeps it when the collector does not answer."""
        while self._waiting:
            batch = [self._waiting[place] for place in range(min(BATCH, len(self._waiting)))]
            try:
                await asyncio.to_thread(self._send, self._document(batch))
            except (OSError, ValueError) as error:
                if not self._was_told:
                    _log.warning("no traces are sent: %s: %s", self._url, error)
                self._was_told = True
                return
            self._was_told = False
            self.sent += len(batch)
            for _ in batch:
                self._waiting.popleft()

    def _send(self, body: bytes) -> None:
        request = urllib.request.Request(self._url, body, self._headers, method="POST")  # noqa: S310 - checked with the configuration
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the same
                answer.read(1024)
        except urllib.error.HTTPError as error:
            error.close()
            if 400 <= error.code < 500 and error.code != 429:
                _log.warning("the collector refuses traces: %d", error.code)  # sending them again would not help
                return
            raise

    def _document(self, spans: Iterable[Span]) -> bytes:
        made = {
            "resourceSpans": [
                {
                    "resource": {"attributes": self._resource},
                    "scopeSpans": [{"scope": {"name": "lattice"}, "spans": [_span(span) for span in spans]}],
                }
            ]
        }
        return msgspec.json.encode(made)


def _span(span: Span) -> dict[str, Any]:
    parent = {"parentSpanId": span.parent} if span.parent else {}
    return {
        "traceId": span.trace,
        "spanId": span.span,
        **parent,
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(span.began_at * 1_000_000),
        "endTimeUnixNano": str(max(span.began_at, span.ended_at) * 1_000_000),
        "attributes": _attributes(span.attributes),
        "status": {"code": _ERROR if span.is_error else _OK},
    }


def _attributes(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": value}} for key, value in values.items()]
