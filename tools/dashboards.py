"""Writes deploy/grafana/dashboards from the table of dashboards. Called by tools/reference.py."""

import json
from typing import Any

from lattice.observe.dashboards.panels import DASHBOARDS, Dashboard, Panel, Variable

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH, HEIGHT, PER_ROW = 12, 8, 2


def files() -> dict[str, str]:
    """By path below docs/reference."""
    return {f"../../deploy/grafana/dashboards/{each.name}.json": _document(each) for each in DASHBOARDS}


def _document(dashboard: Dashboard) -> str:
    made = {
        "uid": f"lattice-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["lattice"],
        "timezone": "browser",
        "schemaVersion": 37,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
    }
    return json.dumps(made, indent=1) + "\n"


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "name": variable.name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": variable.name},
        "definition": query,
        "refresh": 2,
        "sort": 1,
    }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    place = {"x": number % PER_ROW * WIDTH, "y": number // PER_ROW * HEIGHT, "w": WIDTH, "h": HEIGHT}
    said = " and ".join(each for each in (panel.needs, panel.waits_for) if each)
    waits = {"description": f"No data without {said}."} if said else {}
    return {
        "id": number + 1,
        "title": panel.title,
        **waits,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": SOURCE, "expr": line.expr, "legendFormat": line.legend}
            for place, line in enumerate(panel.lines)
        ],
    }
