"""`lattice-server init`: what a first server needs, written once."""

import ssl
import stat
import sys
from pathlib import Path

import pytest

from lattice.api.auth.rbac import Role
from lattice.api.auth.tokens import TokenVerifier
from lattice.config.load import ConfigError, load
from lattice.config.schema import ServerConfig
from lattice.daemons.programs.server import check_settings
from lattice.daemons.programs.server_check import check_surroundings
from lattice.daemons.programs.server_init import UNITS, init
from lattice.ports.clock import SystemClock

DEPLOY = Path(__file__).parents[3] / "deploy" / "systemd"


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    data, folder = tmp_path / "data", tmp_path / "etc"
    return ["--dir", str(folder), "--data-dir", str(data), "--host", "s1.site.test", "--admin", "ada"]


def test_what_it_writes_can_be_used_as_it_is(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(words) == 0
    folder = tmp_path / "etc"
    # Its own ports may be in use: by a cluster of whoever runs the tests.
    free = ["api.rest_listen=127.0.0.1:0", "api.grpc_listen=127.0.0.1:0"]
    config = load(folder / "server.yaml", ServerConfig, free)
    check_settings(config)
    check_surroundings(config)
    assert (config.name, config.api.advertised_url) == ("s1", "https://s1.site.test:8443")
    secret = (folder / "server.secret").read_bytes().strip()
    caller = TokenVerifier(secret, SystemClock()).verify((folder / "admin.token").read_text().strip())
    assert (caller.user, caller.roles) == ("ada", (Role.SYSTEM_ADMIN,))
    assert "--agent-token NODE" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("host", "name"), [("10.0.0.1", "server"), ("::1", "server"), ("7", "7"), ("on.site.test", "on"), ("s1", "s1")]
)
def test_a_server_has_a_name_that_its_file_can_hold(words: list[str], tmp_path: Path, host: str, name: str) -> None:
    assert init([*words, "--host", host, "--cluster", "1e5"]) == 0
    config = load(tmp_path / "etc" / "server.yaml", ServerConfig, [])
    assert (config.name, config.slurm.cluster_name) == (name, "1e5")
    with pytest.raises(ConfigError, match="--cluster: 'a b' is not a valid name"):
        init([*words, "--dir", str(tmp_path / "more"), "--cluster", "a b"])
    assert not (tmp_path / "more").exists()


def test_the_file_of_the_package_that_holds_only_comments_is_filled_in(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "config.yaml").write_text(
        "# Where the commands find the cluster.\n\n# endpoint: https://s1:8443\n"
    )
    assert init(words) == 0
    assert "\nendpoint: https://s1.site.test:8443\n" in (tmp_path / "etc" / "config.yaml").read_text()


def test_the_certificate_is_trusted_by_the_file_for_clients(words: list[str], tmp_path: Path) -> None:
    init(words)
    folder = tmp_path / "etc" / "tls"
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(folder / "ca.crt"))
    server.load_cert_chain(folder / "server.crt", folder / "server.key")
    for name in ("s1.site.test", "s1", "localhost", "127.0.0.1"):
        shake_hands(server, client, name)


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    served = server.wrap_bio(to_server, to_client, server_side=True)
    asked = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(2):
        for side in (asked, served):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert asked.getpeercert() is not None


def test_secrets_are_private(words: list[str], tmp_path: Path) -> None:
    init(words)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "etc").rglob("*") if path.is_file()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {"server.secret", "server.key", "admin.token"}


def test_nothing_is_overwritten_and_nothing_half_written(words: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    (folder / "config.yaml").write_text("endpoint: https://mine\n")
    with pytest.raises(ConfigError, match=r"init overwrites nothing: .*config.yaml exists already"):
        init(words)
    assert [path.name for path in folder.iterdir()] == ["config.yaml"]
    assert (folder / "config.yaml").read_text() == "endpoint: https://mine\n"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (["--host", "no host"], "not the name or address of a machine"),
        (["--admin", "a b"], "not a valid user name"),
        (["--dir", "/tmp/a b"], "characters"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], changed: list[str], why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=why):
        init([*words, *changed])
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize("name", UNITS)
def test_units_are_those_of_deploy_with_the_paths_of_this_installation(
    name: str, words: list[str], tmp_path: Path
) -> None:
    init(words)
    written = (tmp_path / "etc" / "systemd" / name).read_text()
    program = str(Path(sys.executable).parent)
    assert (
        written.replace(program, "/opt/lattice/bin").replace(str(tmp_path / "etc"), "/etc/lattice")
        == (DEPLOY / name).read_text()
    )
