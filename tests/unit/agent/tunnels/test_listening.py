"""Which listening sockets of a node are a run's beyond doubt."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.agent.pmix.building import PROGRAM
from lattice.agent.tunnels.listening import Listener, Owner, choose, own_ports, parse_table, read_listeners, read_owned

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:22B8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1 0 100 0 0 10 0
   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0
   2: 0100007F:22B8 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 333 1 0 100 0 0 10 0
"""
TABLE_6 = """  sl  local_address                         remote_address                        st
   0: 00000000000000000000000001000000:22B8 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1000 0 444 1
   1: 0000000000000000FFFF00000100007F:22B9 00000000000000000000000000000000:0000 0A 0:0 00:0 0 1000 0 555 1
"""
OURS = Owner(1, "ours")
V4, V6 = "127.0.0.1", "::1"


def test_tables_of_the_kernel_are_read() -> None:
    assert parse_table(TABLE.splitlines()) == [Listener(V4, 8888, 111), Listener("0.0.0.0", 22, 222)]
    assert parse_table(TABLE_6.splitlines()) == [Listener(V6, 8888, 444), Listener(V4, 8889, 555)]
    assert parse_table([]) == []


@pytest.mark.parametrize(
    ("sockets", "owned", "chosen"),
    [
        ([(V4, 1)], {1}, 1),
        ([(V4, 1)], set(), None),
        ([(V4, 1)], {2}, None),
        ([("0.0.0.0", 1)], {1}, 1),
        ([("::", 1)], {1}, 1),
        # A stranger at another address of the same port takes nothing of ours.
        ([(V4, 2), ("10.0.0.7", 1)], {1}, 1),
        ([(V4, 2), (V6, 1)], {1}, 1),
        # One that might be given the connection makes it no port of ours.
        ([(V4, 2), ("0.0.0.0", 1)], {1}, None),
        ([("::", 2), (V4, 1)], {1}, None),
        ([("0.0.0.0", 2), (V4, 1)], {1}, None),
        ([(V4, 2), (V4, 1)], {1}, None),
        # Several of ours are all ours.
        ([(V4, 2), (V4, 1)], {1, 2}, 2),
        ([("0.0.0.0", 1), ("::", 2)], {1, 2}, 1),
    ],
)
def test_a_socket_is_chosen_when_nobody_else_could_answer(
    sockets: list[tuple[str, int]], owned: set[int], chosen: int | None
) -> None:
    listeners = [Listener(address, 80, inode) for address, inode in sockets]
    found = choose(listeners, dict.fromkeys(owned, OURS), 80)
    assert (found.inode if found else None) == chosen
    assert choose(listeners, dict.fromkeys(owned, OURS), 81) is None


def test_the_ports_of_a_run_are_named_once_and_by_number() -> None:
    listeners = [Listener(V6, 90, 1), Listener(V4, 80, 2), Listener(V4, 90, 3), Listener(V4, 70, 4)]
    owned = {1: OURS, 2: OURS, 3: OURS}
    assert [listener.port for listener, _ in own_ports(listeners, owned)] == [80, 90]


def test_sockets_of_this_process_are_found_by_its_pid() -> None:
    with socket.socket() as listener:
        listener.bind((V4, 0))
        listener.listen()
        port = listener.getsockname()[1]
        listeners = read_listeners()
        inodes = frozenset(each.inode for each in listeners)
        owned = read_owned([os.getpid(), 2**22 + 1], inodes)
        found = choose(listeners, owned, port)
        assert found is not None
        assert (found.target, owned[found.inode].pid) == (V4, os.getpid())
        assert choose(listeners, read_owned([], inodes), port) is None


def test_what_serves_the_ranks_of_a_step_is_no_port_of_the_work(tmp_path: Path) -> None:
    listen = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
    ports = {}
    for name in ("lattice-pmi", PROGRAM, "work"):
        program = tmp_path / name
        program.symlink_to(sys.executable)
        process = subprocess.Popen([program, "-c", listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        ports[name] = process, int(process.stdout.readline())
    try:
        listeners = read_listeners()
        inodes = frozenset(each.inode for each in listeners)
        owned = read_owned([process.pid for process, _ in ports.values()], inodes)
        assert [listener.port for listener, _ in own_ports(listeners, owned)] == [ports["work"][1]]
        assert {name for name, (_, port) in ports.items() if choose(listeners, owned, port)} == {"work"}
    finally:
        for process, _ in ports.values():
            process.communicate("\n")
