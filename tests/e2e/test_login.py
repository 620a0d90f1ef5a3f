"""People log in at an identity provider: a server in production mode, a provider of its own process, the real command line."""

import contextlib
import http.client
import json
import os
import re
import socket
import ssl
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest
import yaml

from lattice.testing.waiting import eventually
from lattice_sdk import Client, NotAuthenticated
from tests.e2e.scripted_browser import ask as fetch
from tests.e2e.scripted_browser import log_in as browse
from tests.e2e.site_authority import SiteAuthority
from tests.integration.quorum.etcd_world import free_address

pytestmark = pytest.mark.e2e
HERE = Path(__file__).parent
LATTICE = Path(sys.executable).with_name("lattice")
SERVER = Path(sys.executable).with_name("lattice-server")


@contextmanager
def running(*command: object, **environment: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [str(word) for word in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


class Site:
    """A provider and a server that believes it, both over https."""

    def __init__(self, folder: Path, issuer: str, authority: SiteAuthority) -> None:
        self.folder = folder
        self.issuer = issuer
        self.authority = authority
        self.url = ""
        self.data = folder / "data"

    def config(self, mode: str = "production", **more: Any) -> Path:  # noqa: ANN401 - anything that YAML can say
        certificate, key = self.authority.issue("server")
        secret = self.folder / "secret"
        secret.write_text("s" * 40)
        secret.chmod(0o600)
        api = {
            "rest_listen": "127.0.0.1:0",
            "grpc_listen": "127.0.0.1:0",
            "hmac_secret": f"file://{secret}",
            "tls": {"certificate": str(certificate), "key": str(key), "reload_every": "100ms"},
            "oidc_issuer": self.issuer,
            "oidc_client_id": "lattice",
            "oidc": {"ca_file": str(self.authority.ca), "own_user_tokens": False},
            **more,
        }
        path = self.folder / "server.yaml"
        path.write_text(yaml.safe_dump({"mode": mode, "data_dir": str(self.data), "api": api}))
        return path

    def wait_for(self, server: "subprocess.Popen[str]") -> None:
        endpoints = self.data / "endpoints.json"

        def listens() -> bool:
            assert server.poll() is None, server.communicate()[1]
            return endpoints.exists()

        eventually(listens, "the server listens", within_s=30)
        self.url = json.loads(endpoints.read_text())["rest"]

    def control(self, **asked: Any) -> dict[str, Any]:  # noqa: ANN401 - anything that JSON can say
        parts = urlsplit(self.issuer)
        trust = ssl.create_default_context(cafile=self.authority.ca)
        connection = http.client.HTTPSConnection(str(parts.hostname), parts.port, context=trust, timeout=10)
        connection.request("POST", "/control", json.dumps(asked))
        with contextlib.closing(connection), connection.getresponse() as response:
            answer: dict[str, Any] = json.loads(response.read())
        return answer


class Person:
    """Somebody's shell: an empty home, no token, a browser that knows the password."""

    def __init__(self, site: Site, home: Path, user: str) -> None:
        self.site = site
        self.user = user
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("LATTICE_", "XDG_"))},
            "HOME": str(home),
            "LATTICE_API_URL": site.url,
            "LATTICE_CA_FILE": str(site.authority.ca),
            "BROWSER": f"{sys.executable} {HERE / 'scripted_browser.py'} {site.authority.ca} {user} %s",
        }
        self.cache = home / ".config" / "lattice" / "tokens.json"

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [LATTICE, *words], capture_output=True, text=True, timeout=60, env=self.environment, check=False
        )

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [LATTICE, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )

    def name(self) -> str:
        outcome = self.run("whoami", "-q")
        assert outcome.returncode == 0, outcome.stderr
        return outcome.stdout.strip()

    @property
    def login(self) -> dict[str, Any]:
        kept: dict[str, dict[str, Any]] = json.loads(self.cache.read_text())
        return kept[self.site.url]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    authority = SiteAuthority(folder / "tls")
    files = authority.issue("provider")
    with running(sys.executable, HERE / "oidc_provider.py", 0, *files) as provider:
        assert provider.stdout is not None
        found = Site(folder, provider.stdout.readline().strip(), authority)
        with running(SERVER, "--config", found.config()) as server:
            found.wait_for(server)
            yield found


@pytest.fixture
def ada(site: Site, tmp_path: Path) -> Person:
    site.control(lifetime=300, claims={})
    return Person(site, tmp_path, "ada")


