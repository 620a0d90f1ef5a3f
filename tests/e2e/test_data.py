"""Data that is there when work starts: from directories and from S3, through changes, failures and kills."""

import hashlib
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import obstore
import pytest

from lattice.integrations.s3.store import BucketStore
from lattice.testing import LocalCluster, eventually
from tests.s3_server import S3Server, running_s3

pytestmark = [pytest.mark.e2e, pytest.mark.root]

BANDWIDTH = 100_000_000
SUMS = "cd /data/set && find . -type f | LC_ALL=C sort | xargs sha256sum"


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        server.make_bucket("training")
        yield server


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warm")


@pytest.fixture(scope="module")
def cluster(s3: S3Server, warm: Path) -> Iterator[LocalCluster]:
    bucket = {"url": "s3://training", "endpoint": s3.endpoint, "key_id": "test", "key_secret": "env://HOME"}
    settings = {
        "data.tiers.warm": json.dumps([{"url": f"file://{warm}"}, bucket]),
        "data.tiers.hot.bandwidth": str(BANDWIDTH),
        "data.tiers.hot.size": "100000000",
        "data.mover_timeout": "2s",
    }
    with LocalCluster(nodes=2, settings=settings) as cluster:
        cluster.put("/settings/staging.retry_s", {"value": "0.2"})
        cluster.put("/settings/staging.bandwidth", {"value": "1"})
        yield cluster


@pytest.fixture
def slow(cluster: LocalCluster) -> Iterator[None]:
    """Two million bytes per second."""
    cluster.put("/settings/staging.bandwidth", {"value": "0.02"})
    yield
    cluster.put("/settings/staging.bandwidth", {"value": "1"})


def fill(folder: Path, files: int, size: int) -> Path:
    for place in range(files):
        path = folder / f"part{place % 3}" / f"{place:03d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    return folder


def sums(folder: Path) -> str:
    """As `SUMS` prints them inside the allocation."""
    names = sorted(f"./{path.relative_to(folder)}" for path in folder.rglob("*") if path.is_file())
    return "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names)


def hot(source: Path | str) -> dict[str, Any]:
    text = f"file://{source}" if isinstance(source, Path) else source
    return {"mounts": [{"source": text, "target": "/data/set", "tier_hint": "hot"}]}


def copy_of(cluster: LocalCluster, source: Path | str) -> dict[str, Any]:
    text = f"file://{source}" if isinstance(source, Path) else source
    return next(each for each in cluster.get("/data")["items"] if each["source"] == text)


def data_of(cluster: LocalCluster, number: str) -> dict[str, Any]:
    return dict(cluster.get(f"/allocations/{number}?details=true")["details"]["data"][0])


def test_many_share_one_copy_and_read_the_same_bytes(cluster: LocalCluster, warm: Path) -> None:
    source = fill(warm / "shared", 12, 50_000)
    busy = [cluster.submit("sleep 1")["id"] for _ in range(2)]  # the cluster is full
    waiting = [cluster.submit(SUMS, data=hot(source))["id"] for _ in range(50)]
    for each in (*waiting, *busy):
        assert cluster.wait_end(each)["state"] == "Completed"
    assert {cluster.logs(each) for each in waiting} == {sums(source)}
    copy = copy_of(cluster, source)
    assert (copy["generation"], copy["state"], copy["size"]) == (1, "ready", 600_000)
    written = cluster.run("touch /data/set/mine; ls -ld /data/set", data=hot(source))
    assert "Read-only file system" in cluster.logs(written["id"], "stderr")
    hot_tier = cluster.directory / "tiers" / "hot"
    assert hot_tier.stat().st_mode & 0o777 == 0o700


def test_a_changed_source_is_copied_again_and_running_work_keeps_what_it_has(
    cluster: LocalCluster, warm: Path, tmp_path: Path
) -> None:
    source = fill(warm / "changing", 3, 10_000)
    before = sums(source)
    tmp_path.chmod(0o777)
    first = cluster.submit(
        f"touch {tmp_path}/runs; while [ ! -e {tmp_path}/go ]; do sleep 0.05; done; {SUMS}", data=hot(source)
    )
    eventually(lambda: (tmp_path / "runs").exists() or None, "the first to run")
    (source / "part0" / "000.bin").write_bytes(b"other bytes")
    second = cluster.run(SUMS, data=hot(source))
    (tmp_path / "go").touch()
    assert cluster.wait_end(first["id"])["state"] == "Completed"
    assert cluster.logs(first["id"]) == before
    assert cluster.logs(second["id"]) == sums(source)
    assert copy_of(cluster, source)["generation"] == 2
    folders = cluster.directory / "tiers" / "hot"
    eventually(
        lambda: sum(path.name.endswith((".1", ".2")) and path.is_dir() for path in folders.iterdir()) > 0 or None,
        "the tier",
    )


