"""The files of the page, and what is around them."""

import re
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection, WebSection
from lattice.daemons.outside.web import WebFront
from lattice.web.app import VIEWS, WebPage
from lattice.web.files import PAGE
from lattice.web.login import Settings
from lattice.web.sealing import Sealer
from lattice.web.sessions import PAGE_PROTOCOL
from lattice.wire.work.allocations import ConstraintsView, DetailsView
from tests.integration.api.world import SECRET, World, in_world
from tests.integration.web.browser import HOST, ORIGIN, Browser, page_over


@pytest.mark.parametrize("view", sorted(VIEWS))
def test_every_view_has_an_address(view: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        browser = Browser(page_over(world))
        for address in (f"/{view}", f"/{view}/x/y"):
            if address != "//x/y":
                assert (await browser.ask("GET", address)).body.startswith(b"<!doctype html>")

    scenario()


@in_world
async def test_nothing_runs_in_the_page_but_its_own_files(world: World) -> None:
    headers = (await Browser(page_over(world)).ask("GET", "/")).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


@in_world
async def test_a_file_is_sent_compressed_and_not_again_when_it_is_known(world: World) -> None:
    browser = Browser(page_over(world))
    whole = await browser.ask("GET", "/assets/main.js")
    small = await browser.ask("GET", "/assets/main.js", headers={"accept-encoding": "gzip, br"})
    assert (len(whole.body), small.body, small.headers["content-encoding"]) == (2000, b"small", "gzip")
    known = await browser.ask("GET", "/assets/main.js", headers={"if-none-match": whole.headers["etag"]})
    assert (known.status, known.body) == (304, b"")


@pytest.mark.parametrize("path", ["/assets/../app.py", "/assets/nothing.js", "/elsewhere", "/assets/"])
def test_what_is_no_file_of_the_page_is_answered_by_the_api(path: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        answer = await Browser(page_over(world)).ask("GET", path)
        assert (answer.status, answer.error["code"]) == (404, "not_found")

    scenario()


@in_world
async def test_without_its_libraries_the_api_is_served_alone_and_says_how_to_add_the_page(world: World) -> None:
    browser = Browser(page_over(world, files={}))
    answer = await browser.ask("GET", "/")
    assert answer.status == 404
    assert b"make web" in answer.body
    token: dict[str, str | None] = {"authorization": f"Bearer {world.alice}"}
    assert (await browser.ask("GET", "/api/v1/whoami", headers=token)).status == 200


@in_world
async def test_the_public_addresses_stay_what_they_were(world: World) -> None:
    browser = Browser(page_over(world))
    assert (await browser.ask("GET", "/healthz")).json() == {"status": "ok"}
    assert b"lattice_" in (await browser.ask("GET", "/metrics")).body


def test_no_file_of_the_page_has_a_script_or_a_style_inside_or_an_address_of_another_host() -> None:
    for path in (each for each in PAGE.rglob("*") if each.is_file()):
        text = path.read_text()
        assert "https://" not in text, path
        assert "http://" not in text.replace("http://www.w3.org/2000/svg", ""), path
        assert "innerHTML" not in text, path
        assert "dangerouslySetInnerHTML" not in text, path
        assert ' style="' not in text, path
        if path.suffix == ".html":
            assert "<style" not in text
            assert "<script>" not in text


async def opened_socket(world: World, page: WebPage, headers: dict[str, str]) -> tuple[Scope | None, list[Message]]:
    """What the application behind the page gets to see of a WebSocket, and what the browser hears."""
    seen: list[Scope] = []
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope)

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        heard.append(message)

    front = WebPage(app, {}, Sealer(SECRET), Settings(), None, lambda: world.clock.ms / 1000)
    scope = {
        "type": "websocket",
        "scheme": "ws",
        "path": "/api/v1/allocations/a1/attach",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
    }
    await front(scope, receive, send)
    return (seen[0] if seen else None), heard


@in_world
async def test_a_terminal_of_the_page_has_the_token_and_no_cookie(world: World) -> None:
    page = page_over(world)
    browser = Browser(page)
    await browser.log_in(world)
    cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    protocols = f"lattice.terminal.v1, {PAGE_PROTOCOL}{browser.key}"
    headers = {"host": HOST, "origin": ORIGIN, "cookie": cookie, "sec-websocket-protocol": protocols}
    seen, _ = await opened_socket(world, page, headers)
    assert seen is not None
    passed = dict(seen["headers"])
    assert passed[b"authorization"] == f"Bearer {world.alice}".encode()
    assert b"cookie" not in passed
    for changed in ({"origin": "http://evil.example"}, {"sec-websocket-protocol": f"{PAGE_PROTOCOL}{'x' * 64}"}):
        seen, heard = await opened_socket(world, page, headers | changed)
        assert seen is None
        assert heard[0]["status"] in (401, 403)


@in_world
async def test_a_page_that_is_switched_off_is_not_in_front_of_the_api_and_lattice_web_says_so(world: World) -> None:
    config = ServerConfig(data_dir="data", api=ApiSection(hmac_secret=""), web=WebSection(enabled=False))
    front = WebFront(config, SECRET, None)
    assert (front.around(world.app), front.links) == (world.app, None)
    world.services.web_links = front.links
    answer = await world.call("POST", "/web/links", {})
    assert (answer.status, answer.error["hint"]) == (409, "administrators set web.enabled")


def test_what_the_form_does_not_repeat_of_an_allocation_is_named() -> None:
    """`lattice resubmit` repeats it: tests/unit/cli/test_resubmit.py."""
    elsewhere = {
        "submit_dir",  # that of the page is its own
        *("drain_s", "probes"),  # of a service, which is named
        *("notify_to", "notify_each_task"),  # of notifications, which are named
    }
    form = (PAGE / "submission.js").read_text()
    for record, over in ((DetailsView, elsewhere), (ConstraintsView, {"gpu_count"})):
        assert {name for name in record.__struct_fields__ if not re.search(rf"\b{name}\b", form)} - over == set()
