"""`lattice tui` where it cannot run."""

import pytest

from lattice.cli.commands.web import tui
from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi


def test_without_the_extra_the_command_that_installs_it_is_named(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tui, "find_spec", lambda name: None)
    outcome = cli("tui")
    assert outcome.code != 0
    assert "textual, which is not installed" in outcome.err
    assert "pip install 'lattice-hpc[tui]'" in outcome.err
    assert api.asked == []


def test_without_a_terminal_another_command_is_named(api: FakeApi, cli: Cli) -> None:
    outcome = cli("tui")
    assert outcome.code == 2
    assert "needs a terminal" in outcome.err
    assert "lattice status" in outcome.err
