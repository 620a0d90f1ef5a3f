"""Secrets from Vault: against a small server that speaks the key-value interface, version 2."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError, resolve
from lattice.config.sections.front import ApiSection
from lattice.config.sections.outside import VaultSection
from lattice.daemons.outside.vaults import vault_of

REFERENCE = "env://PLANTED"
TOKEN = "hvs.planted-vault-token"
SECRETS = {
    "lattice/one": {"value": "only one"},
    "lattice/two": {"password": "p4ss", "user": "ada"},
    "lattice/odd": {"value": 7},
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        path = self.path.removeprefix("/v1/secret/data/")
        if self.headers["X-Vault-Token"] != TOKEN:
            self._answer(403, {"errors": ["permission denied"]})
        elif path == "lattice/moved":
            self.send_response(307)
            self.send_header("Location", "http://127.0.0.1:1/")
            self.end_headers()
        elif path == "lattice/old":
            self._answer(200, {"data": {"value": "an engine of version 1"}})
        elif path in SECRETS and self.headers.get("X-Vault-Namespace", "") in ("", "hpc"):
            self._answer(200, {"data": {"data": SECRETS[path], "metadata": {"version": 3}}})
        else:
            self._answer(404, {"errors": []})

    def _answer(self, status: int, body: object) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        return


@pytest.fixture
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def fetch(address: str, reference: str, token: str = REFERENCE, mode: str = "dev") -> bytes:
    config = ServerConfig(
        data_dir="/nowhere",
        mode=mode,  # type: ignore[arg-type]
        api=ApiSection(hmac_secret=reference),
        vault=VaultSection(address=address, token=token, timeout=2.0, namespace="hpc"),
    )
    return resolve(reference, key="api.hmac_secret", mode=mode, vault=vault_of(config))


def test_a_secret_is_found_by_path_and_field(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", TOKEN)
    assert fetch(address, "vault://lattice/one") == b"only one"
    assert fetch(address, "vault://lattice/two#password") == b"p4ss"


@pytest.mark.parametrize(
    ("path", "token", "expected"),
    [
        ("lattice/none", TOKEN, "there is no secret at lattice/none"),
        ("lattice/two", TOKEN, "no text called value"),
        ("lattice/odd", TOKEN, "no text called value"),
        ("lattice/one", "another-planted-one", "the token may not read lattice/one"),
        ("lattice/moved", TOKEN, "redirect"),
        ("lattice/old", TOKEN, "version 2"),
        ("", TOKEN, "names no path"),
    ],
)
def test_what_goes_wrong_is_said_without_the_token(
    address: str, monkeypatch: pytest.MonkeyPatch, path: str, token: str, expected: str
) -> None:
    monkeypatch.setenv("PLANTED", token)
    with pytest.raises(SecretError, match=f"api.hmac_secret: vault: .*{expected}") as refused:
        fetch(address, f"vault://{path}")
    assert token not in str(refused.value)


def test_a_vault_that_is_not_there_or_not_safe_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANTED", TOKEN)
    with pytest.raises(SecretError, match="cannot be reached"):
        fetch("http://127.0.0.1:1", "vault://lattice/one")
    with pytest.raises(SecretError, match="must be https"):
        fetch("http://127.0.0.1:1", "vault://lattice/one", mode="production")
    with pytest.raises(SecretError, match=r"vault\.token: a secret may not stand in the file"):
        fetch("https://127.0.0.1:1", "vault://lattice/one", token=TOKEN, mode="production")
    with pytest.raises(SecretError, match=r"set vault\.address"):
        fetch("", "vault://lattice/one")
