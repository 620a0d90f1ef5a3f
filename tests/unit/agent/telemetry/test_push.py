"""Windows on their way to a store: encoded as receivers read them, kept while it is away, and taken by VictoriaMetrics."""

import asyncio
import json
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lattice.agent.telemetry.collector import Target
from lattice.agent.telemetry.push.encoding import Sample, labelled, snappy_block, write_request
from lattice.agent.telemetry.push.pusher import KEEP_MS, MAX_WAITING, Pusher, run_labels
from lattice.agent.telemetry.push.requests import PushSettings, StoreRefused, StoreUnreachable
from lattice.core.model.telemetry.windows import summarize
from lattice.ports.nodes.agents import RunKey, StartOrder
from lattice.testing import eventually
from tests.conftest import require_program
from tests.unit.agent.telemetry.test_collecting import Rig

ORDER = StartOrder(
    key=RunKey(7, 2), allocation_id="a7", user="ada", vcluster="gpu", output_prefix="physics/-/a7/logs/run-2"
)
TARGET = Target(RunKey(7, 2), 1.0, ORDER)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift, is_last = at + 1, shift + 7, data[at] < 0x80
        if is_last:
            return value, at


def unpacked(block: bytes) -> bytes:
    """What a snappy reader makes of a block of literals."""
    size, at = read_varint(block, 0)
    found = b""
    while at < len(block):
        assert block[at] == 0xF4
        count = int.from_bytes(block[at + 1 : at + 3], "little") + 1
        found += block[at + 3 : at + 3 + count]
        at += 3 + count
    assert len(found) == size
    return found


def test_a_block_of_any_length_is_read_back() -> None:
    for size in (0, 1, 60, 65_535, 65_536, 65_537, 200_000):
        data = bytes(at & 0xFF for at in range(size))
        assert unpacked(snappy_block(data)) == data


def test_a_sample_has_its_name_its_labels_in_order_its_value_and_its_time() -> None:
    labels = labelled({"node": "n1", "gpu": "", "allocation": "a7"})
    assert labels == (("allocation", "a7"), ("node", "n1"))
    message = write_request([Sample("lattice_x_load1", labels, 1.5, 1_700_000_000_123)])
    places = [message.index(word) for word in (b"__name__", b"lattice_x_load1", b"allocation", b"a7", b"node", b"n1")]
    assert places == sorted(places)
    assert b"\x00\x00\x00\x00\x00\x00\xf8\x3f" in message


def test_labels_say_whose_run_it_is() -> None:
    assert run_labels(TARGET) == {
        "run": "2",
        "allocation": "a7",
        "tenant": "physics",
        "project": "",
        "user": "ada",
        "vcluster": "gpu",
    }
    assert run_labels(Target(None, 1.0)) == {}
    assert run_labels(Target(RunKey(7, 2), 1.0)) == {"run": "2", "allocation": "7"}


