"""The page of a server with ten thousand nodes stays small."""

import time

from lattice.api.operations.table import OPERATIONS
from lattice.control.nodes.silence import silent_nodes
from lattice.core.model.nodes.observations import Observations
from lattice.observe.conformance import ConformanceFigures
from lattice.observe.metrics import Metrics
from lattice.testing import HandClock
from tests.unit.core.scheduler.world import World


def large_page() -> tuple[bytes, float]:
    """The page when every node is silent and most operations were asked for, and the time that it took."""
    world, metrics, clock = World(), Metrics("s1"), HandClock()
    world.add_nodes([f"x{number:05d}" for number in range(10_000)])
    metrics.show_state(lambda: world.state)
    metrics.show_conformance(ConformanceFigures(lambda: world.state, dict, dict))
    metrics.show_silence(
        lambda: silent_nodes(world.state, Observations(), clock, timeout_s=30.0, began_s=clock.s - 60.0)
    )
    for operation in OPERATIONS[:40]:
        metrics.request_done(operation.name, "GRPC", 200, 0.001)
    for operation in OPERATIONS[:100]:  # more than a cluster sees
        for status in (200, 400, 404):
            metrics.request_done(operation.name, operation.method, status, 0.001)
    started = time.perf_counter()
    page = metrics.render()
    return page, time.perf_counter() - started


def test_ten_thousand_nodes_fit_on_a_page() -> None:
    page, seconds = large_page()
    assert b"lattice_agents_silent 10000.0" in page
    assert len(page) <= 300_000
    assert seconds < 2.0
