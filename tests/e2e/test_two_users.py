"""Two users with accounts of their own on one shared node: neither reaches anything of the other, by any way in."""

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from lattice.api.auth.tokens import sign_token
from lattice.testing import LocalCluster, eventually
from lattice_sdk import Client
from lattice_sdk.errors import LatticeError
from lattice_sdk.models.steps import TerminalRequest
from tests.conftest import require_program
from tests.e2e.web_terminal import socket_at

pytestmark = [pytest.mark.e2e, pytest.mark.root]
USERS = ("lattice-anna", "lattice-bert")
# Listens with a program that every account may run, and says where.
PAGE = "import http.server as h; s = h.HTTPServer(('127.0.0.1', 0), h.SimpleHTTPRequestHandler); print('port', s.server_port, flush=True); s.serve_forever()"


@dataclass
class Person:
    name: str
    token: str
    client: Client
    alloc: str = ""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}


@pytest.fixture(scope="module")
def accounts() -> Iterator[tuple[str, ...]]:
    require_program("useradd")
    for user in USERS:
        subprocess.run(["useradd", "--no-create-home", "--home-dir", "/", "--shell", "/bin/sh", user], check=True)
    yield USERS
    for user in USERS:
        subprocess.run(["userdel", user], check=True)


@pytest.fixture(scope="module")
def shared_cluster(accounts: tuple[str, ...]) -> Iterator[LocalCluster]:
    with LocalCluster(nodes=1) as cluster:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        yield cluster


@pytest.fixture(scope="module")
def people(shared_cluster: LocalCluster) -> Iterator[tuple[Person, Person]]:
    """Each with work that runs on the one node."""
    secret = (shared_cluster.directory / "secret").read_bytes().strip()
    made = []
    for name in USERS:
        now = int(time.time())
        token = sign_token(secret, user=name, tenants=["default"], scope="", issued_at_s=now, lifetime_s=3600)
        client = Client(shared_cluster.api_url, token=token, retry_for=30)
        person = Person(name, token, client)
        body = {
            "entrypoint": ["/usr/bin/python3", "-c", PAGE],
            "cwd": "/",
            "resources": {"cpus": 1, "memory": "200MB"},
        }
        answer = httpx.post(f"{shared_cluster.api_url}/api/v1/allocations", json=body, headers=person.headers)
        assert answer.status_code == 201, answer.text
        person.alloc = answer.json()["id"]
        made.append(person)
    for person in made:
        shared_cluster.wait_state(person.alloc, "Running")
    yield made[0], made[1]
    for person in made:
        person.client.close()


def port_of(cluster: LocalCluster, person: Person) -> int:
    def said() -> str | None:
        words = cluster.logs(person.alloc).split()
        return words[1] if len(words) > 1 else None

    return int(eventually(said, "its port"))


