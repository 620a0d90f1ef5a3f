"""Ranks that misbehave towards the PMIx server: what they send and open is bounded, and the step ends with a reason."""

import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from lattice.agent.shim.loop import Loop, boot_now
from lattice.agent.shim.pmi.pmix import MAX_CONNECTIONS, MAX_REFUSED, MAX_WAITING_BYTES, Events, PmixRanks, listen

# In the place of the real server: takes connections, and reads nothing from them, or closes them at once.
SERVER = """#!{python} -S
import select, socket, struct, sys
listener = socket.create_server(("127.0.0.1", 0))
said = b"PMIX_SERVER_URI2=x;tcp4://127.0.0.1:%d" % listener.getsockname()[1]
sys.stdout.buffer.write(struct.pack("!cI", b"V", len(said)) + said + struct.pack("!cI", b"R", 0))
sys.stdout.buffer.flush()
sys.stdin.buffer.raw.read(1000)
kept = []
while True:
    if 0 in select.select([listener, 0], [], [])[0] and not sys.stdin.buffer.raw.read(1000):
        break
    kept.append(listener.accept()[0])
    if "{mode}" == "refuse":
        kept.pop().close()
"""


class Node:
    """The service's side, on a loop of its own until something is wrong."""

    def __init__(self, program: Path) -> None:
        self.loop = Loop()
        self.listener = listen()
        self.failures: list[str] = []
        events = Events(lambda _: None, lambda _: None, lambda *_: None, self.failed, lambda: None)
        self.ranks = PmixRanks(self.loop, self.listener, str(program), b"step", events)

    def failed(self, why: str) -> None:
        self.failures.append(why)
        self.loop.stop()

    def run(self, at_most_s: float) -> None:
        timer = self.loop.call_at(boot_now() + at_most_s, self.loop.stop)
        self.loop.run()
        timer.cancel()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.listener.getsockname())


@pytest.fixture
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    program = tmp_path / "server"
    program.write_text(SERVER.format(python=sys.executable, mode=request.param))
    program.chmod(0o755)
    made = Node(program)
    yield made
    made.ranks.close()


@pytest.mark.parametrize("node", ["deaf"], indirect=True)
def test_a_rank_with_too_many_connections_ends_the_step(node: Node) -> None:
    most = sum(MAX_CONNECTIONS)
    callers = [node.connect() for _ in range(most + 1)]
    node.run(60)
    for caller in callers:
        caller.close()
    assert node.failures == [f"its ranks have more than {most} connections"]


@pytest.mark.parametrize("node", ["deaf"], indirect=True)
def test_ranks_that_ask_before_they_connect_are_answered_when_the_server_is_ready(node: Node) -> None:
    ready: list[str] = []
    node.ranks.prepare(lambda: ready.append("first"))
    node.ranks.prepare(lambda: ready.append("second"))
    node.ranks.prepare(node.loop.stop)
    assert not ready
    node.run(60)
    node.ranks.prepare(lambda: ready.append("late"))
    assert (ready, node.failures) == (["first", "second", "late"], [])


@pytest.mark.parametrize("node", ["refuse"], indirect=True)
def test_connections_that_the_server_closes_end_the_step_when_there_are_too_many(node: Node) -> None:
    def call() -> None:
        for _ in range(sum(MAX_REFUSED) + 1):
            with node.connect() as caller:
                caller.settimeout(60)
                caller.recv(1)

    calling = threading.Thread(target=call)
    calling.start()
    node.run(60)
    calling.join()
    assert node.failures == [f"{sum(MAX_REFUSED) + 1} connections of its ranks did not speak PMIx"]


@pytest.mark.parametrize("node", ["deaf"], indirect=True)
def test_a_rank_that_floods_a_server_which_does_not_read_has_to_wait(node: Node) -> None:
    with node.connect() as caller:
        caller.setblocking(False)
        sent = idle = 0
        while idle < 20 and sent < 20 * MAX_WAITING_BYTES:
            node.run(0.01)
            try:
                sent += caller.send(b"x" * 65536)
                idle = 0
            except BlockingIOError:
                idle += 1
        assert MAX_WAITING_BYTES < sent < 20 * MAX_WAITING_BYTES
        assert node.failures == []
