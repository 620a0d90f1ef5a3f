"""The server's certificate: what is refused, and what happens to files that are replaced."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.sections.front import TlsSection
from lattice.daemons.server.tls import ServerTls, TlsUnusable, check_tls
from tests.e2e.site_authority import SiteAuthority


def config(mode: str = "production", **api: Any) -> ServerConfig:  # noqa: ANN401 - any setting
    fields = {"data_dir": "/tmp/x", "mode": mode, "api": {"hmac_secret": "env://X", **api}}
    return msgspec.convert(fields, ServerConfig)


def test_files_that_cannot_be_used_leave_the_old_ones_in_force(tmp_path: Path) -> None:
    authority = SiteAuthority(tmp_path)
    certificate, key = authority.issue("server")
    tls = ServerTls(TlsSection(certificate=str(certificate), key=str(key)))
    assert not tls.reload()
    good = key.read_bytes()
    key.write_text("rubbish")
    assert not tls.reload()
    key.write_bytes(good)
    other, _ = authority.issue("server", as_file="other")
    os.replace(other, certificate)
    assert not tls.reload(), "a certificate and the key of another one"
    authority.issue("server")
    assert tls.reload()
    assert not tls.reload()


def test_a_key_that_everybody_can_read_is_refused_in_production(tmp_path: Path) -> None:
    certificate, key = SiteAuthority(tmp_path).issue("server")
    settings: Any = {"tls": {"certificate": str(certificate), "key": str(key)}}
    check_tls(config(**settings))
    key.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        check_tls(config(**settings))
    check_tls(config("dev", **settings))


def _a_folder(_certificate: Path, key: Path) -> None:
    key.unlink()
    key.mkdir(mode=0o700)


def _another_key(_certificate: Path, key: Path) -> None:
    write_key(key)


def _a_passphrase(_certificate: Path, key: Path) -> None:
    write_key(key, serialization.BestAvailableEncryption(b"secret"))


def write_key(path: Path, encryption: serialization.KeySerializationEncryption | None = None) -> None:
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    made = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(made.private_bytes(pem, form, encryption or serialization.NoEncryption()))


@pytest.mark.parametrize("section", ["tls", "grpc_tls"])
@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda _certificate, key: key.unlink(), r"\.key: cannot read .*server\.key: No such file"),
        (lambda certificate, _key: certificate.unlink(), r"\.certificate: cannot read .*: No such file"),
        (_a_folder, r"\.key: cannot read .*: Is a directory"),
        (lambda _certificate, key: key.write_text("rubbish"), r"\.key: .* is not the key of .*not PEM"),
        (_another_key, r"\.key: .* is not the key of .*KEY_VALUES_MISMATCH"),
        (_a_passphrase, r"\.key: cannot use .*: it has a passphrase"),
    ],
)
def test_files_that_cannot_be_used_are_told_before_anything_starts(
    tmp_path: Path, section: str, spoil: Callable[[Path, Path], None], complaint: str
) -> None:
    authority = SiteAuthority(tmp_path)
    pairs = {name: authority.issue("server", as_file=name) for name in ("server", "other")}
    named = {"tls": "other", "grpc_tls": "other", section: "server"}
    api: dict[str, Any] = {
        name: {"certificate": str(pairs[file][0]), "key": str(pairs[file][1])} for name, file in named.items()
    }
    api["grpc_tls"]["listen"] = "127.0.0.1:0"
    check_tls(config(**api))
    spoil(*pairs["server"])
    with pytest.raises(ConfigError, match=rf"^api\.{section}{complaint}"):
        check_tls(config(**api))


@pytest.mark.parametrize(
    ("mode", "api", "complaint"),
    [
        ("production", {}, "have no TLS"),
        ("dev", {"tls": {"key": "/k"}}, "must be given together"),
        ("dev", {"agent_listen": "127.0.0.1:0"}, "api.agent_listen"),
        ("dev", {"grpc_tls": {"listen": "127.0.0.1:0"}}, "api.grpc_tls"),
        ("dev", {"tls": {"client_ca": "/x"}}, "api.tls.client_ca"),
        (
            "production",
            {"tls": {"certificate": "/c", "key": "/k", "client_ca": "/x"}, "agent_listen": "127.0.0.1:0"},
            "set api.node_domain",
        ),
    ],
)
def test_what_is_refused(mode: str, api: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        check_tls(config(mode, **api))
    check_tls(config("dev"))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(TlsUnusable, match="nowhere"):
        ServerTls(TlsSection(certificate=str(tmp_path / "nowhere"), key=str(tmp_path / "nowhere")))
