"""Services: requests through the gateway, against their instances alone."""

import http.client
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from bench.cluster import start_cluster, wait_until
from lattice.testing import LocalCluster

INSTANCES, CLIENTS, SECONDS = 4, 32, 4
SIZE = 1000
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
    direct = [f"http://127.0.0.1:{port}/" for port in places]
    through = f"http://127.0.0.1:{gateway.port}/proxy/services/work/"
    wait_until(lambda: all(map(_answers, places)), 30, "the instances")
    _rate([through], token)  # opens the connections that are kept
    alone = _rate(direct)
    return _rate([through], token) / alone


def _answers(port: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=5)
    try:
        connection.request("GET", "/")
        return len(connection.getresponse().read()) == SIZE
    except OSError:
        return False
    finally:
        connection.close()


def _rate(urls: list[str], token: str = "") -> float:
    """Requests per second of all clients, shared among the places by wrk, a C program; raises when one request failed."""
    if shutil.which("wrk") is None:
        raise RuntimeError("wrk is missing: tools/system-packages bench installs it")
    words = ["wrk", "-t1", f"-c{CLIENTS // len(urls)}", f"-d{SECONDS}s"]
    words += ["-H", f"Authorization: Bearer {token}"] if token else []
    running = [subprocess.Popen([*words, url], stdout=subprocess.PIPE, text=True) for url in urls]
    said = [process.communicate(timeout=SECONDS + 30)[0] for process in running]
    if any("Non-2xx" in each or "Socket errors" in each for each in said):
        raise AssertionError(f"wrk saw errors: {said}")
    return sum(float(line.split()[1]) for each in said for line in each.splitlines() if line.startswith("Requests/sec"))
