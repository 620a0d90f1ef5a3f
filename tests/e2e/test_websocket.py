"""Terminals over WebSocket, as a public client of the protocol sees them."""

import base64
import queue

import grpc
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from lattice.testing import LocalCluster
from lattice.wire.pb import terminals_pb2 as pb
from lattice.wire.pb.terminals_pb2_grpc import TerminalServiceStub
from tests.e2e.web_terminal import Person, socket_at

pytestmark = pytest.mark.e2e


@pytest.fixture
def alloc(cluster: LocalCluster) -> str:
    submitted = cluster.submit(["sleep", "600"])
    cluster.wait_state(submitted["id"], "Running")
    return str(submitted["id"])


def test_a_terminal_is_used_left_and_taken_up_byte_for_byte(cluster: LocalCluster, alloc: str) -> None:
    with socket_at(
        cluster, f"/allocations/{alloc}/attach", command="stty -echo; echo ready; exec sh", rows=30
    ) as person:
        person.listen(until=b"ready")
        person.say(type="resize", rows=40, columns=100)
        person.socket.send(b"echo first; stty size\n")
        person.listen(until=b"40 100")
        opened = person.last("opened")
        place, shown = person.place, person.shown
    back = {"terminal": opened["terminal"], "client": opened["client"], "after": place}
    offset = len(b"echo first; stty size\n")
    with socket_at(cluster, f"/allocations/{alloc}/attach", in_browser=True, offset=offset, **back) as person:
        assert person.socket.subprotocol == "lattice.terminal.v1"
        person.say(type="keepalive")
        person.say(type="stdin", data=base64.b64encode(b"echo second; sleep 600\n").decode())
        person.listen(until=b"second\r\n")
        person.say(type="signal", signal="SIGINT")
        person.socket.send(b"exit 7\n")
        rest = person.listen()
        assert person.last("exit")["code"] == 7
        assert person.socket.close_code == 1000
    assert shown.count(b"first") == 1
    assert b"first" not in rest


def test_wrong_ways_are_closed_with_a_reason(cluster: LocalCluster, alloc: str) -> None:
    with socket_at(cluster, "/allocations/a99999/attach") as person:
        person.listen()
        assert (person.socket.close_code, "no allocation" in str(person.socket.close_reason)) == (4404, True)
    with socket_at(cluster, f"/allocations/{alloc}/attach", command="sleep 600") as person:
        person.say(type="dance")
        person.listen()
        assert (person.socket.close_code, person.last("error")["code"]) == (1007, "invalid")
    url = f"{cluster.api_url.replace('http', 'ws', 1)}/api/v1/allocations/{alloc}/attach"
    for address, origin, status, told in (
        (url, "https://evil.example", 403, "https://evil.example"),
        (f"{url}?dance=1", None, 400, "dance"),
        (url.replace("attach", "nothing"), None, 404, "speaks WebSocket"),
    ):
        with pytest.raises(InvalidStatus) as refused, connect(address, origin=Origin(origin) if origin else None):
            pass
        assert refused.value.response.status_code == status
        assert told in (refused.value.response.body or b"").decode()
    with connect(url) as stranger:
        nobody = Person(stranger)
        nobody.listen()
        assert (stranger.close_code, "token" in str(nobody.last("error")["message"])) == (4401, True)
    assert "handshake" not in (cluster.directory / "server.log").read_text()


def test_the_shell_of_a_session_is_a_websocket_too(cluster: LocalCluster) -> None:
    made = cluster.post("/sessions", {"lifecycle": {"walltime": "10m"}})
    cluster.wait_state(made["id"], "Running")
    with socket_at(cluster, f"/sessions/{made['id']}/terminal") as person:
        person.socket.send(b"echo $((6 * 7)); exit 3\n")
        person.listen()
        assert (b"42" in person.shown, person.last("exit")["code"]) == (True, 3)
    assert cluster.wait_end(made["id"])["exit_code"] == 3


def test_grpc_carries_the_same_messages(cluster: LocalCluster, alloc: str) -> None:
    address = cluster.process("server").addresses[1]  # type: ignore[union-attr] # there is one
    metadata = (("authorization", f"Bearer {cluster.token}"),)
    typed: queue.SimpleQueue[pb.TerminalInput | None] = queue.SimpleQueue()
    typed.put(pb.TerminalInput(start=pb.TerminalStart(allocation=alloc, command="read x; echo $x$x; exit 5")))
    with grpc.insecure_channel(address) as channel:
        attach = TerminalServiceStub(channel).Attach
        shown, code = b"", -1
        for output in attach(iter(typed.get, None), metadata=metadata, timeout=60):
            if output.HasField("opened"):
                typed.put(pb.TerminalInput(resize=pb.TerminalResize(rows=30, columns=90)))
                typed.put(pb.TerminalInput(stdin=b"twice\n"))
            shown += output.stdout.data
            code = output.exit.code if output.HasField("exit") else code
        typed.put(None)
        assert (b"twicetwice" in shown, code) == (True, 5)
        for first, who, told in (
            (pb.TerminalInput(start=pb.TerminalStart(allocation="a99999")), metadata, grpc.StatusCode.NOT_FOUND),
            (pb.TerminalInput(stdin=b"x"), metadata, grpc.StatusCode.INVALID_ARGUMENT),
            (pb.TerminalInput(start=pb.TerminalStart(allocation=alloc)), (), grpc.StatusCode.UNAUTHENTICATED),
        ):
            with pytest.raises(grpc.RpcError) as refused:
                list(attach(iter([first]), metadata=who, timeout=60))
            assert refused.value.code() is told
