"""Whether the API feels the scheduler: answers of one server while it plans on end, and while it does not.

As a program (`python -m bench.beside FOLDER PORT on|off`) it is that server, over a machine of 10,000 nodes that are all busy.
"""

import asyncio
import contextlib
import http.client
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import uvloop

from bench.cluster import percentile
from bench.population import Population, write_population
from bench.server import free_port
from lattice.api.auth.tokens import sign_token
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.config.sections.nodes import NodeAgentSection
from lattice.core.machine.commands import ConfirmNode, PlaceAllocation, RegisterNode
from lattice.core.model.nodes.nodes import Hardware, Share
from lattice.daemons.programs.server import SWITCH_INTERVAL_S
from lattice.daemons.server.process import ServerProcess

NODES, RUNNING, PENDING = 10_000, 500, 1_000
CALLS = 600


def api_beside_cycles() -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="lattice-bench-") as folder:
        home = Path(folder)
        (home / "secret").write_text(secrets.token_hex(32))
        write_population(home / "data", busy_machine(), commands_after=0)
        quiet = _answers(home, "off")
        planning = _answers(home, "on")
    print(f"  p99 quiet {quiet:.2f} ms, planning {planning:.2f} ms", file=sys.stderr)
    return {"api_p99_ratio": planning / quiet}


def busy_machine() -> Population:
    """Every node held by one of a few large allocations, and a queue behind them."""
    population = Population()
    for place in range(NODES):
        hardware = Hardware(cpus=64, memory_mb=262_144, group=f"g{place // 160}")
        population.do(RegisterNode(node=f"n{place}", hardware=hardware))
        population.do(ConfirmNode(node=f"n{place}"))
    each = NODES // RUNNING
    for place in range(RUNNING):
        number = population.do(population.submission(nodes=each))
        shares = tuple(Share(node=f"n{node}") for node in range(place * each, (place + 1) * each))
        population.do(PlaceAllocation(number=number, run=1, shares=shares))
    for place in range(PENDING):
        population.do(population.submission(nodes=1 + place % 40))
    return population


def _answers(home: Path, cycles: str) -> float:
    """p99 in milliseconds of a small listing, one call after the other."""
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", "bench.beside", str(home), str(port), cycles])
    try:
        connection = _connected(port)
        token = _token(home)
        times = []
        for _ in range(CALLS):
            begun = time.perf_counter()
            connection.request("GET", "/api/v1/allocations?limit=50", headers={"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            body = answer.read()
            times.append((time.perf_counter() - begun) * 1000)
            if answer.status != 200:
                raise AssertionError(body)
            time.sleep(0.005)
        return percentile(times, 0.99)
    finally:
        server.kill()
        server.wait()


def _token(home: Path) -> str:
    secret = (home / "secret").read_text().encode()
    return sign_token(
        secret, user="root", tenants=["default"], scope="admin", issued_at_s=int(time.time()), lifetime_s=3600
    )


def _connected(port: int) -> http.client.HTTPConnection:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        with contextlib.suppress(OSError):
            connection.request("GET", "/healthz")
            answer = connection.getresponse()
            answer.read()
            if answer.status == 200:
                return connection
        time.sleep(0.05)
    raise TimeoutError("the server did not come up")


async def _serve(home: Path, port: int, *, cycles: bool) -> None:
    config = ServerConfig(
        data_dir=str(home / "data"),
        mode="dev",
        api=ApiSection(hmac_secret=f"file://{home}/secret", rest_listen=f"127.0.0.1:{port}", grpc_listen="127.0.0.1:0"),
        node_agent=NodeAgentSection(heartbeat_timeout_s=86400.0, start_timeout_s=86400.0),
    )
    process = ServerProcess(config, (home / "secret").read_text().encode())
    await process.start()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    loops = process.parts.loops
    assert loops is not None
    for place in range(NODES):
        loops.observations.greet(f"n{place}", time.monotonic())
        loops.observations.admit(f"n{place}")
    while True:
        await asyncio.sleep(0.02)
        if cycles:
            loops.scheduling.node_opened("n0")


if __name__ == "__main__":
    uvloop.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), cycles=sys.argv[3] == "on"))
