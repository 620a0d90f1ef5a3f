"""uvicorn as the servers use it."""

import contextlib
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class RestServer(uvicorn.Server):
    """uvicorn on an existing event loop; signals are handled elsewhere."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_settings(app: ASGIApp, http: type[HttpToolsProtocol], *, patience_s: int) -> uvicorn.Config:
    """Settings of every listener: our own log, no WebSockets, no trusted proxy headers."""
    return uvicorn.Config(
        app,
        http=http,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=patience_s,
    )
