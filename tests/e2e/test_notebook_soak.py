"""`lattice notebook` with Jupyter from PyPI: a cell runs in the allocation, through the port of this machine.

LATTICE_JUPYTER names an environment that has jupyter_server and ipykernel; without it one is made, which needs a package index.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest
from websockets.exceptions import WebSocketException
from websockets.sync.client import ClientConnection, connect

from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.e2e.quorum_load import kill_both, wait_healthy

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(480)]
PACKAGES = ("jupyter_server", "ipykernel")


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with Jupyter."""
    if given := os.environ.get("LATTICE_JUPYTER"):
        return Path(given)
    folder = tmp_path_factory.mktemp("jupyter")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    done = subprocess.run(
        [folder / "bin" / "pip", "install", "-q", *PACKAGES], check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"Jupyter cannot be installed: {done.stderr[-200:]}")
    return folder


@pytest.fixture
def notebook(cluster: LocalCluster, jupyter: Path) -> Iterator[str]:
    """The URL of a running notebook."""
    with command(cluster, jupyter) as (url, _):
        yield url


@contextmanager
def command(cluster: LocalCluster, jupyter: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """`lattice notebook`: what it prints first, and the process that forwards."""
    path = f"{jupyter / 'bin'}:{os.environ['PATH']}"
    words = [str(Path(sys.executable).with_name("lattice")), "notebook", "--export=PATH"]
    environment = {**cluster.environment(), "PATH": path}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


def ask(url: str, path: str, token: str, cookie: str, body: bytes | None = None) -> dict[str, str]:
    split = urlsplit(url)
    headers = {"Authorization": f"token {token}", "Content-Type": "application/json", "Cookie": cookie}
    with urlopen(Request(f"http://{split.netloc}{path}", data=body, headers=headers)) as answer:
        return dict(json.loads(answer.read()))


def result_of(url: str, code: str, cookie: str = "") -> str:
    """What a cell prints."""
    split = urlsplit(url)
    token = split.query.removeprefix("token=")
    base = split.path.rstrip("/")
    kernel = ask(url, f"{base}/api/kernels", token, cookie, b"{}")["id"]
    with channel_to(url, kernel, cookie) as channel:
        channel.send(cell(code))
        while True:
            heard = json.loads(channel.recv(timeout=60))
            if heard["header"]["msg_type"] == "stream":
                return str(heard["content"]["text"])


def cell(code: str) -> str:
    header = {"msg_id": uuid.uuid4().hex, "username": "", "session": uuid.uuid4().hex, "msg_type": "execute_request"}
    content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    message = {"header": {**header, "version": "5.3"}, "parent_header": {}, "metadata": {}, "content": content}
    return json.dumps({**message, "channel": "shell", "buffers": []})


def channel_to(url: str, kernel: str, cookie: str) -> ClientConnection:
    split = urlsplit(url)
    base, token = split.path.rstrip("/"), split.query.removeprefix("token=")
    address = f"ws://{split.netloc}{base}/api/kernels/{kernel}/channels?token={token}"
    return connect(address, max_size=1 << 24, additional_headers={"Cookie": cookie})


def test_a_cell_runs_in_the_allocation(notebook: str) -> None:
    assert result_of(notebook, "import os; print(os.environ['LATTICE_ALLOC_ID'], 6 * 7)").endswith(" 42\n")
    assert len(result_of(notebook, "print('x' * 1_000_000)")) >= 1_000


def through_gateway(cluster: LocalCluster, notebook: str) -> tuple[str, str]:
    """The same notebook at the gateway, and the cookie that its ticket was exchanged for."""
    _, alloc, port = urlsplit(notebook).path.strip("/").split("/")
    token = urlsplit(notebook).query.removeprefix("token=")
    opened = cluster.cli("open", alloc, port, "--keep-path", f"--path=/api?token={token}").stdout.strip()
    jar = CookieJar()
    with build_opener(HTTPCookieProcessor(jar)).open(opened) as answer:
        assert b"version" in answer.read()
    cookie = next(f"{each.name}={each.value}" for each in jar if each.name == "lattice-proxy")
    return f"http://{urlsplit(opened).netloc}/proxy/{alloc}/{port}/?token={token}", cookie


def test_a_cell_runs_through_the_gateway(cluster: LocalCluster, notebook: str) -> None:
    url, cookie = through_gateway(cluster, notebook)
    assert result_of(url, "print(6 * 7)", cookie) == "42\n"


class Reader:
    """Somebody who looks at a running cell, and comes back whenever the connection breaks."""

    def __init__(self, url: str, kernel: str, cookie: str = "") -> None:
        self.url, self._kernel, self._cookie = url, kernel, cookie
        self.heard: list[str] = []  # of each connection
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._is_over.is_set():
            with (
                contextlib.suppress(OSError, WebSocketException, TimeoutError),
                channel_to(self.url, self._kernel, self._cookie) as channel,
            ):
                self.heard.append("")
                while True:
                    heard = json.loads(channel.recv(timeout=20))
                    if heard["header"]["msg_type"] == "stream":
                        self.heard[-1] += heard["content"]["text"]
                        if "last\n" in self.heard[-1]:
                            return
            self._is_over.wait(0.2)

    def is_past(self, number: int) -> bool:
        lines = (self.heard or [""])[-1].splitlines()
        return any(line.startswith("line ") and int(line.split()[1]) > number for line in lines[-2:-1])

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(30)


COUNTING = """
import os, time
number = 0
with open({kept!r}, "w") as kept:
    while not os.path.exists({stop!r}):
        line = f"line {{number}} of a cell that nothing may stop"
        print(line, flush=True)
        print(line, file=kept, flush=True)
        number += 1
        time.sleep(0.01)
print("last")
"""


def test_a_cell_outlives_servers_leader_agent_and_client_and_every_connection_is_whole(
    jupyter: Path, scratch: Path
) -> None:
    """One cell counts while everything between it and its two readers is killed, one after the other."""
    require_program("etcd")
    kept, stop = scratch / "kept", scratch / "stop"

    def written() -> int:
        return kept.read_text().count("\n")

    def await_more(readers: list[Reader], what: str) -> None:
        """Each of them hears what the cell writes from now on."""
        past = written() + 20
        eventually(lambda: all(reader.is_past(past) for reader in readers), what, within_s=90)

    with LocalCluster(nodes=1, servers=3) as servers, command(servers, jupyter) as (url, process):
        split = urlsplit(url)
        token, base = split.query.removeprefix("token="), split.path.rstrip("/")
        kernel = ask(url, f"{base}/api/kernels", token, "", b"{}")["id"]
        gate, cookie = through_gateway(servers, url)
        readers = [Reader(url, kernel), Reader(gate, kernel, cookie)]
        eventually(lambda: all(reader.heard for reader in readers), "both listen")
        with channel_to(url, kernel, "") as channel:
            channel.send(cell(COUNTING.format(kept=str(kept), stop=str(stop))))
            eventually(lambda: all(reader.is_past(20) for reader in readers), "both hear the cell")
        for _ in range(2):
            leader = servers.leader()
            kill_both(servers, leader)
            await_more(readers, "after the leader")
            wait_healthy(servers)
        for name in servers.urls:
            servers.kill("server", name)
            await_more(readers, f"after {name}")
            wait_healthy(servers)
        servers.wait_replaced(servers.kill("agent"))
        await_more(readers, "after the agent")
        process.kill()
        with command(servers, jupyter) as (again, _):
            assert urlsplit(again)[2:] == split[2:], "the same allocation, port and token"
            readers.append(Reader(again, kernel))
            await_more(readers[1:], "after the command")
            stop.touch()
            eventually(lambda: all("last\n" in r.heard[-1] for r in readers[1:]), "the end of the cell")
            for reader in readers:
                reader.close()
            assert ask(again, f"{base}/api/kernels/{kernel}", token, "")["execution_state"] == "idle"
        whole = kept.read_text()
        assert whole == "".join(f"line {number} of a cell that nothing may stop\n" for number in range(written()))
        assert len(readers[0].heard) > 1
        assert len(readers[1].heard) > 1
        for piece in (piece for reader in readers for piece in reader.heard):
            assert piece in f"{whole}last\n", "a connection missed, doubled or changed bytes"
