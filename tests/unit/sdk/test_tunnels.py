"""The client's end of a connection to a port: frames both ways, ends, breaks, and a program that echoes."""

import socket
import threading
from collections.abc import Callable

import pytest

from lattice_sdk import Client
from lattice_sdk.errors import Conflict, Unreachable

HEAD = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: lattice-tunnel\r\n\r\n"
Talk = Callable[[socket.socket], None]


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def client_of(talk: Talk) -> Client:
    """A client of a server that does what the test says after the head of the request."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        listener.close()
        with peer:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += peer.recv(1)
            assert b"GET /api/v1/allocations/a17/ports/80/connect?node=n2 HTTP/1.1" in head
            assert b"Upgrade: lattice-tunnel" in head
            talk(peer)

    threading.Thread(target=serve, daemon=True).start()
    return Client(f"http://127.0.0.1:{listener.getsockname()[1]}", token="t", retry_for=0)


def test_what_is_said_behind_the_head_is_not_lost_and_ends_are_seen() -> None:
    heard: list[bytes] = []

    def talk(peer: socket.socket) -> None:
        peer.sendall(HEAD + frame(b"early") + frame(b"bird")[:6])
        peer.sendall(frame(b"bird")[6:] + bytes(4))
        while data := peer.recv(100):
            heard.append(data)

    with client_of(talk).connect_port("a17", 80, node="n2") as tunnel:
        got = b""
        while piece := tunnel.read():
            got += piece
        assert got == b"earlybird"
        tunnel.write(b"bye")
        tunnel.end()


def test_a_break_is_not_taken_for_an_end() -> None:
    with client_of(lambda peer: peer.sendall(HEAD + frame(b"half")[:6])).connect_port("a17", 80, node="n2") as tunnel:
        assert tunnel.read() == b"ha"
        with pytest.raises(Unreachable, match="broke off"):
            tunnel.read()


def test_a_refusal_is_raised_as_any_other() -> None:
    body = b'{"error":{"code":"conflict","message":"nobody listens there"}}'
    answer = b"HTTP/1.1 409 Conflict\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
    with pytest.raises(Conflict, match="nobody listens"):
        client_of(lambda peer: peer.sendall(answer)).connect_port("a17", 80, node="n2")


def test_a_relay_carries_an_echo_larger_than_every_buffer() -> None:
    def talk(peer: socket.socket) -> None:
        peer.sendall(HEAD)
        while data := peer.recv(1 << 16):  # frames are given back as they are, the end included
            peer.sendall(data)

    tunnel = client_of(talk).connect_port("a17", 80, node="n2")
    here, program = socket.socketpair()
    relaying = threading.Thread(target=tunnel.relay, args=(here,))
    relaying.start()
    size = 8 << 20

    def write() -> None:
        program.sendall(b"z" * size)
        program.shutdown(socket.SHUT_WR)

    writing = threading.Thread(target=write)
    writing.start()
    got = 0
    while data := program.recv(1 << 18):
        got += len(data)
    writing.join()
    relaying.join()
    program.close()
    assert got == size


def test_a_relay_that_breaks_resets_the_program_here() -> None:
    tunnel = client_of(lambda peer: peer.sendall(HEAD + frame(b"half")[:6])).connect_port("a17", 80, node="n2")
    listener = socket.create_server(("127.0.0.1", 0))
    program = socket.create_connection(listener.getsockname())
    here, _ = listener.accept()
    with pytest.raises(Unreachable):
        tunnel.relay(here)
    with pytest.raises(ConnectionResetError):
        b"".join(iter(lambda: program.recv(10), b""))
    program.close()
    listener.close()
