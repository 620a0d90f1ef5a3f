"""`lattice service update|history|rollback`, in memory: what is asked, what is told, how it ends."""

import argparse
from collections.abc import Callable

import pytest

from lattice.cli.commands.services.revisions import FIXED, fill_update
from lattice.cli.commands.work import submit, update
from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, Reply

ROLLING = {"state": "rolling", "revision": 2, "target": 2, "former": 1, "updated": 1, "ready": 1, "size": 2}
DONE = {**ROLLING, "state": "done", "updated": 2, "ready": 2}
BACK = {**ROLLING, "state": "taken_back", "revision": 1, "reason": "the instance on node n1 failed: exit code 3"}
LINE = {"revision": 2, "at": "2026-01-01T00:00:00Z", "by": "ada", "note": "command", "state": "current", "reason": ""}


def seen(rollout: dict[str, object]) -> Reply:
    return Reply(json={"id": "a7", "revision": 2, "revisions": [LINE], "rollout": rollout})


def test_an_update_is_sent_and_followed_to_its_end(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations/a7/revisions", seen(ROLLING))
    api.on("GET", "/allocations/a7/revisions", seen(ROLLING), seen(DONE))
    done = cli("service", "update", "a7", "--env", "A=1", "--max-unavailable", "2", "--", "./serve", "--new")
    assert (done.code, done.out) == (0, "a7: revision 2 runs: 2 of 2 instances have it, 2 ready\n")
    assert done.err == "updating to revision 2: 1 of 2 instances have it, 1 ready\n"
    sent = next(each for each in api.asked if each.method == "POST").json
    assert sent == {"entrypoint": ["./serve", "--new"], "environment": {"A": "1"}, "max_unavailable": 2}


def test_an_update_that_was_taken_back_fails_and_says_why(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations/a7/revisions", seen(ROLLING))
    api.on("GET", "/allocations/a7/revisions", seen(BACK))
    done = cli("service", "update", "a7", "--unset-env", "A")
    assert done.code == 1
    assert "a7 was not updated to revision 2: the instance on node n1 failed: exit code 3" in done.err
    assert "it runs revision 1 again" in done.err


def test_no_wait_returns_at_once(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations/a7/revisions", seen(ROLLING))
    done = cli("service", "update", "a7", "--note", "n", "--env", "A=1", "--no-wait")
    assert (done.code, len(api.asked)) == (0, 1)


def test_a_rollback_names_its_revision_and_may_end_as_taken_back(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations/a7/rollback", seen(BACK))
    done = cli("service", "rollback", "a7", "--to", "1", "--ready-within", "1m")
    assert (done.code, "was taken back" in done.out) == (0, True)
    assert (api.last().json["to"], api.last().json["ready_within"]) == (1, "1m")


def test_the_history_lists_revisions(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a7/revisions", seen(BACK))
    shown = cli("service", "history", "a7").out
    assert shown.splitlines()[0].split() == ["REVISION", "STATE", "BY", "AT", "CHANGE", "REASON"]
    assert "revision 2 was taken back (the instance on node n1 failed: exit code 3); revision 1 runs" in shown


def test_a_command_and_a_script_exclude_each_other(cli: Cli) -> None:
    assert cli("service", "update", "a7", "--script", "x.sh", "--", "true").code == 2


@pytest.mark.parametrize(
    ("words", "flag", "instead"),
    [
        (("--nodes", "4"), "--nodes", "submit another service with it"),
        (("-N4",), "-N", "submit another service with it"),
        (("--expose=web:80",), "--expose", "both may expose the same name"),
        (("--memory", "4G", "--", "./serve"), "--memory", "submit another service with it"),
        (("--walltime=48h",), "--walltime", "`lattice update` changes it"),
    ],
)
def test_what_an_update_does_not_change_is_refused_by_name_with_what_to_do_instead(
    api: FakeApi, cli: Cli, words: tuple[str, ...], flag: str, instead: str
) -> None:
    done = cli("service", "update", "a7", *words)
    assert done.code == 2
    assert f"{flag} cannot be changed by `lattice service update`" in done.err
    assert instead in done.err
    assert api.asked == []


def test_what_is_said_to_be_fixed_is_a_flag_of_another_command_and_none_of_this_one() -> None:
    def flags(*fills: Callable[[argparse.ArgumentParser], None]) -> set[str]:
        parser = argparse.ArgumentParser()
        for fill in fills:
            fill(parser)
        return set(parser._option_string_actions)

    assert set(FIXED) <= flags(submit.fill_flags) | flags(update.fill)
    assert not set(FIXED) & flags(fill_update)
