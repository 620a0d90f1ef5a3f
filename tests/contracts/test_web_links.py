"""What every keeper of login links promises."""

from collections.abc import Callable

import pytest

from lattice.ports.site.web_links import WebLinks
from lattice.web.links import LINK_S, MAX_LINKS, PURPOSE, LinkTable, Ticket
from lattice.web.sealing import NotSealed, Sealer

SECRET = b"s" * 32


class Time:
    def __init__(self) -> None:
        self.now_s = 1_000.0


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture(params=[LinkTable])
def links(request: pytest.FixtureRequest, time: Time) -> WebLinks:
    make: Callable[..., WebLinks] = request.param
    return make(Sealer(SECRET), lambda: time.now_s)


def code_of(ticket: str) -> str:
    return Sealer(SECRET).open(PURPOSE, ticket, Ticket).code


def test_a_link_is_good_once(links: WebLinks) -> None:
    code = code_of(links.make("ada", "token")[0])
    assert links.use_up("ada", code)
    assert not links.use_up("ada", code)


def test_a_link_is_good_for_its_user_alone(links: WebLinks) -> None:
    code = code_of(links.make("ada", "token")[0])
    assert not links.use_up("eve", code)
    assert links.use_up("ada", code)


def test_a_link_ends_after_its_time(links: WebLinks, time: Time) -> None:
    ticket, expires_in_s = links.make("ada", "token")
    time.now_s += expires_in_s
    assert not links.use_up("ada", code_of(ticket))


def test_a_code_that_was_never_given_is_refused(links: WebLinks) -> None:
    assert not links.use_up("ada", "x" * 22)


def test_unused_links_are_bounded(links: WebLinks) -> None:
    first, _ = links.make("ada", "token")
    for _ in range(MAX_LINKS):
        links.make("ada", "token")
    assert not links.use_up("ada", code_of(first))


def test_a_ticket_is_read_by_servers_of_the_cluster_alone(links: WebLinks, time: Time) -> None:
    made, _ = links.make("ada", "the-token")
    assert "the-token" not in made
    ticket = Sealer(SECRET).open(PURPOSE, made, Ticket)
    assert (ticket.token, ticket.expires_at) == ("the-token", time.now_s + LINK_S)
    for secret, purpose in ((b"o" * 32, PURPOSE), (SECRET, "session")):
        with pytest.raises(NotSealed):
            Sealer(secret).open(purpose, made, Ticket)
