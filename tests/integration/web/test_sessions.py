"""Sessions of browsers: what logs one in, what keeps others out."""

import pytest

from lattice.web.links import LINK_S
from lattice.web.sessions import COOKIE, SECURE_COOKIE
from tests.integration.api.world import World, in_world
from tests.integration.web.browser import ORIGIN, Browser, page_over


@in_world
async def test_a_link_logs_a_browser_in_and_the_api_knows_the_user(world: World) -> None:
    browser = Browser(page_over(world))
    answer = await browser.log_in(world)
    assert (answer.status, answer.json()["user"]) == (200, "alice")
    who = await browser.ask("GET", "/api/v1/whoami")
    assert who.json()["user"] == "alice"
    made = await browser.ask("POST", "/api/v1/allocations", {"entrypoint": ["true"]})
    assert made.status == 201


@in_world
async def test_the_token_is_in_no_cookie_and_in_no_answer(world: World) -> None:
    browser = Browser(page_over(world))
    answer = await browser.log_in(world)
    assert world.alice.encode() not in answer.body
    assert world.alice not in "".join(browser.cookies.values())
    attributes = browser.attributes[f"{COOKIE}-0"]
    assert "HttpOnly" in attributes
    assert "SameSite=Strict" in attributes
    assert "Secure" not in attributes


@in_world
async def test_over_https_the_cookie_is_bound_to_the_host_and_to_https(world: World) -> None:
    browser = Browser(page_over(world), scheme="https")
    await browser.log_in(world)
    assert "Secure" in browser.attributes[f"{SECURE_COOKIE}-0"]
    assert (await browser.ask("GET", "/api/v1/whoami")).status == 200


@in_world
async def test_behind_a_proxy_with_https_the_cookie_is_bound_to_https(world: World) -> None:
    browser = Browser(page_over(world, url="https://cluster.example"))
    await browser.log_in(world)
    assert "Secure" in browser.attributes[f"{SECURE_COOKIE}-0"]


@in_world
async def test_a_link_that_was_used_gets_nothing_and_the_way_on(world: World) -> None:
    page = page_over(world)
    path = (await world.call("POST", "/web/links", {})).json()["path"]
    assert (await Browser(page).open_link(path)).status == 200
    thief = Browser(page, key="t" * 64)
    answer = await thief.open_link(path)
    assert (answer.status, answer.error["message"]) == (401, "this link was used already")
    assert "lattice web" in answer.error["hint"]
    assert thief.cookies == {}


@in_world
async def test_a_link_ends_after_a_minute(world: World) -> None:
    browser = Browser(page_over(world))
    path = (await world.call("POST", "/web/links", {})).json()["path"]
    world.clock.ms += int(LINK_S * 1000)
    answer = await browser.open_link(path)
    assert (answer.status, answer.error["message"]) == (401, "this link has expired")


@in_world
async def test_a_link_that_was_made_up_is_refused(world: World) -> None:
    browser = Browser(page_over(world))
    for text in ("", "x", "A" * 200, "é"):
        assert (await browser.open_link(f"/login#{text}")).status == 401


@in_world
async def test_a_link_is_not_made_inside_an_allocation_nor_where_the_page_is_off(world: World) -> None:
    assert (await world.call("POST", "/web/links", {})).error["code"] == "conflict"
    page_over(world)
    made = await world.submit()
    await world.start_run(made["number"])
    inside = world.token("alice", kind="allocation", allocation=made["number"])
    assert (await world.call("POST", "/web/links", {}, token=inside)).status == 403


