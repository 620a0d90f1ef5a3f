"""Heads and bodies that the gateway passes on: strict about lengths, silent about our tokens, alone in saying who asks."""

import re

import pytest

from lattice.api.gateway.bodies import BodyReader
from lattice.api.gateway.heads import (
    BadHead,
    Body,
    Caller,
    client_response,
    is_same_origin,
    parse_request,
    parse_response,
    request_body,
    response_body,
    upstream_request,
)
from lattice.api.gateway.tickets import SESSION_S, TICKET_S, Grant, Tickets

CALLER = Caller("ada", "10.0.0.1", "https", "/proxy/a17/80")


def request(*lines: str, first: str = "GET /proxy/a17/80/x HTTP/1.1", host: str = "Host: here") -> bytes:
    return "\r\n".join([first, *([host] if host else []), *lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    "text",
    [
        request(first="GET x HTTP/1.1"),
        request(first="GET http://other/ HTTP/1.1"),
        request(first="GET / HTTP/2"),
        request(first="GET  / HTTP/1.1"),
        request(first="G T / HTTP/1.1"),
        request(first="GET /\x7f HTTP/1.1"),
        request("Bad Name: x"),
        request("no colon"),
        request(" folded: x"),
        request(host=""),
        request("Host: twice"),
        request(*(f"X-{number}: y" for number in range(101))),
    ],
)
def test_what_is_no_request_is_refused(text: bytes) -> None:
    with pytest.raises(BadHead):
        parse_request(text)


@pytest.mark.parametrize(
    "lines",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: 5", "Content-Length: 5"),
        ("Content-Length: +5",),
        ("Content-Length: 5, 5",),
        ("Transfer-Encoding: gzip, chunked",),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
    ],
)
def test_a_body_whose_length_is_not_clear_is_refused(lines: tuple[str, ...]) -> None:
    with pytest.raises(BadHead):
        request_body(parse_request(request(*lines)))


def test_the_work_gets_our_words_about_the_caller_and_none_of_our_secrets() -> None:
    head = parse_request(
        request(
            "X-Forwarded-For: 6.6.6.6",
            "x-lattice-user: root",
            "X-Lattice-Anything: x",
            "Forwarded: for=6.6.6.6",
            "Connection: X-Secret",
            "X-Secret: hop",
            "Cookie: lattice-proxy=SECRET; app=1",
            "Authorization: Bearer TOKEN",
            "Accept: */*",
        )
    )
    text = upstream_request(head, "/x", CALLER, drops_authorization=True).decode()
    assert text.startswith("GET /x HTTP/1.1\r\n")
    for gone in ("6.6.6.6", "SECRET", "TOKEN", "root", "hop", "Anything"):
        assert gone not in text
    for kept in (
        "Accept: */*",
        "Cookie: app=1",
        "X-Lattice-User: ada",
        "X-Forwarded-For: 10.0.0.1",
        "Connection: keep-alive",
    ):
        assert text.count(kept) == 1
    assert b"Authorization: Bearer TOKEN" in upstream_request(head, "/x", CALLER, drops_authorization=False)
    upgrade = parse_request(request("Connection: keep-alive, Upgrade", "Upgrade: websocket"))
    text = upstream_request(upgrade, "/x", CALLER, drops_authorization=False).decode()
    assert "Connection: Upgrade\r\nUpgrade: websocket" in text


