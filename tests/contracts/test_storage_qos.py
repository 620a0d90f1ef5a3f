"""What every source of guaranteed rates has to do: VAST's interface, spoken by a small server."""

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from lattice.integrations.vast.qos import VastQos
from lattice.ports.site.storage_qos import QosUnavailable, StorageRate
from tests.s3_server import free_port

TOKEN = "token-of-lattice"


class _Vast(BaseHTTPRequestHandler):
    """Views and QoS policies as VAST's management service answers them."""

    asked: list[str] = []  # noqa: RUF012 - of each server anew
    answer: bytes | None = None

    def do_GET(self) -> None:
        self.asked.append(self.path)
        parts = urlsplit(self.path)
        if self.headers["Authorization"] != f"Api-Token {TOKEN}":
            self._say(403, {"detail": "Invalid token."})
        elif self.answer is not None:
            self._say(200, None, self.answer)
        elif parts.path == "/api/views/":
            (path,) = parse_qs(parts.query)["path"]
            policies = {"/scratch": 7, "/plain": None}
            of_others = {"id": 99, "path": f"{path}/of-others", "qos_policy_id": 8, "tenant_id": 2}
            own = [{"id": 1, "path": path, "qos_policy_id": policies[path], "name": "x"}] if path in policies else []
            self._say(200, [of_others, *own])
        elif parts.path == "/api/qospolicies/7/":
            limits = {"min_reads_bw_mbps": 1500, "min_writes_bw_mbps": 0, "max_reads_bw_mbps": 2000}
            self._say(200, {"id": 7, "name": "gold", "mode": "STATIC", "static_limits": limits})
        else:
            self._say(404, {})

    def _say(self, status: int, body: object, raw: bytes | None = None) -> None:
        data = json.dumps(body).encode() if raw is None else raw
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        return


@pytest.fixture
def vast() -> Iterator[tuple[str, type[_Vast]]]:
    class Handler(_Vast):
        asked: list[str] = []  # noqa: RUF012 - of this server alone

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", Handler
        server.shutdown()
        thread.join()


def rates(url: str, *paths: str, token: str = TOKEN) -> tuple[StorageRate, ...]:
    return asyncio.run(VastQos(url, paths, token=lambda: token, timeout_s=5.0).rates())


def test_rates_of_the_named_views_are_read_and_no_others(vast: tuple[str, type[_Vast]]) -> None:
    found = rates(vast[0], "/scratch", "/plain")
    assert found == (
        StorageRate(place="/scratch", read_least=1.5e9, read_most=2e9),
        StorageRate(place="/plain"),
    )
    assert not [path for path in vast[1].asked if "others" in path or "/8/" in path]


def test_several_questions_within_a_minute_cost_one_request(vast: tuple[str, type[_Vast]]) -> None:
    now = [0.0]

    async def several() -> None:
        source = VastQos(vast[0], ["/plain"], token=lambda: TOKEN, now_s=lambda: now[0])
        await asyncio.gather(source.rates(), source.rates(), source.rates())
        assert len(vast[1].asked) == 1
        now[0] += 61.0
        await source.rates()
        assert len(vast[1].asked) == 2

    asyncio.run(several())


@pytest.mark.parametrize("body", [b"no", b"{}", b'[{"path": 1}]', b"[" * 100_000, b"\xff" * 10])
def test_what_makes_no_sense_is_named(vast: tuple[str, type[_Vast]], body: bytes) -> None:
    vast[1].answer = body
    with pytest.raises(QosUnavailable, match="makes no sense"):
        rates(vast[0], "/scratch")


def test_what_cannot_be_had_is_named_without_the_token(vast: tuple[str, type[_Vast]]) -> None:
    with pytest.raises(QosUnavailable, match="403") as refused:
        rates(vast[0], "/scratch", token="wrong-token")
    assert "wrong-token" not in str(refused.value)
    with pytest.raises(QosUnavailable, match="no view /gone"):
        rates(vast[0], "/gone")
    with pytest.raises(QosUnavailable, match="cannot be reached"):
        rates(f"http://127.0.0.1:{free_port()}", "/scratch")
