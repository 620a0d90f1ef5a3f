"""Spans to a collector that is there, slow, refuses, or is gone; and nothing of it where it is off."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from lattice.config.load import ConfigError, load
from lattice.config.schema import ServerConfig
from lattice.integrations.otlp.exporter import MAX_WAITING, OtlpExporter
from lattice.ports.site.traces import Span
from tests.hooks import Hooks
from tests.s3_server import free_port


def span(number: int) -> Span:
    return Span(trace="a" * 32, span=f"{number:016x}", name="lattice.run", began_at=1000, ended_at=2000)


def test_spans_arrive_once_and_in_batches() -> None:
    with Hooks() as collector:
        exporter = OtlpExporter(collector.url, "lattice-server", "s1", {"authorization": "Bearer t"})
        for number in range(600):
            exporter.add(span(number))
        asyncio.run(exporter.flush())
        sizes = [len(call.json["resourceSpans"][0]["scopeSpans"][0]["spans"]) for call in collector.calls]
    assert sizes == [512, 88]
    assert (exporter.sent, exporter.dropped) == (600, 0)
    assert collector.calls[0].headers["authorization"] == "Bearer t"
    resource = collector.calls[0].json["resourceSpans"][0]["resource"]["attributes"]
    assert {each["key"]: each["value"]["stringValue"] for each in resource}["service.name"] == "lattice-server"


def test_a_collector_that_is_gone_costs_spans_and_nothing_else() -> None:
    exporter = OtlpExporter(f"http://127.0.0.1:{free_port()}", "lattice-server", "s1")
    for number in range(MAX_WAITING + 10):
        exporter.add(span(number))
    asyncio.run(exporter.flush())
    assert (exporter.sent, exporter.dropped) == (0, 10)


def test_spans_wait_for_a_collector_that_is_busy_and_not_for_one_that_refuses() -> None:
    with Hooks(answer=lambda: 503) as busy:
        exporter = OtlpExporter(busy.url, "lattice-server", "s1")
        exporter.add(span(1))
        asyncio.run(exporter.flush())
        assert exporter.sent == 0
        busy.answer = lambda: 400
        asyncio.run(exporter.flush())
    assert busy.tries == 2
    assert exporter.sent == 1, "a refused span is not sent again"


def test_an_address_that_is_none_is_refused(tmp_path: Path) -> None:
    text = "data_dir: /d\napi: {hmac_secret: 'file:///s'}\ntracing: {otlp_endpoint: 'collector:4318'}\n"
    (tmp_path / "server.yaml").write_text(text)
    with pytest.raises(ConfigError, match="otlp_endpoint"):
        load(tmp_path / "server.yaml", ServerConfig)


def test_nothing_is_imported_where_traces_are_off() -> None:
    code = "import sys, lattice.daemons.server.parts; sys.exit('lattice.integrations.otlp.exporter' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
