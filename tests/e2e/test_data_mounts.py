"""Data that nodes mount themselves, data in archives, and data on every node of an allocation."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import obstore
import pytest

from lattice.integrations.s3.signing import signed_url
from lattice.integrations.s3.store import BucketStore
from lattice.testing import LocalCluster, eventually
from tests.conftest import require_program
from tests.s3_server import S3Server, running_s3

pytestmark = [pytest.mark.e2e, pytest.mark.root]


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """Not in /tmp, which the runs do not see."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o755)
    for name in ("warm", "cold/set", "exports/shared", "cluster"):
        (folder / name).mkdir(parents=True)
    recall = folder / "recall"
    recall.write_text(f'#!/bin/sh\n[ -e {folder}/restored ] && exit 0\necho "tape 7 is wound"\nexit 75\n')
    recall.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        for name in ("training", "archive"):
            server.make_bucket(name)
        yield server


@pytest.fixture(scope="module")
def cluster(place: Path, s3: S3Server) -> Iterator[LocalCluster]:
    bucket = {"url": "s3://training", "endpoint": s3.endpoint, "key_id": "test", "key_secret": "env://HOME"}
    cold = {"url": f"file://{place}/cold", "recall": [str(place / "recall")]}
    exports = [
        {"name": "shared", "directory": f"{place}/exports/shared"},
        {"name": "far", "address": "192.0.2.1:/far"},
        {"name": "theirs", "directory": "/etc", "tenants": ["others"]},
    ]
    settings = {
        "data.tiers.warm": json.dumps([{"url": f"file://{place}/warm"}, bucket]),
        "data.tiers.cold": json.dumps([cold, {**bucket, "url": "s3://archive"}]),
        "data.exports": json.dumps(exports),
        "data.mover_timeout": "2s",
    }
    with LocalCluster(nodes=2, settings=settings, directory=place / "cluster") as cluster:
        cluster.put("/settings/staging.retry_s", {"value": "0.2"})
        yield cluster


def mount(source: str, **more: str) -> dict[str, Any]:
    return {"mounts": [{"source": source, "target": "/data/set", **more}]}


def refused(cluster: LocalCluster, data: dict[str, Any]) -> str:
    status, answer = cluster.request("POST", "/allocations", {"entrypoint": ["true"], "data": data})
    assert status == 400, answer
    return json.dumps(answer)


def is_clean(place: Path) -> bool | None:
    """Nothing that a node mounted for a run is left."""
    mounts = Path("/proc/self/mounts").read_text()
    left = list(place.glob("cluster/agents/*/mounts/*"))
    return (f"{place}/cluster" not in mounts and not left) or None


def test_an_export_that_a_node_has_is_bound(cluster: LocalCluster, place: Path) -> None:
    (place / "exports" / "shared" / "set").mkdir(exist_ok=True)
    (place / "exports" / "shared" / "set" / "in").write_text("42\n")
    done = cluster.run("cat /data/set/in; echo 43 > /data/set/out", data=mount("nfs://shared/set", access="read-write"))
    assert (done["state"], cluster.logs(done["id"])) == ("Completed", "42\n")
    assert (place / "exports" / "shared" / "set" / "out").read_text() == "43\n"
    read_only = cluster.run("touch /data/set/x", data=mount("nfs://shared/set"))
    assert "Read-only file system" in cluster.logs(read_only["id"], "stderr")


def test_a_node_without_nfs_says_so(cluster: LocalCluster) -> None:
    if "nfs" in Path("/proc/filesystems").read_text():
        pytest.skip("this kernel has NFS")
    made = cluster.submit("true", data=mount("nfs://far/set"), lifecycle={"max_requeue": 0})
    ended = cluster.wait_end(made["id"])
    assert ended["state"] == "Failed"
    assert "the kernel of this node has no NFS, and nfs://far is not mounted on it" in ended["message"]


def test_what_cannot_be_mounted_is_refused_by_name(cluster: LocalCluster) -> None:
    for data, said in (
        (mount("nfs://nowhere/x"), "is no export that tenant default may use"),
        (mount("nfs://theirs/x"), "nfs://theirs is no export that tenant default may use"),
        (mount("nfs://shared/x", tier_hint="hot"), "an export is mounted, not copied"),
        (mount("s3://training/x", access="rw", tier_hint="direct"), "a bucket is mounted read-only"),
        (mount("s3://archive/x", tier_hint="direct"), "has to be restored and copied first"),
    ):
        answer = refused(cluster, data)
        assert said in answer
        assert "known: nfs://theirs" not in answer
        assert "nfs://far, nfs://theirs" not in answer


