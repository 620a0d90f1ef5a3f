"""Services: requests through the gateway, against their instances alone."""

import http.client
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

from bench.cluster import start_cluster, wait_until
from lattice.testing import LocalCluster

INSTANCES, CLIENTS, REQUESTS = 4, 32, 40
Place = tuple[str, int, str, dict[str, str]]
# Answers after 5 ms, as many at a time as are asked.
SERVER = """
import asyncio, os
PAGE = b"HTTP/1.1 200 OK\\r\\nContent-Length: 1000\\r\\n\\r\\n" + bytes(1000)
async def serve(reader, writer):
    try:
        while await reader.readuntil(b"\\r\\n\\r\\n"):
            await asyncio.sleep(0.005)
            writer.write(PAGE)
    except (asyncio.IncompleteReadError, OSError):
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(os.environ["LATTICE_PORT_WORK"]))
    await server.serve_forever()
asyncio.run(main())
"""


def service_gateway() -> dict[str, float]:
    """32 clients of a service of four instances, by the gateway and at the instances."""
    with tempfile.TemporaryDirectory() as folder, start_cluster(nodes=INSTANCES) as cluster:
        program = Path(folder) / "serve.py"
        program.write_text(SERVER)
        words = ("submit", "-q", "--service", "--nodes", str(INSTANCES), "--expose", "work:0")
        alloc = cluster.cli(*words, "--", sys.executable, str(program)).stdout.strip()
        cluster.wait_state(alloc, "Running")
        return {"service_gateway_ratio": _spread(cluster)}


def _spread(cluster: LocalCluster) -> float:
    gateway = urlsplit(cluster.cli("service", "open", "work").stdout.strip())
    token = (cluster.directory / "token").read_text().strip()
    places = [line.rpartition(":")[2] for line in cluster.cli("service", "lookup", "work").stdout.split()]
    headers = {"Authorization": f"Bearer {token}"}
    through = ("127.0.0.1", gateway.port or 0, "/proxy/services/work/", headers)
    wait_until(lambda: _asked(*through, 1), 30, "the service")
    direct: list[Place] = [("127.0.0.1", int(port), "/", {}) for port in places]
    alone = _rate([direct[each % len(direct)] for each in range(CLIENTS)])
    return _rate([through] * CLIENTS) / alone


def _rate(places: list[Place]) -> float:
    threads = [threading.Thread(target=_asked, args=(*place, REQUESTS)) for place in places]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(places) * REQUESTS / (time.perf_counter() - begun)


def _asked(host: str, port: int, path: str, headers: dict[str, str], count: int) -> bool:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    for _ in range(count):
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        if answer.status != 200 or len(answer.read()) != 1000:
            return False
    connection.close()
    return True
