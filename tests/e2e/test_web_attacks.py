"""The web page among people who mean harm or err: names and output of others, other tenants, other sites, wrong input."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import quote, unquote

import pytest
from playwright.sync_api import Browser, expect

from lattice.api.auth.tokens import sign_token
from lattice.testing import LocalCluster
from lattice.testing.waiting import eventually
from tests.e2e.chromium import NARROW, WIDE, Person, chromium
from tests.e2e.web_views import NODES, prepared, views

pytestmark = pytest.mark.e2e
HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>"
RIGHT_TO_LEFT = "שלום مرحبا"
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(browser: Browser) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=NODES, arguments=["--users", "eve"]) as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_left(cluster: LocalCluster) -> Iterator[None]:
    yield
    cluster.post("/allocations/cancel", {"all_mine": True})
    eventually(lambda: not cluster.get("/allocations?state=pending,running,stopping")["items"], "no work is left")


@pytest.fixture
def person(browser: Browser, cluster: LocalCluster) -> Iterator[Person]:
    someone = Person(browser, cluster).log_in()
    yield someone
    someone.close()
    assert someone.complaints == []
    assert someone.hosts == {cluster.api_url.partition("//")[2]}


def test_names_and_output_of_others_stay_text_in_every_view(person: Person, cluster: LocalCluster) -> None:
    """Names that are markup, in another direction of writing, or as long as names may be; terminal codes in output."""
    long = "W" * 128
    printed = ["printf", "%s\n", f"\x1b[2J\x1b]0;owned\x07{HOSTILE}\u202e{RIGHT_TO_LEFT}" + "x" * 5000]
    made = cluster.submit(printed, name=HOSTILE, tags={"k": HOSTILE, "long": "y" * 1024}, environment={"E": HOSTILE})
    cluster.wait_end(made["id"])
    for name in (long, RIGHT_TO_LEFT):
        cluster.wait_end(cluster.submit("true", name=name)["id"])
    group = cluster.submit("true", name=HOSTILE, tasks="0-2")["id"]
    members = [{"id": "a", "entrypoint": "true", "name": HOSTILE}, {"id": "b", "entrypoint": "true", "name": long}]
    dag = cluster.post("/dags", {"name": HOSTILE, "allocations": members})["id"]
    cluster.post("/nodes/n3/drain", {"reason": HOSTILE + "z" * 150})
    start = f"{datetime.now(UTC) + timedelta(hours=2):%Y-%m-%dT%H:%M:%SZ}"
    held = {"name": HOSTILE[:28], "start": start, "duration": "1h", "nodes": "n3", "reason": HOSTILE}
    cluster.post("/reservations", held)
    one = f"allocations/{made['id']}"
    hostile = {
        "allocations?q=all": HOSTILE,
        one: HOSTILE,
        f"submit?from={made['id']}": "",
        f"allocations/{group}": HOSTILE,
        f"dags/{dag}": HOSTILE,
        "dags": HOSTILE,
        "timeline": "",
        "nodes": HOSTILE,
        "nodes/n3": HOSTILE,
        "admin?part=reservations": HOSTILE,
        "admin?part=audit": "",
        "admin?part=alerts": "",
        f"allocations?q={quote(HOSTILE)}": "",
        f"allocations/{quote(HOSTILE, safe='')}": HOSTILE,
        f"nodes/{quote(HOSTILE, safe='')}": HOSTILE,
        f"dags/{quote(HOSTILE, safe='')}": HOSTILE,
        f"services/{quote(HOSTILE, safe='')}": HOSTILE,
    }
    page = person.page
    for view, text in hostile.items():
        person.follow(view)
        if text:
            expect(page.get_by_text(text).first).to_be_visible()
        expect(page.locator("h1")).to_be_visible()
        assert page.locator("main img, main script, main b").count() == 0, view
        page.set_viewport_size({"width": NARROW, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW, view
        page.set_viewport_size({"width": WIDE, "height": 900})
    expect(person.follow(one).get_by_role("log")).to_contain_text(HOSTILE)
    expect(page.get_by_role("log")).not_to_contain_text("owned")
    person.follow("timeline").get_by_text("As a table").click()
    expect(page.get_by_text(HOSTILE).first).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="maintenance")).to_contain_text(HOSTILE[:28])
    assert page.title() == "Timeline · Lattice"
    cluster.delete(f"/reservations/{quote(held['name'], safe='')}")
    cluster.post("/nodes/n3/undrain")


def test_two_tenants_see_nothing_of_each_other_in_any_view(browser: Browser, cluster: LocalCluster) -> None:
    cluster.cli("admin", "tenant", "create", "elsewhere", "--members=eve")
    found = prepared(cluster)
    secret = (cluster.directory / "secret").read_bytes().strip()
    token = sign_token(secret, user="eve", tenants=["elsewhere"], issued_at_s=int(time.time()), lifetime_s=3600)
    status, link = cluster.request("POST", "/web/links", {}, token=token)
    assert status == 201, link
    eve = Person(browser, cluster)
    names = ("shown", "waits", "sweep", "served", "flow", *found.values())
    eve.keep_answers()
    eve.page.goto(cluster.api_url + link["path"])
    eve.page.wait_for_selector(".frame")
    seen = {}
    for view in [*views(found), "allocations?q=all", "allocations?q=user:root+all"]:
        if view.startswith("admin"):
            continue
        page = eve.follow(view)
        expect(page.locator("h1")).to_be_visible()
        page.evaluate("fetch('/api/v1/whoami')")  # answered after what the view asked for
        # What was asked for by its name is named in the refusal and in the command, and nowhere else.
        asked = view.partition("/")[2].partition("/")[0]
        text = page.locator("main").inner_text()
        if leaked := [name for name in names if name != asked and re.search(rf"\b{name}\b", text)]:
            seen[view] = leaked
    assert seen == {}
    assert len(eve.answers()) > len(views(found))
    for address, body in eve.answers():
        asked = unquote(address)
        assert [name for name in names if name not in asked and re.search(rf"\b{name}\b", body)] == [], asked
    eve.close()


@contextmanager
def another_site(page: str) -> Iterator[str]:
    """Another port of the same host, which cookies do not tell apart: a page of someone who wants the session."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