def test_a_bucket_is_mounted_itself_and_leaves_nothing(cluster: LocalCluster, place: Path, s3: S3Server) -> None:
    require_program("rclone")
    store = BucketStore(s3.bucket("training"))._store
    data = os.urandom(3_000_000)
    obstore.put(store, "set/deep/large", data)
    source = mount("s3://training/set", tier_hint="direct")
    script = f"while [ ! -e {place}/go ]; do sleep 0.1; done; wc -c < /data/set/deep/large; touch /data/set/x"
    made = cluster.submit(f"{script}; cmp /data/set/deep/large {place}/same && echo same", data=source)
    (place / "same").write_bytes(data)
    cluster.wait_state(made["id"], "Running")
    cluster.kill("agent", cluster.allocation(made["id"])["nodes"][0])
    (place / "go").touch()
    ended = cluster.wait_end(made["id"], within_s=60)
    assert (ended["state"], cluster.logs(made["id"])) == ("Completed", "3000000\nsame\n")
    assert "Read-only file system" in cluster.logs(made["id"], "stderr")
    eventually(lambda: is_clean(place), "the mount to be gone")
    empty = cluster.run("true", data=mount("s3://training/nothing", tier_hint="direct"))
    assert "s3://training/nothing has no objects" in empty["message"]
    eventually(lambda: is_clean(place), "the mount to be gone")


def test_every_node_of_an_allocation_has_its_data(cluster: LocalCluster, place: Path) -> None:
    (place / "warm" / "set").mkdir()
    (place / "warm" / "set" / "file").write_text("the same bytes\n")
    for hint in ("hot", "direct"):
        source = mount(f"{place}/warm/set", tier_hint=hint)
        script = "lattice launch -n 2 sh -c 'cat /data/set/file; echo $LATTICE_NODE_ID >&2'"
        done = cluster.run(script, data=source, resources={"nodes": 2})
        assert (done["state"], cluster.logs(done["id"])) == ("Completed", "the same bytes\n" * 2)
        assert sorted(cluster.logs(done["id"], "stderr").split()) == sorted(done["nodes"])


def test_every_node_of_an_allocation_mounts_its_bucket_and_gives_it_up(
    cluster: LocalCluster, place: Path, s3: S3Server
) -> None:
    require_program("rclone")
    obstore.put(BucketStore(s3.bucket("training"))._store, "every/file", b"from the bucket\n")
    shared = place / "exports" / "shared" / "every"
    shared.mkdir()
    (shared / "file").write_text("from the export\n")
    data = {
        "mounts": [
            {"source": "s3://training/every", "target": "/data/bucket", "tier_hint": "direct"},
            {"source": "nfs://shared/every", "target": "/data/export", "access": "rw"},
        ]
    }
    step = "cat /data/bucket/file /data/export/file; touch /data/export/$LATTICE_NODE_ID"
    done = cluster.run(f"lattice launch -n 2 sh -c '{step}'", data=data, resources={"nodes": 2})
    assert (done["state"], cluster.logs(done["id"])) == ("Completed", "from the bucket\nfrom the export\n" * 2)
    assert sorted(os.listdir(shared)) == sorted(["file", *done["nodes"]])
    eventually(lambda: is_clean(place), "the mounts to be gone")


def test_data_in_an_archive_is_restored_then_copied(cluster: LocalCluster, place: Path, s3: S3Server) -> None:
    (place / "cold" / "set" / "file").write_text("from tape\n")
    made = cluster.submit("cat /data/set/file", data=mount(f"file://{place}/cold/set", tier_hint="hot"))
    eventually(lambda: "tape 7 is wound" in cluster.allocation(made["id"])["reason"] or None, "the archive to be asked")
    assert cluster.allocation(made["id"])["state"] == "Staging"
    (place / "restored").touch()
    assert cluster.wait_end(made["id"])["state"] == "Completed"
    assert cluster.logs(made["id"]) == "from tape\n"
    address = urlsplit(signed_url(s3.bucket("archive"), "PUT", "set/object"))
    connection = HTTPConnection(address.hostname or "", address.port)
    headers = {"x-amz-storage-class": "DEEP_ARCHIVE", "content-type": "application/octet-stream"}
    connection.request("PUT", f"{address.path}?{address.query}", body=b"from the vault\n", headers=headers)
    with connection.getresponse() as answer:
        assert answer.status == 200
    connection.close()
    done = cluster.run("cat /data/set/object", data=mount("s3://archive/set"))
    assert (done["state"], cluster.logs(done["id"])) == ("Completed", "from the vault\n")
