"""Data: how fast a mover copies, against `cp -r` and boto3's transfer, and what hot data adds to a start."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.cluster import client_of, cpu_seconds, percentile, start_cluster
from lattice.integrations.directory.source import DirectorySource
from lattice.integrations.s3.source import BucketSource
from lattice.mover.tier import HotTier
from lattice.ports.data.sources import Source
from lattice.testing import LocalCluster
from lattice_sdk import Submission
from lattice_sdk.data.models import DataMount, DataRequest

TRIES = 3
STARTS = 40
OBJECT = 1 << 30
WAITING, MEASURED_S = 10_000, 30
SOURCES, FILES, SOURCE_BYTES, BANDWIDTH = 200, 10, 5_000_000, 5_000_000
# Another process, as the mover is one: a server in the same interpreter would share its lock.
_BOTO = """
import sys, time, boto3
client = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="x", aws_secret_access_key="y")
if len(sys.argv) > 3:
    client.create_bucket(Bucket="bench")
    client.upload_file(sys.argv[2], "bench", "large")
else:
    began = time.monotonic()
    client.download_file("bench", "large", sys.argv[2])
    print(time.monotonic() - began)
"""


def staging() -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        place = Path(folder)
        large, small = _against_cp(place, 64, 16 << 20), _against_cp(place, 10_000, 4096)
        from_s3 = _against_boto(place)
    return {"staging_large": large, "staging_small": small, "staging_s3": from_s3, "hot_start_added_ms": _added_ms()}


def staging_server() -> dict[str, float]:
    """The server while 10,000 allocations wait for data, and a mover copies all the time."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        sources = [Path(folder, f"set{number:03d}") for number in range(SOURCES)]
        for source in sources:
            _fill(source, FILES, SOURCE_BYTES // FILES)
        settings = {
            "data.tiers.warm": f'[{{"url": "file://{folder}"}}]',
            "data.tiers.hot.bandwidth": str(BANDWIDTH),
            "data.tiers.hot.size": str(4 * SOURCES * SOURCE_BYTES),
        }
        with start_cluster(nodes=0, **settings) as cluster, client_of(cluster) as client:
            cluster.put("/settings/staging.bandwidth", {"value": "1"})
            for number in range(WAITING):
                mount = DataMount(source=f"file://{sources[number % SOURCES]}", target="/data/set", tier_hint="hot")
                client.submit(Submission(entrypoint=["true"], data=DataRequest(mounts=[mount])))
            (server,) = [process.pid for process in cluster.file.of_role("server")]
            before, begun, copied = cpu_seconds(server), time.monotonic(), _copied(cluster)
            time.sleep(MEASURED_S)
            used = 100 * (cpu_seconds(server) - before) / (time.monotonic() - begun)
            if not copied < _copied(cluster) < SOURCES:
                raise AssertionError("the mover was not busy all the time")
            return {"staging_server_cpu": used}


def _copied(cluster: LocalCluster) -> int:
    return sum(each["state"] == "ready" for each in cluster.get("/data")["items"])


def _fill(folder: Path, files: int, size: int) -> None:
    data = os.urandom(size)
    for place in range(files):
        path = folder / f"part{place % 20}" / str(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _against_cp(place: Path, files: int, size: int) -> float:
    """Bytes per second of a mover, listing and sync included, against those of `cp -r`."""
    source = place / "source"
    _fill(source, files, size)
    ratios = []
    for number in range(1, TRIES + 1):
        os.sync()
        began = time.monotonic()
        subprocess.run(["cp", "-r", source, place / "copied"], check=True)
        by_cp = time.monotonic() - began
        shutil.rmtree(place / "copied")
        os.sync()
        ratios.append(by_cp / _moved_s(place, DirectorySource(str(place), str(source)), number))
    shutil.rmtree(source)
    return median(ratios)


def _moved_s(place: Path, source: Source, number: int) -> float:
    tier, name = HotTier(place / "hot"), f"{'0' * 32}.{number}"
    tier.prepare()
    began = time.monotonic()
    try:
        tier.fill(name, source, source.listing(), lambda count: None)
    finally:
        source.close()
    taken = time.monotonic() - began
    tier.remove(name)
    return taken


def _against_boto(place: Path) -> float:
    """Seconds of a mover for 1 GiB from S3 against those of boto3's transfer."""
    from tests.s3_server import running_s3

    with running_s3() as server:
        file = place / "object"
        with open(file, "wb") as out:
            for _ in range(OBJECT >> 24):
                out.write(os.urandom(1 << 24))
        words = [sys.executable, "-c", _BOTO, server.endpoint, str(file)]
        subprocess.run([*words, "upload"], check=True)
        file.unlink()
        ratios = []
        for number in range(1, TRIES + 1):
            by_boto = float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
            file.unlink()
            ratios.append(_moved_s(place, BucketSource(server.bucket("bench"), "large"), 100 + number) / by_boto)
    return median(ratios)


def _added_ms() -> float:
    """What data that is on the hot tier adds from submission to start, p50."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder, "set").mkdir()
        Path(folder, "set", "file").write_bytes(b"x" * 1000)
        tier = f'[{{"url": "file://{folder}"}}]'
        with start_cluster(nodes=2, **{"data.tiers.warm": tier}) as cluster:
            data = {"mounts": [{"source": f"file://{folder}/set", "target": "/data/set", "tier_hint": "hot"}]}
            cluster.run("true", data=data)
            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(STARTS):
                times[0].append(_start_ms(cluster))
                times[1].append(_start_ms(cluster, data=data))
            return percentile(times[1], 0.5) - percentile(times[0], 0.5)


def _start_ms(cluster: LocalCluster, **fields: object) -> float:
    began = time.time()
    made = cluster.submit(["/bin/sh", "-c", "date +%s.%N"], cwd="/", **fields)
    cluster.wait_end(made["id"])
    return (float(cluster.logs(made["id"])) - began) * 1000
