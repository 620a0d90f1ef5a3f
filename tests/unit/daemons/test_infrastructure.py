"""Which system is told of drift, as the configuration says."""

from pathlib import Path

import msgspec
import pytest

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.secrets import SecretError
from lattice.daemons.server.infrastructure import infrastructure_of
from lattice.integrations.openchami.client import OpenChami


def config(tmp_path: Path, mode: str = "dev", **openchami: object) -> ServerConfig:
    fields = {"data_dir": str(tmp_path), "mode": mode, "api": {"hmac_secret": "env://X"}, "openchami": openchami}
    return msgspec.convert(fields, ServerConfig)


def test_nobody_is_told_unless_an_address_is_given(tmp_path: Path) -> None:
    assert infrastructure_of(config(tmp_path)) is None


def test_an_address_and_a_token_make_a_client(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    made = infrastructure_of(config(tmp_path, url="https://smd.example.org", token=f"file://{token}"))
    assert isinstance(made, OpenChami)


def test_a_token_does_not_travel_in_the_open_in_production(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("secret\n")
    token.chmod(0o600)
    with pytest.raises(ConfigError, match="must be https"):
        infrastructure_of(config(tmp_path, "production", url="http://smd.example.org", token=f"file://{token}"))


def test_what_cannot_be_read_is_said_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(SecretError):
        infrastructure_of(config(tmp_path, url="https://smd.example.org", token=f"file://{tmp_path}/none"))
    with pytest.raises(ConfigError, match=r"openchami\.ca_file"):
        infrastructure_of(config(tmp_path, url="https://smd.example.org", ca_file=str(tmp_path / "none")))
