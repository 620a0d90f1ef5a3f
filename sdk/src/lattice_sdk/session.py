"""Calls and streams over a list of servers: who is asked, what is said, when it is said again."""

import socket
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import msgspec

from lattice_sdk.auth import TokenSource
from lattice_sdk.errors import (
    ApiError,
    BadAnswer,
    Invalid,
    LatticeError,
    Unavailable,
    Unreachable,
    error_class,
)
from lattice_sdk.protocol import advice
from lattice_sdk.retry import Attempts, RetryPolicy
from lattice_sdk.transport import UPGRADED, Answer, Connection, Endpoint, ProtocolError, quote

T = TypeVar("T")
Query = Sequence[tuple[str, str]]

PREFIX = "/api/v1"
ASK_AGAIN = frozenset({502, 503, 504, 507})
UNSUPPORTED = 426
STATUS_OF_CODE = {
    "invalid": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "already_exists": 409,
    "too_large": 413,
    "unsupported_version": 426,
    "quota": 422,
    "infeasible": 422,
    "unavailable": 503,
    "storage_full": 507,
}
NAME_UNKNOWN = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to ask; `path` is absolute and encoded."""

    method: str
    path: str
    query: Query = ()
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    timeout_s: float | None = None
    is_patient: bool = False  # silence is expected and not reported

    @property
    def target(self) -> str:
        if not self.query:
            return self.path
        return self.path + "?" + "&".join(f"{key}={quote(value)}" for key, value in self.query)


class Stream(NamedTuple):
    """An answer whose body is still coming, and the connection that is its own."""

    connection: Connection
    answer: Answer


class NotNow(Exception):
    """This try failed; `error` is what the caller gets if no other follows, `final` = none would help."""

    def __init__(self, why: str, error: LatticeError | None = None, *, final: bool = False) -> None:
        self.why = why
        self.error = error
        self.final = final


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    code: str = ""
    message: str = ""
    current: str | None = None
    requested: str | None = None
    limit: str | None = None
    hint: str | None = None


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    error: ErrorBody


def api_error(body: ErrorBody, status: int) -> ApiError:
    """The exception for an error object of the server."""
    return error_class(status)(
        body.message or f"refused with status {status}",
        code=body.code,
        status=status,
        current=body.current or "",
        requested=body.requested or "",
        limit=body.limit or "",
        hint=body.hint or (advice(body.current or "") if status == UNSUPPORTED else ""),
    )


def carried_error(fields: object) -> ApiError:
    """The exception for an error object that came inside a good answer."""
    body = msgspec.convert(fields, type=ErrorBody)
    return api_error(body, STATUS_OF_CODE.get(body.code, 500))


def answered_error(endpoint: Endpoint, status: int, data: bytes) -> LatticeError:
    """The exception for an answer with a status of 400 or more."""
    try:
        return api_error(msgspec.json.decode(data, type=ErrorAnswer).error, status)
    except msgspec.MsgspecError:
        if status in ASK_AGAIN:
            return Unavailable(f"{endpoint} is not ready", code="unavailable", status=status, hint="try again")
        return BadAnswer(f"{endpoint} answered {status}, but not as a Lattice server does")


def explain(error: OSError | ProtocolError) -> str:
    """Why there was no answer, in a few words."""
    if isinstance(error, ProtocolError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error) or type(error).__name__).lower()


def is_hopeless(error: OSError | ProtocolError) -> bool:
    """Whether the next try can only fail in the same way."""
    if isinstance(error, socket.gaierror):
        return error.errno in NAME_UNKNOWN
    return type(error).__name__ == "SSLCertVerificationError"


class Session:
    """A place to send requests to. Not thread-safe."""

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
        self._endpoints = tuple(endpoints)
        self._stale = stale
        self._ca_file = ca_file
        self._token = token
        self._policy = policy
        self._timeout_s = timeout_s
        self._headers = headers
        self._position = 0
        self._connection: Connection | None = None

    @property
    def endpoint(self) -> Endpoint:
        return self._endpoints[self._position]

    @property
    def policy(self) -> RetryPolicy:
        return self._policy

    @property
    def addresses(self) -> tuple[str, ...]:
        return tuple(str(endpoint) for endpoint in self._endpoints)

    def twin(self) -> "Session":
        """Another session with the same servers and token, for another thread."""
        return Session(
            self._endpoints,
            self._token,
            policy=self._policy,
            timeout_s=self._timeout_s,
            headers=self._headers,
            ca_file=self._ca_file,
            stale=self._stale,
        )

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def call(self, request: Request) -> bytes:
        """The body of the answer; raises what the server refuses, and Unreachable."""
        return self._persist(request, lambda attempts: self._call_once(request, attempts))

    def pieces(self, request: Request, began: Callable[[dict[str, str]], None] | None = None) -> Iterator[bytes]:
        """The body of the answer as it comes, for what may be large; Unreachable when it is cut off.

        `began` gets the headers of the answer, by their names in lower case.
        """
        stream = self.open(request)
        try:
            if began is not None:
                began(stream.answer.headers)
            yield from stream.answer.chunks()
        except (OSError, ProtocolError) as error:
            raise Unreachable(self.addresses, f"the answer was cut off, {explain(error)}", 0.0) from None
        finally:
            stream.connection.close()

    def open(self, request: Request) -> Stream:
        """The beginning of an answer, on a connection of its own, which the caller closes."""
        return self._persist(request, lambda _attempts: self._open_once(request))

    def _persist(self, request: Request, once: Callable[[Attempts], T]) -> T:
        attempts = self._policy.begin()
        is_first = True
        while True:
            try:
                return once(attempts)
            except NotNow as failed:
                if is_first and request.is_patient:
                    attempts = self._policy.begin()  # the silence before was no failure
                is_first = False
                where = ", ".join(self.addresses)
                if failed.final or not attempts.again(f"no answer from {where} ({failed.why})"):
                    raise self._last_word(failed, attempts) from None

    def _last_word(self, failed: NotNow, attempts: Attempts) -> LatticeError:
        if failed.error is not None:
            return failed.error
        return Unreachable(self.addresses, failed.why, attempts.elapsed_s)

    def _any_server(self, ask: Callable[[], T]) -> T:
        """What the first server says that can be reached, beginning with the one that answered last."""
        failures = []
        for _ in self._endpoints:
            try:
                return ask()
            except (OSError, ProtocolError) as error:
                failures.append(error)
                self._move_on()
        raise NotNow(explain(failures[-1]), final=all(map(is_hopeless, failures)))

    def _call_once(self, request: Request, attempts: Attempts) -> bytes:
        def waiting() -> None:
            attempts.tell(f"waiting for an answer from {self.endpoint}")

        notice = None if request.is_patient else waiting
        status, data = self._any_server(lambda: self._exchange(request, notice))
        return self._accepted(status, data)

    def _exchange(self, request: Request, waiting: Callable[[], None] | None) -> tuple[int, bytes]:
        head, body = self._encoded(request)
        while True:
            connection = self._connected(request)
            was_used = connection.is_used
            try:
                answer = connection.ask(head, body, waiting)
                return answer.status, answer.read()
            except (OSError, ProtocolError) as error:
                is_stale = was_used and not connection.has_heard and not isinstance(error, TimeoutError)
                self.close()
                if not is_stale:
                    raise

    def _connected(self, request: Request) -> Connection:
        timeout_s = request.timeout_s or self._timeout_s
        if self._connection is None or not self._connection.is_idle:
            self.close()
            self._connection = Connection(self.endpoint, timeout_s, self._ca_file)
        self._connection.timeout_s = timeout_s
        return self._connection

    def _accepted(self, status: int, data: bytes) -> bytes:
        if 200 <= status < 300:
            return data
        if status < 400:
            raise BadAnswer(f"{self.endpoint} answered {status}, but not as a Lattice server does")
        error = answered_error(self.endpoint, status, data)
        if status not in ASK_AGAIN:
            raise error
        self._move_on()
        raise NotNow(str(error), error)

    def _move_on(self) -> None:
        if len(self._endpoints) > 1:
            self.close()
            self._position = (self._position + 1) % len(self._endpoints)

    def _open_once(self, request: Request) -> Stream:
        stream = self._any_server(lambda: self._begin(request))
        if stream.answer.status in (200, UPGRADED):
            return stream
        self._accepted(stream.answer.status, self._rest(stream))
        raise BadAnswer(f"{self.endpoint} sent nothing to read")

    def _begin(self, request: Request) -> Stream:
        head, body = self._encoded(request)
        connection = Connection(self.endpoint, request.timeout_s or self._timeout_s, self._ca_file)
        try:
            return Stream(connection, connection.ask(head, body))
        except BaseException:
            connection.close()
            raise

    def _rest(self, stream: Stream) -> bytes:
        try:
            return stream.answer.read()
        except (OSError, ProtocolError):
            return b""
        finally:
            stream.connection.close()

    def _encoded(self, request: Request) -> tuple[bytes, bytes]:
        return encoded(self.endpoint, request, self._headers, self._token(), stale=self._stale)


def encoded(
    endpoint: Endpoint, request: Request, common: Sequence[tuple[str, str]], token: str, *, stale: bool
) -> tuple[bytes, bytes]:
    """Head and body of a request as they are sent."""
    body = request.body or b""
    host = "localhost" if endpoint.scheme == "unix" else _host_header(endpoint)
    headers = [("Host", host), *common, *request.headers]
    if token:
        headers.append(("Authorization", f"Bearer {token}"))
    if request.body is not None:
        headers.append(("Content-Type", "application/json"))
    if request.method != "GET" or body:
        headers.append(("Content-Length", str(len(body))))
    target = at_any_age(request.target) if stale and request.method == "GET" else request.target
    first = f"{request.method} {endpoint.prefix}{target} HTTP/1.1\r\n"
    lines = "".join([_header(name, value) for name, value in headers])
    return (first + lines + "\r\n").encode("ascii"), body


def at_any_age(target: str) -> str:
    """The same read, answered from what the server has."""
    return target + ("&" if "?" in target else "?") + "consistency=stale"


def _header(name: str, value: str) -> str:
    if not (value.isascii() and value.isprintable()):
        raise Invalid(f"{name} may hold printable ASCII characters only", code="invalid")
    return f"{name}: {value}\r\n"


def _host_header(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"
