"""`lattice attach` as people use it: on a terminal, through real servers, agents and shims."""

import json
import re
import threading
from collections.abc import Iterator

import pytest

from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client
from lattice_sdk.models.steps import TerminalRequest
from lattice_sdk.step_streams import ScreenDrawn, TaskOutput
from tests.conftest import require_program
from tests.e2e.tmux import Window

pytestmark = pytest.mark.e2e


@pytest.fixture
def alloc(cluster: LocalCluster) -> str:
    """A running allocation whose script has all CPUs of two nodes."""
    submitted = cluster.submit(["sleep", "600"], resources={"nodes": 2})
    cluster.wait_state(submitted["id"], "Running")
    return str(submitted["id"])


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with cluster.client(retry_for_s=60) as made:
        yield made


@pytest.fixture
def window(cluster: LocalCluster) -> Iterator[Window]:
    require_program("tmux")
    with Window(cluster) as made:
        yield made


def test_a_terminal_is_left_and_taken_up_again(cluster: LocalCluster, alloc: str, window: Window) -> None:
    window.type(f"lattice attach {alloc} -- bash --norc")
    window.until("bash-")
    window.type("PS1='there> '; echo in $LATTICE_ALLOC_ID; stty size")
    window.until(f"in {alloc}", "24 80")
    window.resize(30, 100)
    window.type("clear; stty size; x=kept")
    window.until("30 100", "there>")
    window.press("Enter")
    window.keys("~.")
    window.until("detached from", f"come back with: lattice attach {alloc} --terminal 0", "here>")
    window.type(f"clear; lattice attach {alloc} --terminal 0")
    # The last screen replaces what stood there; it is drawn after the shell has cleared its own.
    eventually(lambda: "detached" not in window.until("30 100", "there>"), "the last screen alone")
    window.type("echo $((40 + 2)); sleep 600")
    window.until("42")  # the interrupt key discards what was typed and not yet read
    window.press("C-c")
    window.type("echo $x; exit 7")
    window.until("kept")
    window.until("here>")
    window.type("echo code $?")
    window.until("code 7")


def test_a_terminal_on_any_node_passes_the_code_on(cluster: LocalCluster, alloc: str, client: Client) -> None:
    second = cluster.allocation(alloc)["nodes"][1]
    done = cluster.cli(
        "attach", alloc, "--node", second, "--command", "echo on $LATTICE_NODE_ID; tty; exit 9", check=False
    )
    assert (done.returncode, f"on {second}" in done.stdout, "/dev/pts/" in done.stdout) == (9, True, True), done
    done = cluster.cli("attach", alloc, "--", "sh", stdin="echo $((6 * 7)) here\nexit 3\n", check=False)
    assert (done.returncode, "42 here" in done.stdout) == (3, True), done
    done = cluster.cli("attach", alloc, "--share", "a\nb", "--", "sleep", "600", check=False)
    assert (done.returncode, "cannot be printed\n  hint: " in done.stderr) == (1, True), done
    eventually(
        lambda: all(each.state == "ended" for each in client.list_steps(alloc)), "the end of what was not shared"
    )
    done = cluster.cli("attach", alloc, "--", "no-such-program", check=False)
    assert (done.returncode, "command not found" in done.stderr) == (127, True), done


def test_wrong_ways_to_attach_are_refused_with_a_hint(cluster: LocalCluster, alloc: str, client: Client) -> None:
    for _ in range(5):
        client.attach(alloc, TerminalRequest(argv=["sleep", "600"]))
    for words, told in (
        (["attach", alloc, "--", "sh"], "you have 5 terminals already"),
        (["attach", alloc, "--node", "n99", "--", "sh"], "is not part of the allocation"),
        (["attach", alloc, "--terminal", "x"], "is not a terminal"),
        (["attach", alloc, "--terminal", "77"], f"no step {alloc}.77"),
        (["attach", alloc, "--terminal", "0", "--keep"], "--keep cannot be used with --terminal"),
        (["attach", "a99999", "--", "sh"], "no allocation"),
        (["attach", alloc], "no terminal here"),
        (["attach", alloc, "--terminal", "1"], "no terminal here"),
        (["session", "--walltime=1h"], "no terminal here"),
        (["logs", alloc, "--run", "9"], f"{alloc} has no run 9\n  current: 1 run\n"),
    ):
        done = cluster.cli(*words, check=False)
        assert done.returncode != 0
        assert told in done.stderr
        assert "hint:" in done.stderr
    client.end_step(alloc, 0)
    eventually(lambda: client.get_step(alloc, 0).state == "ended", "the end of the first")
    done = cluster.cli("attach", alloc, "--terminal", f"{alloc}.0", check=False)
    assert (done.returncode, f"{alloc}.0 has ended with code 143" in done.stderr) == (1, True), done


