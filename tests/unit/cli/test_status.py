"""`status`, `history`, `wait`, `usage`, `whoami`: what is shown of allocations, and in which form."""

import time

import pytest
import yaml

from lattice.cli.output import Column, cell_width, table
from lattice.cli.times import with_local_times
from tests.unit.cli.runner import NOON, Cli, StandingClock, allocation, ended
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply, refusal

WAITING = allocation(
    18, name="eval", state="Pending", reason="waiting for 4 nodes", nodes=[], node_count=0, walltime_s=259200,
    started_at=None, elapsed_s=None, resources={"nodes": 4},
)  # fmt: skip
GROUP = allocation(19, name="sweep", node_count=20, tasks={"size": 100, "pending": 80, "running": 20, "completed": 0})


def test_own_allocations_are_listed_oldest_first(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [GROUP, WAITING, allocation()], "next_cursor": None})
    outcome = cli("status")
    assert outcome.code == 0
    assert outcome.lines == [
        "ID   NAME   STATE    NODES  WALLTIME  ELAPSED   VCLUSTER  REASON",
        "a17  train  Running  1      01:00:00  00:12:34  default   -",
        "a18  eval   Pending  4      72:00:00  -         default   waiting for 4 nodes",
        "a19  sweep  Running  1x20   01:00:00  00:12:34  default   -",
    ]
    assert api.last().parameter("user") == "alice"


def test_without_a_reason_there_is_no_column_for_it(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation()]})
    assert cli("status").table()[0] == ["ID", "NAME", "STATE", "NODES", "WALLTIME", "ELAPSED", "VCLUSTER"]


def test_an_end_is_told_without_asking_for_more(api: FakeApi, cli: Cli) -> None:
    killed = ended(
        state="Failed",
        exit_code=None,
        cause="walltime",
        ending="a17 was killed at its walltime limit of 00:00:03",
    )
    api.on("GET", "/allocations", {"items": [killed]})
    head, row = cli("status").lines
    assert head.split()[-2:] == ["EXIT", "REASON"]
    assert [word.strip() for word in row.split("  ")[-2:]] == [
        "walltime",
        "was killed at its walltime limit of 00:00:03",
    ]


def test_work_that_is_suspended_says_so(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(state="Running", suspended=True)]})
    assert "Running (suspended)" in cli("status").lines[1]


def test_wide_shows_who_where_and_how_it_ended(api: FakeApi, cli: Cli) -> None:
    failed = ended(state="Failed", exit_code=None, signal=9, cause="signal", nodes=[f"n{i}" for i in range(6)])
    api.on("GET", "/allocations", {"items": [failed]})
    head, row = cli("status", "-o", "wide").lines
    first, second = head.split()[7:13], head.split()[13:]
    assert first == ["TENANT", "PROJECT", "USER", "NODELIST", "CAUSE", "EXIT"]
    assert second == ["CPU_EFF", "MEM_EFF", "SUBMITTED", "TASK", "REASON"]
    assert "default  -        alice  n0,n1,n2,n3,+2  signal  signal 9  -        -        2026-03-05 10:00:00" in row


def test_a_list_is_an_array_and_one_id_an_object(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation()]})
    api.on("GET", "/allocations/a17", allocation())
    api.on("GET", "/allocations/18", WAITING)
    assert [a["id"] for a in cli("status", "-o", "json").json] == ["a17"]
    assert [a["id"] for a in cli("status", "a17", "18", "-o", "json").json] == ["a17", "a18"]
    one = cli("status", "a17", "-o", "json").json
    must = {"id", "number", "name", "state", "reason", "cause", "exit_code", "nodes", "user", "tenant", "vcluster"}
    assert must | {"submitted_at", "started_at", "completed_at"} <= one.keys()
    assert yaml.safe_load(cli("status", "a17", "-o", "yaml").out) == one
    assert cli("status", "-q").out == "a17\n"