def test_ports_are_for_their_owner(shared_cluster: LocalCluster, people: tuple[Person, Person]) -> None:
    anna, bert = people
    port = port_of(shared_cluster, anna)
    assert port in [each.port for each in anna.client.list_ports(anna.alloc)]
    with pytest.raises(LatticeError):
        bert.client.open_port(anna.alloc, port)
    with pytest.raises(LatticeError):
        bert.client.list_ports(anna.alloc)
    with pytest.raises(LatticeError, match=f"nothing of {bert.alloc} listens on port {port}"):
        bert.client.open_port(bert.alloc, port)
    assert port not in [each.port for each in bert.client.list_ports(bert.alloc)]
    forward = Path(shared_cluster._program).parent / "lattice"
    for alloc in (anna.alloc, bert.alloc):
        done = subprocess.run(
            [forward, "forward", alloc, f"0:{port}"],
            env={
                **shared_cluster.environment(),
                "LATTICE_TOKEN": bert.token,
                "LATTICE_API_URL": shared_cluster.api_url,
            },
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert (done.returncode != 0, "hint:" in done.stderr) == (True, True), done


def test_pages_tickets_and_sessions_are_for_their_owner(
    shared_cluster: LocalCluster, people: tuple[Person, Person]
) -> None:
    anna, bert = people
    port, own = port_of(shared_cluster, anna), port_of(shared_cluster, bert)
    opened = anna.client.open_port(anna.alloc, port).url
    base = opened.split("/proxy/")[0]
    page = f"{base}/proxy/{anna.alloc}/{port}/"
    for address in (page, f"{base}/proxy/{bert.alloc}/{port}/", f"{base}/proxy/a999/{port}/"):
        assert httpx.get(address, headers=bert.headers).status_code in (403, 404, 502), address
        assert httpx.get(address).status_code == 401
    assert httpx.get(page, headers=anna.headers).status_code == 200
    first = httpx.get(opened)
    cookie = first.headers["set-cookie"].split(";")[0]
    assert first.status_code == 303
    assert httpx.get(opened).status_code == 403, "a ticket is good once"
    assert httpx.get(page, headers={"cookie": cookie}).status_code == 200
    name, _, session = cookie.partition("=")
    other = f"{base}/proxy/{bert.alloc}/{own}/"
    for stolen, address in (
        (cookie, other),
        (f"{name}={session[:-1]}x", page),
        (f"{name}=AAAA{session[4:]}", page),
        (f"{name}=", page),
    ):
        assert httpx.get(address, headers={"cookie": stolen}).status_code == 401, stolen


def test_terminals_steps_and_output_are_for_their_owner(
    shared_cluster: LocalCluster, people: tuple[Person, Person]
) -> None:
    anna, bert = people
    terminal = anna.client.attach(anna.alloc, TerminalRequest(command="echo secret; exec cat"))
    tries: list[Any] = [
        lambda: bert.client.attach(anna.alloc, TerminalRequest(command="id")),
        lambda: bert.client.get_step(anna.alloc, terminal.step),
        lambda: bert.client.feed_step(anna.alloc, terminal.step, 0, b"id\n", client_name="x"),
        lambda: bert.client.resize_step(anna.alloc, terminal.step, 10, 10),
        lambda: bert.client.signal_step(anna.alloc, terminal.step, 15),
        lambda: bert.client.end_step(anna.alloc, terminal.step),
        lambda: bert.client.share_terminal(anna.alloc, terminal.step, bert.name),
        lambda: list(bert.client.follow_step(anna.alloc, terminal.step, screen=True)),
        lambda: bert.client.list_steps(anna.alloc),
    ]
    for attempt in tries:
        with pytest.raises(LatticeError):
            attempt()
    with socket_at(
        shared_cluster, f"/allocations/{anna.alloc}/attach", token=bert.token, terminal=terminal.step
    ) as person:
        person.listen()
        assert person.socket.close_code in (4403, 4404)
        assert b"secret" not in person.shown
    answer = httpx.get(f"{shared_cluster.api_url}/api/v1/allocations/{anna.alloc}/logs", headers=bert.headers)
    assert answer.status_code in (403, 404)
    anna.client.end_step(anna.alloc, terminal.step)


def test_nothing_on_the_node_leads_to_the_other(shared_cluster: LocalCluster, people: tuple[Person, Person]) -> None:
    anna, bert = people
    state = shared_cluster.directory / "agents" / "n1"
    line = f"cat {state}/runs/*/token {state}/runs/*/stdout {state}/steps/*/* /proc/*/environ 2>/dev/null; ls {state}/runs; id -un"
    opened = bert.client.attach(bert.alloc, TerminalRequest(command=line))
    stream = bert.client.follow_step(bert.alloc, opened.step)
    shown = b"".join(getattr(event, "data", b"") for event in stream)
    assert bert.name.encode() in shown
    assert anna.token.encode() not in shown
    assert f"LATTICE_ALLOC_ID={anna.alloc}".encode() not in shown
    assert b"port " + str(port_of(shared_cluster, anna)).encode() not in shown
