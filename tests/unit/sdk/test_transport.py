"""The bytes on the wire, both ways."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from lattice_sdk.transport import Connection, Endpoint, ProtocolError, parse_endpoint, parse_endpoints, quote


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("lattice.example.com:50051", "http://lattice.example.com:50051"),
        ("https://lattice.example.com", "https://lattice.example.com:443"),
        ("http://[::1]:81/base/", "http://[::1]:81/base"),
        (" http://a ", "http://a:80"),
        ("unix:///run/lattice.sock", "unix:///run/lattice.sock"),
    ],
)
def test_an_address_is_understood(text: str, shown: str) -> None:
    assert str(parse_endpoint(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "ftp://a", "http://", "http://a:port", "http://a:0", "http://a:70000", "http://u@a", "http://a b"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="address"):
        parse_endpoint(text)


def test_quoting_leaves_only_safe_characters() -> None:
    assert quote("a/b c?ü&=") == "a%2Fb%20c%3F%C3%BC%26%3D"


Talk = Callable[[socket.socket], None]


@pytest.fixture
def talks_to() -> Iterator[Callable[[Talk], Connection]]:
    """Connections to a server that does what the test says with the first connection it gets."""
    opened: list[Connection] = []
    threads: list[threading.Thread] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(talk: Talk) -> None:
        peer, _ = listener.accept()
        with peer:
            talk(peer)

    def connect(talk: Talk) -> Connection:
        thread = threading.Thread(target=serve, args=(talk,))
        thread.start()
        threads.append(thread)
        opened.append(Connection(Endpoint("http", "127.0.0.1", listener.getsockname()[1]), 5.0))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()
    for thread in threads:
        thread.join()
    listener.close()


def answering(*pieces: bytes) -> Talk:
    def talk(peer: socket.socket) -> None:
        peer.recv(65536)
        for piece in pieces:
            peer.sendall(piece)

    return talk


HEAD = b"GET / HTTP/1.1\r\n\r\n"


def test_a_body_of_known_length_is_read_whole(talks_to: Callable[[Talk], Connection]) -> None:
    connection = talks_to(answering(b"HTTP/1.1 200 OK\r\nContent-", b"Length: 5\r\n\r\nhe", b"llo"))
    answer = connection.ask(HEAD, b"")
    assert (answer.status, answer.read(), connection.is_idle) == (200, b"hello", True)


def test_a_chunked_body_is_put_together(talks_to: Callable[[Talk], Connection]) -> None:
    chunks = b"4;ext=1\r\nwiki\r\n5\r\npedia\r\n0\r\nTrailer: x\r\n\r\n"
    connection = talks_to(answering(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks))
    assert connection.ask(HEAD, b"").read() == b"wikipedia"
    assert connection.is_idle


def test_a_body_without_length_ends_with_the_connection(talks_to: Callable[[Talk], Connection]) -> None:
    connection = talks_to(answering(b"HTTP/1.1 200 OK\r\n\r\nuntil", b" the end"))
    assert connection.ask(HEAD, b"").read() == b"until the end"
    assert not connection.is_idle


def test_an_interim_answer_is_passed_over(talks_to: Callable[[Talk], Connection]) -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    connection = talks_to(answering(interim, b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n"))
    assert connection.ask(HEAD, b"").status == 204


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_whole_http_is_an_error(reply: bytes, talks_to: Callable[[Talk], Connection]) -> None:
    connection = talks_to(answering(reply))
    with pytest.raises(ProtocolError):
        connection.ask(HEAD, b"").read()


def test_a_refusal_of_a_large_body_is_heard_though_the_server_stopped_reading(
    talks_to: Callable[[Talk], Connection],
) -> None:
    def refuse(peer: socket.socket) -> None:
        peer.recv(1024)
        peer.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            continue

    answer = talks_to(refuse).ask(HEAD, b"x" * 3_000_000)
    assert (answer.status, answer.read()) == (413, b"no")


def test_somebody_hears_when_the_answer_takes_more_than_a_second(
    talks_to: Callable[[Talk], Connection],
) -> None:
    told = threading.Event()

    def slow(peer: socket.socket) -> None:
        peer.recv(1024)
        assert told.wait(10)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    assert talks_to(slow).ask(HEAD, b"", told.set).status == 200


def test_a_unix_socket_is_an_address_too(tmp_path: object) -> None:
    path = f"{tmp_path}/api.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        connection = Connection(parse_endpoint(f"unix://{path}"), 5.0)
        peer, _ = listener.accept()
        with peer:
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            assert connection.ask(HEAD, b"").read() == b"ok"
        connection.close()


@pytest.mark.parametrize("text", ["http://h:1", "10.0.0.1:8080", "http://127.evil.example", "http://localhost.example"])
def test_plain_http_to_other_machines_has_to_be_asked_for(text: str) -> None:
    with pytest.raises(ValueError, match="plain http to another machine"):
        parse_endpoints([text])
    assert len(parse_endpoints([text], insecure_http=True)) == 1


def test_https_and_this_machine_need_no_asking() -> None:
    texts = ["https://h", "http://127.0.0.1:1", "http://localhost:2", "http://[::1]:3", "unix:///run/x", " "]
    assert len(parse_endpoints(texts)) == 5
