"""Copies of checkpoints in the object store: whole or not at all, with the rights of their user, put in place where there is none."""

import asyncio
import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from lattice.agent.checkpoints.directories import Manifest, is_complete, make_checkpoint, seal
from lattice.agent.results.checkpoints import NO_STORE, CheckpointStore, NotFetched
from lattice.agent.runs.signed_store import SignedStore
from lattice.ports.nodes.checkpoints import READS, WRITES, CheckpointOrder, CheckpointSetup
from lattice.ports.nodes.run_keys import RunKey
from lattice.wire.pb import agent_pb2 as pb

NOBODY = 65534
OWNER = (NOBODY, NOBODY) if os.geteuid() == 0 else (os.getuid(), os.getgid())
OBJECTS = "physics/-/a7/checkpoints/3"
BIG = os.urandom(3_000_000)


@pytest.fixture
def place() -> Iterator[Path]:
    """Directories that another user reaches: the root of one node, of another one, and a store that is closed to users."""
    folder = Path(tempfile.mkdtemp(prefix="lattice-", dir="/var/tmp"))
    folder.chmod(0o711)
    for name in ("one", "two"):
        (folder / name).mkdir(mode=0o755)
    (folder / "store").mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


def write(root: Path) -> Path:
    """A complete checkpoint with all that one may have."""
    path = Path(make_checkpoint(str(root), f"{root}/{OBJECTS}", OWNER))
    (path / "deep" / "empty").mkdir(parents=True)
    (path / "big").write_bytes(BIG)
    (path / "deep" / "small").write_text("é")
    (path / "deep" / "small").chmod(0o640)
    (path / "run.sh").write_text("true")
    (path / "run.sh").chmod(0o755)
    (path / "latest").symlink_to("deep/small")
    (path / "passwd").symlink_to("/etc/shadow")
    (path / "nothing").touch()
    for each in (path, *path.rglob("*")):
        os.chown(each, *OWNER, follow_symlinks=False)
    seal(str(root), str(path), OWNER, Manifest(allocation="a7", n=3, run=1, nodes=("n1", "n2")))
    return path


def content(path: Path) -> dict[str, Any]:
    def told(each: Path) -> Any:  # noqa: ANN401 - whatever it is
        if each.is_symlink():
            return str(each.readlink())
        info = each.lstat()
        mode = (stat.S_IMODE(info.st_mode), (info.st_uid, info.st_gid))
        return mode if each.is_dir() else (*mode, info.st_mtime_ns, each.read_bytes())

    return {str(each.relative_to(path)): told(each) for each in path.rglob("*")}


def order_of(root: Path, grant: str = "", **more: Any) -> CheckpointOrder:  # noqa: ANN401 - as the record has them
    path = f"{root}/{OBJECTS}"
    return CheckpointOrder(
        key=RunKey(7, 1), n=3, root=str(root), path=path, user="ada", objects=OBJECTS, grant=grant, **more
    )


def setup_of(root: Path, grant: str = "") -> CheckpointSetup:
    return CheckpointSetup(root=str(root), resume_from=f"{root}/{OBJECTS}", objects=OBJECTS, grant=grant)


