"""The web page and the timeline, from the command line."""

import sys

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, Reply

LINK = Reply(status=201, json={"path": "/login#TICKET", "expires_in_s": 60})
BAR = {
    "id": "a17", "name": "train", "user": "ada", "own": True, "kind": "running", "state": "Running", "group_id": None,
    "start": "2026-03-05T11:00:00.000Z", "end": None, "nodes": "n[1-4]",
}  # fmt: skip
TIMELINE = {"now": None, "since": None, "until": None, "nodes": [], "bars": [BAR], "reservations": [], "left_out": 0}


def test_the_link_leads_to_the_server_that_is_asked(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/web/links", LINK)
    assert cli("web").out == f"{api.url}/login#TICKET\n"
    assert cli("web", "-o", "json").json == {"url": f"{api.url}/login#TICKET", "expires_in_s": 60.0}


def test_a_view_may_be_named(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/web/links", LINK)
    assert cli("web", "allocations/a17").out == f"{api.url}/login?to=/allocations/a17#TICKET\n"
    assert cli("web", "/nodes", "--no-browser").out == f"{api.url}/login?to=/nodes#TICKET\n"


@pytest.mark.parametrize("view", ["\\evil.example", "a\nb"])
def test_what_is_no_view_is_refused(view: str, api: FakeApi, cli: Cli) -> None:
    assert cli("web", view).code == 2
    assert api.asked == []


def test_the_timeline_is_a_table_of_bars(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/timeline", TIMELINE)
    outcome = cli("timeline", "--since=1d", "--nodes=n[1-8]", "--user=ada")
    assert outcome.lines[0].split() == ["START", "END", "KIND", "ID", "NAME", "USER", "STATE", "TASKS", "NODES"]
    assert outcome.lines[1].split()[3:] == ["running", "a17", "train", "ada", "Running", "-", "n[1-4]"]
    asked = dict(api.last().query)
    assert (asked["since"], asked["nodes"], asked["user"]) == ("2026-03-04T12:00:00Z", "n[1-8]", "ada")
    assert cli("timeline", "-o", "json").json["bars"][0]["id"] == "a17"


def test_bars_that_are_left_out_are_counted(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/timeline", {**TIMELINE, "left_out": 7})
    assert "7 more are not shown" in cli("timeline").err


def test_without_its_extra_the_screen_says_how_to_install_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual", None)
    outcome = cli("tui")
    assert outcome.code == 1
    assert "pip install 'lattice-hpc[tui]'" in outcome.err


def test_the_screen_needs_a_terminal_and_a_view(cli: Cli) -> None:
    assert "needs a terminal" in cli("tui").err
    cli.is_terminal = True
    assert cli("tui", "jobs").code == 2


def test_tasks_of_a_group_are_counted_and_shown_when_asked_for(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/timeline", {**TIMELINE, "bars": [{**BAR, "tasks": 12, "failed": 2}]})
    assert "12 (2 failed)" in cli("timeline").out
    assert "tasks" not in dict(api.last().query)
    cli("timeline", "--tasks")
    assert dict(api.last().query)["tasks"] == "true"
