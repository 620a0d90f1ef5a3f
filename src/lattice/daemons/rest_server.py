"""uvicorn as the servers use it."""

import contextlib
from collections.abc import Iterator

import uvicorn


class RestServer(uvicorn.Server):
    """uvicorn on an event loop that is not its own: signals are somebody else's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
