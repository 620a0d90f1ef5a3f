"""A server that is still recovering says so, answers lists of work as soon as it knows them, and serves when it is done."""

import asyncio
import http.client
import json
import socket
import time
from pathlib import Path

import pytest

from lattice.api.auth.tokens import sign_token
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import ApiSection
from lattice.config.sections.keeping import LogSection
from lattice.daemons.server.parts import ServerParts
from lattice.daemons.server.process import ServerProcess
from lattice.quorum.replica import LogReplica
from tests.integration.control.rig import SECRET


def fetch(port: int, path: str, token: str = "") -> tuple[int, str, dict[str, object]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        with connection.getresponse() as answer:
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


def test_lists_of_work_are_answered_before_the_loops_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = sign_token(SECRET, user="ada", issued_at_s=int(time.time()), lifetime_s=600, tenants=["default"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def scenario() -> None:
        known, go_on = asyncio.Event(), asyncio.Event()
        answer_lists = ServerParts.answer_lists

        async def slow_rest(parts: ServerParts) -> None:
            await answer_lists(parts)
            known.set()
            await go_on.wait()

        monkeypatch.setattr(ServerParts, "answer_lists", slow_rest)
        api = ApiSection(hmac_secret="", rest_listen=f"127.0.0.1:{port}", grpc_listen="127.0.0.1:0")
        config = ServerConfig(data_dir=str(tmp_path / "data"), api=api, log=LogSection(kind="memory"))
        server = ServerProcess(config, SECRET)
        server.parts.front.gate.hold_s = 30.0
        starting = asyncio.create_task(server.start())
        await asyncio.wait_for(known.wait(), 10)
        for path in ("/api/v1/allocations", "/v1/allocations?limit=10000"):
            status, _, body = await asyncio.to_thread(fetch, port, path, token)
            assert (status, body["items"]) == (200, [])
        status, _, body = await asyncio.to_thread(fetch, port, "/api/v1/allocations/count", token)
        assert (status, body["total"]) == (200, 0)
        assert (await asyncio.to_thread(fetch, port, "/healthz"))[0] == 503
        held = [
            asyncio.create_task(asyncio.to_thread(fetch, port, path, bearer))
            for path, bearer in (("/api/v1/whoami", token), ("/api/v1/allocations", "forged"))
        ]
        assert (await asyncio.wait(held, timeout=0.2))[0] == set()
        go_on.set()
        await asyncio.wait_for(starting, 10)
        assert [(await each)[0] for each in held] == [200, 401]
        await server.stop()

    asyncio.run(scenario())
