"""The gateway over real sockets, with a web server in place of the work: pages, bodies, upgrades, and who is turned away."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from lattice.api.gateway import server
from lattice.api.gateway.server import Gateway
from lattice.api.gateway.tickets import Grant, Ticket, Tickets
from lattice.api.gateway.work import Address, Refused
from lattice.ports.nodes.tunnels import TunnelBroken

GRANT = Grant(user="ada", number=17, prefix="/proxy/a17/80", port="80", node="n1")


class SocketTunnel:
    """Implements `Tunnel` by a plain connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.end = writer.write_eof
        self.close = writer.close

    @property
    def is_quiet(self) -> bool:
        return not self._reader.at_eof()

    async def read(self) -> bytes:
        try:
            return await self._reader.read(1 << 16)
        except OSError as error:
            raise TunnelBroken(str(error)) from None

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class Connection:
    """Implements `Link`."""

    def __init__(self, site: "Site", tunnel: SocketTunnel) -> None:
        self.site = site
        self.tunnel = tunnel

    def failed(self) -> None:
        self.site.failures += 1

    def done(self, *, is_good: bool) -> None:
        self.site.kept += is_good
        self.tunnel.close()


class Site:
    """Implements `Work`."""

    domain = ""

    def __init__(self) -> None:
        self.failures = 0
        self.kept = 0  # connections that could have carried another request
        self.tried: list[tuple[bool, bool]] = []
        self.tickets = Tickets(lambda: 0.0)
        self.used: list[str] = []
        self.seen: list[bytes] = []
        self.port = 0
        self.is_gone = False
        self.user = "bob"  # who comes with our token

    async def authorized(self, authorization: str, tenant: str, address: Address, source: str) -> Grant:
        if authorization != "Bearer OURS":
            raise Refused(401, "a token is needed")
        return Grant(user=self.user, number=17, prefix=address.prefix, port=address.port, is_own=False)

    async def use_up(self, ticket: Ticket, source: str) -> bool:
        self.used.append(ticket.code)
        return self.used.count(ticket.code) == 1

    async def connect(self, grant: Grant, *, is_safe: bool, is_again: bool) -> Connection:
        self.tried.append((is_safe, is_again))
        if self.is_gone:
            raise Refused(404, "a17 is not running")
        return Connection(self, SocketTunnel(*await asyncio.open_connection("127.0.0.1", self.port)))

    def is_token(self, text: str) -> bool:
        return text == "OURS"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Echoes bodies; upgrades when asked to, and then echoes bytes."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.seen.append(head)
        if b"Upgrade: websocket" in head:
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst ")
            while data := await reader.read(100):
                writer.write(data)
        elif b"/endless" in head:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nto the end")
        elif b"/silent" in head:
            pass
        elif b"/surplus" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npageHTTP/1.1 200 OK\r\n")
        elif b"/last" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\npage")
        elif b"/old" in head:
            writer.write(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\npage")
        elif b"/short" in head:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npa")
        elif b"/rubbish" in head:
            writer.write(b"SSH-2.0\r\n\r\n")
        else:
            length = int(head.partition(b"Content-Length: ")[2].partition(b"\r\n")[0] or b"0")
            body = await reader.readexactly(length)
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" if length else b"")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (4 + length) + b"page" + body)
        writer.close()


class Browser:
    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self._port = port
        self.cookie = ""
        self.host = "gate"

    async def enter(self) -> None:
        answer = await self.ask(f"GET {GRANT.prefix}/?x=1&lattice-ticket={self.site.tickets.issue(GRANT)} HTTP/1.1")
        assert f"Location: {GRANT.prefix}/?x=1\r\n" in answer
        line = answer.partition("Set-Cookie: ")[2].partition("\r\n")[0]
        assert f"Path={GRANT.prefix}/" in line
        assert "HttpOnly" in line
        self.cookie = line.partition(";")[0]

    async def ask(self, *lines: str, body: bytes = b"") -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        cookie = [f"Cookie: {self.cookie}"] if self.cookie else []
        writer.write("\r\n".join([*lines, f"Host: {self.host}", *cookie, "", ""]).encode() + body)
        answer = await asyncio.wait_for(reader.read(-1), 10)
        writer.close()
        return answer.decode("latin-1")


def visited(test: Callable[[Browser], Awaitable[None]]) -> None:
    async def whole() -> None:
        site, gateway, bound = Site(), Gateway(), socket.create_server(("127.0.0.1", 0))
        listener = await asyncio.start_server(site.serve, "127.0.0.1", 0)
        site.port = listener.sockets[0].getsockname()[1]
        port = bound.getsockname()[1]
        await gateway.start(bound)
        assert "503" in await Browser(site, port).ask("GET /proxy/a17/80/ HTTP/1.1")
        gateway.serve(site)
        try:
            await asyncio.wait_for(test(Browser(site, port)), 20)
        finally:
            await gateway.stop()
            listener.close()

    asyncio.run(whole())


def test_pages_bodies_and_several_requests_on_one_connection() -> None:
    async def scenario(browser: Browser) -> None:
        await browser.enter()
        cookie = f"Cookie: {browser.cookie}"
        lines = [f"POST {GRANT.prefix}/form?q=1 HTTP/1.1", "Host: gate", cookie, "Content-Length: 5", "", ""]
        more = [f"GET {GRANT.prefix}/more HTTP/1.1", "Host: gate", cookie, "Connection: close", "", ""]
        reader, writer = await asyncio.open_connection("127.0.0.1", browser._port)
        writer.write("\r\n".join(lines).encode() + b"hello")
        first = await reader.readuntil(b"pagehello")
        assert b"Connection: keep-alive" in first
        writer.write("\r\n".join(more).encode())
        assert (await reader.read(-1)).endswith(b"\r\n\r\npage")
        writer.close()
        assert browser.site.seen[0].startswith(b"POST /form?q=1 HTTP/1.1")
        assert "to the end" in await browser.ask(f"GET {GRANT.prefix}/endless HTTP/1.1")

    visited(scenario)


def test_a_websocket_is_a_tunnel() -> None:
    async def scenario(browser: Browser) -> None:
        await browser.enter()
        reader, writer = await asyncio.open_connection("127.0.0.1", browser._port)
        lines = [f"GET {GRANT.prefix}/ws HTTP/1.1", "Host: gate", f"Cookie: {browser.cookie}", "Origin: http://gate"]
        writer.write("\r\n".join([*lines, "Connection: Upgrade", "Upgrade: websocket", "", ""]).encode())
        assert (await reader.readuntil(b"first ")).startswith(b"HTTP/1.1 101")
        writer.write(b"second")
        assert await reader.readexactly(6) == b"second"
        writer.close()

    visited(scenario)


def test_strangers_are_turned_away() -> None:
    async def scenario(browser: Browser) -> None:
        page = f"GET {GRANT.prefix}/ HTTP/1.1"
        assert " 401 " in await browser.ask(page)
        assert " 403 " in await browser.ask(f"GET {GRANT.prefix}/?lattice-ticket=guessed HTTP/1.1")
        mine = f"GET {GRANT.prefix}/?lattice-ticket={browser.site.tickets.issue(GRANT)} HTTP/1.1"
        assert " 403 " in await browser.ask(mine.replace("/a17/", "/a18/"))
        assert not browser.site.used  # at a wrong address it is not used up
        assert "Set-Cookie: " in await browser.ask(mine)
        again = await browser.ask(mine)
        assert (" 403 " in again, "used already" in again, "Set-Cookie: " in again) == (True, True, False)
        assert " 404 " in await browser.ask("GET /other HTTP/1.1")
        assert " 400 " in await browser.ask("GET / HTTP/9")
        assert " 400 " in await browser.ask(page, "Content-Length: 1", "Transfer-Encoding: chunked")
        await browser.enter()
        for origin in ("http://evil", "https://gate", "null"):
            assert " 403 " in await browser.ask(page, f"Origin: {origin}")
        assert " 401 " in await browser.ask("GET /proxy/a18/80/ HTTP/1.1")  # the cookie of another page
        assert " 401 " in await browser.ask("GET /proxy/a17/81/ HTTP/1.1")
        assert not browser.site.seen  # nothing of that reached the work
        assert " 502 " in await browser.ask(f"GET {GRANT.prefix}/rubbish HTTP/1.1")
        await browser.ask(page, "Authorization: Bearer OURS", "X-Lattice-User: root", "Connection: close")
        assert b"OURS" not in browser.site.seen[-1]
        assert (b"X-Lattice-User: ada" in browser.site.seen[-1], b"root" in browser.site.seen[-1]) == (True, False)
        await browser.ask(page, "Authorization: Bearer app", "Connection: close")
        assert b"Authorization: Bearer app" in browser.site.seen[-1]
        assert browser.cookie.encode() not in browser.site.seen[-1]
        browser.site.is_gone = True
        assert "a17 is not running" in await browser.ask(page)

    visited(scenario)


def test_a_program_comes_with_its_token_and_the_work_never_sees_it() -> None:
    async def scenario(browser: Browser) -> None:
        page = f"GET {GRANT.prefix}/ HTTP/1.1"
        assert " 401 " in await browser.ask(page, "Authorization: Bearer guessed")
        assert " 401 " in await browser.ask("GET /proxy/services/web/ HTTP/1.1")
        answer = await browser.ask(page, "Authorization: Bearer OURS", "Connection: close")
        assert answer.endswith("page")
        assert b"OURS" not in browser.site.seen[-1]
        assert b"X-Lattice-User: bob" in browser.site.seen[-1]
        answer = await browser.ask(
            "GET /proxy/services/web/models?x=1 HTTP/1.1", "Authorization: Bearer OURS", "Connection: close"
        )
        assert browser.site.seen[-1].startswith(b"GET /models?x=1 HTTP/1.1")

    visited(scenario)


def test_scripts_of_another_origin_ask_nothing_but_may_open_a_page() -> None:
    async def scenario(browser: Browser) -> None:
        await browser.enter()
        page = f"GET {GRANT.prefix}/ HTTP/1.1"
        for site in ("cross-site", "same-site"):
            answer = await browser.ask(page, f"Sec-Fetch-Site: {site}", "Sec-Fetch-Mode: no-cors")
            assert " 403 " in answer
        assert not browser.site.seen
        opened = "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Connection: close"
        assert " 200 " in await browser.ask(page, *opened)
        assert " 403 " in await browser.ask(page.replace("GET", "POST"), *opened)
        assert " 200 " in await browser.ask(page, "Sec-Fetch-Site: same-origin", "Connection: close")

    visited(scenario)


def test_pages_of_others_need_a_host_of_their_own() -> None:
    theirs = Grant(user="ada", number=17, prefix="/proxy/a17/80", port="80", is_own=False)

    async def scenario(browser: Browser) -> None:
        def enter() -> str:
            return f"GET {GRANT.prefix}/?lattice-ticket={browser.site.tickets.issue(theirs)} HTTP/1.1"

        assert " 403 " in await browser.ask(enter())  # one origin for all pages
        browser.site.domain = "apps.example.org"
        assert " 421 " in await browser.ask(enter())
        browser.host = "a17.apps.example.org:8443"
        answer = await browser.ask(enter())
        browser.cookie = answer.partition("Set-Cookie: ")[2].partition(";")[0]
        assert "Max-Age=3600;" in answer
        page = f"GET {GRANT.prefix}/ HTTP/1.1"
        assert " 200 " in await browser.ask(page, "Connection: close")
        browser.host = "a18.apps.example.org:8443"
        assert " 421 " in await browser.ask(page)

    visited(scenario)


def test_what_was_not_answered_is_asked_again_only_where_that_is_safe() -> None:
    async def scenario(browser: Browser) -> None:
        await browser.enter()
        assert " 502 " in await browser.ask(f"GET {GRANT.prefix}/silent HTTP/1.1")
        assert browser.site.tried == [(True, False), (True, True), (True, True)]
        browser.site.tried.clear()
        assert " 502 " in await browser.ask(f"POST {GRANT.prefix}/silent HTTP/1.1", "Content-Length: 1", body=b"x")
        assert browser.site.tried == [(False, False)]
        assert browser.site.failures == 4

    visited(scenario)


def test_a_connection_is_kept_only_when_both_sides_know_where_the_answer_ends() -> None:
    async def scenario(browser: Browser) -> None:
        await browser.enter()
        for path, kept in (("page", 1), ("surplus", 1), ("last", 1), ("endless", 1), ("page", 2)):
            assert " 200 " in await browser.ask(f"GET {GRANT.prefix}/{path} HTTP/1.1", "Connection: close")
            assert browser.site.kept == kept, path
        head = f"POST {GRANT.prefix}/form HTTP/1.1", "Content-Length: 100000", "Connection: close"
        assert (await browser.ask(*head, body=b"x" * 100_000)).endswith("x")
        assert browser.site.kept == 3

    visited(scenario)


def test_a_caller_that_is_promised_another_request_has_it_when_the_work_closes_its_own_connection() -> None:
    async def scenario(browser: Browser) -> None:
        await browser.enter()
        reader, writer = await asyncio.open_connection("127.0.0.1", browser._port)
        for path in ("last", "old", "surplus", "page"):
            lines = [f"GET {GRANT.prefix}/{path} HTTP/1.1", "Host: gate", f"Cookie: {browser.cookie}", "", ""]
            writer.write("\r\n".join(lines).encode())
            answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\npage"), 10)
            assert b"Connection: keep-alive" in answer, path
        writer.close()
        assert browser.site.kept == 1
        short = await browser.ask(f"GET {GRANT.prefix}/short HTTP/1.1")
        assert short.endswith("\r\n\r\npa"), "an answer that the work breaks off ends the caller's connection"

    visited(scenario)


def test_a_caller_that_waits_for_it_is_told_to_go_on() -> None:
    async def scenario(browser: Browser) -> None:
        await browser.enter()
        head = f"POST {GRANT.prefix}/form HTTP/1.1", "Content-Length: 2", "Expect: 100-continue", "Connection: close"
        answer = await browser.ask(*head, body=b"xy")
        assert answer.startswith("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
        assert answer.endswith("pagexy")
        assert b"xpect" not in browser.site.seen[-1]

    visited(scenario)


def test_what_is_said_again_on_a_connection_is_judged_again() -> None:
    async def scenario(browser: Browser) -> None:
        site = browser.site
        reader, writer = await asyncio.open_connection("127.0.0.1", browser._port)

        async def ask(path: str, *lines: str) -> str:
            page = f"GET {GRANT.prefix}{path} HTTP/1.1", "Host: gate", "Authorization: Bearer OURS", *lines, "", ""
            writer.write("\r\n".join(page).encode())
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
            if b" 200 " in head:
                assert await reader.readexactly(4) == b"page"
            return head.decode()

        for path in ("/a", "/a", "/b", "/c", "/a", "/a"):
            assert "Connection: keep-alive" in await ask(path)
        assert [head.split()[1] for head in site.seen] == [b"/a", b"/a", b"/b", b"/c", b"/a", b"/a"]
        site.user = "eve"
        await ask("/a")
        assert b"X-Lattice-User: eve" in site.seen[-1]
        assert "Connection: close" in await ask("/a", "Connection: close")
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", browser._port)
        await ask("/a")
        site.is_gone = True
        assert " 404 " in await ask("/a")
        writer.close()

    visited(scenario)


def test_a_caller_that_says_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.05)

    async def scenario(browser: Browser) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", browser._port)
        page = f"GET {GRANT.prefix}/ HTTP/1.1", "Host: gate", "Authorization: Bearer OURS", "", ""
        writer.write("\r\n".join(page).encode())
        assert (await asyncio.wait_for(reader.read(-1), 10)).endswith(b"page"), "it is answered before"
        writer.close()
        monkeypatch.setattr(server, "HEAD_WITHIN_S", 0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", browser._port)
        writer.write(b"GET /proxy")
        assert await asyncio.wait_for(reader.read(-1), 10) == b""
        writer.close()

    visited(scenario)
