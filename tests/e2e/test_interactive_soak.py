"""Terminals and forwards on nodes with hosts of their own, below three servers, while everything between them and people fails in turn."""

import json
import socket
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import ClientConnection, connect

from lattice.testing import eventually
from tests.conftest import require_program
from tests.e2e.checked_forward import checked_forward
from tests.e2e.node_hosts import NodeHosts
from tests.e2e.quorum_load import wait_healthy

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.soak, pytest.mark.timeout(580)]
PATIENCE = {"node_agent.heartbeat_timeout_s": "3", "node_agent.grace_period_s": "60"}
LINES = [b"line %d of the many that are typed here\n" % number for number in range(12_000)]
TYPED = b"".join(LINES)
PIECE = 400
AHEAD = 8_000  # bytes that were typed and did not come back yet
QUIET_S = 15.0


@pytest.fixture(scope="module")
def hosts() -> Iterator[NodeHosts]:
    require_program("etcd")
    require_program("nsenter")
    with NodeHosts(settings=PATIENCE) as cluster:
        yield cluster


class Typist:
    """Somebody who types TYPED into a program that returns it, and comes back to whichever server answers, as the protocol says."""

    def __init__(self, hosts: NodeHosts, alloc: str) -> None:
        self._hosts, self._alloc = hosts, alloc
        self._back: dict[str, object] = {"command": "stty raw -echo; echo ready; exec cat"}
        self._coming = 0
        self._taken = self._sent = 0
        self._turn = 0
        self.shown = b""
        self.connections = 0
        self.socket: ClientConnection | None = None
        self._stack = ExitStack()

    def until(self, size: int) -> None:
        """Types and reads until so many bytes came back."""
        while len(self.shown) < size:
            try:
                channel = self.socket = self.socket or self._connected()
                while len(self.shown) < size:
                    self._type(channel)
                    self._hear(channel.recv(timeout=QUIET_S))
            except (ConnectionClosed, InvalidHandshake, OSError):
                self.leave()

    def leave(self) -> None:
        """Without a word, as a machine does that loses its power."""
        if self.socket is not None:
            with suppress(OSError):
                self.socket.socket.shutdown(socket.SHUT_RDWR)
        self._stack.close()
        self.socket = None

    def _connected(self) -> ClientConnection:
        server = self._hosts.names[self._turn % 3]
        self._turn += 1
        query = urllib.parse.urlencode(self._back)
        url = f"{self._hosts.urls[server].replace('http', 'ws', 1)}/api/v1/allocations/{self._alloc}/attach?{query}"
        headers = {"Authorization": f"Bearer {self._hosts.token}"}
        self._sent = self._taken
        opening = connect(url, additional_headers=headers, open_timeout=QUIET_S, close_timeout=1)
        made = self._stack.enter_context(opening)
        self.connections += 1
        return made

    def _type(self, channel: ClientConnection) -> None:
        # Before it is ready the terminal echoes, and changes ends of lines.
        while self.shown and self._sent < len(TYPED) and self._sent - len(self.shown) < AHEAD:
            piece = TYPED[self._sent : self._sent + PIECE]
            channel.send(piece)
            self._sent += len(piece)

    def _hear(self, frame: str | bytes) -> None:
        if isinstance(frame, bytes):
            self.shown += frame
            self._back["after"] = self._coming
            return
        message = json.loads(frame)
        match message["type"]:
            case "opened":
                self._back.pop("command", None)
                self._back |= {"terminal": message["terminal"], "client": message["client"]}
            case "position":
                self._coming = message["next"]
            case "taken":
                self._taken = self._back["offset"] = message["upto"]
            case "screen" | "exit":
                raise AssertionError(f"the terminal was not taken up: {message}")
            case "error":
                # A server that just came up may know no node yet.
                assert message["code"] in ("unavailable", "no_leader"), message


def test_a_terminal_outlives_link_client_agent_servers_and_leader_byte_for_byte(hosts: NodeHosts) -> None:
    alloc = str(hosts.submit(["sleep", "1000"])["id"])
    hosts.wait_state(alloc, "Running", within_s=60)
    [node] = hosts.allocation(alloc)["nodes"]
    typist = Typist(hosts, alloc)

    def cut_link() -> None:
        with hosts.unplugged(node):
            hosts.wait_node(node, "Degraded", within_s=60)
        hosts.wait_node(node, "Ready", within_s=60)

    def kill_leader() -> None:
        hosts.kill_server(hosts.leader())

    faults: list[Callable[[], object]] = [
        typist.leave,
        partial(hosts.restart_agent, node),
        cut_link,
        *(partial(hosts.kill_server, name) for name in hosts.names),
        kill_leader,
        kill_leader,
        typist.leave,
    ]
    wanted = b"ready\n" + TYPED
    for turn, fault in enumerate(faults, start=1):
        typist.until(turn * len(wanted) // (len(faults) + 1))
        fault()
        typist.until(len(typist.shown) + 4_000)
        wait_healthy(hosts)
    typist.until(len(wanted))
    typist.leave()
    assert typist.shown == wanted
    assert typist.connections > 5
    assert hosts.allocation(alloc)["run"] == 1
    hosts.delete(f"/allocations/{alloc}")
    hosts.wait_end(alloc, within_s=60)


def test_a_forward_to_a_node_elsewhere_is_cut_cleanly_and_goes_on(hosts: NodeHosts, scratch: Path) -> None:
    with checked_forward(hosts, scratch) as forward:
        kills: list[Callable[[], object]] = [partial(hosts.restart_agent, forward.node)]
        kills += [lambda: hosts.kill_server(hosts.leader())] * 2
        for kill in kills:
            assert forward.cut(kill)
            forward.check_next()
            wait_healthy(hosts)
        assert forward.cut(forward.process.kill)
        forward.stop()
        forward.start()
        forward.check_next()
        forward.check_work(len(kills) + 1)


def test_nothing_of_the_node_is_reached_by_the_work_on_it(hosts: NodeHosts) -> None:
    """On hosts of their own all loopback addresses are others: what listens beside the work is no port of it."""
    listen = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); time.sleep(600)"
    alloc = str(hosts.submit([sys.executable, "-c", listen])["id"])
    hosts.wait_state(alloc, "Running", within_s=60)
    port = int(eventually(lambda: hosts.logs(alloc), "its port", within_s=60))
    listed = hosts.cli("forward", alloc).stdout
    assert str(port) in listed
    for wrong in (8080, 50051, 22):
        done = hosts.cli("forward", alloc, f"0:{wrong}", check=False)
        assert (done.returncode, f"listening: {port} (" in done.stderr) == (1, True), done
    hosts.delete(f"/allocations/{alloc}")
    hosts.wait_end(alloc, within_s=60)