def test_a_killed_mover_and_a_killed_server_lose_nothing(cluster: LocalCluster, warm: Path, slow: None) -> None:
    source = fill(warm / "large", 16, 500_000)
    number = cluster.submit(SUMS, data=hot(source))["id"]
    seen = eventually(lambda: _moving(cluster, number), "the copy to move", within_s=30)
    assert (seen["bytes_total"], seen["state"]) == (8_000_000, "moving")
    assert "staging file://" in cluster.allocation(number)["reason"]
    assert cluster.allocation(number)["state"] == "Staging"
    cluster.kill("mover")
    cluster.kill("server")
    cluster.wait_serving()
    assert cluster.allocation(number)["state"] == "Staging"
    assert cluster.wait_end(number, within_s=90)["state"] == "Completed"
    assert cluster.logs(number) == sums(source)
    assert copy_of(cluster, source)["generation"] == 1
    assert not list((cluster.directory / "tiers" / "hot" / "partial").iterdir())


def _moving(cluster: LocalCluster, number: str) -> dict[str, Any] | None:
    said = data_of(cluster, number)
    return said if said["bytes_done"] > 0 and said["bytes_per_s"] > 0 else None


def test_a_source_that_changes_while_it_is_copied_arrives_whole(cluster: LocalCluster, warm: Path, slow: None) -> None:
    source = fill(warm / "moving", 8, 250_000)
    number = cluster.submit(SUMS, data=hot(source))["id"]
    eventually(lambda: _moving(cluster, number), "the copy to move")
    (source / "part0" / "000.bin").write_bytes(b"cut short")
    (source / "part1" / "late.bin").write_bytes(b"came late")
    assert cluster.wait_end(number)["state"] == "Completed"
    assert cluster.logs(number) == sums(source)


def test_a_source_that_is_gone_is_tried_three_times_and_named(cluster: LocalCluster, warm: Path) -> None:
    source = fill(warm / "leaving", 1, 100)
    with cluster.stopped("mover"):
        number = cluster.submit("true", data=hot(source))["id"]
        shutil.rmtree(source)
    ended = cluster.wait_end(number)
    assert (ended["state"], ended["cause"]) == ("Failed", "launch")
    assert "cannot mount /data/set" in ended["message"]
    copy = copy_of(cluster, source)
    assert (copy["state"], copy["tries"]) == ("failed", 3)
    assert copy["reason"] == f"{source} does not exist"


def test_a_full_tier_makes_work_wait_and_says_for_whom(cluster: LocalCluster, warm: Path, tmp_path: Path) -> None:
    holding, wanted = fill(warm / "holding", 6, 10_000_000), fill(warm / "wanted", 4, 10_000_000)
    first = cluster.submit("sleep 60", data=hot(holding))["id"]
    cluster.wait_state(first, "Running")
    second = cluster.submit("ls /data/set/part0 | wc -l", data=hot(wanted))["id"]
    reason = eventually(lambda: _full(cluster, second), "the tier to be full")
    assert f"in use by {first}" in reason
    cluster.delete(f"/allocations/{first}")
    assert cluster.wait_end(second)["state"] == "Completed"
    sources = {each["source"]: each["state"] for each in cluster.get("/data")["items"]}
    assert sources.get(f"file://{holding}", "leaving") == "leaving"


def _full(cluster: LocalCluster, number: str) -> str | None:
    reason = str(cluster.allocation(number)["reason"])
    return reason if "the hot tier is full" in reason else None


def test_a_training_set_comes_from_s3_and_a_changed_object_is_taken(cluster: LocalCluster, s3: S3Server) -> None:
    store = BucketStore(s3.bucket("training"))._store
    objects = {f"imagenet/{place % 2}/{place}.bin": os.urandom(100_000) for place in range(5)}
    objects["imagenet/large.bin"] = os.urandom(20_000_000)
    for name, data in objects.items():
        obstore.put(store, name, data)
    source = "s3://training/imagenet"
    expected = "".join(
        f"{hashlib.sha256(objects[name]).hexdigest()}  ./{name.removeprefix('imagenet/')}\n" for name in sorted(objects)
    )
    mount = {"mounts": [{"source": source, "target": "/data/set"}]}
    first = cluster.run(SUMS, data=mount)
    assert (first["state"], cluster.logs(first["id"])) == ("Completed", expected)
    obstore.put(store, "imagenet/large.bin", b"smaller")
    second = cluster.run("wc -c < /data/set/large.bin", data=mount)
    assert cluster.logs(second["id"]).strip() == "7"
    assert copy_of(cluster, source)["generation"] == 2
    one = cluster.run("wc -c < /data/one", data={"mounts": [{"source": f"{source}/0/0.bin", "target": "/data/one"}]})
    assert cluster.logs(one["id"]).strip() == "100000"


def test_another_mover_takes_over(cluster: LocalCluster, warm: Path) -> None:
    source = fill(warm / "taken", 2, 1_000)
    mover = cluster.kill("mover", number=signal.SIGSTOP)
    try:
        number = cluster.submit(SUMS, data=hot(source))["id"]
        eventually(lambda: copy_of(cluster, source), "the copy")
        reason = cluster.allocation(number)["reason"]
        assert "waits to be staged" in reason or "is being read" in reason
    finally:
        cluster.kill("mover")  # the one that hangs; its keeper starts another
    cluster.wait_replaced(mover)
    assert cluster.wait_end(number)["state"] == "Completed"
    assert cluster.logs(number) == sums(source)