class Bucket:
    """An S3 service as far as it is needed, and a server that signs every request for it."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.signed: list[tuple[str, str, str]] = []
        self.status = 0  # instead of an answer
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                bucket.objects[self.path.partition("?")[0]] = self.rfile.read(int(self.headers["content-length"]))
                self._answer(bucket.status or 200, b"")

            def do_GET(self) -> None:
                found = bucket.objects.get(self.path.partition("?")[0])
                self._answer(bucket.status or (200 if found is not None else 404), found or b"")

            def _answer(self, status: int, data: bytes) -> None:
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    async def sign(self, prefix: str, name: str, grant: str, method: str = "", query: str = "") -> pb.UploadSigned:
        self.signed.append((prefix, method, grant))
        return pb.UploadSigned(url=f"http://127.0.0.1:{self._server.server_port}/{name}?signed")

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    made = Bucket()
    yield made
    made.close()


def in_bucket(bucket: Bucket) -> CheckpointStore:
    signed = SignedStore()
    signed.sign = bucket.sign  # type: ignore[method-assign]
    return CheckpointStore(None, lambda: signed)


def test_what_is_in_a_directory_comes_back_on_another_node(place: Path) -> None:
    async def scene() -> None:
        path = write(place / "one")
        store = CheckpointStore(place / "store", SignedStore)
        assert not await store.get(setup_of(place / "two"), OWNER)
        assert await store.put(order_of(place / "one"), OWNER) == ""
        assert await store.put(order_of(place / "one"), OWNER) == ""
        assert await store.get(setup_of(place / "two"), OWNER)
        found = place / "two" / OBJECTS
        assert is_complete(str(found))
        assert content(found) == content(path)
        assert os.listdir(found.parent) == ["3"], "no draft is left"

    asyncio.run(scene())


def test_what_is_in_a_bucket_comes_back_on_another_node(place: Path, bucket: Bucket) -> None:
    async def scene() -> None:
        path = write(place / "one")
        store = in_bucket(bucket)
        assert not await store.get(setup_of(place / "two", "r"), OWNER)
        assert await store.put(order_of(place / "one", "w"), OWNER) == ""
        assert sorted(bucket.objects) == [
            "/contents.json",
            *(f"/files/{name}" for name in ("MANIFEST", "big", "deep/small", "nothing", "run.sh")),
        ]
        assert await store.get(setup_of(place / "two", "r"), OWNER)
        found = place / "two" / OBJECTS
        assert content(found) == content(path)
        assert {(prefix, grant) for prefix, _, grant in bucket.signed} == {
            (WRITES + OBJECTS, "w"),
            (READS + OBJECTS, "r"),
        }
        assert os.listdir(found.parent) == ["3"]

    asyncio.run(scene())


def test_half_a_copy_is_none_and_a_store_that_fails_is_no_answer(place: Path, bucket: Bucket) -> None:
    async def scene() -> None:
        write(place / "one")
        store = in_bucket(bucket)
        assert await store.put(order_of(place / "one", "w"), OWNER) == ""
        whole = dict(bucket.objects)
        del bucket.objects["/files/big"]
        with pytest.raises(NotFetched, match="the store does not have it"):
            await store.get(setup_of(place / "two", "r"), OWNER)
        bucket.objects = {**whole, "/files/big": b"short"}
        with pytest.raises(NotFetched, match="its size is not what it was"):
            await store.get(setup_of(place / "two", "r"), OWNER)
        bucket.objects, bucket.status = whole, 403
        with pytest.raises(NotFetched, match="status 403"):
            await store.get(setup_of(place / "two", "r"), OWNER)
        assert "status 403" in await store.put(order_of(place / "one", "w"), OWNER)
        assert os.listdir(place / "two" / Path(OBJECTS).parent) == [], "nothing is put in place"

    asyncio.run(scene())


def test_what_cannot_be_copied_is_said(place: Path) -> None:
    async def scene() -> None:
        store = CheckpointStore(place / "store", SignedStore)
        assert "there is no complete checkpoint" in await store.put(order_of(place / "one"), OWNER)
        path = write(place / "one")
        assert await CheckpointStore(None, SignedStore).put(order_of(place / "one"), OWNER) == NO_STORE
        assert not await CheckpointStore(None, SignedStore).get(setup_of(place / "two"), OWNER)
        (path / "n1").mkdir()
        assert "what node n2 wrote is not in" in await store.put(order_of(place / "one", apart=True), OWNER)

    asyncio.run(scene())


def test_a_checkpoint_that_another_node_put_in_place_meanwhile_stays(place: Path) -> None:
    async def scene() -> None:
        write(place / "one")
        store = CheckpointStore(place / "store", SignedStore)
        assert await store.put(order_of(place / "one"), OWNER) == ""
        both = await asyncio.gather(*(store.get(setup_of(place / "two"), OWNER) for _ in range(2)))
        assert both == [True, True]
        assert os.listdir((place / "two" / OBJECTS).parent) == ["3"]

    asyncio.run(scene())


def test_what_lies_in_the_place_without_a_manifest_makes_room(place: Path) -> None:
    async def scene() -> None:
        path = write(place / "one")
        store = CheckpointStore(place / "store", SignedStore)
        assert await store.put(order_of(place / "one"), OWNER) == ""
        half = Path(make_checkpoint(str(place / "two"), f"{place}/two/{OBJECTS}", OWNER))
        (half / "big").write_bytes(b"half")
        assert await store.get(setup_of(place / "two"), OWNER)
        assert content(half) == content(path)

    asyncio.run(scene())
