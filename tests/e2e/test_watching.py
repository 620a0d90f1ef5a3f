"""A terminal that its owner shares, through real servers: the watcher sees it live over the CLI and WebSocket, types in vain, and is cut off."""

import time
from collections.abc import Iterator

import pytest

from lattice.api.auth.tokens import sign_token
from lattice.testing import LocalCluster
from lattice_sdk import Client
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.steps import TerminalRequest
from tests.conftest import require_program
from tests.e2e.tmux import Window
from tests.e2e.web_terminal import socket_at

pytestmark = pytest.mark.e2e


@pytest.fixture
def alloc(cluster: LocalCluster) -> str:
    submitted = cluster.submit(["sleep", "600"])
    cluster.wait_state(submitted["id"], "Running")
    return str(submitted["id"])


@pytest.fixture
def window(cluster: LocalCluster) -> Iterator[Window]:
    require_program("tmux")
    with Window(cluster) as made:
        yield made


def token_of(cluster: LocalCluster, user: str) -> str:
    secret = (cluster.directory / "secret").read_bytes().strip()
    return sign_token(secret, user=user, tenants=["default"], scope="", issued_at_s=int(time.time()), lifetime_s=600)


def test_a_watcher_sees_cannot_type_and_is_cut_off(cluster: LocalCluster, alloc: str, window: Window) -> None:
    bert = token_of(cluster, "bert")
    with cluster.client() as owner, Client(cluster.api_url, token=bert) as watcher:
        opened = owner.attach(alloc, TerminalRequest(command="stty -echo; echo ready; exec cat"))
        path, terminal = f"/allocations/{alloc}/attach", opened.step
        with socket_at(cluster, path, token=bert, terminal=terminal) as person:
            person.listen()
            assert person.socket.close_code in (4403, 4404), "not shared yet"
        done = cluster.cli("attach", alloc, "--terminal", str(terminal), "--share", "bert")
        assert f"bert can watch with: lattice attach {alloc} --terminal {terminal}" in done.stderr
        window.type(
            f"LATTICE_TOKEN={bert} LATTICE_API_URL={cluster.api_url} lattice attach {alloc} --terminal {terminal}"
        )
        window.until("ready")
        with socket_at(cluster, path, token=bert, terminal=terminal) as person:
            person.listen(until=b"ready")
            assert person.last("opened")["read_only"] is True
            person.say(type="resize", rows=7, columns=7)
            person.socket.send(b"rm -rf everything\n")
            owner.feed_step(alloc, terminal, 0, b"by the owner\n", client_name="o")
            person.listen(until=b"by the owner")
            window.until("by the owner")
            with pytest.raises(LatticeError):
                watcher.feed_step(alloc, terminal, 0, b"by the watcher\n", client_name="w")
            cluster.cli("attach", alloc, "--terminal", str(terminal), "--unshare", "bert")
            shown = person.listen()
            assert (person.socket.close_code, person.last("notice")["type"]) == (4403, "notice")
            assert b"everything" not in shown
            assert b"watcher" not in shown
        window.until("not shared with you", "hint:")
        done = cluster.cli("attach", alloc, "--terminal", str(terminal), "--unshare", "bert", check=False)
        assert (done.returncode, "is not shared with bert" in done.stderr) == (1, True), done
        owner.end_step(alloc, terminal)
    kinds = [entry["type"] for entry in cluster.get("/audit?limit=50")["items"]]
    assert {"terminal.share", "terminal.watch", "terminal.unshare"} <= set(kinds)
