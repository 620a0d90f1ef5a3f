"""The cycle's promised figures: one plan over machines and queues of several sizes."""

from bench.cycle import measure

_KEYS = {
    "1000 pending x 10000 nodes, 500 running, 50 reservations": "cycle_10k_ms",
    "10000 pending x 50000 nodes, 50 reservations": "cycle_50k_ms",
    "one submission changed, 10000 nodes": "cycle_changed_ms",
    "100 pending x 1000 nodes, all reserved": "queue_1000x100_ms",
    "1000 pending x 1000 nodes, all reserved": "queue_1000x1000_ms",
    "100 pending x 10000 nodes, all reserved": "queue_10000x100_ms",
}


def cycle_figures() -> dict[str, float]:
    """Milliseconds of one cycle, snapshot and plan; those on recorded queues only where the queues are."""
    measured = measure(repeats=1)
    return {key: measured[name] for name, key in _KEYS.items() if name in measured}