def test_login_with_a_browser_is_kept_for_later_commands(ada: Person) -> None:
    stranger = ada.run("whoami")
    assert (stranger.returncode, "not logged in" in stranger.stderr) == (5, True)
    assert "lattice login" in stranger.stderr
    outcome = ada.run("login")
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout == f"Logged in to {ada.site.url} as ada\n"
    assert stat.S_IMODE(ada.cache.stat().st_mode) == 0o600
    assert ada.name() == "ada"
    assert ada.run("status").returncode == 0


def test_the_client_library_uses_the_same_login(ada: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ada.run("login").returncode == 0
    monkeypatch.setenv("LATTICE_TOKEN_CACHE", str(ada.cache))
    with Client(ada.site.url, ca_file=ada.site.authority.ca) as client:
        assert client.whoami().user == "ada"


def test_login_with_a_code_on_another_device(ada: Person) -> None:
    for user, code in (("ada", 0), ("nobody", 5)):
        process = ada.start("login", "--flow", "device", "-o", "json")
        assert process.stderr is not None
        line = process.stderr.readline()
        page, shown = re.search(r"Open (\S+) on any device and enter the code (\S+)", line).groups()  # type: ignore[union-attr]
        fetch("POST", page, str(ada.site.authority.ca), f"user_code={shown}&user={user}")
        out, complaint = process.communicate(timeout=30)
        assert process.returncode == code, complaint
        if code == 0:
            assert json.loads(out)["user"] == "ada"
    assert "declined" in complaint
    assert ada.name() == "ada", "a failed login leaves the one before alone"


def test_login_by_hand(ada: Person) -> None:
    process = ada.start("login", "--flow", "manual")
    assert process.stderr is not None
    process.stderr.readline()
    url = process.stderr.readline().strip()
    address = browse(url, "ada", str(ada.site.authority.ca), visits=False)
    out, complaint = process.communicate(f"{address}\n", timeout=30)
    assert (process.returncode, out) == (0, f"Logged in to {ada.site.url} as ada\n"), complaint
    other = ada.start("login", "--flow", "manual")
    _, complaint = other.communicate(f"{address}\n", timeout=30)
    assert (other.returncode, "does not belong to this login" in complaint) == (5, True)


def test_a_token_near_its_end_is_renewed_and_the_used_refresh_token_is_worthless(ada: Person) -> None:
    ada.site.control(lifetime=40)
    assert ada.run("login").returncode == 0
    before = ada.login
    assert ada.name() == "ada"
    after = ada.login
    assert (before["token"] != after["token"], before["refresh_token"] != after["refresh_token"]) == (True, True)
    ada.site.control(lifetime=300)
    at_once = [ada.start("whoami", "-q") for _ in range(4)]
    for process in at_once:
        out, complaint = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, "ada\n"), f"two that renew at once disturb each other: {complaint}"
    kept = json.loads(ada.cache.read_text())
    kept[ada.site.url] = {**before, "expires_at": time.time() - 1}
    ada.cache.write_text(json.dumps(kept))
    refused = ada.run("whoami")
    assert (refused.returncode, "run `lattice login`" in refused.stderr) == (5, True)


def test_logout_forgets_and_revokes(ada: Person) -> None:
    assert ada.run("login").returncode == 0
    login = ada.login
    outcome = ada.run("logout", "-o", "json")
    assert json.loads(outcome.stdout) == {"server": ada.site.url, "was_logged_in": True, "revoked": True}
    assert {login["token"], login["refresh_token"]} <= set(ada.site.control()["revoked"])
    assert ada.run("whoami").returncode == 5
    assert ada.run("logout").stdout == f"Not logged in to {ada.site.url}\n"


def test_a_file_that_others_can_read_is_mended(ada: Person) -> None:
    assert ada.run("login").returncode == 0
    ada.cache.chmod(0o644)
    outcome = ada.run("whoami")
    assert (outcome.returncode, "could be read by others" in outcome.stderr) == (0, True)
    assert stat.S_IMODE(ada.cache.stat().st_mode) == 0o600


def test_new_keys_are_taken_up_and_withdrawn_ones_refused(ada: Person) -> None:
    assert ada.run("login").returncode == 0
    old = ada.login["token"]
    ada.site.control(rotate=True)

    def logs_in() -> bool:
        return ada.run("login").returncode == 0

    eventually(logs_in, "the new key is known", within_s=30)  # the server asks for keys again at most every ten seconds
    with Client(ada.site.url, token=old, ca_file=ada.site.authority.ca) as client, pytest.raises(NotAuthenticated):
        client.whoami()
    assert ada.name() == "ada"


