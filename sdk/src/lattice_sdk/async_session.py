"""Calls and streams over a list of servers on the event loop: the counterpart of `session.py`, on httpx."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import httpx

from lattice_sdk.auth import TokenSource
from lattice_sdk.errors import BadAnswer, LatticeError, Unreachable
from lattice_sdk.retry import Attempts, RetryPolicy
from lattice_sdk.session import ASK_AGAIN, Request, Session, answered_error, at_any_age, explain, is_hopeless
from lattice_sdk.transport import CONNECT_TIMEOUT_S, Endpoint, ProtocolError

T = TypeVar("T")

# Requests at the same time. More only wait for each other at the server; those that wait here are not timed.
MAX_CONCURRENT = 32
# Requests that wait at the server for something to happen have connections of their own, as many as a program waits for.
MAX_CONNECTIONS = 1000


class _NotNow(Exception):
    """This try failed; `error` is what the caller gets if no other follows, `final` = none would help."""

    def __init__(self, why: str, error: LatticeError | None = None, *, final: bool = False) -> None:
        self.why = why
        self.error = error
        self.final = final


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
        self._clients: dict[Endpoint, httpx.AsyncClient] = {}

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
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients.values():
                await client.aclose()

    async def call(self, request: Request) -> bytes:
        """The body of the answer; raises what the server refuses, and Unreachable."""

        async def once() -> bytes:
            answer = await self._any_server(request)
            return self._accepted(answer.status_code, await _whole(answer))

        if request.is_patient:
            return await self._persist(once)
        self._meet_loop()
        async with self._slots:
            return await self._persist(once)

    async def open(self, request: Request) -> httpx.Response:
        """The beginning of an answer, which the caller closes."""

        async def once() -> httpx.Response:
            answer = await self._any_server(request)
            if answer.status_code != 200:
                self._accepted(answer.status_code, await _whole(answer))
                raise BadAnswer(f"{self.endpoint} sent nothing to read")
            return answer

        return await self._persist(once)

    async def pieces(self, request: Request, began: Callable[[httpx.Headers], None]) -> AsyncIterator[bytes]:
        """The body of the answer as it comes; Unreachable when it is cut off."""
        answer = await self.open(request)
        try:
            began(answer.headers)
            async for piece in answer.aiter_raw():
                yield piece
        except httpx.HTTPError as error:
            raise Unreachable(self.addresses, f"the answer was cut off, {reason(error)}", 0.0) from None
        finally:
            await answer.aclose()

    async def _persist(self, once: Callable[[], Awaitable[T]]) -> T:
        attempts = self._policy.begin()
        while True:
            try:
                return await once()
            except _NotNow as failed:
                where = ", ".join(self.addresses)
                pause_s = None if failed.final else attempts.next_pause_s(f"no answer from {where} ({failed.why})")
                if pause_s is None:
                    raise self._last_word(failed, attempts) from None
                await asyncio.sleep(pause_s)

    def _last_word(self, failed: _NotNow, attempts: Attempts) -> LatticeError:
        if failed.error is not None:
            return failed.error
        return Unreachable(self.addresses, failed.why, attempts.elapsed_s)

    async def _any_server(self, request: Request) -> httpx.Response:
        """What the first server says that can be reached, beginning with the one that answered last."""
        failures: list[httpx.HTTPError] = []
        for _ in self._endpoints:
            endpoint = self.endpoint
            try:
                return await self._ask(endpoint, request)
            except httpx.HTTPError as error:
                failures.append(error)
                self._move_on(endpoint)
        raise _NotNow(reason(failures[-1]), final=all(map(_is_hopeless, failures)))

    async def _ask(self, endpoint: Endpoint, request: Request) -> httpx.Response:
        headers = [*self._headers, *request.headers]
        token = await asyncio.to_thread(self._token) if getattr(self._token, "may_wait", False) else self._token()
        if token:
            headers.append(("Authorization", f"Bearer {token}"))
        if request.body is not None:
            headers.append(("Content-Type", "application/json"))
        timeout = httpx.Timeout(request.timeout_s or self._timeout_s, connect=CONNECT_TIMEOUT_S, pool=None)
        client = self._client(endpoint)
        target = at_any_age(request.target) if self._stale and request.method == "GET" else request.target
        url = f"{_base(endpoint)}{endpoint.prefix}{target}"
        built = client.build_request(request.method, url, content=request.body, headers=headers, timeout=timeout)
        return await client.send(built, stream=True)

    def _meet_loop(self) -> None:
        """Connections and slots belong to one loop; a notebook or a second asyncio.run has another one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._clients, self._slots = loop, {}, asyncio.Semaphore(MAX_CONCURRENT)

    def _client(self, endpoint: Endpoint) -> httpx.AsyncClient:
        self._meet_loop()
        known = self._clients.get(endpoint)
        if known is None:
            limits = httpx.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=MAX_CONCURRENT)
            is_local = endpoint.scheme == "unix"
            transport = httpx.AsyncHTTPTransport(uds=endpoint.host, limits=limits) if is_local else None
            trust = ssl.create_default_context(cafile=self._ca_file) if self._ca_file else True
            known = self._clients[endpoint] = httpx.AsyncClient(
                transport=transport, trust_env=False, verify=trust, limits=limits
            )
        return known

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
        raise _NotNow(str(error), error)

    def _move_on(self, endpoint: Endpoint) -> None:
        # Another task may have moved on already.
        if self.endpoint == endpoint:
            self._position = (self._position + 1) % len(self._endpoints)


async def _whole(answer: httpx.Response) -> bytes:
    try:
        return b"".join([piece async for piece in answer.aiter_raw()])
    except httpx.HTTPError as error:
        raise _NotNow(reason(error)) from None
    finally:
        await answer.aclose()


def reason(error: httpx.HTTPError) -> str:
    """Why there was no answer, in a few words."""
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    below = _system_error(error)
    return explain(below) if below is not None else explain(ProtocolError(str(error) or type(error).__name__))


def _is_hopeless(error: httpx.HTTPError) -> bool:
    below = _system_error(error)
    return below is not None and is_hopeless(below)


def _system_error(error: BaseException) -> OSError | None:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None


def _base(endpoint: Endpoint) -> str:
    if endpoint.scheme == "unix":
        return "http://localhost"
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{endpoint.scheme}://{host}:{endpoint.port}"
