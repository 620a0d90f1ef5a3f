"""Writes what is made of the table of alerts: the rules for Prometheus, the reference and the runbook. Called by tools/reference.py."""

from collections.abc import Iterator

import yaml

from lattice.observe.alerting.rules import ALERTS, Alert

HEAD = "# Made by `make docs` from src/lattice/observe/alerting; edit that, not this file.\n"


def files(note: str) -> dict[str, str]:
    """By path below docs/reference."""
    return {
        "alerts.md": reference(note),
        "../runbooks/alerts.md": runbook(note),
        "../../deploy/alerts/lattice.rules.yml": rules(),
    }


def rules() -> str:
    groups = dict.fromkeys(alert.group for alert in ALERTS)
    made = [
        {"name": f"lattice-{group}", "rules": [_rule(alert) for alert in ALERTS if alert.group == group]}
        for group in groups
    ]
    return HEAD + yaml.safe_dump({"groups": made}, sort_keys=False, width=1000, allow_unicode=True)


def _rule(alert: Alert) -> dict[str, object]:
    hold = {"for": alert.hold} if alert.hold else {}
    return {
        "alert": alert.name,
        "expr": alert.expr,
        **hold,
        "labels": {"severity": alert.severity},
        "annotations": {"summary": alert.message, "runbook": alert.runbook},
    }


def reference(note: str) -> str:
    """Every alert with its rule."""
    lines = [
        note,
        "# Alerts",
        "",
        "What a monitoring system tells operators. `deploy/alerts/lattice.rules.yml` has the same rules for Prometheus, ",
        "[the runbook](../runbooks/alerts.md) what to do; how to install both: [monitoring](../admin/monitoring.md).",
        "",
        "| alert | severity | rule | held for | text |",
        "|---|---|---|---|---|",
    ]
    for alert in ALERTS:
        expr = alert.expr.replace("|", "\\|")
        waits = f" Waits for: {alert.waits_for}." if alert.waits_for else ""
        lines.append(
            f"| [{alert.name}](../runbooks/alerts.md#{alert.name.lower()}) | {alert.severity} | `{expr}` | {alert.hold} | {alert.text}{waits} |"
        )
    return "\n".join([*lines, ""])


def runbook(note: str) -> str:
    lines = [
        note,
        "# What to do when an alert fires",
        "",
        "One section for each alert; its annotation `runbook` leads here. Rules: [alerts](../reference/alerts.md).",
    ]
    for alert in ALERTS:
        lines += ["", *_section(alert)]
    return "\n".join([*lines, ""])


def _section(alert: Alert) -> Iterator[str]:
    yield f"## {alert.name}"
    yield f"**{alert.severity}.** {alert.text.replace('{value}', 'N')}"
    if alert.waits_for:
        yield f"It cannot fire before there is: {alert.waits_for}."
    yield ""
    for number, step in enumerate(alert.steps, start=1):
        yield f"{number}. {step}"
