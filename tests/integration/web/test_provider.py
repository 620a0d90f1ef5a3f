"""Login by an identity provider: the code is exchanged by the server, for the browser that began the login alone."""

import base64
import hashlib
from collections.abc import Mapping

from lattice.web.provider import WITHIN_S, Client, ProviderLogin
from lattice.web.sealing import Sealer
from lattice.web.sessions import page_digest
from tests.integration.api.world import SECRET, World, in_world
from tests.integration.web.browser import ORIGIN, Browser, as_json, page_over, query_of

CLIENT = Client("lattice", ("openid",), "access_token")


class Provider:
    """Implements `Endpoints`."""

    def __init__(self, token: str, refresh: str = "") -> None:
        self.token = token
        self.refresh = refresh
        self.forms: list[Mapping[str, str]] = []
        self.is_away = False
        self.status = 200

    def address(self, name: str) -> str:
        return "" if self.is_away else f"https://idp.example/{name}"

    async def ask(self, name: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        if self.is_away:
            raise OSError("no answer")
        self.forms.append(form)
        return self.status, as_json({"access_token": self.token, "refresh_token": self.refresh, "error": "denied"})


def logins(provider: Provider) -> ProviderLogin:
    return ProviderLogin(provider, CLIENT, Sealer(SECRET))


async def begun(browser: Browser, to: str = "/nodes") -> dict[str, str]:
    answer = await browser.ask("GET", f"/web/login?page={page_digest(browser.key)}&to={to}")
    assert answer.status == 303, answer.body
    return query_of(answer.headers["location"])


@in_world
async def test_a_person_comes_back_logged_in_to_the_view_they_left(world: World) -> None:
    provider = Provider(world.alice)
    browser = Browser(page_over(world, provider=logins(provider)))
    asked = await begun(browser)
    assert (asked["client_id"], asked["code_challenge_method"]) == ("lattice", "S256")
    assert asked["redirect_uri"] == f"{ORIGIN}/web/callback"
    assert "SameSite=Lax" in browser.attributes["lattice-login"]
    back = await browser.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
    assert (back.status, back.headers["location"]) == (303, "/nodes")
    form = provider.forms[0]
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == asked["code_challenge"]
    assert "lattice-login" not in browser.cookies
    assert (await browser.ask("GET", "/api/v1/whoami")).json()["user"] == "alice"


@in_world
async def test_a_login_that_another_browser_began_is_refused(world: World) -> None:
    page = page_over(world, provider=logins(Provider(world.alice)))
    attacker, victim = Browser(page), Browser(page, key="v" * 64)
    asked = await begun(attacker)
    back = await victim.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
    assert back.headers["location"].startswith("/login?problem=")
    own = await begun(victim)
    assert own["state"] != asked["state"]
    back = await victim.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
    assert back.headers["location"].startswith("/login?problem=")
    assert (await victim.ask("GET", "/api/v1/whoami")).status == 401


@in_world
async def test_a_login_that_takes_too_long_begins_again(world: World) -> None:
    browser = Browser(page_over(world, provider=logins(Provider(world.alice))))
    asked = await begun(browser)
    world.clock.ms += int(WITHIN_S * 1000)
    back = await browser.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
    assert "too%20old" in back.headers["location"]


@in_world
async def test_what_the_provider_refuses_is_said(world: World) -> None:
    provider = Provider(world.alice)
    browser = Browser(page_over(world, provider=logins(provider)))
    asked = await begun(browser)
    back = await browser.ask("GET", f"/web/callback?error=access_denied&state={asked['state']}")
    assert "access_denied" in back.headers["location"]
    asked = await begun(browser)
    provider.status = 400
    back = await browser.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
    assert "denied" in back.headers["location"]


@in_world
async def test_a_token_that_the_cluster_refuses_logs_nobody_in(world: World) -> None:
    browser = Browser(page_over(world, provider=logins(Provider("no.such.token"))))
    asked = await begun(browser)
    back = await browser.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
    assert back.headers["location"].startswith("/login?problem=")
    assert browser.cookies == {}


@in_world
async def test_nobody_is_sent_to_another_site_after_a_login(world: World) -> None:
    browser = Browser(page_over(world, provider=logins(Provider(world.alice))))
    for to in ("https://evil.example", "//evil.example", "/\\evil.example"):
        asked = await begun(browser, to)
        back = await browser.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
        assert back.headers["location"] == "/"


@in_world
async def test_a_short_token_is_renewed_by_the_server(world: World) -> None:
    provider = Provider(world.token("alice", lifetime_s=300), "refresh-1")
    browser = Browser(page_over(world, provider=logins(provider)))
    asked = await begun(browser)
    await browser.ask("GET", f"/web/callback?code=c1&state={asked['state']}")
    world.clock.ms += 290_000
    provider.token, provider.refresh = world.token("alice", lifetime_s=3000), ""
    answer = await browser.ask("POST", "/web/session/renew", {})
    assert (answer.status, answer.json()["user"]) == (200, "alice")
    assert provider.forms[-1]["refresh_token"] == "refresh-1"
    world.clock.ms += 60_000
    assert (await browser.ask("GET", "/api/v1/whoami")).status == 200
    foreign: dict[str, str | None] = {"origin": "http://evil.example"}
    assert (await browser.ask("POST", "/web/session/renew", {}, headers=foreign)).status == 403


@in_world
async def test_a_session_of_a_link_cannot_be_renewed(world: World) -> None:
    browser = Browser(page_over(world, provider=logins(Provider(world.alice))))
    await browser.log_in(world)
    assert (await browser.ask("POST", "/web/session/renew", {})).status == 401


@in_world
async def test_a_provider_that_is_away_is_named(world: World) -> None:
    provider = Provider(world.alice)
    browser = Browser(page_over(world, provider=logins(provider)))
    provider.is_away = True
    answer = await browser.ask("GET", f"/web/login?page={page_digest(browser.key)}")
    assert (answer.status, answer.error["code"]) == (503, "unavailable")


@in_world
async def test_without_a_provider_links_are_the_only_way_in(world: World) -> None:
    browser = Browser(page_over(world))
    answer = await browser.ask("GET", f"/web/login?page={page_digest(browser.key)}")
    assert (answer.status, answer.error["hint"]) == (404, "run `lattice web`")