ATTEMPTS = """async ([api, id, key]) => {
  const ask = (path, options) => fetch(api + path, {credentials: "include", ...options}).then(
    async (answer) => `${answer.type} ${answer.status} ${(await answer.text()).length}`, () => "nothing");
  const socket = (protocols) => new Promise((done) => {
    const made = new WebSocket(`${api.replace("http", "ws")}/api/v1/allocations/${id}/attach`, protocols);
    made.onopen = () => done("open");
    made.onerror = () => done("nothing");
  });
  const body = JSON.stringify({ids: [id]});
  return [
    await ask("/api/v1/whoami"),
    await ask("/api/v1/whoami", {headers: {"X-Lattice-Page": key}}),
    await ask("/api/v1/allocations", {mode: "no-cors"}),
    await ask("/api/v1/allocations/cancel", {method: "POST", body, mode: "no-cors"}),
    await ask("/api/v1/allocations/cancel", {method: "POST", body, headers: {"X-Lattice-Page": key}}),
    await ask("/web/session", {method: "DELETE", mode: "no-cors"}),
    await ask("/web/session", {method: "DELETE", headers: {"X-Lattice-Page": key}}),
    await socket(["lattice.terminal.v1"]),
    await socket(["lattice.terminal.v1", `lattice.page.${key}`]),
  ];
}"""


def test_another_site_gets_nothing_with_the_cookie_of_a_person(
    browser: Browser, person: Person, cluster: LocalCluster
) -> None:
    made = cluster.submit("sleep 600", name="wanted")["id"]
    cluster.wait_state(made, "Running")
    page = person.open(f"allocations/{made}")
    key = page.evaluate("localStorage.getItem('lattice-page-key')")
    with another_site("<title>elsewhere</title>") as address:
        visited = person.context.new_page()
        visited.goto(address)
        # Cookies go along to every port of a host. The key of the page does not; even with it, the origin is wrong.
        found = visited.evaluate(ATTEMPTS, [cluster.api_url, made, key])
        visited.goto(f"{address}?frame")
        visited.evaluate(
            "(at) => document.body.append(Object.assign(document.createElement('iframe'), {src: at}))", page.url
        )
        visited.wait_for_timeout(300)
        assert all("Lattice" not in frame.title() for frame in visited.frames[1:])
    assert {each.split()[0] for each in found} <= {"nothing", "opaque"}, found
    assert not any(each.startswith("opaque") and each != "opaque 0 0" for each in found), found
    assert cluster.allocation(made)["state"] == "Running"
    stolen = Person(browser, cluster)
    stolen.context.add_cookies([{**each} for each in person.context.cookies()])  # type: ignore[typeddict-item]
    stolen.page.goto(f"{cluster.api_url}/allocations/{made}")
    expect(stolen.page.get_by_text("lattice web")).to_be_visible()
    assert "wanted" not in stolen.page.content()
    stolen.close()
    page.reload()
    expect(page.locator(".heading")).to_contain_text("wanted")  # and the person is still logged in


