"""`lattice tui` as people use it: a terminal of 80 x 24 characters and a real cluster."""

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from lattice.api.auth.tokens import sign_token
from lattice.testing import LocalCluster
from lattice.testing.waiting import NotInTime, eventually
from tests.e2e.tmux import Window

pytestmark = pytest.mark.e2e
MARKUP = "[@click=app.quit]<b>press[/] \"'$(id);"
HOSTILE = "\x1b[2J\x1b]0;owned\x07<b>"
NODES = 2


class Screen(Window):
    """`lattice WORDS` in a window of 80 x 24 characters."""

    def __init__(self, cluster: LocalCluster, *words: str, before: str = "") -> None:
        super().__init__(cluster)
        self.type(f"clear; {before} lattice {shlex.join(words)}; echo it ended with $?")

    def press_all(self, *keys: str) -> None:
        for key in keys:
            self.press(key)

    def shows(self, *texts: str, absent: Sequence[str] = (), within_s: float = 30.0) -> str:
        """The screen, when it shows all of these and none of those that should be absent."""

        def look() -> str:
            shown = self.shown()
            is_right = all(text in shown for text in texts) and not any(text in shown for text in absent)
            return shown if is_right else ""

        try:
            return eventually(look, f"{texts} on the screen without {absent}", within_s=within_s)
        except NotInTime as late:
            raise NotInTime(f"{late}\n{self.shown()}") from None


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(nodes=NODES, arguments=["--users", "ada,bob:operator,eve"]) as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_left(cluster: LocalCluster) -> Iterator[None]:
    yield
    cluster.wait_serving()
    cluster.post("/allocations/cancel", {"all_mine": True})
    eventually(lambda: not cluster.get("/allocations?state=pending,running,stopping")["items"], "no work is left")


def test_list_filter_peek_open_and_cancel(cluster: LocalCluster) -> None:
    talks = cluster.submit(["sh", "-c", "i=0; while :; do i=$((i+1)); echo said $i; sleep 0.2; done"], name="talks")[
        "id"
    ]
    quiet = cluster.submit("sleep 600", name="quiet", tags={"x": "y"})["id"]
    cluster.wait_state(talks, "Running")
    cluster.wait_state(quiet, "Running")
    with Screen(cluster, "tui") as screen:
        screen.shows("Allocations", "talks", "quiet", "Running", "live")
        made = cluster.submit("sleep 600", name="later", resources={"nodes": NODES})["id"]
        screen.shows("later", "Pending")  # by itself
        screen.press("/")
        screen.keys("tag:x=y")
        screen.press("Enter")
        screen.shows("quiet", "lattice status --all --tag=x=y", absent=["talks"])
        screen.press_all("/", "C-u")
        screen.keys("colour:red")
        screen.press("Enter")
        screen.shows('"colour:" is no filter')
        screen.press_all("/", "C-u", "Enter")
        screen.shows("talks", "later")
        screen.press_all("G", "Space")
        screen.shows(f"── {talks} output", "said 3")
        screen.press("Space")
        screen.shows("talks", absent=["said"])
        screen.press_all("g", "Enter")
        screen.shows(made, "Why it waits", "Place in queue", "Predicted start", "lattice explain")
        screen.press("q")
        screen.press_all("G", "x")
        screen.shows(f"Cancel {talks}? [y/N]")
        screen.press("n")
        screen.shows("Enter open")
        assert cluster.allocation(talks)["state"] == "Running"
        screen.press_all("x", "y")
        cluster.wait_state(talks, "Cancelled")
        screen.shows("Cancelled")
        screen.press("q")
        screen.shows("Leave? [y/N]")
        screen.press("y")
        screen.shows("it ended with 0")


