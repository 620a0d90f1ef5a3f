"""The gateway over real sockets, with a web server in place of the work: pages, bodies, upgrades, and who is turned away."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from lattice.api.gateway.server import Gateway, Refused
from lattice.api.gateway.tickets import Grant, Tickets
from lattice.ports.nodes.tunnels import Tunnel

GRANT = Grant(user="ada", number=17, name="a17", port=80, node="n1", keeps_path=False)


class SocketTunnel:
    """Implements `Tunnel` by a plain connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.end = writer.write_eof
        self.close = writer.close

    async def read(self) -> bytes:
        return await self._reader.read(1 << 16)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class Site:
    """Implements `Work`."""

    def __init__(self) -> None:
        self.tickets = Tickets(lambda: 0.0)
        self.seen: list[bytes] = []
        self.port = 0
        self.is_gone = False

    async def connect(self, grant: Grant) -> Tunnel:
        if self.is_gone:
            raise Refused(404, "a17 is not running")
        return SocketTunnel(*await asyncio.open_connection("127.0.0.1", self.port))

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
        writer.write("\r\n".join([*lines, "Host: gate", *cookie, "", ""]).encode() + body)
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
