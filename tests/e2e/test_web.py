"""The web page as people use it: a real browser, a real cluster, an identity provider."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from lattice.testing import LocalCluster
from lattice.testing.waiting import eventually
from tests.e2e.chromium import NARROW, THEMES, WIDE, Person, chromium
from tests.e2e.oidc_provider import CLIENT, PASSWORD
from tests.e2e.web_views import NODES, prepared, views

pytestmark = pytest.mark.e2e
expect.set_options(timeout=20_000)


@contextmanager
def provider() -> Iterator[str]:
    """The address of an OpenID provider."""
    command = [sys.executable, str(Path(__file__).with_name("oidc_provider.py")), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[LocalCluster]:
    with provider() as issuer:
        settings = {"api.oidc_issuer": issuer, "api.oidc_client_id": CLIENT}
        with LocalCluster(nodes=NODES, settings=settings, arguments=["--users", "ada,bob:operator,eve"]) as found:
            yield found


@pytest.fixture(autouse=True)
def nothing_left(cluster: LocalCluster) -> Iterator[None]:
    yield
    cluster.wait_serving()
    cluster.post("/allocations/cancel", {"all_mine": True})
    eventually(lambda: not cluster.get("/allocations?state=pending,running,stopping")["items"], "no work is left")


@pytest.fixture
def person(browser: Browser, cluster: LocalCluster) -> Iterator[Person]:
    someone = Person(browser, cluster).log_in()
    yield someone
    someone.close()
    assert someone.complaints == []
    assert someone.hosts == {cluster.api_url.partition("//")[2]}


def test_a_link_logs_in_once_and_then_says_the_way_on(browser: Browser, cluster: LocalCluster) -> None:
    first, second = Person(browser, cluster), Person(browser, cluster)
    link = first.link("--as", "ada")
    first.page.goto(link)
    expect(first.page.locator(".foot")).to_contain_text("ada")
    assert "#" not in first.page.url
    second.page.goto(link)
    expect(second.page.get_by_role("alert")).to_contain_text("this link was used already")
    expect(second.page.get_by_role("alert")).to_contain_text("lattice web")
    assert second.context.cookies() == []
    cookie = first.context.cookies()[0]
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    assert first.page.evaluate("document.cookie") == ""
    first.page.get_by_role("button", name="Log out").click()
    expect(first.page.get_by_text("lattice web")).to_be_visible()
    assert (first.complaints, second.complaints) == ([], [])
    first.close()
    second.close()


def test_the_sites_provider_logs_in_and_brings_back_to_the_view(browser: Browser, cluster: LocalCluster) -> None:
    grace = Person(browser, cluster)
    grace.page.goto(f"{cluster.api_url}/nodes")
    grace.page.get_by_role("button", name="Log in").click()
    grace.page.locator("input[name=user]").fill("grace")
    grace.page.locator("input[name=password]").fill(PASSWORD)
    grace.page.evaluate("document.querySelector('form').submit()")
    expect(grace.page.get_by_role("heading", name="Nodes")).to_be_visible()
    expect(grace.page.locator(".foot")).to_contain_text("grace")
    expect(grace.page.get_by_role("link", name="n1", exact=True).first).to_be_visible()
    assert grace.page.evaluate("Object.keys(localStorage).sort().join()") == "lattice-page-key"
    expect(grace.page.get_by_role("link", name="Admin")).to_have_count(0)
    grace.close()


def test_every_view_opens_without_barriers_in_both_themes(browser: Browser, cluster: LocalCluster) -> None:
    found = prepared(cluster)
    wide = Person(browser, cluster, width=WIDE).log_in()
    problems = {}
    for view in views(found):
        page = wide.follow(view)
        expect(page.locator("h1")).to_be_visible()
        expect(page.locator(".command").first).to_be_visible()
        for theme in THEMES:
            page.emulate_media(color_scheme=theme)
            if barriers := wide.barriers():
                problems[view, theme] = barriers
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, view
        page.set_viewport_size({"width": WIDE, "height": 900})
    expect(wide.follow("nodes/n1").get_by_role("heading", name="Measured")).to_be_visible()
    expect(wide.page.locator(".plot canvas").first).to_be_visible()
    assert problems == {}
    assert wide.complaints == []
    assert wide.hosts == {cluster.api_url.partition("//")[2]}
    wide.close()


def test_a_submission_is_checked_sent_and_followed_to_its_output(person: Person) -> None:
    page = person.open("submit")
    page.get_by_label("Name", exact=True).fill("from-the-page")
    page.get_by_label("Time limit").fill("soon")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("walltime")
    page.get_by_label("Time limit").fill("10m")
    page.locator("textarea[name=script]").fill(
        "#!/bin/sh\necho '<b>bold</b>' \"$LATTICE_ALLOC_NAME\"\nsleep 1\necho last line\n"
    )
    expect(page.get_by_label("Script", exact=True).last).to_contain_text("#LATTICE --walltime=10m")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("status").filter(has_text="would start")).to_be_visible()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/allocations/a*")
    expect(page.get_by_role("log")).to_contain_text("<b>bold</b>")
    expect(page.get_by_role("log")).to_contain_text("last line")
    expect(page.locator(".heading .state")).to_have_text("Completed")
    expect(page.locator("main b")).to_have_count(0)
    page.get_by_role("link", name="Submit again").click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("from-the-page")


def test_the_list_is_searched_and_live_and_cancels_what_is_chosen(person: Person, cluster: LocalCluster) -> None:
    page = person.open("allocations")
    first = cluster.submit("sleep 300", name="victim", tags={"x": "y"})["id"]
    other = cluster.submit("sleep 300", name="bystander")["id"]
    row = page.get_by_role("row").filter(has_text=first)
    expect(row).to_contain_text("Running")  # by itself
    page.locator("summary").filter(has_text="Columns").click()
    page.get_by_label("Tags").check()
    expect(row).to_contain_text("x=y")
    page.locator("summary").filter(has_text="Columns").click()
    page.locator("summary").filter(has_text="Words").click()
    page.get_by_text("a node that it runs or ran on").click()  # it can be seen
    page.locator("summary").filter(has_text="Words").click()
    page.get_by_label("Search allocations").fill("tag:x=y state:running")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("row").filter(has_text=other)).to_have_count(0)
    assert "q=tag" in page.url
    expect(page.locator(".command code")).to_have_text("lattice status --all --tag=x=y --state=running")
    page.get_by_label(f"Choose {first}").check()
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog").locator(".command code")).to_have_text(f"lattice cancel {first}")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    cluster.wait_state(first, "Cancelled")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    assert cluster.allocation(other)["state"] == "Running"
    page.get_by_label("Search allocations").fill("colour:red")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("alert")).to_contain_text("colour")


def test_an_operator_drains_a_node_with_a_reason_and_others_cannot(browser: Browser, cluster: LocalCluster) -> None:
    ada, bob = Person(browser, cluster).log_in("--as", "ada"), Person(browser, cluster).log_in("--as", "bob")
    expect(ada.open("nodes/n3").get_by_role("heading", name="n3")).to_be_visible()
    expect(ada.page.get_by_role("button", name="Drain")).to_have_count(0)
    page = bob.open("nodes/n3")
    page.get_by_role("button", name="Drain").click()
    page.get_by_label("Reason").fill("a fan is loud")
    said = page.get_by_role("dialog").locator(".command code")
    expect(said).to_have_text("lattice node drain n3 --reason='a fan is loud'")
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.locator(".heading")).to_contain_text("Drained")
    expect(page.locator(".heading")).to_contain_text("a fan is loud")
    nodes = bob.follow("nodes?q=state:drained,down")
    expect(nodes.locator(".rows-body").get_by_role("link")).to_have_text(["n3"])
    expect(nodes.locator(".command code")).to_have_text("lattice nodes --state=drained,down")
    expect(bob.follow("nodes?q=colour:red").get_by_role("alert")).to_contain_text('"colour:red" is no filter of nodes')
    bob.follow("nodes/n3")
    expect(ada.page.locator(".heading")).to_contain_text("Drained")  # live
    expect(ada.follow("usage").get_by_text("Your node hours")).to_be_visible()
    expect(ada.page.get_by_role("alert")).to_have_count(0)
    page.get_by_role("button", name="Undrain").click()
    expect(page.locator(".heading")).to_contain_text("Ready")
    assert (ada.complaints, bob.complaints) == ([], [])
    ada.close()
    bob.close()


def test_a_service_is_listed_with_its_instances_and_opens(person: Person, cluster: LocalCluster) -> None:
    """An HTTP server on the port that its node chose, reached by a click, which follows its load."""
    policy = {"min_nodes": 1, "max_nodes": 2, "metric": "in_flight", "target": 5, "evaluation_interval": "1s"}
    serve = f"exec {sys.executable} -m http.server $LATTICE_PORT_PAGE --bind 127.0.0.1"
    made = cluster.submit(
        ["sh", "-c", serve],
        name="pages",
        lifecycle={"type": "reactive", **policy},
        expose=[{"name": "page", "port": 0}],
    )["id"]
    page = person.open("services")
    row = page.get_by_role("row").filter(has_text="page")
    expect(row).to_contain_text("1 of 1")
    row.get_by_role("link", name="page").click()
    expect(page.get_by_role("row").filter(has_text=made)).to_contain_text("Ready")
    scaling = page.locator(".scaling")
    expect(scaling).to_contain_text("in_flight, target 5")
    expect(scaling).to_contain_text("hold")
    page.get_by_role("button", name="Open").click()
    link = page.get_by_role("link", name="the page of page").get_attribute("href")
    assert link is not None
    assert "/proxy/services/page/" in link
    cluster.post("/allocations/cancel", {"ids": [made]})
    expect(page.get_by_role("alert")).to_contain_text("page")  # it is gone, and what is known of it stays


def test_administration_says_what_needs_attention(browser: Browser, cluster: LocalCluster) -> None:
    bob = Person(browser, cluster).log_in("--as", "bob")
    page = bob.open("admin?part=alerts")
    expect(page.get_by_text("Nothing is wrong that the servers know of.")).to_be_visible()
    cluster.post("/nodes/n2/disable", {"reason": "smoke"})
    expect(page.get_by_role("row").filter(has_text="LatticeNodeDown")).to_contain_text("n2")
    expect(page.get_by_role("row").filter(has_text="LatticeNodeDown")).to_contain_text("smoke")
    cluster.post("/nodes/n2/enable")
    expect(page.get_by_text("Nothing is wrong that the servers know of.")).to_be_visible()
    cluster.wait_node("n2", "Ready")
    assert bob.complaints == []
    bob.close()


def test_a_group_unfolds_in_the_list_to_its_tasks(browser: Browser, cluster: LocalCluster) -> None:
    group = cluster.submit("true", name="unfolds", tasks="0-4")["id"]
    person = Person(browser, cluster).log_in()
    page = person.open("allocations?q=name:unfolds+all")
    page.get_by_role("button", name=f"Tasks of {group}").click()
    expect(page.get_by_role("link", name="Task ")).to_have_count(5)
    page.reload()  # it is part of the address
    expect(page.get_by_role("link", name="Task ")).to_have_count(5)
    assert person.barriers() == []
    page.get_by_role("button", name=f"Tasks of {group}").click()
    expect(page.get_by_role("link", name="Task ")).to_have_count(0)
    page = person.follow("admin?part=settings")
    page.set_viewport_size({"width": NARROW, "height": 800})
    expect(page.locator(".stacked td").nth(1)).to_be_in_viewport(ratio=1)
    assert person.complaints == []
    person.close()


def test_the_keys_are_on_the_page_and_do_what_it_says(browser: Browser, cluster: LocalCluster) -> None:
    bob = Person(browser, cluster).log_in("--as", "bob")
    page = bob.page
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys.get_by_text("unfold and fold the tasks of a group")).to_be_visible()
    rows = keys.locator("dl > div").all()[-8:]
    letters = {row.locator("dd").inner_text(): row.locator("kbd").all_inner_texts() for row in rows}
    assert bob.barriers() == []
    page.keyboard.press("Escape")
    expect(keys).to_have_count(0)
    assert len(letters) == 8
    for title, typed in letters.items():
        for key in typed:
            page.keyboard.press(key)
        expect(page.get_by_role("heading", level=1)).to_have_text(title)
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.keyboard.press("/")
    expect(page.get_by_label("Search allocations")).to_be_focused()
    assert bob.complaints == []
    bob.close()


def test_the_search_language_is_that_of_the_terminal(person: Person) -> None:
    cases = json.loads((Path(__file__).parents[1] / "search_language.json").read_text())
    page = person.open("allocations")
    found = page.evaluate(
        """async (texts) => {
          const { understand, asCommand } = await import("/assets/search.js");
          return texts.map((text) => ({ ...understand(text, 1772712000000), command: asCommand(text, "ada") }));
        }""",
        [case["text"] for case in cases],
    )
    told = page.evaluate(
        """async () => {
          const { withLocalTimes, moment } = await import("/assets/format.js");
          return [withLocalTimes("free at 2026-03-05 22:33 UTC"), moment("2026-03-05T22:33:00Z")];
        }"""
    )
    assert told[0] == f"free at {told[1]}"
    for case, answer in zip(cases, found, strict=True):
        asked = {
            key: value if key == "tag" else str(value).replace("True", "true").replace(".000Z", "Z")
            for key, value in answer["parameters"].items()
        }
        said = (asked, answer["id"], len(answer["problems"]), answer["command"])
        assert said == (case["asked"], case.get("id", ""), case.get("problems", 0), case["command"]), case["text"]


def test_a_terminal_takes_what_is_typed(person: Person, cluster: LocalCluster) -> None:
    made = cluster.submit("sleep 600", name="terminal")["id"]
    cluster.wait_state(made, "Running")
    page = person.open(f"allocations/{made}/terminal")
    page.locator(".xterm-screen").click()
    expect(page.locator(".heading")).to_contain_text(f"{made}.")
    page.keyboard.type("echo answer=$((6*7))\n")
    expect(page.locator(".xterm-rows")).to_contain_text("answer=42")
    page.keyboard.type("exit 3\n")
    expect(page.get_by_role("button", name="Open another")).to_be_visible()


def test_a_page_that_is_open_lives_through_a_server_that_dies(person: Person, cluster: LocalCluster) -> None:
    page = person.open("allocations")
    made = cluster.submit("sleep 300", name="before")["id"]
    expect(page.get_by_role("row").filter(has_text=made)).to_contain_text("Running")
    old = cluster.kill("server")
    expect(page.get_by_text("The server does not answer")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text=made)).to_be_visible()
    cluster.wait_replaced(old)
    cluster.wait_serving()
    expect(page.get_by_text("The server does not answer")).to_have_count(0)
    after = cluster.submit("true", name="after")["id"]
    expect(page.get_by_role("row").filter(has_text=after)).to_contain_text("Completed")


def test_a_session_that_ends_keeps_the_work_and_comes_back_by_a_login_elsewhere(person: Person) -> None:
    page = person.open("submit")
    page.get_by_label("Name", exact=True).fill("not-lost")
    person.context.clear_cookies()
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("dialog")).to_contain_text("Log in again")
    expect(page.get_by_role("dialog")).to_contain_text("Your session has ended")
    expect(person.follow("usage").get_by_text("your session has ended").first).to_be_visible()
    elsewhere = person.context.new_page()
    elsewhere.goto(person.link())
    elsewhere.wait_for_selector(".frame")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_text("Node hours").first).to_be_visible()  # asked again by itself
    person.follow("submit")
    expect(page.get_by_label("Name", exact=True)).to_have_value("not-lost")