def test_a_submission_is_followed_to_its_output_and_groups_unfold(cluster: LocalCluster) -> None:
    with Screen(cluster, "tui") as screen:
        screen.shows("live")
        screen.press(":")
        screen.keys("submit --name mine -- sh -c 'echo first; echo oops >&2; sleep 600'")
        screen.press("Enter")
        screen.shows("Submitted allocation", "mine", "Running")
        screen.press("Enter")
        screen.shows("Story", "submitted", "placed on")
        screen.press("l")
        screen.shows("first", "oops", "following")
        screen.press_all("e", "e")
        screen.shows("oops", absent=["first"])
        screen.press_all("q", "q")
        screen.press(":")
        screen.keys("submit --name sweep --task-group 0-2 --walltime 1h -- sleep 600")
        screen.press("Enter")
        screen.shows("▸", "sweep")
        screen.press_all("g", "Right")
        screen.shows("▾", "sweep [0]", "sweep [2]")
        screen.press("Left")
        screen.shows("▸", absent=["sweep [0]"])
        screen.press(">")
        screen.shows("ID↑")
        screen.press("S")
        screen.shows("ID↓")
        screen.press(":")
        screen.keys("submit --walltime soon -- true")
        screen.press("Enter")
        screen.shows("error:", "soon")


def test_a_terminal_too_small_is_said_and_a_new_size_is_taken(cluster: LocalCluster) -> None:
    cluster.submit("sleep 600", name="sized")
    # Where COLUMNS and LINES are exported, as some build servers do, they must not stand for the terminal.
    with Screen(cluster, "tui", before="COLUMNS=80 LINES=24") as screen:
        screen.shows("sized", "live")
        screen.resize(10, 50)
        screen.shows("50 x 10", "needs 60 x 12", absent=["sized"])
        screen.resize(40, 120)
        shown = screen.shows("sized", "live", absent=["needs 60 x 12"])
        assert len(shown.splitlines()) == 40
        assert max(map(len, shown.splitlines())) > 80
        screen.resize(24, 80)
        screen.shows("sized", "live")
        screen.press("q")
        screen.shows("Leave? [y/N]")


def test_a_terminal_opens_in_an_allocation_and_gives_the_screen_back(cluster: LocalCluster) -> None:
    made = cluster.submit("sleep 600", name="host")["id"]
    cluster.wait_state(made, "Running")
    with Screen(cluster, "tui", f"allocations/{made}") as screen:
        screen.shows("Story", "Running")
        screen.press("t")
        screen.shows("$" if os.geteuid() else "#", absent=["Story"])
        screen.keys("echo answer=$((6*7)) $LATTICE_ALLOC_ID")
        screen.press("Enter")
        screen.shows(f"answer=42 {made}")
        screen.keys("exit")
        screen.press("Enter")
        screen.shows("Story", "ended with code 0")


def test_an_operator_drains_and_another_tenant_sees_nothing(cluster: LocalCluster, tmp_path: Path) -> None:
    secret = cluster.submit("sleep 600", name="secret-name")["id"]
    cluster.wait_state(secret, "Running")
    cluster.cli("admin", "tenant", "create", "elsewhere", "--members=eve")
    with Screen(cluster, "--as", "bob", "tui", "nodes") as screen:
        screen.shows("n1", "n2", "Ready")
        screen.press_all("G", "d")
        screen.shows("Drain n2, reason:")
        screen.keys("a fan is loud")
        screen.press("Enter")
        screen.shows("Drain", "a fan is loud (bob)")
        screen.press("Enter")
        screen.shows("n2", "Story", "a fan is loud")
        screen.press_all("u", "y")
        screen.shows("Ready")
        cluster.wait_node("n2", "Ready")
    token = tmp_path / "token"
    shared = (cluster.directory / "secret").read_bytes().strip()
    token.write_text(
        sign_token(shared, user="eve", tenants=["elsewhere"], issued_at_s=int(time.time()), lifetime_s=3600)
    )
    token.chmod(0o600)
    with Screen(cluster, "--token-file", str(token), "tui", "allocations?all") as screen:
        screen.shows("No allocations", "live", absent=[secret, "secret-name"])
        for number in "2345":
            screen.press(number)
            screen.shows("live", absent=["secret-name", "Reading"])
        screen.press(":")
        screen.keys(secret)
        screen.press("Enter")
        screen.shows(absent=["secret-name"])
        screen.press("3")
        screen.shows("n1", "Ready")
        screen.press("d")
        screen.keys("not mine")
        screen.press("Enter")
        screen.shows("your role does not allow", absent=["Draining"])


