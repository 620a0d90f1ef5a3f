"""Instances of services: how soon one that ends runs again, how soon one that is lost is replaced, and what the registry and scaling cost."""

import asyncio
import os
import signal
import tempfile
import time
from pathlib import Path
from unittest.mock import patch

from msgspec.structs import replace

from bench.cluster import percentile, start_cluster, wait_until
from lattice.core.model.services.scaling import ScalePolicy
from lattice.testing import LocalCluster
from tests.integration.api.world import World
from tests.unit.control.test_autoscaling import Scaled

RESTARTS, LOSSES = 20, 5
SERVICES, CHANGES, LOOKUPS = 1_000, 50, 500
REACTIVE = 500
# Writes when it began and who it is, then serves for ever. The first of five failures in a row is answered at once.
SERVE = 'echo "$EPOCHREALTIME $$" > {folder}/$LATTICE_NODE_ID.new; mv {folder}/$LATTICE_NODE_ID.new {folder}/$LATTICE_NODE_ID; exec sleep 600'


def service_instances() -> dict[str, float]:
    """Ends of instances on a real cluster; then losses of their nodes, from the moment that a node is Down."""
    with tempfile.TemporaryDirectory() as folder, start_cluster(nodes=3) as cluster:
        restarts = [_restarted(cluster, Path(folder)) for _ in range(RESTARTS)]
        alloc = _service(cluster, Path(folder))
        lost = [_replaced(cluster, alloc) for _ in range(LOSSES)]
        return {"instance_restart_ms": percentile(restarts, 0.5), "instance_replaced_s": percentile(lost, 0.5)}


def _service(cluster: LocalCluster, folder: Path) -> str:
    asked = {"lifecycle": {"type": "unbounded", "max_requeue": 100}}
    alloc = str(cluster.submit(["bash", "-c", SERVE.format(folder=folder)], **asked)["id"])
    wait_until(lambda: cluster.allocation(alloc)["service"]["ready"] == 1, 30, "the instance")
    return alloc


def _restarted(cluster: LocalCluster, folder: Path) -> float:
    """Milliseconds from the end of a new service's instance to its process on the same node."""
    alloc = _service(cluster, folder)
    stamp = folder / cluster.allocation(alloc)["service"]["instances"][0]["node"]
    wait_until(stamp.exists, 30, "the first process")
    old = stamp.read_text()
    killed = time.time()
    os.kill(int(old.split()[1]), signal.SIGKILL)
    wait_until(lambda: stamp.read_text() != old, 30, "the next process")
    took = (float(stamp.read_text().split()[0]) - killed) * 1000
    cluster.cli("cancel", alloc)
    cluster.wait_end(alloc)
    stamp.unlink()
    return took


def _replaced(cluster: LocalCluster, alloc: str) -> float:
    """Seconds from Down of the node to a ready instance on another one."""
    node = cluster.allocation(alloc)["service"]["instances"][0]["node"]
    cluster.cli("node", "disable", node, "--yes", "--reason", "bench")
    down = time.perf_counter()

    def is_back() -> bool:
        seen = cluster.allocation(alloc)["service"]
        return bool(seen["ready"] == 1 and seen["instances"][0]["node"] != node)

    wait_until(is_back, 30, "the replacement")
    took = time.perf_counter() - down
    cluster.cli("node", "enable", node)
    cluster.wait_node(node, "Ready")
    return took


def reactive_evaluation() -> dict[str, float]:
    """One evaluation of 500 reactive services in one process, all of which have to grow; processor time."""
    return {"reactive_evaluation_ms": asyncio.run(_evaluated())}


async def _evaluated() -> float:
    nodes = [f"n{number}" for number in range(1, 2 * REACTIVE + 1)]
    made = await Scaled.prepared(*nodes, services=REACTIVE)
    policy = ScalePolicy(
        min_nodes=1,
        max_nodes=3,
        metric="in_flight",
        target=2.0,
        up_window_s=1,
        down_window_s=20,
        interval_s=1,
        cooldown_s=1,
    )
    for number in made.numbers:
        made.world.state.put_allocation(replace(made.world.allocation(number), scaling=policy))
    made.values = dict.fromkeys(made.numbers, 9.0)
    took = []
    # The invariants are checked after every command in tests: it would be most of what is measured.
    with patch("lattice.testing.replica.check", lambda _: []):
        for _ in range(4):
            begun = time.process_time()
            await made.loop.evaluate_due()
            took.append((time.process_time() - begun) * 1000)
            made.world.clock.pass_s(2)
    if made.steps.count(1) < REACTIVE:
        raise AssertionError(f"only {made.steps.count(1)} of {REACTIVE} grew")
    return max(took)


def service_registry() -> dict[str, float]:
    """1,000 services in one process: lookups over the whole REST path, and changes until a long poll answers."""
    return asyncio.run(_registry())


async def _registry() -> dict[str, float]:
    world = World()
    await world.start()
    try:
        names = [await _registered(world, number) for number in range(1, SERVICES + 1)]
        lookups = []
        for count in range(LOOKUPS):
            begun = time.perf_counter()
            await _found(world, f"service-{count * 7 % SERVICES + 1}")
            lookups.append((time.perf_counter() - begun) * 1000)
        changes = [await _changed(world, number, names[number - 1]) for number in range(1, CHANGES + 1)]
    finally:
        await world.stop()
    return {"service_lookup_p99_ms": percentile(lookups, 0.99), "service_change_p99_ms": percentile(changes, 0.99)}


async def _registered(world: World, number: int) -> str:
    node = f"bench{number}"
    await world.add_node(node)
    exposed = [{"name": f"service-{number}", "port": 8888}]
    fields = {"entrypoint": ["serve"], "lifecycle": {"type": "unbounded"}, "expose": exposed}
    answer = await world.call("POST", "/allocations", fields, token=world.token("alice"))
    name = str(answer.json()["id"])
    await world.start_run(int(name[1:]), node)
    return name


async def _found(world: World, name: str, version: str = "", *, is_gone: bool = False) -> dict[str, object]:
    answer = await world.call("GET", f"/services/{name}{version and f'?timeout=30&version={version}'}")
    if answer.status != (404 if is_gone else 200):
        raise AssertionError(answer.error)
    return dict(answer.json())


async def _changed(world: World, number: int, alloc: str) -> float:
    """From the request that ends a service to the answer of the long poll that waits for it."""
    version = str((await _found(world, f"service-{number}"))["version"])
    waiting = asyncio.create_task(_found(world, f"service-{number}", version, is_gone=True))
    await asyncio.sleep(0.01)
    begun = time.perf_counter()
    await world.call("DELETE", f"/allocations/{alloc}")
    await waiting
    return (time.perf_counter() - begun) * 1000