def test_no_byte_is_lost_or_doubled_when_server_and_agent_die(
    cluster: LocalCluster, alloc: str, client: Client
) -> None:
    """A client types numbered lines, which a program returns as they are, while what carries them is killed."""
    terminal = client.attach(alloc, TerminalRequest(command="stty raw -echo; echo ready; exec cat"))
    lines = [b"line %d of the many that are typed here\n" % number for number in range(3000)]
    wanted = b"ready\n" + b"".join(lines)

    def type_all() -> None:
        offset, data = 0, b"".join(lines)
        with cluster.client(retry_for_s=60) as typing:
            while offset < len(data):
                piece = data[offset : offset + 400]
                offset = typing.feed_step(alloc, terminal.step, offset, piece, client_name="one").upto

    stream = client.follow_step(alloc, terminal.step)
    seen, deaths = b"", iter(("server", "agent"))
    typist = threading.Thread(target=type_all, daemon=True)
    due = len(wanted) // 5
    for event in stream:
        if isinstance(event, TaskOutput):
            seen += event.data
            if seen and not typist.ident:
                typist.start()
        if len(seen) > due and (role := next(deaths, "")):
            cluster.wait_replaced(cluster.kill(role))
            due += len(wanted) // 5
        if len(seen) >= len(wanted):
            break
    stream.close()
    typist.join(30)
    assert seen == wanted
    newcomer = client.follow_step(alloc, terminal.step, screen=True)
    first = next(event for event in newcomer if isinstance(event, ScreenDrawn))
    newcomer.close()
    # The screen may break the line between two rows.
    assert b"line 2999 of the many" in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", first.data)
    client.end_step(alloc, terminal.step)


def test_a_session_ends_with_its_shell_and_that_ones_code(cluster: LocalCluster, window: Window) -> None:
    window.type("lattice session --walltime=10m --name=by-hand; echo code $?")
    [session] = eventually(lambda: cluster.get("/sessions?state=Running")["items"], "the session", within_s=30)
    eventually(lambda: cluster.get(f"/sessions/{session['id']}")["terminals"], "its terminal", within_s=30)
    [listed] = json.loads(cluster.cli("session", "list", "-o", "json").stdout)
    assert (listed["id"], listed["terminals"][0]["ends_session"]) == (session["id"], True)
    assert "the session ends with it" in cluster.cli("session", "show", session["id"]).stdout
    window.type("echo in $LATTICE_ALLOC_ID; exit 4")
    window.until(f"in {session['id']}", "code 4")
    ended = cluster.wait_end(session["id"])
    assert (ended["state"], ended["exit_code"], ended["name"]) == ("Failed", 4, "by-hand")


def test_a_session_that_waits_says_why_and_is_cancelled_by_control_c(
    cluster: LocalCluster, alloc: str, window: Window
) -> None:
    window.type("lattice session --walltime=10m --nodes=2; echo code $?")
    window.until("is pending:")
    window.press("C-c")
    window.until("is being cancelled", "code 130")
    waiting = cluster.cli("session", "list", "--all-users", "--all").stdout
    assert "Cancelled" in waiting
    done = cluster.cli("session", "end", alloc, check=False)
    assert (done.returncode, "is not a session" in done.stderr) == (1, True), done
    done = cluster.cli("session", "--walltime=1h", "--", "hostname", check=False)
    assert (done.returncode, "a session takes no command" in done.stderr) == (2, True)
