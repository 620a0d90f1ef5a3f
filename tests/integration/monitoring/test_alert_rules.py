"""The rules, routes and scrape configurations as the programs that read them judge them."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml

from lattice.core.machine.node_effects import EFFECTS
from lattice.observe.alerting.drift import CONFORMANCE
from lattice.observe.alerting.rules import ALERTS
from lattice.observe.figures.specified import SPECIFIED
from tests.conftest import require_program
from tests.integration.monitoring.alert_cases import CASES, Case
from tools.code_reference import metric_families

ROOT = Path(__file__).resolve().parents[3]
DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "alerts" / "lattice.rules.yml"
BY_NAME = {alert.name: alert for alert in ALERTS}
OF_SECTION_9 = {
    "LatticeRaftNoLeader",
    "LatticeNodeDown",
    "LatticeSchedulingStalled",
    "LatticeHighPreemptionRate",
    "LatticeCheckpointFailure",
    "LatticeCheckpointStorageUnavailable",
    "LatticeDiskSpaceLow",
}
OF_SECTION_15 = {
    "LatticeSchedulingCycleSlow",
    "LatticeQueueDepthHigh",
    "LatticeRaftCommitSlow",
    "LatticeNodeHeartbeatMissing",
    "LatticeAPIErrorRateHigh",
    "LatticeAccountingBufferFilling",
    "LatticeVNIPoolExhausted",
    "LatticeQuotaUtilizationHigh",
    "LatticeRaftDiskUsageHigh",
    "LatticeSnapshotGrowth",
}


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=False)


OF_SCALING = {"LatticeAutoscalingMetricMissing", "LatticeAutoscalingOscillates"}


def test_every_alert_of_the_specification_and_of_the_nodes_is_there() -> None:
    of_moves = {"Node" + "".join(map(str.capitalize, t.split("_"))) for t, effect in EFFECTS.items() if effect.severity}
    of_drift = {row[0] for row in CONFORMANCE}
    assert BY_NAME.keys() == OF_SECTION_9 | OF_SECTION_15 | OF_SCALING | of_moves | of_drift
    assert len(ALERTS) == len(BY_NAME) == 34
    assert CASES.keys() == BY_NAME.keys()


def test_every_alert_has_a_section_in_the_runbook() -> None:
    page = (ROOT / "docs" / "runbooks" / "alerts.md").read_text()
    anchors = {line.removeprefix("## ").lower() for line in page.splitlines() if line.startswith("## ")}
    for alert in ALERTS:
        file, _, anchor = alert.runbook.partition("#")
        assert (ROOT / file).exists()
        assert anchor in anchors
        assert all(alert.steps)


@pytest.mark.parametrize("name", BY_NAME)
def test_an_alert_asks_for_metrics_that_exist_or_says_what_it_waits_for(name: str) -> None:
    alert = BY_NAME[name]
    asked = {re.sub(r"_(bucket|count|sum)$", "", each) for each in re.findall(r"lattice_\w+", alert.expr)}
    shown = metric_families().keys()
    assert asked <= shown | SPECIFIED.keys()
    assert (not asked <= shown) == bool(alert.waits_for) or asked <= shown


def test_prometheus_takes_the_rules_and_the_scrape_configuration(tmp_path: Path) -> None:
    promtool = require_program("promtool")
    checked = run(promtool, "check", "rules", RULES)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "34 rules found" in checked.stdout
    config = (DEPLOY / "prometheus" / "prometheus.yml").read_text()
    moved = tmp_path / "prometheus.yml"
    (tmp_path / "token").write_text("t")
    moved.write_text(
        config.replace("/etc/prometheus/lattice.rules.yml", str(RULES))
        .replace("/etc/prometheus/secrets/lattice-token", str(tmp_path / "token"))
        .replace("/etc/prometheus/lattice-agents.json", str(tmp_path / "agents.json"))
    )
    (tmp_path / "agents.json").write_text("[]")
    checked = run(promtool, "check", "config", moved)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def _test(case: Case, name: str, *, fires: bool) -> dict[str, object]:
    alert = BY_NAME[name]
    series = case.firing if fires else case.silent
    # Annotations hold the value, and are compared whole; what they say is checked by the program that fills them in.
    expected = [{"exp_labels": {"severity": alert.severity, **labels}} for labels in case.labels] if fires else []
    return {
        "interval": "1m",
        "name": f"{name} {'fires' if fires else 'is silent'}",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "alert_rule_test": [{"eval_time": case.at, "alertname": name, "exp_alerts": expected}],
    }


def test_every_alert_fires_when_it_should_and_is_silent_otherwise(tmp_path: Path) -> None:
    promtool = require_program("promtool")
    # The rules without their annotations: promtool compares those word by word.
    rules = yaml.safe_load(RULES.read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            del rule["annotations"]
    (tmp_path / "bare.yml").write_text(yaml.safe_dump(rules))
    tests = [_test(case, name, fires=fires) for name, case in CASES.items() for fires in (True, False)]
    document = {"rule_files": ["bare.yml"], "evaluation_interval": "1m", "tests": tests}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document, width=1000))
    judged = run(promtool, "test", "rules", tmp_path / "tests.yml")
    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_alertmanager_takes_the_routes_and_sends_each_severity_where_it_belongs() -> None:
    amtool = require_program("amtool")
    file = DEPLOY / "alerts" / "alertmanager.yml"
    checked = run(amtool, "check-config", file)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    for severity, receiver in (("critical", "pagerduty-oncall"), ("warning", "slack-alerts"), ("info", "slack-info")):
        routed = run(amtool, "config", "routes", "test", f"--config.file={file}", f"severity={severity}")
        assert routed.stdout.strip() == receiver, routed.stderr


def test_nothing_secret_is_in_the_files_that_are_deployed() -> None:
    for path in DEPLOY.rglob("*.y*ml"):
        text = path.read_text()
        assert not re.search(r"(?i)(routing_key|api_url|password|credentials)\s*:", text), path
