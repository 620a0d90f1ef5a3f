"""Output in a bucket of an S3 service, stored by nodes that hold no key: while the store is away, agents and servers die, no byte is missing."""

import asyncio
import hashlib
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lattice.integrations.s3.bucket import Bucket
from lattice.integrations.s3.store import BucketStore
from lattice.testing import LocalCluster, eventually
from lattice.wire.files.chunks import place_of, unpack
from tests.conftest import require_program
from tests.e2e.quorum_load import kill_both, wait_healthy
from tests.s3_server import S3Server, running_s3

pytestmark = pytest.mark.e2e


class Relay:
    """A way to the store that can be cut."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._is_cut = False
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._is_cut = True
        for each in list(self._open):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._is_cut:
                    client.close()
                    continue
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(("127.0.0.1", self._target)) as store:
            back = threading.Thread(target=self._carry, args=(store, client), daemon=True)
            back.start()
            self._carry(client, store)
            back.join()

    def _carry(self, here: socket.socket, there: socket.socket) -> None:
        self._open.add(here)
        with suppress(OSError):
            while piece := here.recv(1 << 16):
                there.sendall(piece)
        self._open.discard(here)
        with suppress(OSError):
            there.shutdown(socket.SHUT_WR)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


@pytest.fixture(scope="module")
def relay(s3: S3Server) -> Iterator[Relay]:
    made = Relay(s3.port)
    yield made
    made.close()


@pytest.fixture(scope="module")
def bucket(s3: S3Server) -> Bucket:
    return s3.make_bucket("output")


@pytest.fixture(scope="module")
def cluster(bucket: Bucket, relay: Relay, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    secret = tmp_path_factory.mktemp("key") / "secret"
    secret.write_text("test")
    secret.chmod(0o600)
    with LocalCluster(nodes=1, settings=in_bucket(bucket, relay, secret)) as made:
        yield made


def in_bucket(bucket: Bucket, relay: Relay, secret: Path) -> dict[str, str]:
    return {
        "object_store.directory": "''",
        "object_store.bucket": bucket.name,
        "object_store.endpoint": f"http://127.0.0.1:{relay.port}",
        "object_store.key_id": "test",
        "object_store.key_secret": f"file://{secret}",
        "object_store.timeout": "3s",
    }


def stored(bucket: Bucket, allocation: str, stream: str) -> bytes:
    """What the chunks say, by their places; a hole or a byte too many shows."""

    async def read() -> bytes:
        store = BucketStore(bucket)
        found = b""
        async for name in store.names(f"default/-/{allocation}/logs/run-1/{stream}/"):
            place = place_of(name)
            assert place is not None, name
            data, _ = unpack(place, await store.get(name))
            assert place.offset <= len(found), f"a hole before {name}"
            found = found[: place.offset] + data
        return found

    return asyncio.run(read())


def test_no_byte_is_missing_though_the_store_the_agent_and_the_server_were_away(
    cluster: LocalCluster, bucket: Bucket, relay: Relay, tmp_path: Path
) -> None:
    lines, gate = 60_000, tmp_path / "go"
    # It does not end while the store is away: that is the next test.
    script = (
        "import os, sys, time\n"
        f"for n in range({lines}):\n    print('line', n, 'x' * 90)\n    print('err', n, file=sys.stderr)\n"
        f"    if n % {lines // 20} == 0:\n        time.sleep(0.5)\n"
        f"    while n == {lines - 5_000} and not os.path.exists({str(gate)!r}):\n        time.sleep(0.05)\n"
    )
    submitted = cluster.submit(["python3", "-u", "-c", script])
    name = str(submitted["id"])
    cluster.wait_state(name, "Running")
    eventually(lambda: stored(bucket, name, "stdout"), "a first chunk", within_s=40)
    relay.cut()
    cluster.wait_replaced(cluster.kill("agent"))
    cluster.wait_replaced(cluster.kill("server"))
    eventually(lambda: "line 40000 " in cluster.logs(name)[-9_000_000:], "the rest of it, from the node", within_s=60)
    relay.mend()
    gate.touch()
    ended = cluster.wait_end(name, within_s=60)
    assert (ended["state"], ended["message"]) == ("Completed", "")
    out = b"".join(b"line %d %s\n" % (number, b"x" * 90) for number in range(lines))
    err = b"".join(b"err %d\n" % number for number in range(lines))
    for stream, wanted in (("stdout", out), ("stderr", err)):
        found = eventually(partial(_whole, bucket, name, stream, len(wanted)), f"all of {stream}")
        assert hashlib.sha256(found).hexdigest() == hashlib.sha256(wanted).hexdigest()
    assert cluster.logs(name).encode() == out
    assert not list((cluster.directory / "objects").rglob("*.log.zst")), "a node wrote to the directory, too"


def _whole(bucket: Bucket, name: str, stream: str, size: int) -> bytes:
    found = stored(bucket, name, stream)
    return found if len(found) >= size else b""


def test_work_that_ends_while_the_store_is_away_is_stored_later(
    cluster: LocalCluster, bucket: Bucket, relay: Relay
) -> None:
    relay.cut()
    ended = cluster.run("echo kept; echo also >&2")
    assert (ended["state"], "its output was not stored" in ended["message"]) == ("Completed", True)
    relay.mend()
    name = str(ended["id"])
    assert eventually(lambda: _whole(bucket, name, "stdout", 5), "the output", within_s=30) == b"kept\n"
    assert eventually(lambda: _whole(bucket, name, "stderr", 5), "the errors", within_s=30) == b"also\n"
    assert cluster.logs(name) == "kept\n"


def test_the_output_of_a_step_is_in_the_store_with_its_ranks_and_outlives_its_node(
    cluster: LocalCluster, bucket: Bucket
) -> None:
    name = str(cluster.submit(["sleep", "600"])["id"])
    cluster.wait_state(name, "Running")
    launched = cluster.cli("launch", "--alloc", name, "-n", "2", "sh", "-c", "echo rank $LATTICE_RANK; echo bad >&2")
    assert sorted(launched.stdout.splitlines()) == ["rank 0", "rank 1"]

    async def names() -> list[str]:
        store = BucketStore(bucket)
        return [each async for each in store.names(f"default/-/{name}/logs/run-1/step-0/journal/")]

    assert eventually(lambda: asyncio.run(names()), "the step's journal in the store", within_s=30)
    cluster.delete(f"/allocations/{name}")
    cluster.wait_end(name)
    shutil.rmtree(cluster.directory / "agents" / "n1" / "steps" / f"{name[1:]}.1.0")
    shown = cluster.cli("logs", name, "--step", "0", "--rank", "1")
    assert (shown.stdout, shown.stderr) == ("rank 1\n", "bad\n")


def test_a_checkpoint_is_fetched_from_the_bucket_where_the_next_run_finds_none(
    cluster: LocalCluster, relay: Relay, tmp_path: Path
) -> None:
    """The directory of all checkpoints is emptied, as on a node that does not share it."""
    relay.mend()
    script = """
