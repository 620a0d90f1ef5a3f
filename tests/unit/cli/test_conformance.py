"""`lattice node diff`, `lattice admin conformance` and `lattice admin node approve`."""

from typing import Any

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, Reply, refusal

KERNEL = {"component": "kernel", "expected": "6.1", "actual": "6.2"}
OLD, NEW = "a" * 64, "b" * 64


def diff(*differences: dict[str, str]) -> dict[str, Any]:
    prints = {"first_fingerprint": OLD, "second_fingerprint": NEW if differences else OLD}
    return {"first": "n1", "second": "n2", "is_same": not differences, "differences": list(differences), **prints}


def test_nodes_that_differ_are_shown_side_by_side_with_exit_code_1(api: FakeApi, cli: Cli) -> None:
    nic = {"component": "nic.firmware", "expected": "", "actual": "22"}
    api.on("GET", "/nodes/n1/diff/n2", Reply(json=diff(KERNEL, nic)), Reply(json=diff(KERNEL)))
    outcome = cli("node", "diff", "n1", "n2")
    assert outcome.code == 1
    assert outcome.table() == [["COMPONENT", "n1", "n2"], ["kernel", "6.1", "6.2"], ["nic.firmware", "-", "22"]]
    as_json = cli("node", "diff", "n1", "n2", "-o", "json")
    assert (as_json.code, as_json.json["differences"]) == (1, [KERNEL])


def test_nodes_that_are_alike_have_exit_code_0(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/nodes/n1/diff/n2", Reply(json=diff()))
    outcome = cli("node", "diff", "n1", "n2")
    assert (outcome.code, outcome.out) == (0, "n1 and n2 are identical: aaaaaaaaaaaa\n")


def test_an_unknown_node_is_another_exit_code(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/nodes/n1/diff/n9", refusal(404, "not_found", 'unknown node "n9"'))
    assert cli("node", "diff", "n1", "n9").code == 4


GROUPS = {
    "nodes": 12,
    "groups": [
        {"fingerprint": OLD, "size": 9, "nodes": [f"n{n}" for n in range(1, 10)], "baseline_of": ["default"]},
        {"fingerprint": NEW, "size": 1, "nodes": ["n10"], "differences": [KERNEL] * 5},
    ],
    "unknown": ["n11", "n12"],
}


def drift(**changes: object) -> dict[str, object]:
    return {"node": "n10", "state": "Ready", "vcluster": "default", "since": "S", "differences": [KERNEL], **changes}


def test_groups_come_by_size_with_folded_names_and_what_separates_them(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/conformance", Reply(json=GROUPS), Reply(json=GROUPS))
    lines = cli("admin", "conformance", "status").lines
    assert lines[1].split() == ["a" * 12, "9", "default", "n[1-9]", "-"]
    assert lines[2].split(maxsplit=4) == [
        "b" * 12,
        "1",
        "-",
        "n10",
        "kernel 6.2 (not 6.1), kernel 6.2 (not 6.1), kernel 6.2 (not 6.1), and 2 more",
    ]
    assert lines[3] == "unknown: 2 of 12 nodes: n[11-12]"
    assert cli("admin", "conformance", "status", "-o", "json").json["groups"][1]["nodes"] == ["n10"]


def test_who_differs_is_shown_with_how_far_it_has_come(api: FakeApi, cli: Cli) -> None:
    drifts = [
        drift(given_up_at="T"),
        drift(node="n2"),
        drift(node="n3", escalated_at="E", state="Down"),
        drift(node="n4", verified_at="V", escalated_at="E", is_sensitive=True, state="Drained"),
    ]
    api.on("GET", "/conformance", Reply(json={**GROUPS, "drifted": drifts}))
    out = cli("admin", "conformance", "status").out
    assert "n10      Ready    default   -          S      given up at T" in out
    for words in ("no time limit", "not remedied in time (E)", "right again, waits for approval"):
        assert words in out


def test_nodes_are_asked_to_look_again(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/conformance/refresh", Reply(json={"asked": ["n1", "n2"], "unreachable": ["n3"]}))
    outcome = cli("admin", "conformance", "refresh", "n[1-3]")
    assert (outcome.code, outcome.out) == (0, "asked 2 nodes: n[1-2]\n")
    assert "1 node cannot be reached: n3" in outcome.err
    assert api.last().json == {"nodes": ["n1", "n2", "n3"]}


def test_nobody_could_be_asked(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/conformance/refresh", Reply(json={"unreachable": ["n3"]}))
    assert cli("admin", "conformance", "refresh").code == 1
    assert api.last().json == {"nodes": []}


BASELINE = {"vcluster": "default", "source": "declared", "fingerprint": OLD, "components": {"kernel": "6.1"}}


def test_a_baseline_is_declared_and_shown(api: FakeApi, cli: Cli) -> None:
    path = "/conformance/baselines/default"
    api.on("PUT", path, Reply(json=BASELINE), Reply(json=BASELINE))
    outcome = cli("admin", "conformance", "baseline", "set", "default", "--node=n1")
    assert "kernel:        6.1" in outcome.out
    assert api.last().json == {"node": "n1"}
    cli("admin", "conformance", "baseline", "set", "default", f"--fingerprint={OLD}")
    assert api.last().json == {"fingerprint": OLD}
    api.on("GET", path, Reply(json={**BASELINE, "source": "majority", "kind": "4 CPUs, 0 GPUs"}))
    assert "Baseline:      majority" in cli("admin", "conformance", "baseline", "show", "default").out
    api.on("DELETE", path, Reply(json={**BASELINE, "source": "none"}))
    assert cli("admin", "conformance", "baseline", "unset", "default").code == 0


def test_a_baseline_needs_one_source(cli: Cli) -> None:
    for words in ((), ("--node=n1", f"--fingerprint={OLD}")):
        assert cli("admin", "conformance", "baseline", "set", "default", *words).code == 2


def test_a_node_is_approved(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n5/approve", Reply(json={"id": "n5", "state": "Ready"}))
    assert cli("admin", "node", "approve", "n5").out == "n5 is Ready\n"


def test_the_wide_table_of_nodes_shows_groups(api: FakeApi, cli: Cli) -> None:
    nodes = [
        {"id": "n1", "fingerprint": OLD, "conformance": "baseline"},
        {"id": "n2", "fingerprint": NEW, "conformance": "drifted"},
        {"id": "n3", "conformance": "unknown"},
    ]
    api.on("GET", "/nodes", Reply(json={"items": nodes, "next_cursor": None}))
    out = cli("nodes", "-o", "wide").out
    assert "aaaaaaaaaaaa  " in out
    assert "bbbbbbbbbbbb (drifted)" in out
    assert "unknown" in out


def test_a_baseline_that_no_node_has_is_declared_with_a_warning(api: FakeApi, cli: Cli) -> None:
    declared = {"vcluster": "default", "source": "declared", "fingerprint": NEW, "components": {}}
    api.on("PUT", "/conformance/baselines/default", Reply(json=declared))
    outcome = cli("admin", "conformance", "baseline", "set", "default", f"--fingerprint={NEW}")
    assert outcome.code == 0
    assert "no node is of this fingerprint now" in outcome.err
