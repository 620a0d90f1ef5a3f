"""Buckets of their own for what the work of some tenants leaves behind; everything else is in the common one."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from lattice.integrations.s3.store import BucketStore
from lattice.ports.quorum.object_store import ObjectMissing, SignedPut

# Output, samples, records and checkpoints of work: TENANT/PROJECT/ID/logs/... The rest is the site's, whatever a tenant is called.
_OF_WORK = re.compile(r"([^/]+)/[^/]+/a\d{1,18}/(?:logs|telemetry|checkpoints)/.+", re.ASCII)


class TenantBuckets:
    """Implements `ObjectStore` and `SigningStore`.

    What was stored in the common bucket before a tenant got its own is still found there, by servers.
    """

    def __init__(self, common: BucketStore, tenants: Mapping[str, BucketStore]) -> None:
        self._common, self._tenants = common, tenants

    async def put(self, name: str, data: bytes) -> None:
        await self._owner(name).put(name, data)

    async def sign_put(self, name: str) -> SignedPut:
        return await self._owner(name).sign_put(name)

    async def sign(self, name: str, method: str, query: Mapping[str, str]) -> SignedPut:
        return await self._owner(name).sign(name, method, query)

    async def put_file(self, name: str, path: Path) -> None:
        await self._owner(name).put_file(name, path)

    async def get(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes:
        owner = self._owner(name)
        try:
            return await owner.get(name, offset=offset, length=length)
        except ObjectMissing:
            if owner is self._common:
                raise
            return await self._common.get(name, offset=offset, length=length)

    async def size(self, name: str) -> int:
        owner = self._owner(name)
        try:
            return await owner.size(name)
        except ObjectMissing:
            if owner is self._common:
                raise
            return await self._common.size(name)

    async def delete(self, name: str) -> None:
        owner = self._owner(name)
        await owner.delete(name)
        if owner is not self._common:
            await self._common.delete(name)

    async def names(self, prefix: str) -> AsyncIterator[str]:
        merged = self._common.names(prefix)
        for tenant, bucket in self._tenants.items():
            if f"{tenant}/".startswith(prefix) or prefix.startswith(f"{tenant}/"):
                merged = _merged(merged, bucket.names(prefix))
        async for name in merged:
            yield name

    def _owner(self, name: str) -> BucketStore:
        match = _OF_WORK.fullmatch(name)
        return self._common if match is None else self._tenants.get(match[1], self._common)


async def _merged(left: AsyncIterator[str], right: AsyncIterator[str]) -> AsyncIterator[str]:
    """Both in order; a name that both have comes once."""
    other = await anext(right, None)
    async for name in left:
        while other is not None and other <= name:
            if other < name:
                yield other
            other = await anext(right, None)
        yield name
    while other is not None:
        yield other
        other = await anext(right, None)
