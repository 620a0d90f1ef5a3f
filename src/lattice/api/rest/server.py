"""uvicorn as the servers use it."""

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from socket import socket

import uvicorn
from starlette.types import ASGIApp

from lattice.api.rest.responses import HttpConnection

_LOOK_AGAIN_S = 0.001
MAX_FRAME = 2 << 20
# A connection that does not answer for a minute and a half is gone.
PING_EVERY_S, PING_TIMEOUT_S = 30.0, 60.0


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


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """uvicorn takes a handshake that we refuse with an HTTP status for a mistake of ours; any caller could fill the log with that."""
    return record.msg != "ASGI callable returned without completing handshake."


def server_settings(
    app: ASGIApp, http: type[HttpConnection], *, patience_s: int, has_sockets: bool = False
) -> uvicorn.Config:
    """Settings of every listener: our own log, no trusted proxy headers, WebSockets only where there are terminals."""
    logging.getLogger("uvicorn.error").addFilter(is_worth_a_line)
    return uvicorn.Config(
        app,
        http=http,
        ws="websockets-sansio" if has_sockets else "none",
        ws_max_size=MAX_FRAME,
        ws_ping_interval=PING_EVERY_S,
        ws_ping_timeout=PING_TIMEOUT_S,
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=patience_s,
    )
