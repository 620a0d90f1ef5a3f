"""Calls and streams over a list of servers on the event loop: the counterpart of `session.py`."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from lattice_sdk.asynchronous.transport import AsyncAnswer, AsyncPool
from lattice_sdk.auth import TokenSource
from lattice_sdk.errors import BadAnswer, LatticeError, Unreachable
from lattice_sdk.retry import Attempts, RetryPolicy
from lattice_sdk.session import ASK_AGAIN, NotNow, Request, Session, answered_error, encoded, explain, is_hopeless
from lattice_sdk.transport import Endpoint, ProtocolError

T = TypeVar("T")

# Requests at the same time. More only wait for each other at the server; those that wait here are not timed.
MAX_CONCURRENT = 32


class AsyncSession:
    """A place to send requests to. It may be used by many tasks concurrently, and by one event loop after the other."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        token: TokenSource,
        *,
        policy: RetryPolicy,
        timeout_s: float,
        headers: tuple[tuple[str, str], ...] = (),
        ca_file: str = "",
        stale: bool = False,
    ) -> None:
        self._stale = stale
        self._endpoints = tuple(endpoints)
        self._ca_file = ca_file
        self._token = token
        self._policy = policy
        self._timeout_s = timeout_s
        self._headers = headers
        self._position = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._pools: dict[Endpoint, AsyncPool] = {}
        self._context: ssl.SSLContext | None = None

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoints[self._position]

    @property
    def policy(self) -> RetryPolicy:
        return self._policy

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(str(endpoint) for endpoint in self._endpoints)

    def twin(self) -> Session:
        """One that waits, with the same servers and token, for another thread."""
        return Session(
            self._endpoints,
            self._token,
            policy=self._policy,
            timeout_s=self._timeout_s,
            headers=self._headers,
            ca_file=self._ca_file,
        )

    async def close(self) -> None:
        pools, self._pools = self._pools, {}
        if self._loop is asyncio.get_running_loop():
            for pool in pools.values():
                pool.close()
            await asyncio.sleep(0)  # the loop closes their sockets in its next turn

    async def call(self, request: Request) -> bytes:
        """The body of the answer; raises what the server refuses, and Unreachable."""

        async def once() -> bytes:
            answer = await self._any_server(request)
            return self._accepted(answer.status, await _whole(answer))

        if request.is_patient:
            return await self._persist(once)
        self._meet_loop()
        async with self._slots:
            return await self._persist(once)

    async def open(self, request: Request) -> AsyncAnswer:
        """The beginning of an answer, which the caller closes."""

        async def once() -> AsyncAnswer:
            answer = await self._any_server(request)
            if answer.status != 200:
                self._accepted(answer.status, await _whole(answer))
                raise BadAnswer(f"{self.endpoint} sent nothing to read")
            return answer

        return await self._persist(once)

    async def pieces(self, request: Request, began: Callable[[Mapping[str, str]], None]) -> AsyncIterator[bytes]:
        """The body of the answer as it comes; Unreachable when it is cut off."""
        answer = await self.open(request)
        try:
            began(answer.headers)
            async for piece in answer.chunks():
                yield piece
        except (OSError, ProtocolError) as error:
            raise Unreachable(self.addresses, f"the answer was cut off, {explain(error)}", 0.0) from None
        finally:
            answer.close()

    async def _persist(self, once: Callable[[], Awaitable[T]]) -> T:
        attempts = self._policy.begin()
        while True:
            try:
                return await once()
            except NotNow as failed:
                where = ", ".join(self.addresses)
                pause_s = None if failed.final else attempts.next_pause_s(f"no answer from {where} ({failed.why})")
                if pause_s is None:
                    raise self._last_word(failed, attempts) from None
                await asyncio.sleep(pause_s)

    def _last_word(self, failed: NotNow, attempts: Attempts) -> LatticeError:
        if failed.error is not None:
            return failed.error
        return Unreachable(self.addresses, failed.why, attempts.elapsed_s)

    async def _any_server(self, request: Request) -> AsyncAnswer:
        """What the first server says that can be reached, beginning with the one that answered last."""
        failures: list[OSError | ProtocolError] = []
        for _ in self._endpoints:
            endpoint = self.endpoint
            try:
                return await self._ask(endpoint, request)
            except (OSError, ProtocolError) as error:
                failures.append(error)
                self._move_on(endpoint)
        raise NotNow(explain(failures[-1]), final=all(map(is_hopeless, failures)))

    async def _ask(self, endpoint: Endpoint, request: Request) -> AsyncAnswer:
        token = await asyncio.to_thread(self._token) if getattr(self._token, "may_wait", False) else self._token()
        head, body = encoded(endpoint, request, self._headers, token, stale=self._stale)
        return await self._pool(endpoint).ask(head, body, request.timeout_s or self._timeout_s)

    def _meet_loop(self) -> None:
        """Connections and slots belong to one loop; a notebook or a second asyncio.run has another one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._pools, self._slots = loop, {}, asyncio.Semaphore(MAX_CONCURRENT)

    def _pool(self, endpoint: Endpoint) -> AsyncPool:
        self._meet_loop()
        known = self._pools.get(endpoint)
        if known is None:
            known = self._pools[endpoint] = AsyncPool(endpoint, self._trust)
        return known

    def _trust(self) -> ssl.SSLContext:
        """Made once: reading the authorities takes longer than a connection."""
        if self._context is None:
            self._context = ssl.create_default_context(cafile=self._ca_file or None)
        return self._context

    def _accepted(self, status: int, data: bytes) -> bytes:
        if 200 <= status < 300:
            return data
        endpoint = self.endpoint
        if status < 400:
            raise BadAnswer(f"{endpoint} answered {status}, but not as a Lattice server does")
        error = answered_error(endpoint, status, data)
        if status not in ASK_AGAIN:
            raise error
        self._move_on(endpoint)
        raise NotNow(str(error), error)

    def _move_on(self, endpoint: Endpoint) -> None:
        # Another task may have moved on already.
        if self.endpoint == endpoint:
            self._position = (self._position + 1) % len(self._endpoints)


async def _whole(answer: AsyncAnswer) -> bytes:
    try:
        return await answer.read()
    except (OSError, ProtocolError) as error:
        raise NotNow(explain(error)) from None
    finally:
        answer.close()
