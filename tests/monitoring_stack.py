"""Prometheus, Alertmanager and VictoriaMetrics as processes on loopback, with the configuration that is deployed."""

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml

from tests.conftest import require_program
from tests.s3_server import free_port

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
STARTS_WITHIN_S = 60.0


class Stack:
    """`servers` are host:port of Lattice servers, `agents` of agents; alerts go to the web address `hook`, and by mail to `smarthost`."""

    def __init__(
        self, folder: Path, servers: list[str], token: str, agents: list[str], hook: str, *, smarthost: str, store: int
    ) -> None:
        self._folder = folder
        self._smarthost = smarthost
        self._processes: list[subprocess.Popen[bytes]] = []
        self._alerts, self._prometheus, self._store = free_port(), free_port(), store
        (folder / "token").write_text(token)
        (folder / "agents.json").write_text(json.dumps([{"targets": agents, "labels": {}}]))
        self._write_scraping(servers)
        self._write_routes(hook)

    def _write_scraping(self, servers: list[str]) -> None:
        """What is deployed, with the names of this cluster and in a hurry."""
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(DEPLOY / "alerts" / "lattice.rules.yml")]
        config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{self._alerts}"]
        for scrape in config["scrape_configs"]:
            scrape.pop("scrape_interval", None)
            if "static_configs" in scrape:
                scrape["static_configs"] = [{"targets": servers}]
            if "authorization" in scrape:
                scrape["authorization"]["credentials_file"] = str(self._folder / "token")
            for found in scrape.get("file_sd_configs", ()):
                found["files"] = [str(self._folder / "agents.json")]
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(config))

    def _write_routes(self, hook: str) -> None:
        """The deployed routes; what would page somebody calls the test instead, under the receiver's name."""
        config = yaml.safe_load((DEPLOY / "alerts" / "alertmanager.yml").read_text())
        for route in (config["route"], *config["route"]["routes"]):
            route["group_wait"] = "1s"
            route["group_interval"] = "1s"
        config["receivers"] = [
            {
                "name": receiver["name"],
                "webhook_configs": [{"url": f"{hook}/{receiver['name']}"}],
                "email_configs": [
                    {
                        "to": f"{receiver['name']}@example.org",
                        "from": "alerts@example.org",
                        "smarthost": self._smarthost,
                        "require_tls": False,
                    }
                ],
            }
            for receiver in config["receivers"]
        ]
        (self._folder / "alertmanager.yml").write_text(yaml.safe_dump(config))

    def __enter__(self) -> "Stack":
        try:
            self._start(
                require_program("prometheus-alertmanager"),
                f"--config.file={self._folder}/alertmanager.yml",
                f"--storage.path={self._folder}/alerts",
                f"--web.listen-address=127.0.0.1:{self._alerts}",
                "--cluster.listen-address=",
            )
            self._start(
                require_program("prometheus"),
                f"--config.file={self._folder}/prometheus.yml",
                f"--storage.tsdb.path={self._folder}/prometheus",
                "--web.enable-remote-write-receiver",
                f"--web.listen-address=127.0.0.1:{self._prometheus}",
            )
            self._start(
                require_program("victoria-metrics"),
                f"-storageDataPath={self._folder}/store",
                f"-httpListenAddr=127.0.0.1:{self._store}",
                f"-promscrape.config={self._folder}/prometheus.yml",
                "-promscrape.config.strictParse=false",
                "-search.latencyOffset=0s",
                "-retentionPeriod=1d",
                "-memory.allowedBytes=64MB",
            )
            for port, path in (
                (self._alerts, "/-/ready"),
                (self._prometheus, "/-/ready"),
                (self._store, "/health"),
            ):
                self._wait(f"http://127.0.0.1:{port}{path}")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop()

    def _start(self, *words: str) -> None:
        name = Path(words[0]).name
        with (self._folder / f"{name}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(words, stdout=log, stderr=log, cwd=self._folder))

    def _stop(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def _wait(self, url: str) -> None:
        until = time.monotonic() + STARTS_WITHIN_S
        while True:
            try:
                fetch(url)
                return
            except OSError:
                assert time.monotonic() < until, f"nothing answers at {url}"
                time.sleep(0.1)

    @property
    def prometheus_write(self) -> str:
        """Where Prometheus takes what agents send."""
        return f"http://127.0.0.1:{self._prometheus}/api/v1/write"

    def prometheus(self, expression: str) -> list[dict[str, Any]]:
        return _query(f"http://127.0.0.1:{self._prometheus}", expression)

    def store(self, expression: str) -> list[dict[str, Any]]:
        """As Grafana would ask VictoriaMetrics."""
        return _query(f"http://127.0.0.1:{self._store}", expression)


def fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - always http, and of this machine
        return str(answer.read().decode())


def _query(url: str, expression: str) -> list[dict[str, Any]]:
    asked = f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    try:
        found: list[dict[str, Any]] = json.loads(fetch(asked))["data"]["result"]
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
    return found
