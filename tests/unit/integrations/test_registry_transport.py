"""What a registry may ask of this site, and what it never gets: tokens by challenge, redirects without credentials."""

import base64
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from lattice.integrations.registry.pulls import HttpBlobs
from lattice.integrations.registry.transport import HttpFailed, Login, Transport, is_secure

Handler = http.server.BaseHTTPRequestHandler


@contextmanager
def serving(answer: Callable[[Handler], None]) -> Iterator[str]:
    class Own(Handler):
        do_GET = answer
        log_message = lambda *_: None  # noqa: E731

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def say(handler: Handler, status: int, body: bytes = b"", **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content_Length": str(len(body)), **headers}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def ask(transport: Transport, url: str, most: int = 10_000) -> bytes:
    with transport.get(url) as answer:
        return answer.body(most)


def test_token_is_asked_for_with_the_account_and_used_from_then_on() -> None:
    seen: list[str] = []

    def answer(handler: Handler) -> None:
        authorization = handler.headers.get("Authorization") or ""
        seen.append(f"{handler.path} {authorization}")
        if handler.path.startswith("/token"):
            say(handler, 200, b'{"token": "t0ken"}')
        elif authorization == "Bearer t0ken":
            say(handler, 200, b"content")
        else:
            realm = f'Bearer realm="http://{handler.headers["Host"]}/token",service="s",scope="repository:a:pull"'
            say(handler, 401, WWW_Authenticate=realm)

    with serving(answer) as host:
        source = HttpBlobs(Transport({host: Login("ada", lambda: "secret")}))
        for blob in ("1", "2"):
            assert b"".join(source.read(f"http://{host}/v2/a/blobs/{blob}")) == b"content"
    basic = "Basic " + base64.b64encode(b"ada:secret").decode()
    assert seen == [
        "/v2/a/blobs/1 ",
        f"/token?service=s&scope=repository%3Aa%3Apull {basic}",
        "/v2/a/blobs/1 Bearer t0ken",
        "/v2/a/blobs/2 Bearer t0ken",
    ]


def test_redirect_to_another_host_gets_no_credentials() -> None:
    seen: list[str | None] = []

    def store(handler: Handler) -> None:
        seen.append(handler.headers.get("Authorization"))
        say(handler, 200, b"content")

    with serving(store) as other:

        def answer(handler: Handler) -> None:
            if handler.headers.get("Authorization"):
                say(handler, 307, Location=f"http://{other}/signed")
            else:
                say(handler, 401, WWW_Authenticate="Basic realm=x")

        with serving(answer) as host:
            source = HttpBlobs(Transport({host: Login("ada", lambda: "secret")}))
            assert b"".join(source.read(f"http://{host}/v2/a/blobs/1")) == b"content"
    assert seen == [None]


def test_token_is_never_asked_for_at_a_place_that_is_not_secure() -> None:
    def answer(handler: Handler) -> None:
        say(handler, 401, WWW_Authenticate='Bearer realm="http://192.0.2.1/token"')

    with serving(answer) as host, pytest.raises(HttpFailed, match="not secure"):
        ask(Transport({host: Login("ada", lambda: "secret")}), f"http://{host}/v2/a/blobs/1")


def test_a_secure_registry_cannot_send_credentials_to_its_own_plain_port() -> None:
    transport = Transport({"example.org:5000": Login("ada", lambda: "secret")})
    challenge = 'Bearer realm="http://example.org:5000/token"'
    with pytest.raises(HttpFailed, match="not secure"):
        transport._answer_challenge(urlsplit("https://example.org:5000/v2/a/blobs/1"), challenge)


@pytest.mark.parametrize("kind", ["circle", "cut"])
def test_redirects_without_end_and_answers_without_an_end_fail(kind: str) -> None:
    def answer(handler: Handler) -> None:
        if kind == "circle":
            say(handler, 302, Location=handler.path)
        else:
            say(handler, 200, b"half", Content_Length="1000")

    with serving(answer) as host, pytest.raises(HttpFailed, match=r"without end|in the middle"):
        ask(Transport(), f"http://{host}/x")


def test_answer_that_is_too_large_is_refused() -> None:
    with serving(lambda handler: say(handler, 200, bytes(1000))) as host, pytest.raises(HttpFailed, match="too much"):
        ask(Transport(), f"http://{host}/x", 999)


def test_registry_that_knows_no_ranges_begins_again() -> None:
    with serving(lambda handler: say(handler, 200, b"0123456789")) as host:
        assert b"".join(HttpBlobs(Transport()).read(f"http://{host}/x", 4)) == b"456789"


@pytest.mark.parametrize(
    ("url", "is_so"),
    [("https://a/", True), ("http://localhost:5000/", True), ("http://a/", False), ("http://127.0.0.1.a/", False)],
)
def test_what_counts_as_secure(url: str, is_so: bool) -> None:
    assert is_secure(url) is is_so
