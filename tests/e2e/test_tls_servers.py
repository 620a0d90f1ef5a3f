"""Two servers in production mode: one follows, and serves users by TLS and agents by certificate all the same."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from lattice.api.auth.tokens import sign_token
from lattice.testing import eventually
from lattice_sdk import Client, Submission
from tests.conftest import require_program
from tests.e2e.test_agent_identity import SECRET, Site
from tests.integration.quorum.etcd_world import free_address

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]
PROGRAMS = Path(sys.executable).parent


@contextmanager
def server(name: str, site: Site, *words: object) -> Iterator[dict[str, str]]:
    """Its endpoints, when it serves."""
    folder = site.folder / name
    folder.mkdir()
    certificate, key = site.authority.issue(name)
    rest, grpc = free_address(), free_address()
    peer = {
        "name": name,
        "rest": f"https://{rest}",
        "grpc": grpc,
        "client": free_address(),
        "peer": free_address(),
    }
    settings: dict[str, Any] = {
        "name": name,
        "mode": "production",
        "data_dir": str(folder / "data"),
        "api": {
            "rest_listen": rest,
            "grpc_listen": grpc,
            "agent_listen": "127.0.0.1:0",
            "hmac_secret": f"file://{site.folder / 'secret'}",
            "tls": {"certificate": str(certificate), "key": str(key), "client_ca": str(site.authority.ca)},
            "node_domain": "alps.lattice.internal",
        },
        "quorum": {
            "kind": "etcd",
            "peers": [peer],
            "internal_listen": "127.0.0.1:0",
            "relay_listen": "127.0.0.1:0",
        },
        "object_store": {"directory": str(site.folder / "objects")},
    }
    config = folder / "server.yaml"
    config.write_text(yaml.safe_dump(settings))
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [str(word) for word in (PROGRAMS / "lattice-server", "--config", config, *words)], stdout=log, stderr=log
        )
    endpoints = folder / "data" / "endpoints.json"

    def serves() -> bool:
        assert process.poll() is None, (folder / "log").read_text()[-2000:]
        return endpoints.exists()

    try:
        eventually(serves, f"{name} serves", within_s=90)
        yield json.loads(endpoints.read_text())
    finally:
        process.terminate()
        process.wait(30)


def test_a_follower_serves_users_by_tls_and_agents_by_certificate(tmp_path_factory: pytest.TempPathFactory) -> None:
    require_program("etcd")
    site = Site(tmp_path_factory.mktemp("tls"))
    secret = site.folder / "secret"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    admin = site.folder / "admin"
    admin.write_text(
        sign_token(
            SECRET, user="root", issued_at_s=int(time.time()), lifetime_s=600, scope="admin", tenants=["default"]
        )
    )
    invitation = site.folder / "s2.join"
    with server("s1", site, "--bootstrap") as first:
        words = ["admin", "raft", "members", "add", "s2", "--out", str(invitation), "--token-file", str(admin)]
        place = ["--api-url", first["rest"], "--ca-file", str(site.authority.ca)]
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LATTICE_")}
        subprocess.run([PROGRAMS / "lattice", *words, *place], check=True, env=kept, capture_output=True, timeout=60)
        with server("s2", site, "--join", "--join-token-file", invitation) as second:
            site.endpoints = second
            certificate, key = site.authority.issue("n1.alps.lattice.internal")
            files = ["--bootstrap-cert", certificate, "--bootstrap-key", key, "--bootstrap-ca", site.authority.ca]
            with Client(second["rest"], token_file=admin, ca_file=site.authority.ca) as client:
                client.admit_node("n1")
            with site.agent("n1", *files):
                eventually(lambda: site.is_ready("n1"), "the follower's agent is known to the leader", within_s=30)
                with Client(second["rest"], token_file=admin, ca_file=site.authority.ca) as client:
                    made = client.submit(Submission(entrypoint=["true"]))
                    assert client.get_allocation(made.id).state in (
                        "Pending",
                        "Starting",
                        "Running",
                        "Failed",
                        "Completed",
                    )
