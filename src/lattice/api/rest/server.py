"""uvicorn as the servers use it."""

import asyncio
import contextlib
from collections.abc import Iterator
from socket import socket

import uvicorn
from starlette.types import ASGIApp

from lattice.api.rest.responses import HttpConnection

_LOOK_AGAIN_S = 0.001


class NotListening(Exception):
    """The listener ended before it took a connection; the text says why."""


class RestServer(uvicorn.Server):
    """uvicorn on an existing event loop; signals are handled elsewhere."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def begin(self, bound: socket, name: str) -> asyncio.Task[None]:
        """The task that serves on a bound socket, once it listens. Raises NotListening."""
        task = asyncio.create_task(self.serve(sockets=[bound]), name=name)
        while not self.started:
            if task.done():
                raise NotListening(f"cannot start the listener: {task.exception()}")
            await asyncio.sleep(_LOOK_AGAIN_S)
        return task


def server_settings(app: ASGIApp, http: type[HttpConnection], *, patience_s: int) -> uvicorn.Config:
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
