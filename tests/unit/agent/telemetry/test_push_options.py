"""Options that say where figures go."""

import argparse

import pytest

from lattice.daemons.agent.choices import CannotStart
from lattice.daemons.agent.telemetry import add_push_options, push_settings
from tests.unit.agent.telemetry.test_hollow import FACTS

STORE = "--tsdb-endpoint=https://vm.example.org/api/v1/write"


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_push_options(parser.add_argument)
    return parser.parse_args(words)


def test_packets_are_marked_as_asked() -> None:
    for words, dscp in (((STORE, "--tsdb-dscp=63"), 63), ((STORE,), 0)):
        settings = push_settings(parsed(*words), FACTS)
        assert settings is not None
        assert settings.dscp == dscp


@pytest.mark.parametrize("text", ["64", "-1", "8.5", "", "cs1", "٣", "0x8", "100000"])
def test_what_is_no_dscp_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="must be a number from 0 to 63"):
        parsed(STORE, f"--tsdb-dscp={text}")


def test_a_mark_without_a_store_is_refused() -> None:
    with pytest.raises(CannotStart, match="--tsdb-dscp needs --tsdb-endpoint"):
        push_settings(parsed("--tsdb-dscp=8"), FACTS)