def test_an_empty_list_is_still_a_list(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": []})
    assert cli("status", "-o", "json").json == []
    assert cli("status").table() == [["ID", "NAME", "STATE", "NODES", "WALLTIME", "ELAPSED", "VCLUSTER"]]
    assert cli("status", "-q").out == ""


def test_filters_are_handed_on(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": []})
    cli("status", "--state=running,Pending", "--state", "failed", "--user=bob", "--name=x", "--tag=a=1")
    asked = dict(api.last().query)
    assert (asked["state"], asked["user"], asked["name"], asked["tag"]) == ("running,Pending,failed", "bob", "x", "a=1")
    cli("status", "--all", "--tasks", "--vcluster=gpu", "-t", "physics", "--limit=5")
    asked = dict(api.last().query)
    assert "user" not in asked
    assert (asked["tasks"], asked["vcluster"], asked["tenant"], asked["limit"]) == ("true", "gpu", "physics", "5")


def test_cursors_are_followed_unless_there_is_a_limit(api: FakeApi, cli: Cli) -> None:
    def page(asked: Asked) -> Reply:
        if asked.parameter("cursor") == "more":
            return Reply(json={"items": [allocation(1)], "next_cursor": None})
        return Reply(json={"items": [allocation(2)], "next_cursor": "more"})

    api.on("GET", "/allocations", page)
    assert cli("status", "--all", "-q").lines == ["a1", "a2"]
    assert cli("status", "--all", "-q", "--limit=1").lines == ["a2"]


def test_the_tasks_of_one_group(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(21), allocation(20)]})
    assert cli("status", "a19", "--tasks", "-q").lines == ["a20", "a21"]
    assert (api.last().parameter("group"), api.last().parameter("user")) == ("a19", None)


def test_the_known_ids_are_shown_though_one_is_unknown(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17", allocation())
    outcome = cli("status", "a99", "a17")
    assert outcome.code == 4
    assert "a17" in outcome.out
    assert outcome.err.startswith("error: ")


def test_counting(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/count", {"total": 3, "states": {"Pending": 1, "Running": 2}})
    assert cli("status", "--count").out == "Pending: 1\nRunning: 2\ntotal: 3\n"
    assert cli("status", "--count", "-q").out == "3\n"
    assert cli("status", "--count", "-o", "json").json == {"total": 3, "states": {"Pending": 1, "Running": 2}}


def test_watching_without_a_pause_is_refused(api: FakeApi, cli: Cli) -> None:
    outcome = cli("status", "--watch", "--interval", "0")
    assert outcome.code == 2
    assert "the minimum is 1 second" in outcome.err
    assert api.asked == []


def test_watching_looks_again_every_five_seconds(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation()]}, {"items": [ended()]})
    cli.clock = StandingClock(after=2)
    cli.is_terminal = True
    with pytest.raises(KeyboardInterrupt):
        cli("status", "--watch", "--no-color")
    first, second = cli.stdout.getvalue().decode().split("\x1b[H\x1b[2J")[1:]
    assert "Running" in first
    assert "Completed" in second
    assert cli.clock.pauses == [5.0, 5.0]


def test_colours_are_for_terminals_and_can_be_refused(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation()]})
    assert "\x1b" not in cli("status").out
    cli.is_terminal = True
    assert "\x1b[32mRunning\x1b[0m" in cli("status").out
    assert "\x1b" not in cli("status", "--no-color").out
    assert "\x1b" not in cli("status", NO_COLOR="1").out


def test_a_name_cannot_steer_the_terminal(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(name="a\x1b[2Jb\nc")]})
    assert cli("status").table()[1][1] == "a?[2Jb?c"


