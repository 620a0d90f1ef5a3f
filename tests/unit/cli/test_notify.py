"""`lattice notify`, what a submission is warned of, and the filters by project and tag."""

from tests.unit.cli.runner import Cli, allocation, ended
from tests.unit.sdk.fake_api import FakeApi, Reply

SETTINGS = {
    "user": "alice",
    "on": ["end", "fail"],
    "to": ["mail:alice@site.test"],
    "each_task": False,
    "channels": ["mail"],
    "own_address": "",
    "waiting": 2,
    "warnings": [],
}


def test_a_default_is_set_shown_and_cleared(api: FakeApi, cli: Cli) -> None:
    for method in ("GET", "PUT", "DELETE"):
        api.on(method, "/notifications", SETTINGS)
    shown = cli("notify", "show")
    assert shown.code == 0
    assert "end, fail" in shown.out
    assert "mail:alice@site.test" in shown.out
    assert cli("notify", "set", "end,fail", "--to=mail:alice@site.test", "--each-task").code == 0
    assert api.last().json == {"on": ["end", "fail"], "to": ["mail:alice@site.test"], "each_task": True}
    assert cli("notify", "clear", "-o", "json").json["waiting"] == 2
    assert cli("notify", "set", ",").code == 2


def test_a_default_that_comes_to_nothing_is_warned_of(api: FakeApi, cli: Cli) -> None:
    api.on("PUT", "/notifications", {**SETTINGS, "warnings": ["this site sends nothing"]})
    outcome = cli("notify", "set", "end")
    assert (outcome.code, outcome.err) == (0, "warning: this site sends nothing\n")


def test_the_key_is_printed_alone(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/notifications/key", {"key": "abc123"})
    assert cli("notify", "key").out == "abc123\n"


def test_a_submission_says_what_to_be_told_of_and_is_warned(api: FakeApi, cli: Cli) -> None:
    answer = allocation(warnings=["notifications are off"], vcluster="gpu", chosen_by="rule 2")
    api.on("POST", "/allocations", Reply(status=201, json=answer))
    outcome = cli("submit", "--notify=end,fail", "--notify-to=mail:a@b.c", "--notify-to=https://h.org/", "--", "true")
    assert api.last().json["notify"] == {"on": ["end,fail"], "to": ["mail:a@b.c", "https://h.org/"]}
    assert outcome.out == "Submitted allocation a17\n"
    assert outcome.err == "warning: notifications are off\nnote: vCluster gpu was chosen by rule 2\n"
    assert cli("submit", "-q", "--", "true").err == "warning: notifications are off\n"


def test_a_script_may_say_it_too(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations", Reply(status=201, json=allocation()))
    script = cli.write("job.sh", "#!/bin/sh\n#LATTICE --notify=end --notify-to=mail:a@b.c\ntrue\n")
    outcome = cli("submit", "--notify-to=mail:d@e.f", script)
    assert (outcome.code, outcome.err) == (0, "")
    assert api.last().json["notify"] == {"on": ["end"], "to": ["mail:a@b.c", "mail:d@e.f"]}


def test_where_without_what_is_wrong_use(api: FakeApi, cli: Cli) -> None:
    outcome = cli("submit", "--notify-to=mail:a@b.c", "--", "true")
    assert outcome.code == 2
    assert "--notify" in outcome.err


def test_a_dry_run_is_warned_too(api: FakeApi, cli: Cli) -> None:
    outlook = {
        "id": None,
        "state": "Pending",
        "reason": "",
        "warnings": ["no mail"],
        "vcluster": "x",
        "chosen_by": "rule 1",
    }
    api.on("POST", "/allocations", outlook)
    assert "warning: no mail\n" in cli("submit", "--dry-run", "--notify=end", "--", "true").err


def query_of(api: FakeApi) -> dict[str, str]:
    return dict(api.last().query)


def test_project_and_tag_go_into_the_question(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/whoami", {"user": "alice"})
    api.on("GET", "/allocations", {"items": [allocation()]})
    api.on("GET", "/allocations/count", {"total": 1, "states": {"Running": 1}})
    api.on("GET", "/accounting", {"items": [ended()]})
    api.on("GET", "/usage", {"user": "alice", "project": "lhc", "node_hours": 1.5})
    for line in (("status",), ("status", "--count"), ("history",)):
        assert cli(*line, "--project=lhc", "--tag=a=b").code == 0
        asked = query_of(api)
        assert (asked["project"], asked["tag"]) == ("lhc", "a=b")
    used = cli("usage", "--project=lhc")
    assert query_of(api) == {"project": "lhc"}
    assert "lhc" in used.out


def test_tags_are_set_and_taken_away(api: FakeApi, cli: Cli) -> None:
    api.on("PATCH", "/allocations/a17", allocation())
    assert cli("update", "a17", "--tag=a=b", "--tag=c=d", "--untag=e").code == 0
    assert api.last().json == {"tags": {"a": "b", "c": "d"}, "untag": ["e"]}
    assert cli("update", "a17", "--tag=nonsense").code == 2


def test_cancelling_by_project_and_tag_needs_all_mine(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/allocations/cancel", {"items": []})
    assert cli("cancel", "--all-mine", "--project=lhc", "--tag=a=b").code == 0
    assert api.last().json == {"states": [], "all_mine": True, "project": "lhc", "tag": ["a=b"]}
    assert cli("cancel", "--project=lhc").code == 2


def test_projects_can_be_listed_without_the_word_admin(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/projects", {"items": [{"tenant": "physics", "name": "lhc", "max_nodes": None, "created_at": None}]})
    assert cli("project", "list").table()[1][:2] == ["physics", "lhc"]
