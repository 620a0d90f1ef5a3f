"""Random starts of work with data and results while agents, shims, movers and the server are killed.

No mount, scratch directory or socket is left, and no byte of a result is lost.
"""

import contextlib
import json
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from lattice.integrations.s3.store import BucketStore
from lattice.testing import LocalCluster, eventually
from tests.e2e.test_node_soak import ENDED, NODES, left_behind
from tests.s3_server import S3Server, running_s3

pytestmark = [pytest.mark.e2e, pytest.mark.root, pytest.mark.soak]

STARTS = 200
CONCURRENCY = 6
RESULT = 300_000
WORK = (
    "cat /data/set/* > /dev/null && mkdir $LATTICE_SCRATCH/out && "
    f"head -c {RESULT} /dev/zero | tr '\\0' x > $LATTICE_SCRATCH/out/large && "
    "for i in $(seq 50); do echo $i > $LATTICE_SCRATCH/out/$i; done"
)


@pytest.fixture
def place() -> Iterator[Path]:
    """Not below /tmp: runs have one of their own."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    (folder / "cluster").mkdir(0o700)
    for name in range(3):
        (folder / "warm" / f"set{name}").mkdir(parents=True)
        (folder / "warm" / f"set{name}" / "file").write_bytes(os.urandom(200_000))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def submitted(cluster: LocalCluster, place: Path, number: int) -> str:
    mount = {"source": f"{place}/warm/set{number % 3}", "target": "/data/set", "tier_hint": "hot"}
    # Every third also to a bucket.
    out = [{"source": "out", "target": f"{place}/warm/out/{{id}}"}]
    out += [{"source": "out", "target": "s3://results/{id}"}] if number % 3 == 0 else []
    # Every fifth on both nodes, of which one is given back before the results are there.
    resources = {"nodes": 2 if number % 5 == 0 else 1, "cpus": 1, "memory": "64M"}
    data = {"mounts": [mount], "stage_out": out}
    made = cluster.submit(WORK, resources=resources, lifecycle={"walltime": "60s"}, data=data)
    return str(made["id"])


@pytest.fixture
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        server.make_bucket("results")
        yield server


def in_bucket(s3: S3Server, prefix: str) -> dict[str, bytes]:
    store = BucketStore(s3.bucket("results"))._store
    names = [each["path"] for chunk in obstore.list(store, prefix) for each in chunk]
    return {name.removeprefix(f"{prefix}/"): bytes(obstore.get(store, name).bytes()) for name in names}


def test_nothing_is_left_and_no_result_is_lost(place: Path, s3: S3Server) -> None:
    source = random.Random(os.environ.get("LATTICE_SOAK_SEED", "11"))
    until = time.monotonic() + float(os.environ.get("LATTICE_SOAK_S", "200"))
    key = {"endpoint": s3.endpoint, "key_id": "test", "key_secret": "env://HOME", "writable": True}
    tiers = json.dumps([{"url": f"file://{place}/warm"}, {"url": "s3://results", **key}])
    settings = {"data.tiers.warm": tiers, "data.mover_timeout": "2s"}
    arguments = ["--scratch-dir", str(place / "scratch")]
    with LocalCluster(nodes=len(NODES), settings=settings, arguments=arguments, directory=place / "cluster") as cluster:
        cluster.put("/vclusters/default", {"node_sharing": "shared"})
        ids, open_ids, deeds = list[str](), set[str](), Counter[str]()
        while len(ids) < STARTS and time.monotonic() < until:
            with contextlib.suppress(AssertionError, LookupError, OSError):
                while len(open_ids) < CONCURRENCY:
                    made = submitted(cluster, place, len(ids))
                    ids.append(made)
                    open_ids.add(made)
                deed, node = source.random(), source.choice(NODES)
                if deed < 0.15:
                    deeds["agent"] += 1
                    cluster.kill("agent", node)
                elif deed < 0.25:
                    deeds["shim"] += 1
                    cluster.kill("shim", node)
                elif deed < 0.35:
                    deeds["mover"] += 1
                    cluster.kill("mover")
                elif deed < 0.4:
                    deeds["server"] += 1
                    cluster.kill("server")
                    cluster.wait_serving()
                elif deed < 0.45:
                    deeds["cancel"] += 1
                    cluster.delete(f"/allocations/{source.choice(sorted(open_ids))}")
                time.sleep(source.uniform(0.05, 0.5))
                open_ids = {each for each in open_ids if cluster.allocation(each)["state"] not in ENDED}
        ended = {each: cluster.wait_end(each, within_s=120) for each in sorted(ids)}
        completed = [each for each, record in ended.items() if record["state"] == "Completed"]
        print(f"{len(ids)} starts, {len(completed)} completed, deeds: {dict(deeds)}")  # noqa: T201 - shown with -s
        assert len(completed) > len(ids) // 2
        for each in completed:
            folder = place / "warm" / "out" / each
            assert (folder / "large").read_bytes() == b"x" * RESULT, ended[each]
            assert [int((folder / str(number)).read_text()) for number in range(1, 51)] == list(range(1, 51))
            if ids.index(each) % 3 == 0:
                found = in_bucket(s3, each)
                assert found.pop("large") == b"x" * RESULT, ended[each]
                assert found == {str(number): f"{number}\n".encode() for number in range(1, 51)}
        assert not list((place / "warm" / "out").rglob("*.lattice-part"))
        for node in NODES:
            cluster.wait_node(node, "Ready", within_s=120)
        left = eventually(lambda: _nothing(cluster, place), "nothing to be left", within_s=90)
        assert left == [""]


def _nothing(cluster: LocalCluster, place: Path) -> list[str] | None:
    left = [each for each in left_behind(cluster, place / "scratch") if not each.endswith("/kept")]
    return None if left else [""]
