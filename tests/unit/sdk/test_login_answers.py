"""What comes to the port that waits for the browser, and what a provider says of itself: only what belongs to the login is taken."""

import json
import socket
from urllib.parse import parse_qs, urlsplit

import pytest

from lattice_sdk import login, provider
from lattice_sdk.errors import LoginFailed
from lattice_sdk.login import Person, Terms, by_browser, by_hand
from lattice_sdk.provider import Provider, Tokens, find_provider

PROVIDER = Provider(issuer="http://idp", token_endpoint="http://idp/token", authorization_endpoint="http://idp/auth")
TERMS = Terms(provider=PROVIDER, client_id="lattice", scope="openid", port=0, within_s=10)
STRAY = [
    "/callback?state=%C3%A9&code=evil",
    "/callback?state=%ED%A0%80&code=evil",
    "//[/callback?code=evil",
    "/favicon.ico",
    "/callback?code=evil",
]


def nobody_asks(_text: str) -> str:
    raise AssertionError("nothing is to be typed in")


def test_requests_of_others_do_not_end_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[str] = []

    def tokens(_provider: Provider, form: dict[str, str], _ca_file: str) -> Tokens:
        codes.append(form["code"])
        return Tokens(access_token="t")

    def visit(url: str) -> bool:
        asked = parse_qs(urlsplit(url).query)
        back = urlsplit(asked["redirect_uri"][0])
        for target in (*STRAY, f"/callback?state={asked['state'][0]}&code=mine"):
            connection = socket.create_connection(("127.0.0.1", back.port or 0))
            connection.sendall(f"GET {target} HTTP/1.1\r\n\r\n".encode())
            open_connections.append(connection)
        return True

    open_connections: list[socket.socket] = []
    monkeypatch.setattr(login, "ask_for_tokens", tokens)
    try:
        found = by_browser(TERMS, Person(show=print, ask=nobody_asks, open_page=visit))
    finally:
        for connection in open_connections:
            connection.close()
    assert (found.access_token, codes) == ("t", ["mine"])


@pytest.mark.parametrize("pasted", ["http://[", "http://localhost/callback?state=%C3%A9&code=1", "", "é"])
def test_what_is_pasted_from_elsewhere_is_refused(pasted: str) -> None:
    person = Person(show=lambda _text: None, ask=lambda _text: pasted, open_page=lambda _url: False)
    with pytest.raises(LoginFailed, match="does not belong to this login"):
        by_hand(TERMS, person)


@pytest.mark.parametrize("name", ["token_endpoint", "revocation_endpoint"])
def test_no_token_goes_over_http_where_the_issuer_is_https(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"issuer": "https://idp", "token_endpoint": "https://idp/t", name: "http://idp/x"}
    monkeypatch.setattr(provider, "_exchange", lambda *_words: (200, json.dumps(said).encode()))
    with pytest.raises(LoginFailed, match="which is not https"):
        find_provider("https://idp")
