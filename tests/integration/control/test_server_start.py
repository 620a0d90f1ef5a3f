"""A server that is still recovering says so, and serves when it is done."""

import asyncio
import http.client
import json
import socket
from pathlib import Path

import pytest

from lattice.config.schema import ApiSection, LogSection, ServerConfig
from lattice.daemons.server.process import ServerProcess
from lattice.quorum.replica import LogReplica
from tests.integration.control.rig import SECRET


def fetch(port: int, path: str) -> tuple[int, str, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.getheader("retry-after", ""), json.loads(answer.read())
    finally:
        connection.close()


def test_health_is_bad_while_the_state_is_recovered_and_good_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def scenario() -> None:
        recovering, go_on = asyncio.Event(), asyncio.Event()
        start = LogReplica.start

        async def slow_start(replica: LogReplica) -> None:
            recovering.set()
            await go_on.wait()
            await start(replica)

        monkeypatch.setattr(LogReplica, "start", slow_start)
        api = ApiSection(hmac_secret="", rest_listen=f"127.0.0.1:{port}", grpc_listen="127.0.0.1:0")
        config = ServerConfig(data_dir=str(tmp_path / "data"), api=api, log=LogSection(kind="memory"))
        server = ServerProcess(config, SECRET)
        starting = asyncio.create_task(server.start())
        await asyncio.wait_for(recovering.wait(), 10)
        assert await asyncio.to_thread(fetch, port, "/healthz") == (503, "1", {"status": "recovering"})
        status, retry_after, body = await asyncio.to_thread(fetch, port, "/api/v1/whoami")
        assert (status, retry_after) == (503, "1")
        assert "the server is starting" in str(body["error"])
        go_on.set()
        await asyncio.wait_for(starting, 10)
        assert await asyncio.to_thread(fetch, port, "/healthz") == (200, "", {"status": "ok"})
        await server.stop()

    asyncio.run(scenario())