def test_history_asks_for_a_span_of_time(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/accounting", {"items": [ended(18), ended(17, state="Failed", exit_code=2)]})
    outcome = cli("history", "--since=2026-03-01", "--until=2h", "--state=failed", "--limit=9")
    assert [row[:5] for row in outcome.table()[1:]] == [
        ["a17", "train", "Failed", "exit", "2"],
        ["a18", "train", "Completed", "exit", "0"],
    ]
    asked = dict(api.last().query)
    assert (asked["since"], asked["until"]) == ("2026-03-01T00:00:00Z", "2026-03-05T10:00:00Z")
    assert (asked["user"], asked["state"], asked["limit"]) == ("alice", "failed", "9")


def test_waiting_gives_the_worst_end_of_several(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a1/wait", allocation(1), ended(1))
    api.on("GET", "/allocations/a2/wait", ended(2, state="Failed", exit_code=3))
    api.on("GET", "/allocations/a3/wait", ended(3, state="Cancelled", exit_code=None, cause="cancelled"))
    assert cli("wait", "a1").code == 0
    outcome = cli("wait", "a1", "a2", "a3")
    assert (outcome.code, len(outcome.lines)) == (130, 3)
    assert cli("wait", "a2", "-q").out == ""
    assert cli("wait", "a2", "-o", "json").json["exit_code"] == 3


def test_waiting_for_a_group_counts_the_worst_of_its_tasks(api: FakeApi, cli: Cli) -> None:
    worst = {"exit_code": None, "signal": 15, "tasks": {"size": 3, "failed": 2}}
    api.on("GET", "/allocations/a19/wait", ended(19, state="Failed", **worst))
    outcome = cli("wait", "a19")
    assert (outcome.code, outcome.out) == (143, "a19 Failed (signal 15, 2 of 3 tasks failed)\n")


def test_waiting_no_longer_than_told(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a1/wait", allocation(1))
    outcome = cli("wait", "a1", "--timeout=0s")
    assert outcome.code == 124
    assert "a1 is still Running" in outcome.err


def test_waiting_for_an_unknown_id_fails_but_the_others_are_waited_for(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a1/wait", ended(1))
    outcome = cli("wait", "a404", "a1")
    assert outcome.code == 4
    assert outcome.out == "a1 Completed\n"


def test_usage_of_oneself_and_of_a_tenant(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/usage", {"user": "alice", "node_hours": 12.5, "running": 4})
    assert "Node hours:  12.50" in cli("usage", "--days=7").out
    assert api.last().parameter("days") == "7"
    users = [{"user": "bob", "tenant": "physics", "node_hours": 1}]
    api.on(
        "GET",
        "/tenants/physics/usage",
        {
            "tenant": "physics",
            "node_hours": 50,
            "node_hours_budget": 200,
            "node_hours_fraction": 0.25,
            "users": users,
        },
    )
    outcome = cli("usage", "--tenant", "physics")
    assert "50.00 of 200 (25%)" in outcome.out
    assert "bob" in outcome.out


def test_whoami(api: FakeApi, cli: Cli) -> None:
    assert "alice" in cli("whoami").lines[0]
    assert cli("whoami", "-q").out == "alice\n"
    assert cli("whoami", "-o", "json").json["roles"] == ["User"]


def test_an_expired_token_is_said_in_the_words_of_the_server(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/whoami", refusal(401, "unauthenticated", "token expired at 2026-03-05T10:00:00Z"))
    outcome = cli("status")
    assert outcome.code == 5
    assert "token expired at 2026-03-05T10:00:00Z" in outcome.err
    assert "hint: " in outcome.err


def test_the_full_page_shows_what_was_asked_for(api: FakeApi, cli: Cli) -> None:
    details = {
        "entrypoint": ["sh", "-c", "echo 'a b'"],
        "script": "",
        "cwd": "/srv",
        "constraints": {"gpu_type": "h100", "features": ["fast", "new"], "exclude": ["n3"], "topology": "tight"},
        "exclusive": True,
    }
    api.on("GET", "/allocations/a17", allocation(details=details))
    api.on("GET", "/allocations/a17/explanation", {})
    shown = cli("status", "a17", "--verbose").out
    assert "sh -c" in shown
    assert "gpu_type=h100, features=fast+new, topology=tight, exclude=n3" in shown
    assert "/srv" in shown


def test_active_work_comes_first_and_on_a_terminal_the_rest_is_counted(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(18), ended(17)]})
    assert cli("status", "-q").lines == ["a18", "a17"]
    cli.is_terminal = True
    outcome = cli("status", "--no-color")
    assert [line.split()[0] for line in outcome.lines] == ["ID", "a18", "1"]
    assert outcome.lines[-1] == "1 ended in the last 5 min: lattice history"
    assert "a17" in cli("status", "--state=completed", "--no-color").out
    api.on("GET", "/allocations", {"items": [ended(17)]})
    assert cli("status", "--no-color").lines == ["1 ended in the last 5 min: lattice history"]


def test_an_empty_list_says_so_on_a_terminal(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": []})
    cli.is_terminal = True
    assert cli("status").lines == ["no entries"]


def test_columns_order_and_headers_are_chosen(api: FakeApi, cli: Cli) -> None:
    items = [allocation(10, name="b"), allocation(9, name="b"), allocation(100, name="a")]
    api.on("GET", "/allocations", {"items": items})
    assert cli("status", "--columns=name,id", "--sort=-name,id").table() == [
        ["NAME", "ID"],
        ["b", "a9"],
        ["b", "a10"],
        ["a", "a100"],
    ]
    assert cli("status", "--columns", "user", "--no-headers").lines == ["alice"] * 3
    assert [row["id"] for row in cli("status", "--sort", "-id", "-o", "json").json] == ["a100", "a10", "a9"]
    outcome = cli("status", "--columns=colour")
    assert outcome.code == 2
    assert 'there is no column "colour"' in outcome.err
    assert "one of ID, NAME, STATE" in outcome.err


def test_lists_as_csv_and_names(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation(name='say "hi", twice')]})
    assert cli("status", "--columns=id,name,project", "-o", "csv").out == 'ID,NAME,PROJECT\na17,"say ""hi"", twice",\n'
    assert cli("status", "-o", "name").out == "a17\n"
    assert cli("status", "--count", "-o", "csv").code == 2
    api.on("GET", "/accounting", {"items": [ended()]})
    assert cli("history", "-o", "csv", "--columns=id,completed").out == "ID,COMPLETED\na17,2026-03-05 11:00:00\n"


def test_everybodys_work_has_its_user(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations", {"items": [allocation()]})
    assert "USER" in cli("status", "--all").lines[0]
    assert "USER" not in cli("status").lines[0]


def test_a_terminal_gets_the_newest_of_a_long_history(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/accounting", {"items": [ended(number) for number in range(100)], "next_cursor": "more"})
    cli.is_terminal = True
    outcome = cli("history", "--no-color")
    assert api.last().parameter("limit") == "100"
    assert "newest 100; use --limit=N" in outcome.err
    assert len(outcome.lines) == 101


def test_times_are_local_for_people_and_utc_for_programs(
    api: FakeApi, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Europe/Zurich")
    time.tzset()
    try:
        api.on("GET", "/accounting", {"items": [ended()]})
        assert "2026-03-05 12:00:00" in cli("history").out
        assert cli("history", "-o", "json").json[0]["completed_at"] == "2026-03-05T11:00:00Z"
        assert with_local_times("the 3rd is free at 14:20 UTC", NOON) == "the 3rd is free at 15:20"
        assert with_local_times("not before 2026-03-06T21:00:00Z", NOON) == "not before tomorrow 22:00"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_wide_characters_keep_columns_straight_and_long_texts_are_cut_to_the_terminal() -> None:
    columns = (
        Column[str]("ID", lambda row: "a1"),
        Column[str]("NAME", lambda row: row),
        Column[str]("END", lambda row: "|"),
    )
    lines = table(["計算🚀", "plain"], columns, wide=False, coloured=False).splitlines()
    assert {cell_width(line) for line in lines[1:]} == {cell_width(lines[1])}
    cut = table(["x" * 80, "計" * 40], columns, wide=False, coloured=False, width=40).splitlines()
    assert {cell_width(line) for line in cut[1:]} == {38}  # and two for the width of END
    assert all("…" in line for line in cut[1:])
