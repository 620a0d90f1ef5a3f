"""One request to the server over HTTP/1.1, on a socket that is kept open for the next request."""

import _socket
from _json import make_scanner
from time import monotonic, sleep

from lattice.cli.slurm.place import Place

# Annotations are strings: importing the modules of these names takes longer than everything else.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 120.0
PATIENCE_S = 10.0  # for a server that restarts, or servers that elect a leader
PAUSE_S = 0.2
PATH = "/api/v1/slurm/commands"
_NO_MORE = "Unable to contact slurm controller (connect failure)"


class _Plain:
    """The C parts of json.loads, without the modules around them."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = float


_scan = make_scanner(_Plain())  # type: ignore[arg-type]  # any object with these attributes


class Unreachable(Exception):
    """No server gave a valid answer; the text says what came instead."""


class Broken(Exception):
    """This server cannot answer now; another may."""


def ask(place: Place, body: bytes) -> "Mapping[str, Any]":
    """The answer of the first server that gives one. The request id in the body makes a retry safe."""
    deadline = monotonic() + PATIENCE_S
    while True:
        for endpoint in place.endpoints:
            try:
                return _asked(place, endpoint, body)
            except (OSError, Broken) as error:
                problem = error
        if monotonic() > deadline:
            names = ", ".join(place.endpoints)
            raise Unreachable(f"{_NO_MORE}: {names}: {problem}")
        sleep(PAUSE_S)


def asked_before(descriptor: str) -> "Mapping[str, Any] | None":
    """The answer to a request that was sent on this connection; None where none came, so that the caller asks again."""
    try:
        connection = _socket.socket(fileno=int(descriptor))
        try:
            connection.settimeout(ANSWER_TIMEOUT_S)
            status, text = read_answer(connection)
        finally:
            connection.close()
        answer = scan(text)
    except (OSError, Broken, StopIteration, ValueError):
        return None
    return answer if status == 200 and isinstance(answer, dict) else None


def _asked(place: Place, endpoint: str, body: bytes) -> "Mapping[str, Any]":
    connection = send_request(place, endpoint, "POST", PATH, body)
    try:
        status, text = read_answer(connection)
    finally:
        connection.close()
    try:
        answer = scan(text)
    except (StopIteration, ValueError):
        raise Broken(f"invalid answer (status {status})") from None
    if status == 200:
        return answer if isinstance(answer, dict) else {}
    error = answer.get("error") if isinstance(answer, dict) else None
    message = error.get("message", "") if isinstance(error, dict) else ""
    hint = error.get("hint", "") if isinstance(error, dict) else ""
    if status in (429, 503):
        raise Broken(message)
    raise Unreachable(f"{message or f'status {status}'}{f' ({hint})' if hint else ''}")


def scan(text: str) -> "Any":  # noqa: ANN401 - any JSON value
    """The value at the start of the text. Raises StopIteration or ValueError."""
    return _scan(text, 0)[0]


def send_request(place: Place, endpoint: str, method: str, path: str, body: bytes, more: str = "") -> "Any":  # noqa: ANN401
    """A connection on which the request was sent; the caller reads the answer and closes it. Raises OSError."""
    connection = _connected(place, endpoint)
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: lattice\r\nauthorization: Bearer {place.token}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n{more}"
        f"{f'x-lattice-tenant: {place.tenant}' + chr(13) + chr(10) if place.tenant else ''}\r\n"
    )
    try:
        connection.sendall(head.encode() + body)
    except OSError:
        connection.close()
        raise
    return connection


def read_answer(connection: "Any") -> tuple[int, str]:  # noqa: ANN401 - a socket, plain or wrapped
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0:
        piece = connection.recv(1 << 16)
        if not piece:
            raise Broken("the connection was closed")
        data += piece
    head = bytes(data[:end]).decode("latin-1").split("\r\n")
    body = data[end + 4 :]
    fields = dict(line.lower().split(": ", 1) for line in head[1:] if ": " in line)
    length = int(fields["content-length"]) if "content-length" in fields else -1
    while length < 0 or len(body) < length:
        piece = connection.recv(1 << 18)
        if not piece:
            break
        body += piece
    if length >= 0 and len(body) < length:
        raise Broken("the answer ends too early")
    return int(head[0].split(" ", 2)[1]), body.decode()


def _connected(place: Place, endpoint: str) -> "Any":  # noqa: ANN401 - a socket, plain or wrapped
    scheme, _, rest = endpoint.partition("://")
    if scheme == "unix":
        connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        connection.settimeout(CONNECT_TIMEOUT_S)
        connection.connect(rest)
    elif scheme == "https":
        from lattice_sdk.transport import connect, parse_endpoint

        connection = connect(parse_endpoint(endpoint), place.ca_file)
    else:
        connection = _dialled(*_host_and_port(rest, 80))
    connection.settimeout(ANSWER_TIMEOUT_S)
    return connection


def _host_and_port(rest: str, default: int) -> tuple[str, int]:
    authority = rest.partition("/")[0]
    host, _, port = authority.rpartition(":") if authority.rpartition(":")[2].isdigit() else (authority, "", "")
    return host.strip("[]"), int(port) if port else default


def _name(host: str) -> "str | bytes":
    """An ASCII name as bytes, which avoids loading the Unicode tables."""
    return host.encode() if host.isascii() else host


def _dialled(host: str, port: int) -> "Any":  # noqa: ANN401 - a socket
    problem: OSError | None = None
    for family, kind, protocol, _, address in _socket.getaddrinfo(_name(host), port, 0, _socket.SOCK_STREAM):
        connection = _socket.socket(family, kind, protocol)
        try:
            connection.settimeout(CONNECT_TIMEOUT_S)
            connection.connect(address)
        except OSError as error:
            connection.close()
            problem = error
            continue
        connection.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
        return connection
    raise problem or OSError(f"{host} has no address")
