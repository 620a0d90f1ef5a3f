"""A small HTTP service and clients that ask it through the gateway all the time."""

import http.client
import sys
import threading
from pathlib import Path
from urllib.parse import urlsplit

from lattice.testing import LocalCluster, eventually

# Answers with its VERSION after a moment; stops taking connections when it is told to end, and answers what it has taken.
SERVER = """
import asyncio, os, signal, sys
if os.environ.get("VERSION") == "broken":
    sys.exit(3)
BODY = os.environ.get("VERSION", "1").encode()
READY = os.environ.get("VERSION") != "unready"
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            await asyncio.sleep(float(os.environ.get("WORK_S", "0.01")))
            good = READY or not head.startswith(b"GET /ready")
            status = b"200 OK" if good else b"503 Not Yet"
            writer.write(b"HTTP/1.1 " + status + b"\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(BODY) + BODY)
            await writer.drain()
    except (asyncio.IncompleteReadError, OSError):
        pass
    writer.close()
async def main():
    port = int(os.environ["LATTICE_PORT_" + os.environ["NAMED"].upper()])
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()
asyncio.run(main())
"""


def write_server(folder: Path) -> list[str]:
    """The words that run the service."""
    program = folder / "serve.py"
    program.write_text(SERVER)
    return [sys.executable, str(program)]


class Load:
    """Clients that ask for the service all the time, each a moment after its last answer; what failed is kept."""

    def __init__(self, cluster: LocalCluster, name: str, clients: int = 4, *, pause_s: float = 0.02) -> None:
        self._pause_s = pause_s
        self._cluster, self._name = cluster, name
        self._find()
        self._path = f"/proxy/services/{name}/"
        self._headers = {"Authorization": f"Bearer {cluster.token}"}
        self.failed: list[str] = []
        self.answers: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(clients)]

    def _find(self) -> None:
        """Where the gateway is: a server that is started again may have another port for it."""
        self._port = urlsplit(str(self._cluster.post(f"/services/{self._name}/open", {})["url"])).port or 0

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        eventually(lambda: self.answers, "an answer", within_s=30)
        self.failed.clear()  # an instance that was started a moment ago may not listen yet
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _ask(self) -> None:
        while not self._stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            try:
                while not self._stop.is_set():
                    connection.request("GET", self._path, headers=self._headers)
                    with connection.getresponse() as answer:
                        text = answer.read().decode()
                    if answer.status == 200:
                        self.answers.append(text)
                    else:
                        self.failed.append(f"{answer.status} {text[:200]}")
                    self._stop.wait(self._pause_s)
            except (OSError, http.client.HTTPException) as error:
                self.failed.append(repr(error))
                if isinstance(error, ConnectionRefusedError) and not self._stop.wait(0.5):
                    self._find()
            finally:
                connection.close()
