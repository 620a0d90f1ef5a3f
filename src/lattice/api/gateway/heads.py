"""Heads of HTTP/1.1 messages as the gateway takes and passes them on. Pure.

Strict where two readers could disagree: what might be read as two requests is refused. Whatever says who the caller is comes from here and
never from the caller.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

MAX_HEAD = 64 << 10
MAX_HEADERS = 100
MAX_KNOWN = 200  # characters of a line that is kept
# Heads that a connection may say again, and the longest such: a program says nearly the same with each request.
REPEATED, MAX_REPEATED = 2, 4 << 10
COOKIE = "lattice-proxy"
# Of the web page on the same host: a browser sends them to every port of it, and they are no business of the work.
_PAGE_COOKIES = ("lattice-session-", "__Host-lattice-session-", "lattice-login")
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CONTROL = re.compile(r"[\r\n\0]")
_HOP = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings", "expect"}
)
_OURS = ("x-forwarded-", "x-lattice-", "forwarded", "x-real-ip", "proxy-authorization")
Header = tuple[str, str]
Index = Mapping[str, Sequence[str]]  # values by name in lower case
_NOTHING: Index = {}


class BadHead(Exception):
    """The head is not HTTP/1.1, or could be read in two ways."""


class RequestHead(NamedTuple):
    method: str
    target: str
    headers: tuple[Header, ...]
    is_old: bool = False  # HTTP/1.0
    by_name: Index = _NOTHING

    def all(self, name: str) -> Sequence[str]:
        return self.by_name.get(name, ())

    def one(self, name: str) -> str:
        """The header; raises BadHead when there are several."""
        found = self.by_name.get(name)
        if found is None:
            return ""
        if len(found) > 1:
            raise BadHead(f"several {name} headers")
        return found[0]

    @property
    def is_upgrade(self) -> bool:
        if "upgrade" not in self.by_name:
            return False
        words = {word.strip().lower() for word in ",".join(self.all("connection")).split(",")}
        return "upgrade" in words and bool(self.all("upgrade"))

    @property
    def is_kept(self) -> bool:
        return not self.is_old and "close" not in ",".join(self.all("connection")).lower()

    def cookie(self) -> str:
        """Our own cookie; empty when there is none, or more than one."""
        pairs = [each.strip().partition("=") for line in self.all("cookie") for each in line.split(";")]
        found = [value for name, _, value in pairs if name == COOKIE]
        return found[0] if len(found) == 1 else ""


class ResponseHead(NamedTuple):
    status: int
    reason: str
    headers: tuple[Header, ...]
    is_old: bool = False  # HTTP/1.0
    by_name: Index = _NOTHING

    @property
    def is_kept(self) -> bool:
        """Whether the connection may carry another request."""
        return not self.is_old and "close" not in ",".join(self.all("connection")).lower()

    def all(self, name: str) -> Sequence[str]:
        return self.by_name.get(name, ())


class Body(NamedTuple):
    """How long a body is: `length` bytes, in chunks, or to the end of the connection."""

    length: int = 0
    is_chunked: bool = False
    is_endless: bool = False


def parse_request(text: bytes) -> RequestHead:
    first, headers, index = _lines(text)
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or _TOKEN.fullmatch(words[0]) is None:
        raise BadHead("not a request")
    if not words[1].startswith("/") or not words[1].isascii() or not words[1].isprintable():
        raise BadHead("not a path")
    head = RequestHead(words[0], words[1], headers, words[2] == "HTTP/1.0", index)
    if not head.is_old and len(head.all("host")) != 1:
        raise BadHead("one Host is needed")
    return head


def parse_response(text: bytes) -> ResponseHead:
    first, headers, index = _lines(text)
    version, _, rest = first.partition(" ")
    status, _, reason = rest.partition(" ")
    if not version.startswith("HTTP/1.") or len(status) != 3 or not status.isdigit():
        raise BadHead("not a response")
    return ResponseHead(int(status), reason, headers, version == "HTTP/1.0", index)


def _lines(text: bytes) -> tuple[str, tuple[Header, ...], Index]:
    first, *lines = text.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    if len(lines) > MAX_HEADERS:
        raise BadHead(f"more than {MAX_HEADERS} headers")
    headers = []
    index: dict[str, list[str]] = {}
    for line in lines:
        header, small = _known_header(line) if len(line) <= MAX_KNOWN else _header(line)
        headers.append(header)
        index.setdefault(small, []).append(header[1])
    return first, tuple(headers), index


def _header(line: str) -> tuple[Header, str]:
    """Name and value, and the name in lower case."""
    name, colon, value = line.partition(":")
    if not colon or _TOKEN.fullmatch(name) is None or _CONTROL.search(value):
        raise BadHead("a header that is none")
    return (name, value.strip(" \t")), name.lower()


# A client sends nearly the same lines with each request. Longer ones, as tokens are, are not kept.
_known_header = lru_cache(4_096)(_header)


def _passes(name: str) -> bool:
    """Whether a header of this name, in lower case, goes to the work."""
    return name not in _HOP and not name.startswith(_OURS)


def request_body(head: RequestHead) -> Body:
    """Raises BadHead for what could be two requests."""
    length, coding = head.one("content-length"), head.one("transfer-encoding").lower()
    if coding and (length or coding != "chunked" or head.is_old):
        raise BadHead("the length of the body is not clear")
    if length and not (length.isascii() and length.isdigit() and len(length) < 19):
        raise BadHead("the length of the body is no number")
    return Body(int(length or 0), bool(coding))


def response_body(head: ResponseHead, method: str) -> Body:
    if method == "HEAD" or head.status in (204, 304) or head.status < 200:
        return Body()
    codings, lengths = head.all("transfer-encoding"), set(head.all("content-length"))
    if codings:
        is_chunked = [word.strip().lower() for word in ",".join(codings).split(",")][-1] == "chunked"
        return Body(is_chunked=is_chunked, is_endless=not is_chunked)
    if not lengths:
        return Body(is_endless=True)
    length = lengths.pop()
    if lengths or not (length.isascii() and length.isdigit() and len(length) < 19):
        raise BadHead("the length of the answer is not clear")
    return Body(int(length))


class Caller(NamedTuple):
    """What the work learns about a request."""

    user: str
    address: str
    scheme: str
    prefix: str  # /proxy/a17/8888


def upstream_request(head: RequestHead, target: str, caller: Caller, *, drops_authorization: bool) -> bytes:
    """The head that the work gets."""
    lines = [f"{head.method} {target} HTTP/1.1"]
    connection = head.all("connection")
    named = {word.strip().lower() for word in ",".join(connection).split(",")} if connection else ()
    for name, value in head.headers:
        small = name.lower()
        if small in named or not _passes(small):
            continue
        if small == "authorization" and drops_authorization:
            continue
        if small == "cookie":
            kept = "; ".join(each.strip() for each in value.split(";") if not _is_ours(each.strip()))
            if not kept:
                continue
            value = kept
        lines.append(f"{name}: {value}")
    lines += [
        f"X-Forwarded-For: {caller.address}",
        f"X-Forwarded-Proto: {caller.scheme}",
        f"X-Forwarded-Host: {head.one('host')}",
        f"X-Forwarded-Prefix: {caller.prefix}",
        f"X-Lattice-User: {caller.user}",
    ]
    if head.is_upgrade:
        lines += ["Connection: Upgrade", *(f"Upgrade: {value}" for value in head.all("upgrade"))]
    else:
        lines.append("Connection: keep-alive")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _is_ours(cookie: str) -> bool:
    name = cookie.partition("=")[0]
    return name == COOKIE or name.startswith(_PAGE_COOKIES)


class Answer(NamedTuple):
    """The head of an answer, as the work says it and as the caller gets it."""

    head: ResponseHead
    body: Body
    is_kept: bool  # the connection of the caller
    shown: bytes


def read_answer(text: bytes, method: str, is_asked_to_keep: bool, prefix: str) -> Answer:
    """`prefix` is empty where the work sees the whole path. Raises BadHead."""
    head = parse_response(text)
    body = response_body(head, method)
    is_kept = not body.is_endless and is_asked_to_keep
    return Answer(head, body, is_kept, client_response(head, prefix, is_kept=is_kept, is_stripped=bool(prefix)))


def client_response(head: ResponseHead, prefix: str, *, is_kept: bool, is_stripped: bool) -> bytes:
    """The head that the caller gets: redirections stay below the prefix, and our cookie is ours alone to set."""
    lines = [f"HTTP/1.1 {head.status} {head.reason}"]
    for name, value in head.headers:
        small = name.lower()
        if small in _HOP and head.status != 101:
            continue
        if small == "set-cookie" and _is_ours(value.strip()):
            continue
        if small == "location" and is_stripped and value.startswith("/") and not value.startswith("//"):
            value = prefix + value
        lines.append(f"{name}: {value}")
    if head.status != 101:
        lines.append(f"Connection: {'keep-alive' if is_kept else 'close'}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def is_same_origin(head: RequestHead, scheme: str) -> bool:
    """Whether a page of this listener asks, or no page at all."""
    origins = head.all("origin")
    return all(each.lower() == f"{scheme}://{head.one('host').lower()}" for each in origins)


def is_asked_by_others(head: RequestHead) -> bool:
    """Whether a browser says that a page of another origin asks, be it one of the same site; opening a page is no such thing."""
    site, mode = head.one("sec-fetch-site").lower(), head.one("sec-fetch-mode").lower()
    is_opened = mode == "navigate" and head.method in ("GET", "HEAD")
    return site in ("cross-site", "same-site") and not is_opened
