"""A byte checker for forwards: numbered lines go to a program that gives them back, over one connection after the other.

A connection of the work cannot outlive what carries it. So the promise has three parts: what arrived on either side is a beginning of
what was sent, without a byte missing, doubled or changed; who is cut off sees a reset, never an end that looks regular; and the next
connection through the same port works.
"""

import contextlib
import hashlib
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from lattice.testing import LocalCluster, eventually

PROGRAM = Path(__file__).parent / "programs" / "checked_port.py"
SENT = b"".join(b"line %d of the many that go through here\n" % number for number in range(60_000))
BEFORE = 200_000
HELD_BACK = 2_000_000
SHORT = SENT[:500_000]


class CheckedForward:
    """An allocation with the program, and `lattice forward` to it."""

    def __init__(self, cluster: LocalCluster, scratch: Path) -> None:
        self._cluster = cluster
        self._notes = scratch / "notes"
        said = scratch / "port"
        self.alloc = str(cluster.submit([sys.executable, str(PROGRAM), str(said), str(self._notes)])["id"])
        cluster.wait_state(self.alloc, "Running")
        eventually(said.exists, "it listens")
        self.node = str(cluster.allocation(self.alloc)["nodes"][0])
        self._port = int(said.read_text())
        self._local = 0
        self.start()

    def start(self) -> None:
        """The command, on the same port of this machine as before."""
        program = str(Path(sys.executable).with_name("lattice"))
        self.process = subprocess.Popen(
            [program, "forward", self.alloc, f"{self._local}:{self._port}"],
            stdout=subprocess.PIPE,
            text=True,
            env=self._cluster.environment(),
        )
        assert self.process.stdout is not None
        self._local = int(self.process.stdout.readline().split()[0].rpartition(":")[2])

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def cut(self, kill: Callable[[], object]) -> bool:
        """Kills something in the middle of a connection; whether this side saw a reset."""
        got = b""
        is_killed, is_reset = threading.Event(), threading.Event()
        with self._connected() as connection:
            sender = threading.Thread(target=_send, args=(connection, is_killed, is_reset))
            sender.start()
            try:
                while piece := connection.recv(1 << 14):
                    if len(got) < BEFORE <= len(got) + len(piece):
                        kill()
                        is_killed.set()
                    got += piece
            except ConnectionResetError:
                is_reset.set()
            is_killed.set()
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            sender.join()
        assert BEFORE <= len(got) < len(SENT), "it was cut in the middle"
        assert SENT.startswith(got)
        return is_reset.is_set()

    def check_next(self) -> None:
        """The next connection carries everything, and ends regularly."""
        with self._connected() as connection:
            sender = threading.Thread(target=connection.sendall, args=(SHORT,))
            sender.start()
            got = b""
            while len(got) < len(SHORT) and (piece := connection.recv(1 << 16)):
                got += piece
            sender.join()
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
        assert got == SHORT

    def check_work(self, cuts: int) -> None:
        """What the work got of each connection is a beginning of what was sent, and it learned of each cut."""
        eventually(lambda: len(self._noted()) >= 2 * cuts, "the work has seen all connections end")
        noted = self._noted()
        assert len(noted) == 2 * cuts
        for count, digest, _ in noted:
            assert hashlib.sha256(SENT[: int(count)]).hexdigest() == digest
        assert [(int(count), how) for count, _, how in noted if how == "end"] == [(len(SHORT), "end")] * cuts

    def _noted(self) -> list[list[str]]:
        return [line.split() for line in self._notes.read_text().splitlines()] if self._notes.exists() else []

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._local), timeout=60)


def _send(connection: socket.socket, is_killed: threading.Event, is_reset: threading.Event) -> None:
    """The last part only after the kill: buffers on the way could hold everything, and nothing would be cut off.

    The kernel tells of a reset once: who reads sees an end when it was told here.
    """
    try:
        connection.sendall(SENT[:HELD_BACK])
        is_killed.wait()
        connection.sendall(SENT[HELD_BACK:])
    except ConnectionResetError:
        is_reset.set()
    except OSError:
        pass


@contextlib.contextmanager
def checked_forward(cluster: LocalCluster, scratch: Path) -> Iterator[CheckedForward]:
    made = CheckedForward(cluster, scratch)
    try:
        yield made
    finally:
        made.stop()
        cluster.cli("cancel", made.alloc)
