"""`lattice notebook` with Jupyter from PyPI: a cell runs in the allocation, through the port of this machine.

LATTICE_JUPYTER names an environment that has jupyter_server and ipykernel; without it one is made, which needs a package index.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import HTTPCookieProcessor, Request, build_opener, urlopen

import pytest
from websockets.sync.client import connect

from lattice.testing import LocalCluster

pytestmark = [pytest.mark.e2e, pytest.mark.soak]
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
    path = f"{jupyter / 'bin'}:{os.environ['PATH']}"
    words = [str(Path(sys.executable).with_name("lattice")), "notebook", "--export=PATH"]
    environment = {**cluster.environment(), "PATH": path}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
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
    kernel = ask(url, f"{base}/api/kernels", token, cookie, b"{}")
    header = {"msg_id": uuid.uuid4().hex, "username": "", "session": uuid.uuid4().hex, "msg_type": "execute_request"}
    content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    message = {"header": {**header, "version": "5.3"}, "parent_header": {}, "metadata": {}, "content": content}
    address = f"ws://{split.netloc}{base}/api/kernels/{kernel['id']}/channels?token={token}"
    with connect(address, max_size=1 << 24, additional_headers={"Cookie": cookie}) as channel:
        channel.send(json.dumps({**message, "channel": "shell", "buffers": []}))
        while True:
            heard = json.loads(channel.recv(timeout=60))
            if heard["header"]["msg_type"] == "stream":
                return str(heard["content"]["text"])


def test_a_cell_runs_in_the_allocation(notebook: str) -> None:
    assert result_of(notebook, "import os; print(os.environ['LATTICE_ALLOC_ID'], 6 * 7)").endswith(" 42\n")
    assert len(result_of(notebook, "print('x' * 1_000_000)")) >= 1_000


def test_a_cell_runs_through_the_gateway(cluster: LocalCluster, notebook: str) -> None:
    _, alloc, port = urlsplit(notebook).path.strip("/").split("/")
    token = urlsplit(notebook).query.removeprefix("token=")
    opened = cluster.cli("open", alloc, port, "--keep-path", f"--path=/api?token={token}").stdout.strip()
    jar = CookieJar()
    with build_opener(HTTPCookieProcessor(jar)).open(opened) as answer:
        assert b"version" in answer.read()
    cookie = next(f"{each.name}={each.value}" for each in jar if each.name == "lattice-proxy")
    gate = urlsplit(opened)
    assert result_of(f"http://{gate.netloc}/proxy/{alloc}/{port}/?token={token}", "print(6 * 7)", cookie) == "42\n"
