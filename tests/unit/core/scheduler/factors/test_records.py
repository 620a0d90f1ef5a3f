"""A factor is described once: everything that lists factors agrees with their records."""

import argparse
import re
from pathlib import Path

import pytest

from lattice.cli.commands.admin import weights as command
from lattice.core.model.site.weights import FACTORS, PROFILES, RECORDS
from lattice.core.scheduler.score.factors.registry import IN_ORDER, REGISTRY
from lattice.core.scheduler.score.profiles import WEIGHTS
from lattice_sdk import factors as sdk

ROOT = Path(__file__).resolve().parents[5]
COUNTED = re.compile(r"\b(?:\d+|nine|ten|eleven|twelve)\s+factors\b", re.IGNORECASE)


def test_every_record_has_a_function_of_its_name() -> None:
    assert list(REGISTRY) == list(FACTORS)
    assert [function.__name__ for function in IN_ORDER] == [record.name for record in RECORDS]


def test_every_factor_has_a_weight_in_every_profile() -> None:
    assert set(WEIGHTS) == set(PROFILES)
    assert {len(weights) for weights in WEIGHTS.values()} == {len(RECORDS)}


def test_the_client_library_lists_the_same_factors_and_profiles() -> None:
    assert list(sdk.FACTORS.items()) == [(record.name, record.help) for record in RECORDS]
    assert sdk.PROFILES == PROFILES


def test_the_command_line_has_a_flag_for_every_factor() -> None:
    parser = argparse.ArgumentParser()
    command.SET.fill(parser)
    for record in RECORDS:
        flag = f"--{record.name.replace('_', '-')}"
        assert vars(parser.parse_args([flag, "0.5"]))[record.name] == 0.5


@pytest.mark.parametrize("page", ["README.md", "docs/guide/scheduling.md", "docs/architecture/scheduler.md"])
def test_no_page_counts_the_factors(page: str) -> None:
    assert COUNTED.findall((ROOT / page).read_text(encoding="utf-8")) == []