def test_every_view_opens(cluster: LocalCluster) -> None:
    cluster.submit("sleep 600", name="web", lifecycle={"type": "unbounded"}, expose=[{"name": "web", "port": 0}])
    dag = {
        "name": "flow",
        "allocations": [
            {"id": "a", "entrypoint": "true"},
            {"id": "b", "entrypoint": "true", "depends_on": "a:success"},
        ],
    }
    cluster.post("/dags", dag)
    with Screen(cluster, "tui") as screen:
        screen.shows("live")
        for key, texts in {
            "2": ["Timeline", "n1", "running, to its limit", "f tasks apart"],
            "3": ["Nodes", "n1", "CPUS"],
            "4": ["DAGs", "flow"],
            "5": ["Services", "web", "1/1"],
            "6": ["Usage", "Node hours"],
            "7": ["Admin", "Scheduler", "leads"],
        }.items():
            screen.press(key)
            screen.shows(*texts)
        for text in (
            "Nothing is wrong",
            "No reservations",
            "TENANT",
            "fair share",
            "agent.grace_s",
            "node.join",
            "leads",
        ):
            screen.press("Tab")
            screen.shows(text)
        screen.press("5")
        screen.shows("1/1")
        screen.press("Enter")
        screen.shows("1 of 1 ready")
        screen.press("o")
        screen.shows("good once", "http://")
        screen.press("4")
        screen.shows("flow")
        screen.press("Enter")
        screen.shows("→ b", "a:success")
        screen.press("?")
        screen.shows("Keys", "filter")


def test_names_and_output_of_others_do_not_steer_the_terminal(cluster: LocalCluster) -> None:
    output = [
        "sh",
        "-c",
        'printf "%s\\nsecond\\n" "$1"; head -c 200000 /dev/zero | tr "\\0" x; echo; echo last',
        "sh",
        HOSTILE,
    ]
    made = cluster.submit(output, name=MARKUP, tags={"k": MARKUP})["id"]
    cluster.wait_end(made)
    for name in ("W" * 128, "漢字" * 64, "שלום مرحبا"):
        cluster.wait_end(cluster.submit("true", name=name)["id"])
    dag = cluster.post("/dags", {"name": MARKUP, "allocations": [{"id": "a", "entrypoint": "true", "name": MARKUP}]})
    with Screen(cluster, "tui", f"allocations/{made}/log") as screen:
        screen.shows("last", "Allocations")
        screen.press("g")
        shown = screen.shows("second", "?[2J", "Allocations")
        assert "owned" in shown
        screen.press_all("w", "G")
        screen.shows("last", "xxxxxx")
        for place in (f"allocations/{made}", f"dags/{dag['id']}"):
            screen.press(":")
            screen.keys(place)
            screen.press("Enter")
            screen.shows(MARKUP[:20], "live")
        screen.press(":")
        screen.keys("allocations?all")
        screen.press("Enter")
        shown = screen.shows("[@click=", "WWWW", "漢字", "live")
        assert shown.splitlines()[0].lstrip().startswith("1 Allocations")
        assert all(len(each) <= 80 for each in shown.splitlines())


def test_it_says_that_the_server_is_gone(cluster: LocalCluster) -> None:
    made = cluster.submit("sleep 600", name="kept")["id"]
    cluster.wait_state(made, "Running")
    with Screen(cluster, "tui") as screen:
        screen.shows("kept", "live")
        with cluster.stopped("server"):
            screen.shows("The server does not answer", "kept", within_s=60)
        screen.shows("kept", "live", absent=["does not answer"], within_s=60)
        old = cluster.kill("server")
        cluster.wait_replaced(old)
        cluster.wait_serving()
        after = cluster.submit("true", name="after")["id"]
        cluster.wait_end(after)
        screen.shows("after", "Completed", "live")
