"""Where clients of REST arrive, from the first moment of a server: it says which application serves them.

A server that starts answers lists of work as soon as it knows its state, before its loops, the other operations and gRPC are there.
"""

import asyncio
from contextlib import suppress

from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.api.access.admission import authenticate
from lattice.api.auth.rbac import may_at_all
from lattice.api.errors import ErrorAnswer, starting
from lattice.api.limits import MAX_ADDRESS
from lattice.api.operations.work.listing import LISTS
from lattice.api.rest.endpoint import RETRY, Endpoint, send_json
from lattice.api.rest.requests import Headers
from lattice.api.services import Services
from lattice.ports.site.identity import Unauthenticated

_PREFIXES = ("/api/v1", "/v1")
_EARLY = {prefix + each.path: each for each in LISTS for prefix in _PREFIXES}


class Health(Struct, frozen=True):
    status: str


class StartupGate:
    """Tells clients to come back until `open` says which application serves them.

    Where `hold_s` is set, a request that comes before waits that long: it is answered sooner than one that is made again.
    """

    def __init__(self) -> None:
        self.hold_s = 0.0
        self._app: ASGIApp | None = None
        self._early: _Lists | None = None
        self._changed = asyncio.Event()
        self._lists = 0  # requests for lists of work that wait or are being answered
        self._none_left = asyncio.Event()

    def open(self, app: ASGIApp) -> None:
        self._app = app
        self._change()

    async def answer_lists(self, services: Services, within_s: float) -> None:
        """Answers lists of work from these services until `open`; returns when no client waits for one, or the time is over."""
        self._early = _Lists(services)
        self._change()
        self._none_left.clear()
        if self._lists:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_left.wait(), within_s)

    def _change(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1013})
        elif scope["path"] == "/healthz":
            await send_json(send, 503, Health("recovering"), Headers(scope).request_id, RETRY)
        elif _is_list(scope):
            self._lists += 1
            try:
                await self._hold(scope, receive, send)
            finally:
                self._lists -= 1
                if not self._lists:
                    self._none_left.set()
        else:
            await self._hold(scope, receive, send)

    async def _hold(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.hold_s) as limit:
                while self._app is None:
                    if self._early is not None and await self._early.welcomes(scope):
                        limit.reschedule(None)
                        await self._early(scope, receive, send)
                        return
                    await self._changed.wait()
        if self._app is not None:
            await self._app(scope, receive, send)
        else:
            await send_json(send, 503, ErrorAnswer(starting().view), Headers(scope).request_id, RETRY)


def _is_list(scope: Scope) -> bool:
    """Whether it asks for a list of work, in the plain way."""
    query: bytes = scope["query_string"]
    is_plain = b"consistency=" not in query and len(scope["path"]) + len(query) <= MAX_ADDRESS
    return scope["method"] == "GET" and scope["path"] in _EARLY and is_plain


class _Lists:
    """The operations that a server answers before it has all of them."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._endpoints = {path: Endpoint(each, services) for path, each in _EARLY.items()}

    async def welcomes(self, scope: Scope) -> bool:
        """Whether the caller may be answered now. Others wait for the application, which notes whom it turns away."""
        if not _is_list(scope):
            return False
        try:
            identity = await authenticate(self._services, Headers(scope).authorization)
        except Unauthenticated:
            return False
        return may_at_all(identity, _EARLY[scope["path"]].permission)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["path_params"] = {}
        await self._endpoints[scope["path"]](scope, receive, send)