def test_answers_stay_below_their_prefix_and_do_not_touch_our_cookie() -> None:
    head = parse_response(
        b"HTTP/1.1 302 Found\r\nLocation: /login\r\nSet-Cookie: lattice-proxy=x\r\nSet-Cookie: app=1\r\nKeep-Alive: 5\r\n\r\n"
    )
    text = client_response(head, "/proxy/a17/80", is_kept=True, is_stripped=True).decode()
    assert "Location: /proxy/a17/80/login" in text
    assert ("lattice-proxy" in text, "Set-Cookie: app=1" in text, "Keep-Alive: 5" in text) == (False, True, False)
    assert "Location: /login" in client_response(head, "/p", is_kept=True, is_stripped=False).decode()
    assert response_body(parse_response(b"HTTP/1.1 204 No\r\n\r\n"), "GET") == Body()
    assert response_body(parse_response(b"HTTP/1.1 200 OK\r\n\r\n"), "GET").is_endless
    assert response_body(parse_response(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), "HEAD") == Body()
    with pytest.raises(BadHead):
        response_body(parse_response(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 8\r\n\r\n"), "GET")


def test_pages_of_other_origins_are_told_apart() -> None:
    for origin, is_same in (("http://here", True), ("https://here", False), ("http://evil", False), ("null", False)):
        assert is_same_origin(parse_request(request(f"Origin: {origin}")), "http") is is_same
    assert is_same_origin(parse_request(request()), "http")


@pytest.mark.parametrize("step", [1, 2, 7, 100])
def test_the_end_of_a_body_is_found_however_it_is_cut(step: int) -> None:
    chunks = b"5;x=y\r\nhello\r\n3\r\nabc\r\n0\r\nTrailer: x\r\n\r\n"
    for body, text in ((Body(is_chunked=True), chunks), (Body(length=9), b"123456789")):
        reader, taken, data = BodyReader(body), 0, text + b"GET / next"
        for place in range(0, len(data), step):
            piece = data[place : place + step]
            got = reader.take(piece)
            taken += got
            if got < len(piece):
                break
        assert (taken, reader.is_over) == (len(text), True)
    for bad in (b"x\r\n", b"\r\n", b"5\nhello", b"1\r\nab\r\n", b"-1\r\n"):
        with pytest.raises(BadHead):
            BodyReader(Body(is_chunked=True)).take(bad)


def test_tickets_and_sessions_are_good_soon_at_their_own_address_and_at_every_server() -> None:
    now = [1000.0]
    tickets, next_leader = Tickets(lambda: now[0], b"secret"), Tickets(lambda: now[0], b"secret")
    stranger = Tickets(lambda: now[0], b"other")
    grant = Grant(user="ada", number=17, prefix="/proxy/a17/80", port="80", node="n1")
    texts = tickets.issue(grant), tickets.issue(grant)
    found = [tickets.ticket(text, "/proxy/a17/80") for text in texts]
    assert [None if each is None else each.grant for each in found] == [grant, grant]
    assert len({each.code for each in found if each is not None}) == 2
    assert next_leader.ticket(texts[0], "/proxy/a17/80") == found[0]
    session = tickets.begin(grant)
    assert next_leader.session(session, "/proxy/a17/80") == grant
    for text in (texts[0], session, "", ".", "x.y", f"{texts[0]}0", f"A{texts[0]}", "A" * 5000):
        assert stranger.ticket(text, "/proxy/a17/80") is None
        assert stranger.session(text, "/proxy/a17/80") is None
        if text != texts[0]:
            assert tickets.ticket(text, "/proxy/a17/80") is None, "a session is no ticket"
        if text != session:
            assert tickets.session(text, "/proxy/a17/80") is None, "a ticket is no session"
    assert tickets.ticket(texts[0], "/proxy/a18/80") is None
    assert tickets.session(session, "/proxy/a17/81") is None
    now[0] += TICKET_S
    assert tickets.ticket(texts[0], "/proxy/a17/80") is None
    assert tickets.session(session, "/proxy/a17/80") == grant
    now[0] += SESSION_S
    assert tickets.session(session, "/proxy/a17/80") is None


@pytest.mark.parametrize("user", ["a", "ad", "ada"])
def test_a_ticket_has_no_character_that_means_more_in_an_address(user: str) -> None:
    tickets = Tickets(lambda: 1.0)
    grant = Grant(user=user, number=17, prefix="/proxy/a17/80", port="80")
    ticket, session = tickets.issue(grant), tickets.begin(grant)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", ticket + session)
    found = tickets.ticket(ticket, grant.prefix)
    assert (found is not None and found.grant, tickets.session(session, grant.prefix)) == (grant, grant)
