"""Agents by certificate, against a server in production mode: files, the cluster's own authority, SPIRE, and a token where all fail."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509

from lattice.api.auth.tokens import sign_token
from lattice.testing.waiting import eventually
from lattice_sdk import Client, NotFound
from tests.e2e.site_authority import SiteAuthority
from tests.e2e.spire_agent import SpireAgent, listening

pytestmark = pytest.mark.e2e
SECRET = b"s" * 40
PROGRAMS = Path(sys.executable).parent
LIFETIME_S = 5.0


def token(**more: Any) -> str:  # noqa: ANN401 - any claim
    fields: dict[str, Any] = {"user": "root", "scope": "admin", "tenants": ["default"], **more}
    return sign_token(SECRET, issued_at_s=int(time.time()), lifetime_s=600, **fields)


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = SiteAuthority(folder / "tls")
        self.stranger = SiteAuthority(folder / "stranger", "stranger")
        self.server: subprocess.Popen[str] | None = None
        self.endpoints: dict[str, str] = {}

    def start(self) -> None:
        certificate, key = self.authority.issue("server")
        secret = self.folder / "secret"
        secret.write_bytes(SECRET)
        secret.chmod(0o600)
        api = {
            "rest_listen": "127.0.0.1:0",
            "grpc_listen": "127.0.0.1:0",
            "agent_listen": "127.0.0.1:0",
            "hmac_secret": f"file://{secret}",
            "tls": {"certificate": str(certificate), "key": str(key), "client_ca": str(self.authority.ca)},
            "node_spiffe_id": "spiffe://site/lattice/agent/{node}",
            "node_domain": "alps.lattice.internal",
            "node_certificate_lifetime": LIFETIME_S,
        }
        timings = {"heartbeat_interval_s": 0.3, "heartbeat_timeout_s": 5}
        config = self.folder / "server.yaml"
        data = self.folder / "data"
        settings = {"mode": "production", "data_dir": str(data), "api": api, "node_agent": timings}
        config.write_text(yaml.safe_dump(settings))
        with (self.folder / "server.log").open("w") as log:
            self.server = subprocess.Popen([PROGRAMS / "lattice-server", "--config", config], stderr=log, text=True)
        found = eventually((data / "endpoints.json").exists, "the server listens", within_s=30)
        assert found
        self.endpoints = json.loads((data / "endpoints.json").read_text())

    @property
    def client(self) -> Client:
        return Client(self.endpoints["rest"], token=token(), ca_file=self.authority.ca)

    def node(self, name: str) -> Any:  # noqa: ANN401 - a node of the client library
        with self.client as client, contextlib.suppress(NotFound):
            return client.get_node(name)
        return None

    def is_ready(self, name: str) -> bool:
        node = self.node(name)
        return node is not None and node.state == "Ready"

    def has_recorded(self, text: str) -> bool:
        """Whether a refusal with this in its words is in the audit chain, with the address that it met."""
        with self.client as client:
            return any(text in entry.detail and entry.subject == "127.0.0.1" for entry in client.query_audit())

    @contextlib.contextmanager
    def agent(self, node: str, *words: object, servers: str = "agents", **environment: str) -> Iterator["Agent"]:
        agent = Agent(self, node, [str(word) for word in words], servers, environment)
        agent.start()
        try:
            yield agent
        finally:
            agent.remove()


class Agent:
    def __init__(self, site: Site, node: str, words: list[str], servers: str, environment: dict[str, str]) -> None:
        self.state = site.folder / f"state-{node}"
        self.log = site.folder / f"{node}.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LATTICE_")}
        self._environment = {**kept, **environment}
        self.words = words
        self._common: list[str | Path] = [
            *(PROGRAMS / "lattice-agent", "--node-id", node, "--state-dir", self.state, "--cpus", "1"),
            *("--memory-mb", "512", "--servers", f"https://{site.endpoints[servers]}"),
        ]
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        with self.log.open("a") as log:
            self.process = subprocess.Popen([*self._common, *self.words], stderr=log, env=self._environment, text=True)

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)

    def remove(self) -> None:
        """The agent, and the shim that would outlive it."""
        self.stop()
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and str(self.state).encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)

    @property
    def serial(self) -> int:
        pem = (self.state / "identity" / "node.crt").read_bytes()
        return x509.load_pem_x509_certificate(pem).serial_number


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    found = Site(tmp_path_factory.mktemp("site"))
    try:
        found.start()
        with found.client as client:
            for name in ("t1", "n1"):
                client.admit_node(name)
        yield found
    finally:
        if found.server is not None:
            found.server.kill()
            found.server.wait()


def files(site: Site, node: str, name: str, authority: SiteAuthority | None = None, **more: Any) -> list[object]:  # noqa: ANN401 - as SiteAuthority.issue
    certificate, key = (authority or site.authority).issue(name, as_file=f"node-{node}", **more)
    return ["--bootstrap-cert", certificate, "--bootstrap-key", key, "--bootstrap-ca", site.authority.ca]


def test_certificates_from_files_whose_name_is_the_nodes(site: Site) -> None:
    with site.agent("x1", *files(site, "x1", "x1.alps.lattice.internal")) as agent:
        eventually(lambda: site.node("x1") is not None, "the node has registered")
        assert site.node("x1").state == "Quarantine", "nobody has admitted it"
        assert "lattice admin node admit x1" in site.node("x1").reason
        with site.client as client:
            client.admit_node("x1", reason="new rack")
        eventually(lambda: site.is_ready("x1"), "the node is ready")
        with site.client as client:
            assert client.revoke_node("x1", reason="key was copied").standing == "revoked"
        eventually(lambda: site.node("x1").state == "Down", "the node is out")
        eventually(lambda: "were revoked" in agent.log.read_text(), "its certificate is refused")
        with site.client as client:
            kinds = [entry.type for entry in client.query_audit() if entry.subject == "x1"]
        assert [kind for kind in kinds if kind.startswith("node.")][:3] == ["node.join", "node.admit", "node.revoke"]


def test_an_enrolment_token_brings_one_certificate(site: Site, tmp_path: Path) -> None:
    given = tmp_path / "token"
    given.write_text(token(user="e3", scope="", tenants=[], kind="agent", node="e3"))
    words = ["--enroll-servers", site.endpoints["grpc"], "--bootstrap-ca", site.authority.ca, "--token-file", given]
    with site.agent("e3", *words) as agent:
        eventually(lambda: site.is_ready("e3"), "the node is ready")
    shutil.rmtree(agent.state / "identity")
    agent.log.unlink()
    with site.agent("e3", *words) as agent:
        eventually(lambda: "was used already" in agent.log.read_text(), "the second use is refused")


@pytest.mark.parametrize(
    ("recorded", "name", "is_known", "uri"),
    [
        ("for node x1", "x1.alps.lattice.internal", True, ""),
        ("'idp', which is no node", "idp", True, ""),  # of the same authority, for something else
        ("", "x2", False, ""),  # of an authority that nobody here knows: it does not get as far as a record
        ("spiffe://site/database/x2 is not the id of", "x2", True, "spiffe://site/database/x2"),
    ],
)
def test_certificates_that_are_not_the_nodes_are_refused(
    site: Site, recorded: str, name: str, is_known: bool, uri: str
) -> None:
    authority = None if is_known else site.stranger
    with site.agent("x2", *files(site, "x2", name, authority, uri=uri)) as agent:
        eventually(lambda: "no stream to" in agent.log.read_text(), "the agent is refused")
        assert site.node("x2") is None
        eventually(lambda: not recorded or site.has_recorded(recorded), "the refusal is recorded")
    agent.log.unlink()


def test_the_cluster_issues_certificates_and_renews_them_while_the_stream_goes_on(site: Site, tmp_path: Path) -> None:
    given = tmp_path / "token"
    printed = subprocess.run(
        [PROGRAMS / "lattice-server", "--config", site.folder / "server.yaml", "--agent-token", "e1"],
        capture_output=True,
        text=True,
        check=True,
    )
    given.write_text(printed.stdout)
    words = ["--enroll-servers", site.endpoints["grpc"], "--bootstrap-ca", site.authority.ca, "--token-file", given]
    with site.agent("e1", *words) as agent:
        eventually(lambda: site.is_ready("e1"), "the node is ready")
        assert stat.S_IMODE((agent.state / "identity" / "node.key").stat().st_mode) == 0o600
        given.unlink()  # good for the first certificate; the next ones are got with those before
        for _ in range(4):
            serial = agent.serial
            eventually(partial(_has_other, agent, serial), "a new certificate", within_s=LIFETIME_S * 2)
        # Longer than the first certificate was good for, and still the first stream.
        assert site.is_ready("e1")
        assert "no stream to" not in agent.log.read_text()
        agent.stop()
        agent.words = [word for word in agent.words if "token" not in word]
        agent.start()
        log = agent.log
        eventually(lambda: log.read_text().count("certificate from the cluster") > 3, "the kept one is used")
        eventually(lambda: site.is_ready("e1"), "the node is ready again")


def _has_other(agent: Agent, serial: int) -> bool:
    return agent.serial != serial


def test_a_token_for_one_node_brings_no_certificate_for_another(site: Site, tmp_path: Path) -> None:
    given = tmp_path / "token"
    given.write_text(token(user="n1", scope="", tenants=[], kind="agent", node="e1"))
    words = ["--enroll-servers", site.endpoints["grpc"], "--bootstrap-ca", site.authority.ca, "--token-file", given]
    with site.agent("e2", *words) as agent:
        eventually(lambda: "known as node e1" in agent.log.read_text(), "the request is refused")
        assert site.node("e2") is None
        eventually(lambda: site.has_recorded("known as node e1"), "the refusal is recorded")


def test_a_token_is_enough_over_tls_where_no_certificate_can_be_had(site: Site, tmp_path: Path) -> None:
    given = tmp_path / "token"
    given.write_text(token(user="agents", scope="", tenants=[], kind="agent"))
    words = ["--bootstrap-ca", site.authority.ca, "--token-file", given, "--spire-socket", tmp_path / "nothing"]
    with site.agent("t1", *words, servers="grpc") as agent:
        eventually(lambda: site.is_ready("t1"), "the node is ready")
        assert "no certificate from SPIRE" in agent.log.read_text()


@contextlib.contextmanager
def spire(agent: SpireAgent, socket: Path) -> Iterator[None]:
    """On a loop of its own beside the test."""
    loop = asyncio.new_event_loop()
    stopped, ready = asyncio.Event(), threading.Event()

    async def serve() -> None:
        async with listening(agent, socket):
            ready.set()
            await stopped.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        assert ready.wait(10)
        yield
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)
        loop.close()


def test_a_spire_agent_is_asked_first_and_again_before_its_certificate_ends(site: Site, tmp_path: Path) -> None:
    certificate, key = site.authority.issue(
        "workload", as_file="svid", uri="spiffe://site/lattice/agent/n1", lifetime_s=6, age_s=0
    )
    server = SpireAgent(certificate, key, site.authority.ca)
    socket = Path(f"/tmp/spire-{os.getpid()}.sock")
    with spire(server, socket), site.agent("n1", "--spire-socket", socket, *files(site, "n1", "nobody")) as agent:
        eventually(lambda: site.is_ready("n1"), "the node is ready")
        assert "certificate from SPIRE" in agent.log.read_text()
        assert "certificate from files" not in agent.log.read_text()
        site.authority.issue("workload", as_file="svid", uri="spiffe://site/lattice/agent/n1", lifetime_s=600)
        eventually(lambda: server.calls > 1, "the agent asks anew")
        assert "no stream to" not in agent.log.read_text()
