"""An identity provider over real HTTP: what is believed, and that nobody is led elsewhere."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lattice.api.auth.issuer import MAX_BYTES, Issuer, IssuerUnusable, fetcher
from lattice.ports.clock import SystemClock
from tests.unit.api.oidc_world import RSA_KEYS, rsa_jwk


class Page(BaseHTTPRequestHandler):
    issuer = ""
    redirects: tuple[str, ...] = ()
    is_endless = False

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path in self.redirects:
            self.send_response(302)
            self.send_header("Location", f"{self.issuer}/elsewhere{self.path}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        asked = self.path.removeprefix("/elsewhere")
        if asked == "/.well-known/openid-configuration":
            body = json.dumps({"issuer": self.issuer, "jwks_uri": f"{self.issuer}/jwks"}).encode()
        else:
            body = json.dumps({"keys": [rsa_jwk(RSA_KEYS[0], "k1")]}).encode()
        if self.is_endless:
            body = b"x" * (MAX_BYTES + 10)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(body)


@pytest.fixture
def page() -> Iterator[type[Page]]:
    class Own(Page):
        pass

    class Server(ThreadingHTTPServer):
        daemon_threads = False  # those that still write are waited for

    with Server(("127.0.0.1", 0), Own) as server:
        Own.issuer = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield Own
        finally:
            server.shutdown()
            thread.join()


def refreshed(page: type[Page]) -> Issuer:
    issuer = Issuer(page.issuer, fetcher(), SystemClock(), algorithms=("RS256",))
    asyncio.run(issuer.refresh())
    return issuer


def test_keys_are_fetched(page: type[Page]) -> None:
    assert list(refreshed(page).keys) == ["k1"]


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/jwks"])
def test_redirects_are_not_followed(page: type[Page], path: str) -> None:
    page.redirects = (path,)
    with pytest.raises(IssuerUnusable, match="answered 302"):
        refreshed(page)


def test_an_answer_without_end_is_not_read_to_its_end(page: type[Page]) -> None:
    page.is_endless = True
    with pytest.raises(IssuerUnusable, match="larger than"):
        refreshed(page)


def test_nobody_there(page: type[Page]) -> None:
    issuer = Issuer("http://127.0.0.1:1", fetcher(), SystemClock(), algorithms=("RS256",))
    with pytest.raises(IssuerUnusable, match="does not answer"):
        asyncio.run(issuer.refresh())
