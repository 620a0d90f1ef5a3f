"""A browser as a server sees it: cookies that it keeps, an origin that it names, the key of its page."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from starlette.types import ASGIApp, Message

from lattice.web.app import WebPage
from lattice.web.files import File
from lattice.web.links import LinkTable
from lattice.web.login import Settings
from lattice.web.provider import ProviderLogin
from lattice.web.sealing import Sealer
from lattice.web.sessions import page_digest
from tests.integration.api.world import SECRET, Response, World

HOST = "cluster.example:8080"
ORIGIN = f"http://{HOST}"
FILES = {
    "/assets/index.html": File("text/html; charset=utf-8", b'"1"', b"<!doctype html>", b""),
    "/assets/main.js": File("text/javascript", b'"2"', b"x" * 2000, b"small"),
}


def page_over(
    world: World, *, files: dict[str, File] | None = None, provider: ProviderLogin | None = None, url: str = ""
) -> WebPage:
    sealer = Sealer(SECRET)
    now_s = lambda: world.clock.ms / 1000  # noqa: E731
    world.services.web_links = LinkTable(sealer, now_s)
    return WebPage(world.app, FILES if files is None else files, sealer, Settings(url=url), provider, now_s)


class Browser:
    def __init__(self, app: ASGIApp, *, key: str = "k" * 64, host: str = HOST, scheme: str = "http") -> None:
        self.app = app
        self.key = key
        self.host = host
        self.scheme = scheme
        self.cookies: dict[str, str] = {}
        self.attributes: dict[str, str] = {}

    async def ask(
        self, method: str, address: str, body: object = None, *, headers: dict[str, str | None] | None = None
    ) -> Response:
        """One request of the page; a header that is None is left out."""
        sent: dict[str, str | None] = {"host": self.host, "x-lattice-page": self.key}
        if method != "GET":
            sent["origin"] = f"{self.scheme}://{self.host}"
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        sent |= headers or {}
        status, got, pieces = 0, list[tuple[bytes, bytes]](), list[bytes]()
        data = b"" if body is None else msgspec.json.encode(body)

        async def receive() -> Message:
            return {"type": "http.request", "body": data, "more_body": False}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                got.extend(message["headers"])
            pieces.append(message.get("body", b""))

        parts = urlsplit(address)
        scope: dict[str, Any] = {
            "type": "http",
            "method": method,
            "scheme": self.scheme,
            "path": parts.path,
            "query_string": parts.query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value is not None],
            "client": ("192.0.2.1", 4321),
        }
        await self.app(scope, receive, send)
        self._keep(got)
        shown = {name.decode(): value.decode() for name, value in got if name != b"set-cookie"}
        return Response(status, shown, b"".join(pieces))

    def _keep(self, headers: list[tuple[bytes, bytes]]) -> None:
        for name, value in headers:
            if name != b"set-cookie":
                continue
            pair, _, attributes = value.decode().partition("; ")
            cookie, _, text = pair.partition("=")
            if "Max-Age=0" in attributes:
                self.cookies.pop(cookie, None)
            else:
                self.cookies[cookie] = text
                self.attributes[cookie] = attributes

    async def log_in(self, world: World, token: str | None = None) -> Response:
        made = await world.call("POST", "/web/links", {}, token=token)
        assert made.status == 201, made.body
        return await self.open_link(made.json()["path"])

    async def open_link(self, path: str) -> Response:
        ticket = path.partition("#")[2]
        return await self.ask("POST", "/web/session", {"ticket": ticket, "page": page_digest(self.key)})


def query_of(address: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(address).query))


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()
