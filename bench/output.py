"""Output of work: how soon a line is seen, whether the store gets every byte of a fast writer, and how soon its end is found by time."""

import time

from bench.cluster import client_of, percentile, start_cluster
from lattice_sdk import LogsPart, Submission

LINES = 100
MEGABYTES = 2_000
_TICKS = f"import time\nfor _ in range({LINES}):\n print(time.time(), flush=True); time.sleep(0.05)"
# Lines of 100 bytes, as fast as they are taken.
_FLOOD = (
    "import sys\n"
    f"for base in range(0, {MEGABYTES}):\n"
    " sys.stdout.write(''.join('%099d\\n' % (base * 10000 + line) for line in range(10000)))"
)


def follow_latency() -> dict[str, float]:
    """From the moment at which a program prints a line to the moment at which the client library hands it on."""
    with start_cluster(nodes=1) as cluster, client_of(cluster) as client:
        submitted = client.submit(Submission(entrypoint=["python3", "-c", _TICKS]))
        delays_ms: list[float] = []
        for chunk in client.stream_logs(submitted.id):
            now = time.time()
            delays_ms += [(now - float(line)) * 1000 for line in chunk.data.split()]
    return {"follow_p99_ms": percentile(delays_ms[5:], 0.99)}


def stored_volume() -> dict[str, float]:
    """Bytes that the store lacks, and the first line of the last moment, in a new request."""
    with start_cluster(nodes=1) as cluster, client_of(cluster) as client:
        submitted = client.submit(Submission(entrypoint=["python3", "-c", _FLOOD]))
        client.wait(submitted.id)
        missing: list[int] = []
        size = sum(len(piece) for piece in client.iter_logs(submitted.id, dropped=missing.append))
        last = client.logs(submitted.id, tail=1, part=LogsPart(timestamps=True))[:24].decode()
        begun = time.monotonic()
        next(iter(client.iter_logs(submitted.id, part=LogsPart(since=last))))
        return {"stored_missing_mb": MEGABYTES - size / 1e6, "since_first_s": time.monotonic() - begun}
