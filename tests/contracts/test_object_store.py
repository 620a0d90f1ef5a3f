"""What every object store has to do, whatever it stands on."""

import asyncio
import itertools
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from lattice.integrations.directory.store import DirectoryStore
from lattice.integrations.s3.store import BucketStore
from lattice.integrations.s3.tenants import TenantBuckets
from lattice.ports.quorum.object_store import BadObjectName, ObjectMissing, ObjectStore, ObjectStoreError
from lattice.testing import scenario
from tests.s3_server import S3Server, free_port, running_s3

_serial = itertools.count()


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server


def make_bucket(server: S3Server) -> BucketStore:
    return BucketStore(server.make_bucket(f"bucket-{next(_serial)}"))


@pytest.fixture(params=["directory", "s3", "s3 of tenants"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "directory":
        return DirectoryStore(tmp_path / "store")
    server: S3Server = request.getfixturevalue("s3")
    if request.param == "s3":
        return make_bucket(server)
    return TenantBuckets(make_bucket(server), {each: make_bucket(server) for each in ("t~1", "logs", "a")})


async def listed(store: ObjectStore, prefix: str) -> list[str]:
    return [name async for name in store.names(prefix)]


@scenario
async def test_what_was_put_is_there(store: ObjectStore) -> None:
    await store.put("logs/7/1/n1.stdout", b"hello world")
    assert await store.get("logs/7/1/n1.stdout") == b"hello world"
    assert await store.size("logs/7/1/n1.stdout") == 11


@scenario
async def test_a_part_can_be_read_and_nothing_lies_beyond_the_end(store: ObjectStore) -> None:
    await store.put("a", b"0123456789")
    assert await store.get("a", offset=2, length=3) == b"234"
    assert await store.get("a", offset=8, length=30) == b"89"
    assert await store.get("a", offset=30) == b""
    assert await store.get("a", offset=4) == b"456789"


@scenario
async def test_a_stored_file_survives_its_source(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 100_000)
    await store.put_file("f", source)
    source.unlink()
    assert await store.get("f") == b"x" * 100_000


@scenario
async def test_storing_again_replaces_the_object(store: ObjectStore, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"second")
    await store.put("a", b"first")
    await store.put("a", b"other")
    assert await store.get("a") == b"other"
    await store.put_file("a", source)
    await store.put_file("a", source)
    assert await store.get("a") == b"second"
    assert await listed(store, "") == ["a"]


@scenario
async def test_what_is_not_there_is_missing(store: ObjectStore, tmp_path: Path) -> None:
    await store.put("a/b", b"")
    for name in ("nothing", "a", "a/b/c"):
        with pytest.raises(ObjectMissing):
            await store.get(name)
        with pytest.raises(ObjectMissing):
            await store.size(name)
    with pytest.raises(ObjectMissing):
        await store.put_file("x", tmp_path / "nothing")


@scenario
async def test_a_deleted_object_is_gone_and_may_be_deleted_again(store: ObjectStore) -> None:
    await store.put("a", b"1")
    await store.delete("a")
    await store.delete("a")
    await store.delete("never/there")
    with pytest.raises(ObjectMissing):
        await store.get("a")


@scenario
async def test_names_are_found_by_prefix_in_order(store: ObjectStore) -> None:
    for name in ("logs/7/2/n1.stdout", "logs/7/1/n1.stdout", "logs/70/1/n1.stdout", "other"):
        await store.put(name, b"x")
    assert await listed(store, "logs/7/") == ["logs/7/1/n1.stdout", "logs/7/2/n1.stdout"]
    assert await listed(store, "logs/7") == [
        "logs/7/1/n1.stdout",
        "logs/7/2/n1.stdout",
        "logs/70/1/n1.stdout",
    ]
    assert await listed(store, "nothing/") == []


@scenario
async def test_names_keep_every_character(store: ObjectStore) -> None:
    for name in ("a b/c", "a%20b", "x#1", "x?1", "ü/é", "t~1/-/a17", "a+b=c,d"):
        await store.put(name, name.encode())
        assert await store.get(name) == name.encode()
        assert await listed(store, name) == [name]


@scenario
async def test_a_large_object_comes_back_as_it_was(store: ObjectStore, tmp_path: Path) -> None:
    source, data = tmp_path / "source", bytes(range(256)) * (48 << 10)
    source.write_bytes(data)
    await store.put_file("large", source)
    assert await store.size("large") == len(data)
    assert await store.get("large") == data


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "../a", "a/../../b", ".", "a\0b"])
def test_a_name_that_leaves_the_store_is_refused(store: ObjectStore, name: str) -> None:
    with pytest.raises(BadObjectName):
        asyncio.run(store.put(name, b""))
    with pytest.raises(BadObjectName):
        asyncio.run(store.get(name))


