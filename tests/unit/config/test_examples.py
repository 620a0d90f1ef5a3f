"""The files that `lattice-server --example-config` prints."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import to_builtins

from lattice.config.load import load
from lattice.config.schema import ServerConfig
from lattice.daemons.programs.server import main

KINDS = ("minimal", "production")


@pytest.fixture(params=KINDS)
def printed(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["--example-config", request.param])
    assert ended.value.code == 0
    return capsys.readouterr().out


def uncommented(text: str) -> Iterator[str]:
    """Keys and tables that are switched off, switched on."""
    for line in text.splitlines():
        off = re.fullmatch(r"(# )?( *)(# )?([a-z_]+:( .*)?)", line)
        yield f"{off[2]}{off[4]}" if off else line


def test_an_example_is_a_configuration(printed: str, tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(printed)
    config = load(tmp_path / "server.yaml", ServerConfig, [])
    assert config.data_dir == "/var/lib/lattice/server"


def test_every_key_is_there_and_what_is_switched_off_is_the_default(printed: str, tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_text(printed)
    (tmp_path / "all.yaml").write_text("\n".join(uncommented(printed)))
    config = load(tmp_path / "server.yaml", ServerConfig, [])
    assert load(tmp_path / "all.yaml", ServerConfig, []) == config
    assert not set(paths(to_builtins(config))) - set(paths(yaml.safe_load((tmp_path / "all.yaml").read_text())))


def paths(value: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 - a tree of YAML
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from paths(inner, f"{path}.{key}")
    else:
        yield path


def test_an_unknown_example_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--example-config", "tiny"])
    assert ended.value.code == 2
    assert "invalid choice: 'tiny'" in capsys.readouterr().err