trap 'asked=1' USR1
[ "$LATTICE_RESUME_FROM" ] && { cat "$LATTICE_RESUME_FROM/deep/state"; exit; }
while :; do
  sleep 0.05
  [ "$asked" ] || continue
  asked=
  path=$(sed 's/.*"path":"\\([^"]*\\)".*/\\1/' "$LATTICE_CHECKPOINT_REQUEST")
  mkdir "$path/deep"; echo forty-two >"$path/deep/state"; touch "$path/.done"
done
"""
    cluster.put("/settings/checkpoint.upload", {"value": "true"})
    name = str(cluster.submit(["/bin/bash", "-c", script], checkpoint={"protocol": "signal"})["id"])
    cluster.wait_state(name, "Running")
    done = eventually(lambda: cluster.cli("checkpoint", name, "--wait", check=False).returncode == 0, "a checkpoint")
    assert done
    newest = eventually(
        lambda: next(
            (each for each in cluster.get(f"/allocations/{name}/checkpoints")["items"] if each["stored"]), None
        ),
        "the copy in the bucket",
    )
    path = Path(newest["path"])
    shutil.rmtree(path.parent)
    cluster.post(f"/allocations/{name}/requeue")
    ended = cluster.wait_end(name, within_s=60)
    assert (ended["state"], ended["run"], cluster.logs(name)) == ("Completed", 2, "forty-two\n")
    assert (path / "MANIFEST").exists()


@pytest.mark.soak
@pytest.mark.timeout(480)
def test_a_store_that_is_away_for_a_minute_costs_no_byte_while_leader_servers_and_agent_die(
    s3: S3Server, tmp_path: Path
) -> None:
    """Three servers; output comes all the time, and chunks are on their way when each of them is killed."""
    require_program("etcd")
    bucket, way = s3.make_bucket("minute"), Relay(s3.port)
    secret, stop = tmp_path / "secret", tmp_path / "stop"
    tmp_path.chmod(0o755)
    secret.write_text("test")
    secret.chmod(0o600)
    script = (
        "import os, sys, time\nn = 0\n"
        f"while not os.path.exists({str(stop)!r}):\n"
        "    print('line', n, 'x' * 90)\n    print('err', n, file=sys.stderr)\n    n += 1\n"
        "    time.sleep(0.001)\nprint('last', n)\n"
    )
    with LocalCluster(nodes=1, servers=3, settings=in_bucket(bucket, way, secret)) as servers:
        name = str(servers.submit(["python3", "-u", "-c", script])["id"])
        servers.wait_state(name, "Running")

        def await_more() -> None:
            size = len(stored(bucket, name, "stdout"))
            eventually(lambda: len(stored(bucket, name, "stdout")) > size, "a further chunk", within_s=90)

        await_more()
        for _ in range(2):
            kill_both(servers, servers.leader())
            await_more()
            wait_healthy(servers)
        for server in servers.urls:
            servers.kill("server", server)
            await_more()
            wait_healthy(servers)
        servers.wait_replaced(servers.kill("agent"))
        await_more()
        way.cut()
        time.sleep(60)  # the promise is about a minute
        way.mend()
        await_more()
        stop.touch()
        ended = servers.wait_end(name, within_s=90)
        assert (ended["state"], ended["message"]) == ("Completed", "")
        count = int(servers.logs(name).rpartition("last ")[2])
        out = b"".join(b"line %d %s\n" % (number, b"x" * 90) for number in range(count)) + b"last %d\n" % count
        err = b"".join(b"err %d\n" % number for number in range(count))
        for stream, wanted in (("stdout", out), ("stderr", err)):
            found = eventually(partial(_whole, bucket, name, stream, len(wanted)), f"all of {stream}", within_s=60)
            assert found == wanted, stream
        assert servers.logs(name).encode() == out
    way.close()
