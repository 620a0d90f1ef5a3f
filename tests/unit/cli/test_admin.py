"""`lattice admin`: tenants, vClusters, projects, settings, the scheduler."""

import pytest

from tests.unit.cli.runner import Cli
from tests.unit.sdk.fake_api import FakeApi, Reply, refusal

TENANT = {"name": "physics", "max_nodes": 200, "max_class": 10, "on_quota": "reject", "in_use": {"nodes": 12}}
VCLUSTER = {"name": "gpu", "scheduler": "hpc-backfill", "node_sharing": "exclusive", "default_walltime_s": 3600}


def test_creating_a_tenant(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/tenants", Reply(status=201, json=TENANT))
    outcome = cli("admin", "tenant", "create", "--name=physics", "--max-nodes=200", "--on-quota=queue")
    assert (outcome.code, outcome.out) == (0, "Created tenant physics\n")
    assert api.last().json == {"name": "physics", "max_nodes": 200, "on_quota": "queue"}


@pytest.mark.parametrize("verb", ["update", "set-quota"])
@pytest.mark.parametrize("name", [("physics",), ("--name=physics",)])
def test_changing_a_tenant_by_either_spelling(verb: str, name: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    api.on("PUT", "/tenants/physics", TENANT)
    flags = ("--max-nodes", "250", "--gpu-hours-budget=1.5e5", "--max-running-per-user=none")
    assert cli("admin", "tenant", verb, *name, *flags).out == "Updated tenant physics\n"
    assert api.last().json == {"max_nodes": 250, "gpu_hours_budget": 150000.0, "max_running_per_user": None}


@pytest.mark.parametrize(
    "line", [("physics",), ("--max-nodes=1",), ("a", "b", "--max-nodes=1"), ("physics", "--max-nodes=many")]
)
def test_a_change_that_says_too_little_or_too_much(line: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    assert cli("admin", "tenant", "update", *line).code == 2
    assert api.asked == []


def test_listing_and_showing_tenants(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/tenants", {"items": [TENANT]})
    api.on("GET", "/tenants/physics", TENANT)
    assert cli("admin", "tenant", "list").table()[1] == ["physics", "200", "12", "-", "0", "10", "reject"]
    assert cli("admin", "tenant", "list", "-q").out == "physics\n"
    assert "nodes in use:" in cli("admin", "tenant", "show", "physics").out
    assert cli("admin", "tenant", "show", "physics", "-o", "json").json["max_nodes"] == 200
    quotas = cli("admin", "tenant", "show", "physics", "--quotas").out
    assert [name in quotas for name in ("max nodes:", "nodes in use:", "members:", "created:")] == [
        True,
        True,
        False,
        False,
    ]


def test_creating_and_changing_a_vcluster(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/vclusters", Reply(status=201, json=VCLUSTER))
    api.on("PUT", "/vclusters/gpu", VCLUSTER)
    line = (
        "--name=gpu",
        "--scheduler=hpc-backfill",
        "--tenant=physics",
        "--nodes=n[1-2]",
        "--max-walltime=24h",
        "--down",
    )
    assert cli("admin", "vcluster", "create", *line).code == 0
    assert api.last().json == {
        "name": "gpu",
        "scheduler": "hpc-backfill",
        "tenants": ["physics"],
        "nodes": ["n1", "n2"],
        "max_walltime": "24h",
        "up": False,
    }
    assert cli("admin", "vcluster", "update", "gpu", "--node-sharing=shared", "--up", "--tenants=all").code == 0
    assert api.last().json == {"node_sharing": "shared", "up": True, "tenants": []}
    assert cli("admin", "vcluster", "set-config", "--name=gpu", "max_nodes=8", "up=false").code == 0
    assert api.last().json == {"max_nodes": 8, "up": False}
    assert cli("admin", "vcluster", "set-config", "--name=gpu", "colour=red").code == 2
    assert cli("admin", "vcluster", "update", "gpu").code == 2


def test_listing_and_showing_vclusters(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/vclusters", {"items": [VCLUSTER]})
    api.on("GET", "/vclusters/gpu", VCLUSTER)
    row = cli("admin", "vcluster", "list").table()[1]
    assert row == ["gpu", "yes", "hpc-backfill", "exclusive", "01:00:00", "-", "-", "0", "0"]
    assert "default walltime:  01:00:00" in cli("admin", "vcluster", "show", "gpu").out


def test_projects_belong_to_a_tenant(api: FakeApi, cli: Cli) -> None:
    project = {"tenant": "physics", "name": "lhc", "max_nodes": 20}
    api.on("POST", "/projects", Reply(status=201, json=project))
    api.on("PUT", "/projects/default/lhc", project)
    api.on("GET", "/projects", {"items": [project, {"tenant": "bio", "name": "dna"}]})
    assert cli("admin", "project", "create", "lhc", "-t", "physics", "--max-nodes=20").code == 0
    assert api.last().json == project
    assert cli("admin", "project", "update", "lhc", "--max-nodes=none").code == 0
    assert api.last().json == {"max_nodes": None}
    assert cli("admin", "project", "list", "-q").lines == ["lhc", "dna"]
    assert cli("admin", "project", "list", "-q", "-t", "bio").lines == ["dna"]


def test_settings(api: FakeApi, cli: Cli) -> None:
    setting = {"key": "accounting.enabled", "value": "true"}
    api.on("GET", "/settings", {"items": [setting]})
    api.on("GET", "/settings/accounting.enabled", setting)
    api.on("PUT", "/settings/accounting.enabled", setting)
    assert cli("admin", "config", "get", "accounting.enabled").out == "true\n"
    assert cli("admin", "config", "list").table()[1] == ["accounting.enabled", "true"]
    assert cli("admin", "config", "set", "accounting.enabled=true").out == "accounting.enabled = true\n"
    assert api.last().json == {"value": "true"}
    assert cli("admin", "config", "set", "accounting.enabled", "a=b").code == 0
    assert api.last().json == {"value": "a=b"}
    assert cli("admin", "config", "set", "accounting.enabled").code == 2


def test_the_scheduler(api: FakeApi, cli: Cli) -> None:
    api.on(
        "GET", "/scheduler", {"server": "s1", "leader": "s1", "cycles": 9, "last_cycle_ms": 1.25, "nodes": {"Ready": 4}}
    )
    out = cli("admin", "scheduler", "status").out
    assert "4 Ready" in out
    assert "1.2 ms" in out
    assert cli("admin", "scheduler", "status", "-o", "json").json["cycles"] == 9


def test_a_name_that_is_taken(api: FakeApi, cli: Cli) -> None:
    api.on("POST", "/tenants", refusal(409, "already_exists", 'tenant "physics" exists already'))
    outcome = cli("admin", "tenant", "create", "physics")
    assert (outcome.code, outcome.err) == (1, 'error: tenant "physics" exists already\n')


@pytest.mark.parametrize(
    "words", [("usage",), ("dag", "list"), ("notify", "show"), ("admin", "config", "list"), ("wait", "a1")]
)
def test_a_vcluster_is_refused_where_it_would_change_nothing(words: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    outcome = cli(*words, "--vcluster=nope")
    assert (outcome.code, "--vcluster" in outcome.err) == (2, True)
    assert api.asked == []


def test_the_schedulers_status_of_one_vcluster(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/scheduler", {"cycles": 7, "pending": 30, "running": 40, "nodes": {"Ready": 50}})
    api.on("GET", "/nodes", {"items": [{"id": "n1", "state": "Ready"}, {"id": "n2", "state": "Ready"}]})
    api.on("GET", "/vclusters/gpu", {**VCLUSTER, "pending": 3, "running": 4})
    shown = cli("admin", "scheduler", "status", "--vcluster=gpu").out
    assert ("gpu" in shown, "30" in shown, "40" in shown, "50" in shown) == (True, False, False, False)
    assert "2 Ready" in shown
    assert api.last().query == [("vcluster", "gpu")]
