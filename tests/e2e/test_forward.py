"""`lattice forward` as people use it: real servers, agents and shims, and ports of others that nobody gets to."""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from lattice.testing import LocalCluster, eventually
from tests.e2e.checked_forward import checked_forward

pytestmark = pytest.mark.e2e
ECHO = Path(__file__).parent / "programs" / "echo_port.py"


def echo_in(cluster: LocalCluster, scratch: Path, name: str) -> tuple[str, int]:
    """A running allocation that listens, and its port."""
    said = scratch / name
    submitted = cluster.submit([sys.executable, str(ECHO), str(said)])
    cluster.wait_state(submitted["id"], "Running")
    eventually(said.exists, "it listens")
    return str(submitted["id"]), int(said.read_text())


@contextlib.contextmanager
def forwarding(cluster: LocalCluster, *words: str) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """A running `lattice forward`, and its first port here."""
    program = Path(sys.executable).with_name("lattice")
    with subprocess.Popen(
        [program, "forward", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            yield int(line.split()[0].rpartition(":")[2]), process
        finally:
            process.kill()


def said_back(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        got = b""
        while piece := connection.recv(1 << 16):
            got += piece
        return got


def test_ports_are_reached_listed_and_kept_apart(cluster: LocalCluster, scratch: Path) -> None:
    alloc, port = echo_in(cluster, scratch, "first")
    other, other_port = echo_in(cluster, scratch, "second")
    assert str(port) in cluster.cli("forward", alloc).stdout
    with forwarding(cluster, alloc, f"0:{port}") as (local, process):
        assert said_back(local, b"hello") == b"hello"
        data = bytes(range(256)) * 8192
        assert said_back(local, data) == data
        # The agent is replaced: the next connection goes through its successor.
        node = cluster.allocation(alloc)["nodes"][0]
        cluster.kill("agent", node)
        eventually(lambda: _answers(local), "the port answers")
        cluster.cli("cancel", alloc)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert f"{alloc} has ended" in process.stderr.read()
    # Neither another allocation of the same user on the same machine, nor the node itself.
    server_port = urlsplit(cluster.api_url).port or 0
    for wrong in (port, server_port, 1):
        done = cluster.cli("forward", other, f"0:{wrong}", check=False)
        assert (done.returncode, f"listening: {other_port} (" in done.stderr) == (1, True), done
    client = cluster.client()
    for wrong in (server_port, 1):
        with pytest.raises(Exception, match="no process of it listens"):
            client.connect_port(other, wrong)
    done = cluster.cli("forward", other, str(other_port), check=False)
    assert (done.returncode, f"port {other_port} of this machine is taken" in done.stderr) == (1, True), done
    for words, told in (
        ((other, "x"), 'listens on a port called "x"'),
        ((other, "1:2:3"), "is not a port"),
        ((alloc, "80"), "is not running"),
        (("a999", "80"), 'no allocation "a999"'),
        ((other, "80", "--node", "n99"), "is not a node of"),
    ):
        done = cluster.cli("forward", *words, check=False)
        assert (done.returncode != 0, told in done.stderr) == (True, True), done


def test_what_is_cut_off_is_a_beginning_and_the_next_connection_works(cluster: LocalCluster, scratch: Path) -> None:
    """A byte checker on both sides, while agent, server and the command itself are killed."""
    with checked_forward(cluster, scratch) as forward:
        assert forward.cut(lambda: cluster.kill("agent", forward.node))
        forward.check_next()
        assert forward.cut(lambda: cluster.kill("server"))
        forward.check_next()
        assert forward.cut(forward.process.kill)
        forward.stop()
        forward.start()
        forward.check_next()
        forward.check_work(3)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        return said_back(port, b"again") == b"again"
    return False


PAGE = """
import http.server, os
class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        said = f"{self.path} {self.headers['X-Lattice-User']} {self.headers['Authorization']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["LATTICE_PORT_WEB_PAGE"])), Page).serve_forever()
"""


def _lists(cluster: LocalCluster, alloc: str, name: str) -> bool:
    return name in cluster.cli("forward", alloc).stdout


def test_a_port_that_the_node_chose_is_reached_by_its_name(cluster: LocalCluster) -> None:
    words = ("submit", "-q", "--expose", "web-page:0", "--", sys.executable, "-c", PAGE)
    first, second = (cluster.cli(*words).stdout.strip() for _ in range(2))
    for alloc in (first, second):
        cluster.wait_state(alloc, "Running")
        eventually(partial(_lists, cluster, alloc, "web-page"), "it listens")
    with contextlib.closing(cluster.client()) as client:
        ports = [client.list_ports(alloc)[0].port for alloc in (first, second)]
    assert ports[0] != ports[1]
    gateway = cluster.cli("open", first, "web-page").stdout.partition("/proxy/")[0]
    token = (cluster.directory / "token").read_text().strip()
    for alloc in (first, second, first):
        place = f"{gateway}/proxy/{alloc}/web-page/x?y=1"
        assert httpx.get(place).status_code == 401
        answer = httpx.get(place, headers={"Authorization": f"Bearer {token}"})
        path, user, seen = answer.text.split()
        assert (path, bool(user), seen) == ("/x?y=1", True, "None")
    with forwarding(cluster, second, "0:web-page") as (local, _):
        assert httpx.get(f"http://127.0.0.1:{local}/near").text.startswith("/near ")
    for alloc in (first, second):
        cluster.cli("cancel", alloc)


def test_a_service_is_found_by_name_and_reached_on_all_its_nodes(cluster: LocalCluster) -> None:
    page = PAGE.replace("LATTICE_PORT_WEB_PAGE", "LATTICE_PORT_WEB").replace(
        "{self.path}", "{os.environ['LATTICE_NODE_ID']}"
    )
    words = ("submit", "-q", "--service", "--nodes", "2", "--expose", "web:0", "--", sys.executable, "-c", page)
    alloc = cluster.cli(*words).stdout.strip()
    cluster.wait_state(alloc, "Running")
    places = cluster.cli("service", "lookup", "web", "--wait").stdout.split()
    assert len({place.partition(":")[2] for place in places}) == 2
    assert "2/2" in cluster.cli("service", "list").stdout
    gateway = cluster.cli("service", "open", "web").stdout.partition("/proxy/")[0]
    token = (cluster.directory / "token").read_text().strip()

    def node() -> str:
        answer = httpx.get(f"{gateway}/proxy/services/web/", headers={"Authorization": f"Bearer {token}"})
        return answer.text.split()[0] if answer.status_code == 200 else ""

    # One that does not listen yet is left out for a moment.
    nodes = {place.partition(":")[0] for place in places}
    eventually(lambda: {node() for _ in range(6)} == nodes, "both answer")
    cluster.cli("cancel", alloc)
    cluster.wait_state(alloc, "Cancelled")
    done = cluster.cli("service", "lookup", "web", check=False)
    assert (done.returncode, "no service" in done.stderr) == (4, True), done
