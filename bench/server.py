"""One server process on a prepared folder, without a cluster around it."""

import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def server_on(
    folder: Path, more: str = "", *, program: Sequence[str] = (), grpc_port: int = 0
) -> Iterator[tuple["subprocess.Popen[bytes]", int, float]]:
    """The process, its REST port and the seconds from start to healthy.

    `more` is added to the section `api`; `program` runs instead of `lattice-server`.
    """
    port = free_port()
    (folder / "secret").write_text(secrets.token_hex(32))
    (folder / "secret").chmod(0o600)
    (folder / "server.yaml").write_text(
        f"name: bench\nmode: dev\ndata_dir: {folder}/data\n"
        f"api:\n  rest_listen: 127.0.0.1:{port}\n  grpc_listen: 127.0.0.1:{grpc_port}\n  hmac_secret: file://{folder}/secret\n{more}"
    )
    words = [
        *(program or [str(Path(sys.executable).with_name("lattice-server"))]),
        "--config",
        str(folder / "server.yaml"),
    ]
    begun = time.perf_counter()
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        while not _is_healthy(port):
            if process.poll() is not None or time.perf_counter() - begun > 120:
                raise RuntimeError("the server did not come up")
            time.sleep(0.01)
        yield process, port, time.perf_counter() - begun
    finally:
        process.kill()
        process.wait()


def _is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