class Store:
    """Takes, is away, or refuses."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.trouble: Exception | None = None

    def send(self, body: bytes) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.bodies.append(body)


def test_what_a_store_does_not_take_now_waits_ten_minutes_and_is_counted(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig, store = Rig(tmp_path), Store()
        pusher = Pusher(PushSettings(endpoint="http://x/w", node="n1"), rig.collector, store.send)
        store.trouble = StoreUnreachable("gone")
        at_ms = rig.collector.now_ms()
        pusher.take(TARGET, {("cpus_used", ""): summarize(at_ms - 30_000, 30_000, [1.0, 2.0])}, {})
        assert not await pusher.push_batch()
        store.trouble = None
        assert await pusher.push_batch()
        assert (pusher.sent, pusher.dropped, len(store.bodies)) == (6, 0, 1)
        assert unpacked(store.bodies[0]).count(b"lattice_allocation_cpus_used") == 6
        pusher.take(TARGET, {("gpu_utilization", "0"): summarize(at_ms - 1000, 1000, [1.0])}, {})
        rig.now_s += KEEP_MS / 1000 + 1
        pusher.forget_old()
        assert (pusher.dropped, len(pusher._waiting)) == (1, 0)
        rig.now_s -= KEEP_MS / 1000 + 1
        store.trouble = StoreRefused("400 Bad Request")
        pusher.take(TARGET, {("gpu_utilization", "0"): summarize(at_ms - 1000, 1000, [1.0])}, {})
        assert await pusher.push_batch()
        assert pusher.dropped == 2
        assert MAX_WAITING >= 100_000

    asyncio.run(scenario())


@pytest.fixture
def victoria(tmp_path: Path) -> Iterator[str]:
    program = require_program("victoria-metrics")
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        port = chosen.getsockname()[1]
    store = subprocess.Popen(
        [
            program,
            f"-storageDataPath={tmp_path / 'data'}",
            f"-httpListenAddr=127.0.0.1:{port}",
            "-retentionPeriod=1d",
            "-search.latencyOffset=0s",
            "-memory.allowedBytes=64MB",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: is_up(url), "the store answers", within_s=30, every_s=0.2)
        yield url
    finally:
        store.kill()
        store.wait()


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2):  # noqa: S310 - loopback
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False


def test_victoriametrics_takes_what_is_sent(victoria: str, tmp_path: Path) -> None:
    def asked() -> list[dict[str, object]]:
        query = urllib.parse.quote('lattice_allocation_cpus_used{allocation="a7",tenant="physics",stat="max"}')
        with urllib.request.urlopen(f"{victoria}/api/v1/query?query={query}", timeout=5) as answer:  # noqa: S310 - loopback
            found: list[dict[str, object]] = json.loads(answer.read())["data"]["result"]
            return found

    async def scenario() -> None:
        (tmp_path / "rig").mkdir()
        rig = Rig(tmp_path / "rig")
        rig.now_s = time.time()
        pusher = Pusher(PushSettings(endpoint=f"{victoria}/api/v1/write", node="n1", group="g1"), rig.collector)
        pusher.take(TARGET, {("cpus_used", ""): summarize(int(rig.now_s * 1000) - 31_000, 30_000, [1.25, 1.5])}, {})
        assert await pusher.push_batch()
        assert (pusher.sent, pusher.dropped) == (6, 0)

    asyncio.run(scenario())
    urllib.request.urlopen(f"{victoria}/internal/force_flush", timeout=5).close()  # noqa: S310 - loopback
    (found,) = eventually(asked, "the store has it", within_s=20, every_s=0.5)
    metric = found["metric"]
    assert isinstance(metric, dict)
    assert {name: metric[name] for name in ("node", "group", "user", "vcluster", "run")} == {
        "node": "n1",
        "group": "g1",
        "user": "ada",
        "vcluster": "gpu",
        "run": "2",
    }
    assert isinstance(found["value"], list)
    assert found["value"][1] == "1.5"


@pytest.mark.parametrize(
    ("host", "level", "option"),
    [
        ("127.0.0.1", socket.IPPROTO_IP, socket.IP_TOS),
        ("::1", socket.IPPROTO_IPV6, socket.IPV6_TCLASS),
    ],
)
@pytest.mark.parametrize("dscp", [0, 8, 63])
def test_the_connection_to_the_store_is_marked(
    host: str, level: int, option: int, dscp: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[socket.socket] = []
    marks: list[int] = []
    connect = socket.create_connection

    def recorded(address: tuple[str, int], timeout: float, source: tuple[str, int] | None) -> socket.socket:
        opened.append(connect(address, timeout, source))
        return opened[-1]

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            marks.append(opened[-1].getsockopt(level, option))  # the sender waits for its answer meanwhile
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    class Server(HTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    monkeypatch.setattr(socket, "create_connection", recorded)
    with Server((host, 0), Receiver) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        name = f"[{host}]" if ":" in host else host
        settings = PushSettings(endpoint=f"http://{name}:{server.server_port}/w", node="n1", dscp=dscp)
        pusher = Pusher(settings, Rig(tmp_path).collector)
        pusher.take(TARGET, {("cpus_used", ""): summarize(pusher._collector.now_ms(), 1000, [1.5])}, {})
        assert asyncio.run(pusher.push_batch())
        thread.join()
    assert (pusher.sent, marks) == (1, [dscp << 2])


def test_a_redirect_takes_neither_token_nor_figures_elsewhere(tmp_path: Path) -> None:
    asked: list[str] = []

    class Redirecting(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def do_GET(self) -> None:
            asked.append(f"{self.path} {self.headers['Authorization']}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Redirecting) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            endpoint = f"http://127.0.0.1:{server.server_port}/w"
            settings = PushSettings(endpoint=endpoint, node="n1", token=lambda: "secret")
            pusher = Pusher(settings, Rig(tmp_path).collector)
            pusher.take(TARGET, {("cpus_used", ""): summarize(pusher._collector.now_ms(), 1000, [1.5])}, {})
            assert not asyncio.run(pusher.push_batch())
        finally:
            server.shutdown()
    assert (asked, pusher.sent, len(pusher._waiting)) == (["/w"], 0, 1)


def test_a_store_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        rig = Rig(tmp_path)
        pusher = Pusher(PushSettings(endpoint="http://127.0.0.1:9/w", node="n1", token=lambda: "t"), rig.collector)
        pusher.take(TARGET, {("cpus_used", ""): summarize(rig.collector.now_ms() - 30_000, 30_000, [1.0])}, {})
        assert not await pusher.push_batch()

    asyncio.run(scenario())