@in_world
async def test_a_stolen_cookie_opens_nothing_without_the_key_of_the_page(world: World) -> None:
    page = page_over(world)
    victim = Browser(page)
    await victim.log_in(world)
    thief = Browser(page, key="t" * 64)
    thief.cookies = dict(victim.cookies)
    assert (await thief.ask("GET", "/api/v1/whoami")).status == 401
    assert (await thief.ask("GET", "/api/v1/whoami", headers={"x-lattice-page": None})).status == 401
    assert (await thief.ask("GET", "/api/v1/whoami", headers={"x-lattice-page": ""})).status == 401


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://cluster.example:9090", "null", None],
    ids=["foreign", "port", "null", "none"],
)
def test_a_write_needs_the_pages_own_origin(origin: str | None) -> None:
    @in_world
    async def scenario(world: World) -> None:
        browser = Browser(page_over(world))
        await browser.log_in(world)
        answer = await browser.ask("POST", "/api/v1/allocations", {"entrypoint": ["true"]}, headers={"origin": origin})
        assert (answer.status, answer.error["code"]) == (403, "forbidden")
        assert not world.state.allocations
        assert (await browser.ask("DELETE", "/web/session", headers={"origin": origin})).status == 403
        assert browser.cookies

    scenario()


@in_world
async def test_a_write_that_the_browser_calls_cross_site_is_refused(world: World) -> None:
    browser = Browser(page_over(world))
    await browser.log_in(world)
    headers: dict[str, str | None] = {"origin": ORIGIN, "sec-fetch-site": "same-site"}
    assert (await browser.ask("POST", "/api/v1/allocations/cancel", {}, headers=headers)).status == 403


@in_world
async def test_a_session_ends_with_its_token(world: World) -> None:
    browser = Browser(page_over(world))
    await browser.log_in(world, world.token("alice", lifetime_s=600))
    world.clock.ms += 600_000
    answer = await browser.ask("GET", "/api/v1/whoami")
    assert (answer.status, answer.error["message"]) == (401, "your session has expired")


@in_world
async def test_logging_out_clears_the_cookies(world: World) -> None:
    browser = Browser(page_over(world))
    await browser.log_in(world)
    assert (await browser.ask("DELETE", "/web/session")).status == 200
    assert browser.cookies == {}
    assert (await browser.ask("GET", "/api/v1/whoami")).status == 401


@in_world
async def test_a_token_of_its_own_beats_the_session(world: World) -> None:
    browser = Browser(page_over(world))
    await browser.log_in(world)
    headers: dict[str, str | None] = {"authorization": f"Bearer {world.admin}"}
    assert (await browser.ask("GET", "/api/v1/whoami", headers=headers)).json()["user"] == "root"


@in_world
async def test_a_cookie_that_comes_twice_is_no_session(world: World) -> None:
    browser = Browser(page_over(world))
    await browser.log_in(world)
    value = browser.cookies[f"{COOKIE}-0"]
    headers: dict[str, str | None] = {"cookie": f"{COOKIE}-0=x; {COOKIE}-0={value}"}
    assert (await browser.ask("GET", "/api/v1/whoami", headers=headers)).status == 401


@in_world
async def test_a_long_token_is_kept_in_several_cookies(world: World) -> None:
    browser = Browser(page_over(world))
    tenants = tuple(f"tenant-with-a-long-name-{number:03}" for number in range(150))
    answer = await browser.log_in(world, world.token("alice", tenants=("default", *tenants)))
    assert answer.status == 200
    assert f"{COOKIE}-1" in browser.cookies
    assert max(len(value) for value in browser.cookies.values()) < 4000
    assert (await browser.ask("GET", "/api/v1/whoami")).status == 200


@in_world
async def test_two_users_see_nothing_of_each_other(world: World) -> None:
    page = page_over(world)
    alice, eve = Browser(page), Browser(page, key="e" * 64)
    await alice.log_in(world, world.token("alice", tenants=("physics",)))
    await eve.log_in(world, world.token("eve", tenants=("default",)))
    made = (await alice.ask("POST", "/api/v1/allocations", {"entrypoint": ["true"], "name": "secret"})).json()
    await world.start_run(made["number"])
    for address in ("allocations?all=true&limit=100", "timeline", f"allocations/{made['id']}", "tenants"):
        assert b"secret" not in (await eve.ask("GET", f"/api/v1/{address}")).body
    assert (await eve.ask("GET", f"/api/v1/allocations/{made['id']}")).status == 404
    assert b"secret" in (await alice.ask("GET", "/api/v1/timeline")).body
