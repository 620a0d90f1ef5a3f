"""Requests to a time-series store: where to, with which credentials, and what its answers mean."""

import asyncio
import ssl
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sized

from msgspec import Struct

from lattice.agent.telemetry.push.encoding import CONTENT
from lattice.agent.telemetry.push.marking import marked_opener

TIMEOUT_S = 10.0
RETRY_S = (2.0, 60.0)


class PushSettings(Struct, frozen=True, kw_only=True):
    """Where to, as which node; `token` gives the bearer token, each time again. `dscp` marks the packets; 0 = not."""

    endpoint: str
    node: str
    group: str = ""
    token: Callable[[], str] | None = None
    ca_file: str = ""
    dscp: int = 0


class StoreRefused(Exception):
    """The store will not take these samples, however often they are sent."""


class StoreUnreachable(Exception):
    """The store may take them later."""


class StoreRequests:
    """`post` waits: for threads of their own."""

    def __init__(self, settings: PushSettings) -> None:
        self._settings = settings
        self._opener = marked_opener(settings.dscp, ssl.create_default_context(cafile=settings.ca_file or None))

    def post(self, body: bytes) -> None:
        """Raises StoreUnreachable and StoreRefused."""
        headers = dict(CONTENT)
        try:
            if self._settings.token is not None:
                headers["Authorization"] = f"Bearer {self._settings.token()}"
            request = urllib.request.Request(self._settings.endpoint, body, headers, method="POST")  # noqa: S310 - checked
            with self._opener.open(request, timeout=TIMEOUT_S):
                return
        except urllib.error.HTTPError as error:
            with error:
                text = f"{error.code} {error.reason}"
            if 400 <= error.code < 500 and error.code not in (401, 403, 408, 429):
                raise StoreRefused(text) from None
            raise StoreUnreachable(text) from None
        except (OSError, ValueError) as error:
            raise StoreUnreachable(str(error)) from None


async def push_for_good(
    every_s: float, waiting: Sized, push_batch: Callable[[], Awaitable[bool]], begin: Callable[[], None] = lambda: None
) -> None:
    """Never returns: after each pause, `begin`, and then batches until nothing waits. After one that has to wait (False) a
    longer and longer while passes."""
    delay_s, longest_s = RETRY_S
    while True:
        await asyncio.sleep(every_s)
        begin()
        while waiting:
            if await push_batch():
                delay_s = RETRY_S[0]
            else:
                await asyncio.sleep(delay_s)
                delay_s = min(longest_s, delay_s * 2)
