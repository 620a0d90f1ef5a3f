"""The web page over three servers: the leader dies, and the page of another one goes on."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from lattice.testing import LocalCluster
from tests.conftest import require_program
from tests.e2e.chromium import Person, chromium

pytestmark = pytest.mark.e2e
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[LocalCluster]:
    require_program("etcd")
    with LocalCluster(nodes=2, servers=3) as found:
        yield found


def link_at(person: Person, server: str) -> str:
    """A link of one server is good at every other, and once: they share the key and the log."""
    made = urlsplit(person.link())
    return f"{server}{made.path}#{made.fragment}"


def test_a_page_that_is_open_lives_through_the_death_of_the_leader(browser: Browser, cluster: LocalCluster) -> None:
    leader = cluster.leader()
    follower = next(name for name in cluster.urls if name != leader)
    person = Person(browser, cluster)
    person.page.goto(link_at(person, cluster.urls[follower]))
    person.page.wait_for_selector(".frame")
    page = person.page
    before = cluster.submit("sleep 300", name="before")["id"]
    expect(page.get_by_role("row").filter(has_text=before)).to_contain_text("Running")
    page.evaluate("window.isTheSamePage = true")
    cluster.kill("server", leader)
    expect(page.get_by_role("row").filter(has_text=before)).to_be_visible()
    after = cluster.submit("true", name="after")["id"]
    expect(page.get_by_role("row").filter(has_text=after)).to_contain_text("Completed")
    expect(page.get_by_text("The server does not answer")).to_have_count(0)
    expect(page.locator(".connection")).to_have_text("Live")
    page.get_by_label(f"Choose {before}").check()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    cluster.wait_state(before, "Cancelled")
    assert page.evaluate("window.isTheSamePage")
    assert person.complaints == []
    person.close()


def test_a_page_of_the_leader_itself_comes_back_with_its_server(browser: Browser, cluster: LocalCluster) -> None:
    cluster.wait_serving()
    leader = cluster.leader()
    person = Person(browser, cluster)
    person.page.goto(link_at(person, cluster.urls[leader]))
    person.page.wait_for_selector(".frame")
    old = cluster.kill("server", leader)
    gone = person.page.locator(".banner").get_by_text("The server does not answer")
    expect(gone).to_be_visible()
    cluster.wait_replaced(old)
    expect(gone).to_have_count(0, timeout=60_000)
    made = cluster.submit("true", name="later")["id"]
    expect(person.page.get_by_role("row").filter(has_text=made)).to_contain_text("Completed")
    assert person.complaints == []
    person.close()


def test_a_view_that_was_never_fetched_comes_with_the_server(browser: Browser, cluster: LocalCluster) -> None:
    """A browser does not fetch a module again that it could not fetch once."""
    cluster.wait_serving()
    server = cluster.leader()
    person = Person(browser, cluster)
    person.page.goto(link_at(person, cluster.urls[server]))
    expect(person.page.locator(".connection")).to_have_text("Live")
    old = cluster.kill("server", server)
    person.page.get_by_role("link", name="Timeline").click()
    expect(person.page.locator(".banner")).to_contain_text("The server does not answer")
    cluster.wait_replaced(old)
    expect(person.page.get_by_role("heading", name="Timeline")).to_be_visible(timeout=60_000)
    expect(person.page.locator(".banner")).to_have_count(0, timeout=60_000)
    person.close()
