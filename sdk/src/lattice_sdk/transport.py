"""HTTP/1.1 over one socket: what the client needs and no more.

The standard library's client imports the mail parser, which costs a command more time than its
whole conversation with the server; this costs the socket module alone. TLS is imported for https only.
"""

import contextlib
import socket
from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import NamedTuple

CHUNK = 65536
MAX_HEAD = 65536
CONNECT_TIMEOUT_S = 5.0
UPGRADED = 101
DEFAULT_PORTS = {"http": 80, "https": 443}


class ProtocolError(Exception):
    """What came back is not HTTP, or ends too early."""


class Endpoint(NamedTuple):
    """One server address; `scheme` is http, https or unix (then `host` is the socket's path)."""

    scheme: str
    host: str
    port: int
    prefix: str = ""

    def __str__(self) -> str:
        if self.scheme == "unix":
            return f"unix://{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.prefix}"


def parse_endpoint(text: str) -> Endpoint:
    """The address in `http://host:port`, `https://host`, `host:port` or `unix:///path`; ValueError else."""
    scheme, separator, rest = text.strip().partition("://")
    if not separator:
        scheme, rest = "http", text.strip()
    if scheme == "unix" and rest.startswith("/"):
        return Endpoint("unix", rest, 0)
    if scheme not in DEFAULT_PORTS:
        raise ValueError(f'"{text}" is not an address; write http://HOST:PORT')
    authority, slash, path = rest.partition("/")
    host, port = _host_and_port(authority, DEFAULT_PORTS[scheme])
    readable = rest.isascii() and rest.isprintable() and " " not in rest and "@" not in authority
    if not host or port is None or not readable:
        raise ValueError(f'"{text}" is not an address; write {scheme}://HOST:PORT')
    return Endpoint(scheme, host, port, (slash + path).rstrip("/"))


def parse_endpoints(texts: Iterable[str], *, insecure_http: bool = False) -> list[Endpoint]:
    """The addresses; ValueError for what is none, and for plain http to another machine unless that is asked for."""
    found = [parse_endpoint(text) for text in texts if text.strip()]
    for endpoint in found:
        if endpoint.scheme == "http" and not insecure_http and not is_loopback(endpoint.host):
            raise ValueError(
                f"{endpoint} is plain http to another machine, which exposes your token on the network; "
                "use https, or ask for it with --insecure-http, LATTICE_INSECURE_HTTP=1 or insecure_http"
            )
    return found


def is_loopback(host: str) -> bool:
    """Whether the host is this machine by name or address."""
    is_number = host.startswith("127.") and not host.strip("0123456789.")
    return host.lower() == "localhost" or host == "::1" or is_number


SAYS_YES = frozenset({"1", "true", "yes"})  # of LATTICE_INSECURE_HTTP


def _host_and_port(authority: str, default: int) -> tuple[str, int | None]:
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        tail = rest.removeprefix(":")
    else:
        host, _, tail = authority.partition(":")
    if not tail:
        return host, default
    valid = tail.isascii() and tail.isdigit() and 0 < int(tail) < 65536
    return host, int(tail) if valid else None


_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


def quote(text: str) -> str:
    """Percent-encoded, fit for a path segment or a query value."""
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in data)


class Answer:
    """One response; the body is read whole by `read` or as it comes by `chunks`."""

    def __init__(self, connection: "Connection", status: int, headers: dict[str, str]) -> None:
        self.status = status
        self.headers = headers
        self._connection = connection
        self._length = _content_length(headers)
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        self._keeps = headers.get("connection", "").lower() != "close"

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def chunks(self) -> Iterator[bytes]:
        """The body in pieces as they arrive; the connection is free again after the last one."""
        if self._chunked:
            yield from self._chunked_body()
        elif self._length is None and self.status not in (204, 304):
            self._keeps = False
            while piece := self._connection.receive():
                yield piece
        else:
            yield from self._connection.exactly(self._length or 0)
        self._connection.finish(keep=self._keeps)

    def _chunked_body(self) -> Iterator[bytes]:
        connection = self._connection
        while True:
            size_text = connection.line().partition(b";")[0].strip()
            try:
                size = int(size_text, 16)
            except ValueError:
                raise ProtocolError(f"bad chunk size {size_text[:20]!r}") from None
            if size == 0:
                break
            yield from connection.exactly(size)
            connection.line()
        while connection.line():
            continue


def _content_length(headers: dict[str, str]) -> int | None:
    text = headers.get("content-length")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise ProtocolError(f"bad Content-Length {text[:20]!r}")
    return int(text)


