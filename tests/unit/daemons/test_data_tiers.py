"""The tiers of a configuration: which are refused, and what plain permissions say of a source."""

import os
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from lattice.config.load import ConfigError
from lattice.config.schema import ServerConfig
from lattice.config.sections.data import DataSection, DataTiersSection, HotTierSection, WarmTierSection
from lattice.config.sections.front import ApiSection
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


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("file:///elsewhere/{id}", "is in no tier of data.tiers.warm"),
        ("s3://results/{id}", "writable: true"),
        ("file:///warm/{who}/{id}", "{who} is not known"),
        ("file:///warm/../{id}", "has . or .. in its path"),
    ],
)
def test_a_place_for_output_that_cannot_be_is_refused(output: str, words: str) -> None:
    plain = config("", "file:///warm", "s3://results")
    data = replace(plain.data, output=output)
    with pytest.raises(ConfigError, match=re.escape(words)):
        data_tiers(replace(plain, data=data))


def test_a_place_for_output_is_known_to_submissions() -> None:
    plain = config("", "file:///warm")
    output = "file:///warm/{tenant}/{project}/{id}"
    assert data_tiers(replace(plain, data=replace(plain.data, output=output))).output == output


def test_a_site_without_tiers_has_none() -> None:
    assert not data_tiers(config("")).has_hot


@pytest.mark.root
def test_plain_permissions_are_judged_at_submission(open_path: Path) -> None:
    (open_path / "open").mkdir()
    (open_path / "closed").mkdir(mode=0o700)
    (open_path / "own").mkdir(mode=0o700)
    os.chown(open_path / "own", 65534, 65534)
    tiers = data_tiers(config("/hot", f"file://{open_path}"))

    def why(name: str, account: str) -> str:
        return tiers.why_unreadable(f"file://{open_path}/{name}", account)

    assert [why(name, "nobody") for name in ("open", "own")] == ["", ""]
    assert why("closed", "nobody") == f"nobody may not read {open_path}/closed"
    assert why("gone", "nobody") == why("gone", "root") == f"{open_path}/gone does not exist"
    assert why("closed", "root") == why("closed", "no-such-account") == ""
