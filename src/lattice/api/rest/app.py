"""The REST side of a server: routes made from the operation table, and the few public addresses."""

import msgspec
from starlette.exceptions import HTTPException
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.api.access.figures import TENANT_PAGE, tenant_page
from lattice.api.errors import ApiError
from lattice.api.limits import MAX_ADDRESS
from lattice.api.operations.table import OPERATIONS
from lattice.api.protocol import server_version
from lattice.api.rest.endpoint import STALE, Endpoint, send_error, send_json
from lattice.api.rest.gate import Health
from lattice.api.rest.openapi import document_bytes
from lattice.api.rest.requests import Headers, source_of
from lattice.api.services import Services
from lattice.observe.metrics import CONTENT_TYPE

_PREFIX = "/v1"
_LONG_PREFIX = "/api/v1/"
_OTHER_SPELLINGS = {"/v1/audit/logs": "/v1/audit"}


def build_app(services: Services) -> "RestApp":
    """The ASGI application. `services.feed.close()` ends its streams and long polls when the server stops."""
    services.metrics.show_state(lambda: services.replica.state)
    return RestApp(services)


class RestApp:
    """Serves `/api/v1/...` and `/v1/...` alike."""

    def __init__(self, services: Services) -> None:
        self._services = services
        routes = _operation_routes(services)
        # Addresses without names in them are looked up; the router tries one route after the other.
        self._plain = {
            (method, route.path): route.endpoint
            for route in routes
            if not route.param_convertors
            for method in route.methods or ()
        }
        self._router = Router(
            routes=[*routes, *_public_routes(services)],
            redirect_slashes=False,
            default=_nothing_here,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "lifespan":
            await _lifespan(receive, send)
            return
        if kind != "http":
            # `Sockets` answers those; closing before accepting answers 403.
            await send({"type": "websocket.close", "code": 1008})
            return
        path: str = scope["path"]
        if len(path) + len(scope["query_string"]) > MAX_ADDRESS:
            await send_error(send, _long_address(), Headers(scope).request_id, "unknown")
            return
        if path.startswith(_LONG_PREFIX):
            scope["path"] = path = path[4:]
        if path in _OTHER_SPELLINGS:
            scope["path"] = _OTHER_SPELLINGS[path]
        if b"consistency=" in scope["query_string"]:
            choose_consistency(scope)
        plain = self._plain.get((scope["method"], scope["path"]))
        if plain is not None:
            scope["path_params"] = {}
            await plain(scope, receive, send)
            return
        # Makes the router raise for a wrong method instead of answering in plain text.
        scope["app"] = self
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            allowed = (error.headers or {}).get("Allow", "")
            problem = ApiError("method_not_allowed", f"{scope['method']} is not possible here", hint=f"use {allowed}")
            await send_error(send, problem, Headers(scope).request_id, "unknown")


def choose_consistency(scope: Scope) -> None:
    """Takes `consistency` out of the query: `stale` is answered from what this server has, anything else as usual."""
    pieces = scope["query_string"].split(b"&")
    scope["query_string"] = b"&".join(piece for piece in pieces if not piece.startswith(b"consistency="))
    scope[STALE] = scope["method"] in ("GET", "HEAD") and b"consistency=stale" in pieces


# Further addresses of an operation.
_ALIASES = {"/allocations/{id}/tasks": ("POST", "/allocations/{id}/steps")}


def _operation_routes(services: Services) -> list[Route]:
    by_path: dict[str, dict[str, Endpoint]] = {}
    for operation in OPERATIONS:
        endpoints = by_path.setdefault(operation.path, {})
        endpoints[operation.method] = Endpoint(operation, services)
    for alias, (method, path) in _ALIASES.items():
        by_path[alias] = {method: by_path[path][method]}
    return [Route(_PREFIX + path, _Methods(endpoints), methods=list(endpoints)) for path, endpoints in by_path.items()]


def _long_address() -> ApiError:
    return ApiError(
        "invalid", "the address is too long", limit=f"{MAX_ADDRESS:,} bytes", hint="ask in several requests"
    )


class _Methods:
    """All operations at one address."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._endpoints[method](scope, receive, send)


def _public_routes(services: Services) -> list[Route]:
    async def healthz(scope: Scope, receive: Receive, send: Send) -> None:
        outage = services.outage()
        ready = services.is_ready() and not outage
        health = Health("ok" if ready else outage or "recovering")
        await send_json(send, 200 if ready else 503, health, Headers(scope).request_id)

    async def metrics(scope: Scope, receive: Receive, send: Send) -> None:
        await _send_figures(send, services.metrics.render())

    async def tenant_metrics(scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope)
        try:
            page = await tenant_page(services, headers.authorization, source_of(scope))
        except Exception as error:  # noqa: BLE001 - the edge: everything becomes an answer
            await send_error(send, error, headers.request_id, TENANT_PAGE.name)
            return
        await _send_figures(send, page)

    async def discovery(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, services.discovery, Headers(scope).request_id)

    async def version(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, server_version(), Headers(scope).request_id)

    async def openapi(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, 200, msgspec.Raw(document_bytes()), Headers(scope).request_id)

    return [
        Route("/healthz", _Application(healthz), methods=["GET"]),
        Route("/metrics", _Application(metrics), methods=["GET"]),
        Route(TENANT_PAGE.path, _Application(tenant_metrics), methods=["GET"]),
        Route(f"{_PREFIX}/openapi.json", _Application(openapi), methods=["GET"]),
        Route(f"{_PREFIX}/version", _Application(version), methods=["GET"]),
        Route(f"{_PREFIX}/auth/discovery", _Application(discovery), methods=["GET"]),
    ]


async def _send_figures(send: Send, page: bytes) -> None:
    headers = [
        (b"content-type", CONTENT_TYPE.encode()),
        (b"cache-control", b"no-store"),
        (b"content-length", b"%d" % len(page)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": page})


class _Application:
    """Starlette hands a request object to plain functions; an object with __call__ is an application to it."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._application(scope, receive, send)


async def _nothing_here(scope: Scope, receive: Receive, send: Send) -> None:
    path: str = scope["path"]
    if path.startswith(f"{_PREFIX}/"):  # also what began with /api before the router saw it
        path, hint = f"/api{path}", "/api/v1/openapi.json lists the addresses"
    else:
        hint = "addresses start with /api/v1/"
    problem = ApiError("not_found", f"nothing at {path[:80]}", hint=hint)
    await send_error(send, problem, Headers(scope).request_id, "unknown")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
