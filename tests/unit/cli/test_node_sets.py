"""Sets of nodes on the command line: read here, sent as one order, told folded."""

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, refusal


def went(first: int, last: int, state: str) -> list[dict[str, object]]:
    return [{"id": f"nid{number:03}", "ok": True, "state": state} for number in range(first, last + 1)]


def refused(name: str, message: str, **more: str) -> dict[str, object]:
    error = {"code": "conflict", "message": message, **more}
    return {"id": name, "ok": False, "state": "Ready", "error": error}


def test_a_set_is_one_order_and_one_line_per_state(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/drain", {"items": [*went(1, 100, "Drained"), *went(101, 128, "Draining")]})
    outcome = cli("node", "drain", "nid[001-128]", "--reason=new filters")
    assert outcome.lines == ["100 nodes are Drained: nid[001-100]", "28 nodes are Draining: nid[101-128]"]
    assert (outcome.code, len(api.asked)) == (0, 1)
    assert api.last().json == {"nodes": "nid[001-128]", "reason": "new filters"}


def test_several_sets_and_names_are_one_set(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/undrain", {"items": went(1, 1, "Ready")})
    outcome = cli("node", "undrain", "nid[001,003]", "nid005,nid006", "-o", "json")
    assert api.last().json == {"nodes": "nid[001,003],nid005,nid006"}
    assert outcome.json == [{"id": "nid001", "ok": True, "state": "Ready"}]
    assert cli("node", "undrain", "n[1-2]").out == "nid001 is Ready\n"


def test_the_same_refusal_of_many_nodes_is_told_once(api: FakeApi, cli: Cli) -> None:
    items = [
        *went(1, 1, "Ready"),
        refused("nid002", "node nid002 is Ready, not Drained"),
        refused("nid003", "node nid003 is Ready, not Drained"),
        refused("nid004", "node nid004 is still Draining", current="running on it: a17", hint="Wait."),
    ]
    api.on("POST", "/nodes/undrain", {"items": items})
    outcome = cli("node", "undrain", "nid[001-004]")
    assert (outcome.code, outcome.out) == (1, "nid001 is Ready\n")
    assert outcome.err.splitlines() == [
        "error: 2 of 4 nodes were refused, nid[002-003]: each is Ready, not Drained",
        "error: node nid004 is still Draining",
        "  current: running on it: a17",
        "  hint: Wait.",
    ]


@pytest.mark.parametrize(("words", "place"), [(("n[1-3,x]",), 6), (("n1", "n[3-1]"), 5), (("n[1",), 1), (("n1]",), 2)])
def test_a_typing_error_is_shown_with_its_place(words: tuple[str, ...], place: int, api: FakeApi, cli: Cli) -> None:
    outcome = cli("node", "drain", *words)
    typed, caret = outcome.err.splitlines()[1:3]
    assert (typed.strip(), caret.index("^") - 2) == (",".join(words), place)
    assert (outcome.code, api.asked) == (2, [])


def test_an_unknown_name_is_told_as_the_server_says(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/drain", refusal(404, "not_found", "2 unknown nodes: x[1-2]"))
    outcome = cli("node", "drain", "x[1-2]")
    assert (outcome.code, "error: 2 unknown nodes: x[1-2]\n" in outcome.err) == (4, True)


def test_a_person_is_asked_about_the_whole_set(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/disable", {"items": went(1, 2, "Down")})
    cli.is_terminal = True
    cli.stdin = b"no\n"
    outcome = cli("node", "disable", "nid[001-002]")
    assert (outcome.code, api.asked) == (1, [])
    assert "Take 2 nodes (nid[001-002]) down now?" in outcome.err
    assert cli("node", "disable", "nid[001-002]", "--yes").out == "2 nodes are Down: nid[001-002]\n"


def test_a_person_is_told_that_many_nodes_take_a_moment(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/enable", {"items": went(1, 600, "Booting")})
    cli.is_terminal = True
    assert cli("node", "enable", "nid[001-600]").err == "note: enabling 600 nodes ...\n"


def test_the_status_of_a_set(api: FakeApi, cli: Cli) -> None:
    nodes = [{"id": f"n{number}", "state": "Ready"} for number in range(1, 31)]
    api.on("GET", "/nodes", {"items": nodes})
    api.on("GET", "/nodes/n1", nodes[0])
    api.on("GET", "/nodes/n2", nodes[1])
    assert [row[0] for row in cli("node", "status", "n[1-2]").table()] == ["NODE", "n1", "n2"]
    assert cli("node", "status", "n[5-24]", "-q").lines == [f"n{number}" for number in range(5, 25)]
    outcome = cli("node", "status", "n[25-40]")
    assert (outcome.code, outcome.err) == (4, "error: unknown nodes: n[31-40]\n")


def test_a_failure_of_hardware_is_reported(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n1/fault", {"id": "n1", "state": "Down"})
    assert cli("node", "fault", "n1", "--reason=PSU 2").out == "n1 is Down\n"
    assert api.last().json == {"reason": "PSU 2"}


@pytest.mark.parametrize("order", ["drain", "undrain", "disable", "enable", "reboot", "fault"])
def test_every_order_takes_a_yes_and_a_reason(order: str, api: FakeApi, cli: Cli) -> None:
    api.on("POST", f"/nodes/{order}", {"items": went(1, 2, "Ready")})
    assert cli("node", order, "nid[001-002]", "--yes", "--reason=fan").code == 0
    assert api.last().json == {"nodes": "nid[001-002]", "reason": "fan"}


@pytest.mark.parametrize(
    ("line", "path", "asked", "said"),
    [
        (("node", "drain", "n1", "--urgent"), "/nodes/n1/drain", "Drain n1 immediately?", "n1 is Draining\n"),
        (("admin", "node", "wipe", "n1"), "/nodes/n1/wipe", "Wipe n1?", "n1 is to be wiped\n"),
    ],
)
def test_what_destroys_work_or_data_needs_a_yes(
    line: tuple[str, ...], path: str, asked: str, said: str, api: FakeApi, cli: Cli
) -> None:
    api.on("POST", path, {"id": "n1", "state": "Draining"})
    outcome = cli(*line)
    assert (outcome.code, "hint: add --yes" in outcome.err, api.asked) == (2, True, [])
    cli.is_terminal = True
    cli.stdin = b"n\n"
    outcome = cli(*line)
    assert (outcome.code, asked in outcome.err, api.asked) == (1, True, [])
    cli.stdin = b"y\n"
    assert cli(*line).out == said
    cli.is_terminal = False
    assert cli(*line, "--yes").code == 0
    assert len(api.asked) == 2


def test_urgency_and_force_reach_the_server(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/drain", {"items": went(1, 2, "Draining")})
    api.on("POST", "/nodes/n1/wipe", {"id": "n1", "state": "Drained"})
    api.on("POST", "/nodes/reboot", {"items": went(1, 2, "Booting")})
    assert cli("admin", "drain", "nid[001-002]", "--urgent", "-y").code == 0
    assert api.last().json == {"nodes": "nid[001-002]", "urgent": True}
    api.on("POST", "/nodes/wipe", {"items": went(1, 2, "Drained")})
    wiped = cli("admin", "node", "wipe", "n1", "--force", "--reason=disk swapped")
    # Whether it succeeds is not known yet: Quarantine may follow.
    assert (wiped.code, wiped.out) == (0, "n1 is to be wiped\n")
    assert "lattice node events" in wiped.err
    assert api.last().json == {"force": True, "reason": "disk swapped"}
    assert "2 nodes are to be wiped" in cli("admin", "node", "wipe", "nid[001-002]", "--force").out
    assert cli("node", "reboot", "nid[001-002]", "-q").out == ""
    assert api.last().json == {"nodes": "nid[001-002]"}


def test_a_reboot_says_what_is_left_to_do_by_hand(api: FakeApi, cli: Cli) -> None:
    note = "reboot it by hand"
    api.on("POST", "/nodes/reboot", {"items": [{**each, "note": note} for each in went(1, 2, "Booting")]})
    outcome = cli("node", "reboot", "nid[001-002]")
    assert (outcome.out, outcome.err) == ("2 nodes are Booting: nid[001-002]\n", "note: reboot it by hand\n")
    assert cli("node", "reboot", "nid001", "-o", "json").json["note"] == note


STORY = [
    {
        "at": "2026-03-05T10:00:00.000Z",
        "trigger": "given_up",
        "previous": "Degraded",
        "state": "Down",
        "by": "node_watch",
        "reason": "no heartbeat for 90 s",
        "allocations": ["a17", "a18"],
    },
    {"at": "2026-03-05T11:00:00.000Z", "trigger": "registered", "previous": "Down", "state": "Booting"},
]


def test_the_story_of_a_node(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/nodes/n1/events", {"items": STORY})
    lines = cli("node", "events", "n1", "--since=2h").lines
    assert lines[0].split() == ["WHEN", "WHAT", "FROM", "TO", "BY", "WHY", "LOST"]
    assert "given_up    Degraded  Down     node_watch  no heartbeat for 90 s  a17,a18" in lines[1]
    assert api.last().parameter("since") == "2026-03-05T10:00:00Z"
    assert [event["state"] for event in cli("node", "events", "n1", "-o", "json").json] == ["Down", "Booting"]
    assert len(cli("node", "events", "n1", "--limit=1").lines) == 2
    assert cli("node", "events", "n9").code == 4
