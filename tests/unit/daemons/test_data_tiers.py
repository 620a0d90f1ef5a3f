"""The tiers of a configuration: which are refused, and what plain permissions say of a source."""

import os
from pathlib import Path

import pytest

from lattice.config.load import ConfigError
from lattice.config.schema import (
    ApiSection,
    DataSection,
    DataTiersSection,
    HotTierSection,
    ServerConfig,
    WarmTierSection,
)
from lattice.daemons.outside.data import data_tiers


def config(hot: str, *warm: str) -> ServerConfig:
    tiers = DataTiersSection(hot=HotTierSection(directory=hot), warm=[WarmTierSection(url=url) for url in warm])
    return ServerConfig(data_dir="/x", api=ApiSection(hmac_secret=""), data=DataSection(tiers=tiers))


@pytest.mark.parametrize(
    ("hot", "warm", "words"),
    [
        ("/warm/hot", "file:///warm", "lies in a warm tier"),
        ("/hot", "file:///hot/inner", "lies in a warm tier"),
        ("/hot", "s3://bucket/prefix", "name the bucket alone"),
        ("/hot", "file:///warm/", "write the path out"),
    ],
)
def test_tiers_that_cannot_be_are_refused(hot: str, warm: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        data_tiers(config(hot, warm))


def test_a_site_without_tiers_has_none() -> None:
    assert not data_tiers(config("")).has_hot


@pytest.mark.root
def test_plain_permissions_are_judged_at_submission(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    (tmp_path / "open").mkdir()
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "own").mkdir(mode=0o700)
    os.chown(tmp_path / "own", 65534, 65534)
    tiers = data_tiers(config("/hot", f"file://{tmp_path}"))

    def why(name: str, account: str) -> str:
        return tiers.why_unreadable(f"file://{tmp_path}/{name}", account)

    assert [why(name, "nobody") for name in ("open", "own")] == ["", ""]
    assert why("closed", "nobody") == f"nobody may not read {tmp_path}/closed"
    assert why("gone", "nobody") == why("gone", "root") == f"{tmp_path}/gone does not exist"
    assert why("closed", "root") == why("closed", "no-such-account") == ""
