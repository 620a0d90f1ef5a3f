"""The addresses below /web/: a browser becomes logged in, stays so, and ends it. Tokens never reach scripts of the page."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

import msgspec
from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from lattice.web.answers import Refusal, ask_api, read_body, redirect, send_json, send_refusal
from lattice.web.links import PURPOSE, Ticket
from lattice.web.origins import check_origin
from lattice.web.provider import PURPOSE as LOGIN
from lattice.web.provider import WITHIN_S, ProviderLogin
from lattice.web.sealing import NotSealed, Sealer
from lattice.web.sessions import (
    PAGE_HEADER,
    Header,
    NoSession,
    WebSession,
    clear_cookies,
    cookies,
    passing_cookie,
    read_session,
    set_cookies,
)

LOGIN_COOKIE = f"lattice-{LOGIN}"
_DIGEST = re.compile(r"[0-9a-f]{64}")
_AGAIN = "run `lattice web` again"


class LinkLogin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ticket: str
    page: str  # hex sha256 of the page's key


class Settings(NamedTuple):
    url: str = ""  # of the page for browsers; empty = as the browser says
    lifetime_s: float = 12 * 3600.0


class LoggedIn(Struct, frozen=True):
    user: str
    expires_at: float


class Logins:
    """`app` answers what the API is asked; without `provider`, links are the only way in."""

    def __init__(
        self,
        app: ASGIApp,
        sealer: Sealer,
        settings: Settings,
        provider: ProviderLogin | None,
        now_s: Callable[[], float],
    ) -> None:
        self._app = app
        self._sealer = sealer
        self._settings = settings
        self._provider = provider
        self._now_s = now_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            match scope["method"], scope["path"]:
                case "POST", "/web/session":
                    check_origin(scope)
                    await self._by_link(scope, receive, send)
                case "DELETE", "/web/session":
                    check_origin(scope)
                    await send_json(send, 200, {}, *clear_cookies(is_secure=self._is_secure(scope)))
                case "POST", "/web/session/renew":
                    check_origin(scope)
                    await self._renew(scope, send)
                case "GET", "/web/login":
                    await self._begin(scope, send)
                case "GET", "/web/callback":
                    await self._finish(scope, send)
                case _:
                    raise Refusal("not_found", f"nothing at {scope['path'][:80]}")
        except Refusal as refusal:
            await send_refusal(send, refusal)

    def _is_secure(self, scope: Scope) -> bool:
        return scope["scheme"] == "https" or self._settings.url.startswith("https:")

    async def _by_link(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            asked = msgspec.json.decode(await read_body(receive), type=LinkLogin)
        except msgspec.MsgspecError:
            raise Refusal("invalid", "ticket and page are needed") from None
        _check_page(asked.page)
        try:
            ticket = self._sealer.open(PURPOSE, asked.ticket, Ticket)
        except NotSealed:
            raise Refusal("unauthenticated", "this link is not of this cluster", _AGAIN) from None
        if ticket.expires_at <= self._now_s():
            raise Refusal("unauthenticated", "this link has expired", _AGAIN)
        try:
            await ask_api(self._app, scope, "DELETE", f"/web/links/{quote(ticket.code, safe='')}", ticket.token)
        except Refusal as refusal:
            if refusal.body.code != "not_found":
                raise
            raise Refusal("unauthenticated", "this link was used already", _AGAIN) from None
        who, headers = await self._session(scope, ticket.token, asked.page)
        await send_json(send, 200, who, *headers)

    async def _session(self, scope: Scope, token: str, page: str, refresh: str = "") -> tuple[LoggedIn, list[Header]]:
        """The session of a token that the API takes. Raises Refusal."""
        who = await ask_api(self._app, scope, "GET", "/whoami", token)
        if who.get("kind") != "user":
            raise Refusal("forbidden", "only people log in to the page")
        now_s = self._now_s()
        end = now_s + self._settings.lifetime_s
        token_end = _moment(who.get("expires_at"), end)
        session = WebSession(token, page, end if refresh else min(end, token_end), refresh)
        try:
            headers = set_cookies(self._sealer, session, now_s, is_secure=self._is_secure(scope))
        except ValueError as error:
            raise Refusal("invalid", str(error), "ask the administrators for tokens with fewer claims") from None
        return LoggedIn(str(who.get("user", "")), min(end, token_end)), headers

    async def _renew(self, scope: Scope, send: Send) -> None:
        key = b"".join(value for name, value in scope["headers"] if name == PAGE_HEADER).decode("latin-1")
        try:
            session = read_session(self._sealer, cookies(scope["headers"]), key, self._now_s())
        except NoSession as error:
            raise Refusal("unauthenticated", str(error), "log in again") from None
        if not session.refresh or self._provider is None:
            raise Refusal("unauthenticated", "the session cannot be extended", "log in again")
        tokens = await self._provider.renew(session.refresh)
        who, headers = await self._session(scope, tokens.token, session.page, tokens.refresh)
        await send_json(send, 200, who, *headers)

    # With the identity provider.

    async def _begin(self, scope: Scope, send: Send) -> None:
        if self._provider is None:
            raise Refusal("not_found", "this cluster has no identity provider", "run `lattice web`")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=8))
        page, to = query.get("page", ""), query.get("to", "/")
        _check_page(page)
        if not to.startswith("/") or to.startswith("//") or "\\" in to or not to.isprintable() or len(to) > 2000:
            to = "/"
        base = self._settings.url or f"{scope['scheme']}://{_host(scope)}"
        address, kept = self._provider.begin(page, to, f"{base}/web/callback", self._now_s())
        cookie = passing_cookie(LOGIN_COOKIE, kept, int(WITHIN_S), is_secure=self._is_secure(scope))
        await redirect(send, address, cookie)

    async def _finish(self, scope: Scope, send: Send) -> None:
        if self._provider is None:
            raise Refusal("not_found", "this cluster has no identity provider", "run `lattice web`")
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=16))
        forget = passing_cookie(LOGIN_COOKIE, "", 0, is_secure=self._is_secure(scope))
        try:
            kept = cookies(scope["headers"]).get(LOGIN_COOKIE, "")
            begun, tokens = await self._provider.finish(kept, query, self._now_s())
            _, headers = await self._session(scope, tokens.token, begun.page, tokens.refresh)
        except Refusal as refusal:
            # A person looks at this: the page says what is wrong and offers to begin again.
            await redirect(send, f"/login?problem={quote(str(refusal)[:300], safe='')}", forget)
            return
        await redirect(send, quote(begun.to, safe="/?&=%:@!$'()*+,;~-._#"), forget, *headers)


def _moment(text: object, default: float) -> float:
    """Seconds since 1970 of a time as the API writes it; the default where it says none."""
    return datetime.fromisoformat(text).timestamp() if isinstance(text, str) else default


def _check_page(digest: str) -> None:
    if not _DIGEST.fullmatch(digest):
        raise Refusal("invalid", "page: not the digest of a page's key")


def _host(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"host":
            text: str = value.decode("latin-1")
            return text
    raise Refusal("invalid", "the request names no host")