@scenario
async def test_a_failed_put_leaves_the_old_object_and_no_litter(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "store")
    await store.put("a", b"old")
    with pytest.raises(ObjectStoreError):
        await store.put("a/b", b"a is an object, not a folder")
    assert await store.get("a") == b"old"
    assert await listed(store, "") == ["a"]


@scenario
async def test_a_signed_request_stores_one_object_without_a_key(s3: S3Server) -> None:
    store = BucketStore(s3.make_bucket("signed"))
    signed = await store.sign_put("a/b.zst")
    address = urlsplit(signed.url)
    connection = HTTPConnection("127.0.0.1", s3.port, timeout=10)
    connection.request("PUT", f"{address.path}?{address.query}", body=b"by another", headers=signed.headers)
    with connection.getresponse() as answer:
        assert answer.status == 200
    connection.close()
    assert await store.get("a/b.zst") == b"by another"
    assert "test" not in signed.headers.values()


@scenario
async def test_a_bucket_that_is_away_is_named_with_what_was_tried_and_never_with_its_key(s3: S3Server) -> None:
    bucket = structs.replace(s3.make_bucket("away"), endpoint=f"http://127.0.0.1:{free_port()}", key_secret="hidden-1")
    store = BucketStore(bucket)
    for attempt in (store.put("a", b""), store.get("a"), store.size("a"), store.delete("a"), listed(store, "a")):
        with pytest.raises(ObjectStoreError, match="bucket away at http://127") as raised:
            await attempt
        assert not isinstance(raised.value, ObjectMissing)
        assert "hidden-1" not in f"{raised.value}{bucket}"


@scenario
async def test_a_bucket_that_does_not_exist_is_an_error_of_the_store(s3: S3Server) -> None:
    store = BucketStore(structs.replace(s3.make_bucket("there"), name="not-there"))
    with pytest.raises(ObjectStoreError):
        await store.put("a", b"")


@scenario
async def test_work_of_a_tenant_with_a_bucket_is_stored_there_and_nothing_else_is(s3: S3Server) -> None:
    common, own = make_bucket(s3), make_bucket(s3)
    store = TenantBuckets(common, {"bio": own, "audit": own})
    of_work = ["bio/-/a1/logs/run-1/stdout/n1/0.log.zst", "bio/p/a2/telemetry/run-1/n1/0.jsonl.zst"]
    of_others = ["biology/-/a3/logs/run-1/stdout/n1/0.log.zst", "audit/entries/1-2.zst", "logs/7/1/n1.stdout"]
    for name in (*of_work, *of_others):
        await store.put(name, b"1")
    assert await listed(own, "") == of_work
    assert await listed(common, "") == sorted(of_others)
    assert await listed(store, "") == sorted([*of_work, *of_others])
    assert await listed(store, "bio") == [*of_work, of_others[0]]
    assert await listed(store, "bio/") == of_work
    for name in of_work:
        await store.delete(name)
    assert await listed(own, "") == []


@scenario
async def test_what_was_stored_before_a_tenant_got_its_bucket_is_found_and_deleted(s3: S3Server) -> None:
    common, own = make_bucket(s3), make_bucket(s3)
    first, second, third = (f"bio/-/a{number}/logs/run-1/stdout/n1/0.log.zst" for number in (1, 2, 3))
    await common.put(first, b"old")
    await common.put(second, b"old")
    store = TenantBuckets(common, {"bio": own})
    await store.put(second, b"newer")
    await store.put(third, b"new")
    assert await listed(store, "bio/") == [first, second, third]
    assert [await store.get(name) for name in (first, second, third)] == [b"old", b"newer", b"new"]
    assert await store.size(first) == 3
    await store.delete(second)
    with pytest.raises(ObjectMissing):
        await store.get(second)


@scenario
async def test_a_signed_request_for_the_work_of_a_tenant_leads_to_its_bucket(s3: S3Server) -> None:
    common, own = make_bucket(s3), make_bucket(s3)
    store = TenantBuckets(common, {"bio": own})
    for tenant in ("bio", "geo"):
        address = urlsplit((await store.sign_put(f"{tenant}/-/a1/logs/run-1/stdout/n1/0.log.zst")).url)
        connection = HTTPConnection("127.0.0.1", s3.port, timeout=10)
        connection.request("PUT", f"{address.path}?{address.query}", body=b"1", headers={"content-type": "text/plain"})
        with connection.getresponse() as answer:
            assert answer.status == 200
        connection.close()
    assert [name[:3] for name in await listed(own, "")] == ["bio"]
    assert [name[:3] for name in await listed(common, "")] == ["geo"]