def test_roles_and_tenants_come_from_the_provider(ada: Person) -> None:
    ada.site.control(claims={"pact_role": "pact-platform-admin", "tenants": ["default"]})
    assert ada.run("login").returncode == 0
    assert json.loads(ada.run("whoami", "-o", "json").stdout)["roles"] == ["SystemAdmin"]
    ada.site.control(claims={"aud": "somebody-else"})
    refused = ada.run("login")
    assert (refused.returncode, "audience" in refused.stderr) == (5, True)
    assert json.loads(ada.run("whoami", "-o", "json").stdout)["roles"] == ["SystemAdmin"]


def test_tokens_signed_with_the_servers_secret_are_for_agents_and_allocations_alone(ada: Person) -> None:
    own = jwt.encode({"sub": "mallory", "exp": time.time() + 60, "scope": "admin"}, b"s" * 40, algorithm="HS256")
    with Client(ada.site.url, token=own, ca_file=ada.site.authority.ca) as client, pytest.raises(NotAuthenticated):
        client.whoami()


def test_a_server_of_an_unknown_authority_is_not_trusted(ada: Person) -> None:
    del ada.environment["LATTICE_CA_FILE"]
    outcome = ada.run("login")
    assert (outcome.returncode, "certificate" in outcome.stderr) == (6, True)


def shown_serial(site: Site) -> int:
    from cryptography import x509

    parts = urlsplit(site.url)
    pem = ssl.get_server_certificate((str(parts.hostname), parts.port or 0))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_a_replaced_certificate_is_taken_up_without_dropping_a_connection(site: Site) -> None:
    parts = urlsplit(site.url)
    trust = ssl.create_default_context(cafile=site.authority.ca)
    with (
        socket.create_connection((str(parts.hostname), parts.port or 0)) as plain,
        trust.wrap_socket(plain, server_hostname="localhost") as kept,
    ):
        before = shown_serial(site)
        site.authority.issue("server")
        eventually(lambda: shown_serial(site) != before, "the new certificate is shown", within_s=60)
        kept.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert kept.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"tls": {}}, "have no TLS"),
        ({"oidc_issuer": "http://idp.example.org"}, "is not https"),
        ({"oidc_client_id": ""}, "api.oidc_client_id: empty"),
        ({"hmac_secret": "s" * 40}, "may not stand in the file"),
        ({"tls": {"certificate": "/nowhere", "key": "/nowhere"}}, "/nowhere"),
        ({"tls": {"certificate": "/etc/hostname"}}, "must be given together"),
    ],
)
def test_production_refuses_to_start_without_what_makes_it_safe(
    site: Site, tmp_path: Path, change: dict[str, Any], complaint: str
) -> None:
    own = Site(tmp_path, site.issuer, SiteAuthority(tmp_path / "tls"))
    outcome = subprocess.run(
        [SERVER, "--config", own.config(**change)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (outcome.returncode, complaint in outcome.stderr) == (2, True), outcome.stderr
    assert "Traceback" not in outcome.stderr


def test_login_at_a_provider_of_somebody_else(tmp_path: Path) -> None:
    """oidc-provider-mock: its access tokens say nothing, so the cluster is shown the other one."""
    port = int(free_address().rpartition(":")[2])
    issuer = f"http://localhost:{port}"
    program = Path(sys.executable).with_name("oidc-provider-mock")
    site = Site(tmp_path, issuer, SiteAuthority(tmp_path / "tls"))
    claims = json.dumps({"tenants": ["default"], "lattice_role": "operator", "unix": "ada1"})
    with running(program, "--port", port):

        def answers() -> bool:
            connection = http.client.HTTPConnection("localhost", port, timeout=5)
            with contextlib.suppress(OSError), contextlib.closing(connection):
                connection.request("PUT", "/users/ada", claims, {"Content-Type": "application/json"})
                with connection.getresponse() as answer:
                    return answer.status == 204
            return False

        eventually(answers, "the provider listens", within_s=30)
        oidc = {
            "login_token": "id_token",
            "scopes": ["openid", "profile"],
            "account_claim": "unix",
            "public_client_secret": "known-to-everybody",
        }
        with running(SERVER, "--config", site.config("dev", oidc=oidc)) as server:
            site.wait_for(server)
            ada = Person(site, tmp_path, "ada")
            outcome = ada.run("login")
            assert outcome.returncode == 0, outcome.stderr
            who = json.loads(ada.run("whoami", "-o", "json").stdout)
            assert (who["user"], who["account"], who["roles"]) == ("ada", "ada1", ["Operator"])