def test_wrong_input_is_refused_where_it_was_typed(person: Person, cluster: LocalCluster) -> None:
    page = person.open("admin?part=tenants")
    cluster.put("/tenants/default", {"max_nodes": 7})
    page.reload()
    page.get_by_role("button", name="Change default").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Nodes at once").fill("1O")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text('Nodes at once: "1O" is no number')
    assert cluster.get("/tenants/default")["max_nodes"] == 7
    form.get_by_label("Nodes at once").fill("")
    expect(form.locator(".command code")).to_have_text("lattice admin tenant set-quota default --max-nodes=none")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    assert cluster.get("/tenants/default")["max_nodes"] is None
    page = person.follow("admin?part=reservations")
    page.get_by_role("button", name="Reserve").click()
    form = page.get_by_role("dialog")
    for label, text in (("Name", "window"), ("Length", "long"), ("Nodes", "n[1-")):
        form.get_by_label(label).fill(text)
    line = "lattice admin reservation create window --start="
    expect(form.locator(".command code")).to_have_text(re.compile(rf"{line}\S+Z --duration=long --nodes='n\[1-'"))
    form.get_by_role("button", name="Reserve").click()
    expect(form.get_by_role("alert")).to_be_visible()
    form.get_by_role("button", name="Back").click()
    page = person.follow("admin?part=settings")
    page.get_by_role("button", name="Change agent.grace_s").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Value").fill("soon")
    expect(form.locator(".command code")).to_have_text("lattice admin config set agent.grace_s=soon")
    form.get_by_role("button", name="Save").click()
    expect(form.get_by_role("alert")).to_contain_text("agent.grace_s")
    form.get_by_role("button", name="Back").click()
    page = person.follow("submit")
    for label, text, said in (
        ("nodes", "2-8-9", "nodes"),
        ("cpus", "many", "cpus"),
        ("tasks", "5-", "tasks"),
    ):
        page.get_by_role("button", name="Clear").click()
        page.locator(f"input[name={label}]").fill(text)
        page.get_by_role("button", name="Check").click()
        expect(page.get_by_role("alert")).to_contain_text(said)


def test_an_address_that_says_nothing_is_answered_by_a_view(person: Person) -> None:
    for view, says in (
        ("allocations/%zz", "%zz"),
        ("allocations?q=since:99999999d", "is no time"),
        ("allocations?q=constructor:x", "is no filter"),
        ("timeline?span=constructor&shift=1e300", "Timeline"),
        ("nodes?by=constructor", "Nodes"),
        ("nodes?q=n[1-", "n[1-"),
        ("usage?days=-1", "Usage"),
        ("admin?part=constructor", "Admin"),
        ("nowhere", "nothing at /nowhere"),
    ):
        person.page.goto(f"{person.cluster.api_url}/{view}")
        expect(person.page.locator("body"), view).to_contain_text(says)
        expect(person.page.get_by_text("This view failed"), view).to_have_count(0)


def test_a_command_to_copy_is_quoted(person: Person) -> None:
    """A link that someone sends must not become a command that does something else."""
    evil = "n1;touch${IFS}/tmp/x"
    quoted = f"'{evil}'"
    for view in (
        f"nodes?q={quote(evil)}",
        f"timeline?nodes={quote(evil)}&shift=1",
        f"admin?part=audit&user={quote(evil)}",
    ):
        expect(person.follow(view).locator(".command code")).to_contain_text(quoted)


def test_what_is_submitted_again_is_the_same(person: Person, cluster: LocalCluster) -> None:
    variables = {"OPTS": "--a=1 b=2", "LINES": "one\ntwo", "QUOTED": '"x"'}
    made = cluster.submit("true", name="first", tasks="3,5-7%2", environment=variables, tags={"note": "a b=c"})["id"]
    page = person.open(f"submit?from={made}")
    expect(page.get_by_label("Task group")).to_have_value("3,5-7%2")
    page.get_by_label("Name", exact=True).fill("second")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/allocations/a*")
    again = cluster.get(f"/allocations/{page.url.rpartition('/')[2]}?details=true")
    assert again["details"]["environment"] == variables
    assert again["tags"] == {"note": "a b=c"}
    assert again["tasks"]["size"] == 4
    served = cluster.submit("sleep 600", name="s", lifecycle={"type": "unbounded"}, expose=[{"name": "s", "port": 0}])
    page = person.open(f"submit?from={served['id']}")
    expect(page.locator(".note")).to_contain_text("does not repeat: that it is a service, exposed ports")
    expect(page.locator(".note")).to_contain_text(f"lattice resubmit {served['id']}")
