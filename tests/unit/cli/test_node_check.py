"""`lattice node check`, and how a node's checks are shown."""

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, refusal

FINE = {"name": "clock_offset", "verdict": "passed", "text": "+0.001 s", "consequence": "warn"}
FULL = {
    "name": "disk_space", "verdict": "failed", "text": "no \x1b room", "consequence": "degrade",
    "required_for_ready": True, "failures": 2, "since_s": 1, "duration_s": 0.002,
}  # fmt: skip
VITALS = {"gpus": 4, "temperature_c": 61.5, "memory_errors": 2, "failing_checks": 1}


def test_checks_are_shown_and_a_failing_one_is_the_exit_code(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n1/check", {"node": "n1", "state": "Degraded", "ok": False, "checks": [FINE, FULL]})
    outcome = cli("node", "check", "n1")
    assert outcome.code == 1
    assert outcome.lines[0] == "n1 is Degraded"
    assert outcome.table()[1:3] == [
        ["CHECK", "VERDICT", "TEXT", "CONSEQUENCE"],
        ["clock_offset", "passed", "+0.001", "s", "warn"],
    ]
    assert "disk_space    failed   no ? room  degrade, not Ready without it" in outcome.out
    assert cli("node", "check", "n1", "-o", "json").json["checks"][1]["failures"] == 2


def test_only_the_named_checks_are_run_and_a_node_without_any_is_fine(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n1/check", {"node": "n1", "state": "Ready", "ok": True, "checks": []})
    outcome = cli("node", "check", "n1", "--only=fans", "--only=disk_space")
    assert (outcome.code, outcome.out) == (0, "n1 is Ready\nno checks\n")
    assert api.last().json == {"checks": ["fans", "disk_space"]}


def test_a_node_that_cannot_be_asked_does_not_keep_the_others_from_it(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/nodes/n1/check", refusal(409, "conflict", "the checks of node n1 cannot be run"))
    api.on("POST", "/nodes/n2/check", {"node": "n2", "state": "Ready", "ok": True, "checks": [FINE]})
    outcome = cli("node", "check", "n[1-2]")
    assert outcome.code == 1
    assert "the checks of node n1 cannot be run" in outcome.err
    assert outcome.lines[0] == "n2 is Ready"


def test_the_sheet_of_a_node_says_what_is_wrong_first(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/nodes/n1", {"id": "n1", "state": "Degraded", "checks": [FINE, FULL], "vitals": VITALS})
    lines = [" ".join(line.split()) for line in cli("nodes", "n1").lines]
    assert "Checks: disk_space failed (no ? room); 1 passed" in lines
    assert "Vitals: 62 °C, 4 GPUs answer, 2 memory errors" in lines
