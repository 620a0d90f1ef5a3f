"""An object store in a bucket of any service that speaks S3. Needs the extra `lattice-hpc[s3]`."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from lattice.integrations.s3.bucket import Bucket
from lattice.integrations.s3.signing import signed_url
from lattice.ports.quorum.object_store import ObjectMissing, ObjectStoreError, SignedPut, check_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from obstore.store import ClientConfig

# Few: the caller knows best when to try again.
_RETRIES = 2
_CONNECT_S = 5.0
SIGNED_S = 600  # how long a signed request may be used


def open_bucket(bucket: Bucket) -> S3Store:
    """The client of a bucket; nothing is sent yet."""
    client: ClientConfig = {
        "allow_http": bucket.endpoint.startswith("http://"),
        "connect_timeout": timedelta(seconds=min(_CONNECT_S, bucket.timeout_s)),
        "timeout": timedelta(seconds=bucket.timeout_s),
    }
    if bucket.authorities:
        client["root_certificate"] = bucket.authorities
    return S3Store(
        bucket.name,
        endpoint=bucket.endpoint or None,
        region=bucket.region,
        access_key_id=bucket.key_id,
        secret_access_key=bucket.key_secret,
        client_options=client,
        retry_config={"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=bucket.timeout_s)},
    )


class BucketStore:
    """Implements `ObjectStore`. S3 puts an object in place when its last byte has arrived."""

    def __init__(self, bucket: Bucket) -> None:
        self._where = f"bucket {bucket.name}" + (f" at {bucket.endpoint}" if bucket.endpoint else "")
        self._store = open_bucket(bucket)
        self._bucket, self._authorities = bucket, bucket.authorities.decode()

    async def put(self, name: str, data: bytes) -> None:
        check_name(name)
        with self._failures(name, "store"):
            await obstore.put_async(self._store, name, data)

    async def sign_put(self, name: str) -> SignedPut:
        check_name(name)
        with self._failures(name, "sign"):
            url = await obstore.sign_async(self._store, "PUT", name, timedelta(seconds=SIGNED_S))
        # Some services store nothing without a type.
        return SignedPut(url, {"content-type": "application/zstd"}, self._authorities)

    async def sign(self, name: str, method: str, query: Mapping[str, str]) -> SignedPut:
        return SignedPut(signed_url(self._bucket, method, check_name(name), query), {}, self._authorities)

    async def put_file(self, name: str, path: Path) -> None:
        check_name(name)
        if not await asyncio.to_thread(path.is_file):
            raise ObjectMissing(f"no file {path} to store as {name}")
        with self._failures(name, "store"):
            await obstore.put_async(self._store, name, path)

    async def get(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes:
        if not offset and length is None:
            check_name(name)
            with self._failures(name, "read"):
                return bytes(await (await obstore.get_async(self._store, name)).bytes_async())
        size = await self.size(name)  # a range beyond the end would be refused
        end = size if length is None else min(size, offset + length)
        if offset >= end:
            return b""
        with self._failures(name, "read"):
            return bytes(await obstore.get_range_async(self._store, name, start=offset, end=end))

    async def size(self, name: str) -> int:
        check_name(name)
        with self._failures(name, "read"):
            return (await obstore.head_async(self._store, name))["size"]

    async def delete(self, name: str) -> None:
        check_name(name)
        try:
            with self._failures(name, "delete"):
                await obstore.delete_async(self._store, name)
        except ObjectMissing:
            return

    async def names(self, prefix: str) -> AsyncIterator[str]:
        # Listing goes by whole parts of a name; the last part of the prefix may be half of one.
        folder, slash, _ = prefix.rpartition("/")
        with self._failures(prefix, "list"):
            async for found in obstore.list(self._store, folder if slash else None, chunk_size=1000):
                for each in found:
                    if each["path"].startswith(prefix):
                        yield each["path"]

    @contextmanager
    def _failures(self, name: str, what: str) -> "Iterator[None]":
        try:
            yield
        except (NotFoundError, FileNotFoundError):
            if what == "store":
                raise ObjectStoreError(f"cannot store {name}: there is no {self._where}") from None
            raise ObjectMissing(f"no object {name}") from None
        except (BaseError, OSError, ValueError) as error:
            raise ObjectStoreError(f"cannot {what} {name} in {self._where}: {_first_line(error)}") from None


def _first_line(error: BaseException) -> str:
    """What went wrong; the library adds its own inner state below."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:400]
