"""The dashboards: each panel asks for metrics that exist, or says which feature it waits for."""

import json
import re
from pathlib import Path

import pytest
import yaml

from lattice.agent.figures.figures import FAMILIES
from lattice.core.model.telemetry.catalogue import METRICS
from lattice.observe.dashboards.panels import DASHBOARDS, REMOTE_WRITE, Dashboard
from tools.code_reference import metric_families

GRAFANA = Path(__file__).resolve().parents[3] / "deploy" / "grafana"
PANELS = [(dashboard, panel) for dashboard in DASHBOARDS for panel in dashboard.panels]
PUSHED = frozenset(f"lattice_{of}_{name}" for of in ("node", "allocation") for name in METRICS)


def names(expr: str) -> set[str]:
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in re.findall(r"lattice_\w+", expr)}


def test_there_are_the_six_dashboards_of_the_specification() -> None:
    wanted = ["holistic", "per-vcluster", "per-quorum-member", "per-node", "per-tenant", "user-allocation"]
    assert [each.name for each in DASHBOARDS] == wanted
    assert {path.stem for path in (GRAFANA / "dashboards").glob("*.json")} == set(wanted)


@pytest.mark.parametrize(
    ("dashboard", "panel"), PANELS, ids=lambda each: getattr(each, "name", getattr(each, "title", ""))
)
def test_a_panel_asks_for_metrics_that_exist_or_says_what_it_waits_for(dashboard: Dashboard, panel: object) -> None:
    shown = metric_families().keys() | FAMILIES.keys()
    for line in panel.lines:  # type: ignore[attr-defined] # a Panel
        asked = names(line.expr)
        assert asked
        if panel.needs == REMOTE_WRITE:  # type: ignore[attr-defined] # a Panel
            assert asked <= PUSHED
        else:
            assert asked <= shown
        variables = {each.name for each in dashboard.variables} | {"__rate_interval"}
        assert set(re.findall(r"\$(\w+)", line.expr)) <= variables


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda each: each.name)
def test_a_file_is_what_grafana_imports(dashboard: Dashboard) -> None:
    document = json.loads((GRAFANA / "dashboards" / f"{dashboard.name}.json").read_text())
    assert document["uid"] == f"lattice-{dashboard.name}"
    assert len({panel["id"] for panel in document["panels"]}) == len(dashboard.panels)
    assert document["templating"]["list"][0]["name"] == "datasource"
    for panel, said in zip(document["panels"], dashboard.panels, strict=True):
        assert [target["expr"] for target in panel["targets"]] == [line.expr for line in said.lines]
        assert said.waits_for in panel.get("description", "")
        assert said.needs in panel.get("description", "")
        # Grafana multiplies this one by a hundred; figures of nodes and runs are percent already.
        is_pushed = said.needs == REMOTE_WRITE
        assert not (is_pushed and panel["fieldConfig"]["defaults"]["unit"] == "percentunit")


def test_provisioning_names_the_folder_and_a_source() -> None:
    boards = yaml.safe_load((GRAFANA / "provisioning" / "dashboards.yml").read_text())
    assert boards["providers"][0]["options"]["path"].endswith("/lattice")
    sources = yaml.safe_load((GRAFANA / "provisioning" / "datasources.yml").read_text())
    assert sources["datasources"][0]["type"] == "prometheus"


def test_only_the_dashboard_of_tenants_names_tenants() -> None:
    for dashboard, panel in PANELS:
        text = " ".join(line.expr for line in panel.lines)
        if dashboard.name not in ("per-tenant", "user-allocation"):
            assert "tenant" not in text
