"""What the store has was sent by nodes: it is read with a bound."""

import asyncio

import pytest

from lattice.api.running.stored_output import StoredOutput
from lattice.ports.quorum.object_store import ObjectStoreError
from lattice.wire.files.chunks import PACKED_BYTES, Place
from tests.integration.api.world import FakeObjects


def test_of_an_object_that_is_too_large_for_a_chunk_only_that_much_is_read() -> None:
    objects = FakeObjects()
    name = f"p/stdout/n1/{Place().name}"
    objects.stored[name] = bytes(PACKED_BYTES + 1)
    asked: list[int | None] = []
    get = objects.get

    async def counted(name: str, *, offset: int = 0, length: int | None = None) -> bytes:
        asked.append(length)
        return await get(name, offset=offset, length=length)

    objects.get = counted  # type: ignore[method-assign]

    async def read() -> None:
        async for _ in StoredOutput(objects, "p/stdout/n1", "p/stdout/whole").pieces():
            pass

    with pytest.raises(ObjectStoreError, match="damaged"):
        asyncio.run(read())
    assert asked == [PACKED_BYTES]
