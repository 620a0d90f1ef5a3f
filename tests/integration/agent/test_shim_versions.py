"""A shim of another release that the agent finds: it takes over from one that it understands, and leaves others alone."""

import asyncio
import json
from pathlib import Path

import pytest

from lattice.agent.shim_client import SHIM_SOCKET, ShimMessage, ShimUnavailable, connect

Answer = dict[str, object]


async def listed_by(folder: Path, answer: Answer) -> ShimMessage:
    """What a client makes of a shim that answers so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = json.loads(await reader.readline())
        writer.write(json.dumps({"id": asked["id"], "ok": True, **answer}).encode() + b"\n")
        await reader.read()  # until the client is gone
        writer.close()
        await writer.wait_closed()
        served.set()

    served = asyncio.Event()
    async with await asyncio.start_unix_server(serve, folder / SHIM_SOCKET):
        client = await connect(folder, lambda _: None, lambda: None)
        try:
            return await client.list()
        finally:
            client.close()
            await served.wait()


@pytest.mark.parametrize("answer", [{}, {"protocol": [1, 1]}, {"protocol": [1, 2]}, {"protocol": [2, 9]}])
def test_a_shim_with_a_common_version_is_taken_over(tmp_path: Path, answer: Answer) -> None:
    """One of release 0.1.0 says no versions."""
    assert asyncio.run(listed_by(tmp_path, {"pid": 7, **answer})).pid == 7


@pytest.mark.parametrize(
    ("versions", "said"),
    [
        (
            [8, 9],
            "the shim that runs here speaks protocol versions 8 to 9, this agent versions 1 to 2.*upgrade this agent",
        ),
        ([3, 1], "protocol versions 3 to 1 make no sense"),
    ],
)
def test_a_shim_without_a_common_version_is_refused_with_both(tmp_path: Path, versions: list[int], said: str) -> None:
    with pytest.raises(ShimUnavailable, match=said):
        asyncio.run(listed_by(tmp_path, {"protocol": versions}))