class Connection:
    """One connection to one endpoint, used for one request after the other."""

    def __init__(self, endpoint: Endpoint, timeout_s: float, ca_file: str = "") -> None:
        self.endpoint = endpoint
        self.timeout_s = timeout_s
        self.is_used = False
        self.has_heard = False
        self._buffer = bytearray()
        self._socket = connect(endpoint, ca_file, min(timeout_s, CONNECT_TIMEOUT_S))
        self._is_idle = True

    @property
    def is_idle(self) -> bool:
        return self._is_idle

    def close(self) -> None:
        self._is_idle = False
        self._socket.close()

    def interrupt(self) -> None:
        """End a read that another thread waits in."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def detach(self) -> tuple[socket.socket, bytes]:
        """The socket of a connection that was upgraded, without a time limit, and what came behind the head."""
        self._is_idle = False
        self._socket.settimeout(None)
        return self._socket, bytes(self._buffer)

    def finish(self, *, keep: bool) -> None:
        self._is_idle = keep
        self.is_used = True
        if not keep:
            self._socket.close()

    def ask(self, head: bytes, body: bytes, waiting: Callable[[], None] | None = None) -> Answer:
        """Send one request and read the head of its answer.

        `waiting` is called once when a second has passed without an answer.
        """
        self._is_idle = False
        self.has_heard = False
        self._socket.settimeout(self.timeout_s)
        failure: OSError | None = None
        try:
            self._socket.sendall(head + body)
        except TimeoutError:
            raise
        except OSError as error:
            # A server that refuses a large body answers and closes before it has read everything.
            failure = error
        try:
            self._await_first_byte(waiting)
            return self._read_head()
        except (OSError, ProtocolError):
            if failure is not None:
                raise failure from None
            raise

    def _await_first_byte(self, waiting: Callable[[], None] | None) -> None:
        if waiting is None or self.timeout_s <= 1.0:
            self._fill()
            return
        deadline = monotonic() + self.timeout_s
        self._socket.settimeout(1.0)
        try:
            self._fill()
        except TimeoutError:
            waiting()
            self._socket.settimeout(max(0.1, deadline - monotonic()))
            self._fill()
        self._socket.settimeout(self.timeout_s)

    def _fill(self) -> None:
        data = self._socket.recv(CHUNK)
        if not data:
            raise ProtocolError("the connection was closed")
        self.has_heard = True
        self._buffer += data

    def _read_head(self) -> Answer:
        while True:
            words = self.line().split(None, 2)
            if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
                raise ProtocolError("the answer is not HTTP")
            headers: dict[str, str] = {}
            while line := self.line():
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.strip().lower()] = value.strip()
            status = int(words[1])
            if status >= 200 or status == UPGRADED:
                return Answer(self, status, headers)

    def line(self) -> bytes:
        """The next line, without its end."""
        while True:
            end = self._buffer.find(b"\n")
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + 1]
                return line.removesuffix(b"\r")
            if len(self._buffer) > MAX_HEAD:
                raise ProtocolError("a header line is too long")
            self._fill()

    def exactly(self, size: int) -> Iterator[bytes]:
        """`size` bytes in pieces; ProtocolError when fewer come."""
        while size:
            if not self._buffer:
                self._fill()
            piece = bytes(self._buffer[:size])
            del self._buffer[:size]
            size -= len(piece)
            yield piece

    def receive(self) -> bytes:
        """Whatever comes next; empty at the end."""
        if self._buffer:
            data = bytes(self._buffer)
            self._buffer.clear()
            return data
        return self._socket.recv(CHUNK)


def connect(endpoint: Endpoint, ca_file: str = "", timeout_s: float = CONNECT_TIMEOUT_S) -> socket.socket:
    """A connected socket, wrapped in TLS where the scheme says so; `ca_file` is whom to trust instead of the system's authorities."""
    if endpoint.scheme == "unix":
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            plain.settimeout(timeout_s)
            plain.connect(endpoint.host)
        except BaseException:
            plain.close()
            raise
        return plain
    # As bytes: for a text, the resolver would load the tables of international names.
    address = (endpoint.host.encode("ascii"), endpoint.port)
    plain = socket.create_connection(address, timeout=timeout_s)  # type: ignore[arg-type]
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain if endpoint.scheme == "http" else _wrap(plain, endpoint.host, ca_file)


def _wrap(plain: socket.socket, host: str, ca_file: str) -> socket.socket:
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file or None).wrap_socket(plain, server_hostname=host)
    except BaseException:
        plain.close()
        raise
