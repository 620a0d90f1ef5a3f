"""What a browser holds while its user is logged in: a cookie that scripts cannot read, and a key that other sites cannot read.

The cookie holds the token, sealed. It is sent to every port of the host and with every request, so it is not enough by itself: the page
keeps a random key in its own origin's storage and sends it along, and the cookie names that key's digest. A cookie that was stolen, or
that a browser sends on behalf of another page, opens nothing.
"""

import hashlib
import hmac
from collections.abc import Iterable

from msgspec import Struct

from lattice.web.sealing import NotSealed, Sealer

PURPOSE = "session"
COOKIE = "lattice-session"
SECURE_COOKIE = f"__Host-{COOKIE}"
# Browsers keep at most 4096 bytes of a cookie, with its name and attributes.
PIECE = 3800
MAX_PIECES = 4
PAGE_HEADER = b"x-lattice-page"
PAGE_PROTOCOL = "lattice.page."
OF_BROWSERS = frozenset({b"cookie", PAGE_HEADER})
MIN_KEY = 32

Header = tuple[bytes, bytes]


class WebSession(Struct, frozen=True):
    token: str
    page: str  # hex sha256 of the page's key
    expires_at: float  # seconds since 1970
    refresh: str = ""  # the identity provider's, to get the next token; empty = the session ends with its token


class NoSession(Exception):
    """No user is logged in with what the browser sent; the text says why and may be shown."""


def page_digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def cookies(headers: Iterable[Header]) -> dict[str, str]:
    """By name; one that came twice is left out, because either could be meant."""
    found: dict[str, str] = {}
    twice: set[str] = set()
    for name, value in headers:
        if name != b"cookie":
            continue
        for pair in value.decode("latin-1").split(";"):
            key, _, text = pair.strip().partition("=")
            if key in found:
                twice.add(key)
            found[key] = text
    return {key: text for key, text in found.items() if key not in twice}


def is_of_browser(headers: Iterable[Header]) -> bool:
    """Whether anything in it may come from a page; most requests are those of programs."""
    return any(name in OF_BROWSERS for name, _ in headers)


def without_cookies(headers: Iterable[Header]) -> list[Header]:
    """What is passed to the API and to other servers, which have no use for a browser's cookies and keys."""
    return [(name, value) for name, value in headers if name not in OF_BROWSERS]


def has_cookie(found: dict[str, str]) -> bool:
    return f"{COOKIE}-0" in found or f"{SECURE_COOKIE}-0" in found


def read_session(sealer: Sealer, found: dict[str, str], page_key: str, now_s: float) -> WebSession:
    """Raises NoSession."""
    for name in (SECURE_COOKIE, COOKIE):
        if f"{name}-0" in found:
            text = "".join(found.get(f"{name}-{piece}", "") for piece in range(MAX_PIECES))
            break
    else:
        raise NoSession("you are not logged in")
    try:
        session = sealer.open(PURPOSE, text, WebSession)
    except NotSealed:
        raise NoSession("the session is of another cluster, or of before its secret was changed") from None
    if session.expires_at <= now_s:
        raise NoSession("your session has expired")
    if len(page_key) < MIN_KEY or not hmac.compare_digest(page_digest(page_key), session.page):
        raise NoSession("this page was not logged in")
    return session


def set_cookies(sealer: Sealer, session: WebSession, now_s: float, *, is_secure: bool) -> list[Header]:
    """Headers that give the browser the session. Raises ValueError for a token that is too long for cookies."""
    text = sealer.seal(PURPOSE, session)
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    if len(pieces) > MAX_PIECES:
        raise ValueError(f"the token is too long for cookies: {len(session.token):,} characters")
    life_s = max(0, int(session.expires_at - now_s))
    kept = [
        _cookie(_name(number, is_secure=is_secure), piece, life_s, is_secure=is_secure)
        for number, piece in enumerate(pieces)
    ]
    return kept + clear_cookies(is_secure=is_secure)[len(pieces) :]


def clear_cookies(*, is_secure: bool) -> list[Header]:
    return [_cookie(_name(number, is_secure=is_secure), "", 0, is_secure=is_secure) for number in range(MAX_PIECES)]


def _name(number: int, *, is_secure: bool) -> str:
    return f"{SECURE_COOKIE if is_secure else COOKIE}-{number}"


def _cookie(name: str, value: str, life_s: int, *, is_secure: bool, same_site: str = "Strict") -> Header:
    text = f"{name}={value}; Path=/; HttpOnly; SameSite={same_site}; Max-Age={life_s}"
    return b"set-cookie", (text + ("; Secure" if is_secure else "")).encode()


def passing_cookie(name: str, value: str, life_s: int, *, is_secure: bool) -> Header:
    """One that comes back when another site sends the browser here."""
    return _cookie(name, value, life_s, is_secure=is_secure, same_site="Lax")
