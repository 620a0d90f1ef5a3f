"""Nodes, tenants, vClusters, projects, settings, the scheduler."""

import asyncio
from typing import Any

import pytest

from lattice.core.machine.commands import SetSetting, SetVcluster
from lattice.core.model.nodes.observations import Beat
from lattice.core.model.site.tenants import Vcluster
from tests.integration.api.world import World, in_world


@in_world
async def test_nodes_show_hardware_holding_and_signs_of_life(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    world.observations.hear("n1", world.clock.monotonic_s(), Beat(seq=5, load1=0.5))
    nodes = (await world.call("GET", "/nodes")).json()
    assert nodes["next_cursor"] is None
    first, second = nodes["items"]
    assert (first["id"], first["state"], first["holding"], first["allocations"]) == ("n1", "Ready", "whole", ["a1"])
    assert first["free"] == {"cpus": 0, "memory_mb": 0, "gpus": 0}
    assert first["load1"] == 0.5
    assert 0 <= first["last_heartbeat_s"] < 5
    assert (second["holding"], second["free"]["cpus"], second["group"]) == ("free", 4, "g1")
    assert (await world.call("GET", "/nodes/n1")).json()["id"] == "n1"


@in_world
async def test_nodes_are_filtered_and_paged(world: World) -> None:
    await world.call("POST", "/vclusters", {"name": "gpu", "nodes": ["n2"]}, token=world.admin)
    listed = (await world.call("GET", "/nodes?vcluster=gpu")).json()["items"]
    assert [(node["id"], node["vcluster"]) for node in listed] == [("n2", "gpu")]
    assert len((await world.call("GET", "/nodes?state=READY&group=g1")).json()["items"]) == 2
    assert (await world.call("GET", "/nodes?state=down")).json()["items"] == []
    page = (await world.call("GET", "/nodes?limit=1")).json()
    rest = (await world.call("GET", f"/nodes?limit=1&cursor={page['next_cursor']}")).json()
    assert (page["items"][0]["id"], rest["items"][0]["id"], rest["next_cursor"]) == ("n1", "n2", None)
    for query in ("state=asleep", "limit=0", "cursor=x"):
        assert (await world.call("GET", f"/nodes?{query}")).status == 400
    assert (await world.call("GET", "/nodes?vcluster=x")).status == 404
    unknown = await world.call("GET", "/nodes/n9")
    assert (unknown.status, "n1, n2" in unknown.error["hint"]) == (404, True)


@in_world
async def test_operator_drains_and_undrains(world: World) -> None:
    operator = world.token("olga", scope="operator")
    await world.submit()
    await world.start_run(1)
    drained = (await world.call("POST", "/nodes/n1/drain", {"reason": "dust"}, token=operator)).json()
    assert (drained["state"], drained["reason"], drained["reason_by"]) == ("Draining", "dust", "olga")
    early = await world.call("POST", "/nodes/n1/undrain", token=operator)
    assert (early.status, "a1" in early.error["current"]) == (409, True)
    await world.finish(1)
    assert (await world.call("GET", "/nodes/n1")).json()["state"] == "Drained"
    assert (await world.call("POST", "/nodes/n1/undrain", token=operator)).json()["state"] == "Ready"


@in_world
async def test_undrain_of_a_silent_node_does_not_make_it_ready(world: World) -> None:
    await world.call("POST", "/nodes/n1/drain", {}, token=world.admin)
    world.observations.leave("n1")
    assert (await world.call("POST", "/nodes/n1/undrain", token=world.admin)).json()["state"] == "Down"


@in_world
async def test_disable_and_enable(world: World) -> None:
    disabled = (await world.call("POST", "/nodes/n1/disable", {"reason": "fire"}, token=world.admin)).json()
    assert (disabled["state"], disabled["down_cause"]) == ("Down", "operator")
    assert (await world.call("POST", "/nodes/n1/enable", token=world.admin)).json()["state"] == "Booting"
    assert (await world.call("POST", "/nodes/n9/disable", {}, token=world.admin)).status == 404


@in_world
async def test_tenants_are_created_changed_field_by_field_and_shown(world: World) -> None:
    made = await world.call("POST", "/tenants", {"name": "bio", "max_nodes": 5}, token=world.admin)
    assert (made.status, made.json()["max_nodes"], made.json()["max_class"]) == (201, 5, 10)
    changed = await world.call("PUT", "/tenants/bio", {"max_class": 6, "on_quota": "queue"}, token=world.admin)
    assert (changed.json()["max_nodes"], changed.json()["max_class"], changed.json()["on_quota"]) == (5, 6, "queue")
    freed = await world.call("PUT", "/tenants/bio", {"max_nodes": None}, token=world.admin)
    assert freed.json()["max_nodes"] is None
    assert freed.json()["in_use"] == {"nodes": 0, "allocations": 0}
    names = [item["name"] for item in (await world.call("GET", "/tenants", token=world.admin)).json()["items"]]
    assert names == ["bio", "default", "physics"]
    own = [item["name"] for item in (await world.call("GET", "/tenants")).json()["items"]]
    assert own == ["default"]
    assert (await world.call("GET", "/tenants/bio")).status == 404


TENANT_MISTAKES: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("POST", "/tenants", {"name": "default"}, 409, "already_exists"),
    ("POST", "/tenants", {"name": "a b"}, 400, "invalid"),
    ("POST", "/tenants", {}, 400, "invalid"),
    ("POST", "/tenants", {"name": "x", "max_nods": 1}, 400, "invalid"),
    ("PUT", "/tenants/zzz", {"max_nodes": 1}, 404, "not_found"),
    ("PUT", "/tenants/default", {"max_nodes": -1}, 400, "invalid"),
    ("PUT", "/tenants/default", {"max_nodes": "many"}, 400, "invalid"),
    ("PUT", "/tenants/default", {"max_class": 11}, 400, "invalid"),
    ("PUT", "/tenants/default", {"name": "other"}, 400, "invalid"),
    ("POST", "/vclusters", {"name": "v", "scheduler": "dice"}, 400, "invalid"),
    ("POST", "/vclusters", {"name": "v", "tenants": ["chem"]}, 404, "not_found"),
    ("POST", "/vclusters", {"name": "v", "default_walltime": "2h", "max_walltime": "1h"}, 400, "invalid"),
    ("PUT", "/vclusters/default", {"max_walltime": "long"}, 400, "invalid"),
    ("PUT", "/vclusters/zzz", {"up": False}, 404, "not_found"),
    ("POST", "/projects", {"name": "p", "tenant": "chem"}, 404, "not_found"),
    ("PUT", "/projects/default/none", {"max_nodes": 1}, 404, "not_found"),
    ("PUT", "/settings/none", {"value": "1"}, 400, "invalid"),
    ("PUT", "/settings/agent.grace_s", {"value": "x"}, 400, "invalid"),
    ("PUT", "/settings/agent.grace_s", {}, 400, "invalid"),
    ("GET", "/settings/none", {}, 404, "not_found"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "code"), TENANT_MISTAKES)
def test_mistakes_change_nothing(method: str, path: str, body: dict[str, Any], status: int, code: str) -> None:
    @in_world
    async def scenario(world: World) -> None:
        response = await world.call(method, path, None if method == "GET" else body, token=world.admin)
        assert (response.status, response.error["code"]) == (status, code), response.body
        after = world.state
        assert (len(after.tenants), len(after.vclusters), len(after.projects), len(after.settings)) == (2, 1, 0, 0)

    scenario()


@in_world
async def test_simultaneous_changes_of_one_tenant_both_hold(world: World) -> None:
    await asyncio.gather(
        world.call("PUT", "/tenants/default", {"max_nodes": 7}, token=world.admin),
        world.call("PUT", "/tenants/default", {"max_class": 4}, token=world.admin),
    )
    tenant = (await world.call("GET", "/tenants/default")).json()
    assert (tenant["max_nodes"], tenant["max_class"]) == (7, 4)


@in_world
async def test_quota_is_refused_in_the_words_of_the_core(world: World) -> None:
    await world.call("PUT", "/tenants/default", {"max_nodes": 1}, token=world.admin)
    body = {"entrypoint": ["true"], "resources": {"nodes": 2}}
    response = await world.call("POST", "/allocations", body)
    assert response.status == 422
    assert response.error["code"] == "quota"
    assert "max_nodes" in response.error["message"]
    assert {"current", "requested", "limit"} <= response.error.keys()


@in_world
async def test_vclusters_are_created_changed_and_counted(world: World) -> None:
    body = {
        "name": "gpu",
        "tenants": ["physics"],
        "nodes": ["n2"],
        "node_sharing": "shared",
        "default_walltime": "30m",
        "max_walltime": "24h",
    }
    made = await world.call("POST", "/vclusters", body, token=world.admin)
    assert made.status == 201
    assert (made.json()["default_walltime_s"], made.json()["max_walltime_s"]) == (1800, 86400)
    changed = await world.call("PUT", "/vclusters/gpu", {"up": False, "max_walltime": None}, token=world.admin)
    assert (changed.json()["up"], changed.json()["max_walltime_s"], changed.json()["nodes"]) == (False, 0, ["n2"])
    await world.submit()
    await world.submit(tasks="0-4")
    await world.start_run(1)
    default = (await world.call("GET", "/vclusters/default")).json()
    assert (default["pending"], default["running"]) == (5, 1)
    names = [item["name"] for item in (await world.call("GET", "/vclusters", token=world.admin)).json()["items"]]
    assert names == ["default", "gpu"]
    names = [item["name"] for item in (await world.call("GET", "/vclusters")).json()["items"]]
    assert names == ["default"], "the other one is for another tenant"


@in_world
async def test_a_vcluster_has_the_nodes_that_a_range_names(world: World) -> None:
    made = await world.call("POST", "/vclusters", {"name": "both", "nodes": ["n[1-2]"]}, token=world.admin)
    assert made.json()["nodes"] == ["n1", "n2"]
    for body in ({"name": "typo", "nodes": ["doesnotexist"]}, {"name": "typo", "nodes": ["n1", "n[2-9]"]}):
        refused = await world.call("POST", "/vclusters", body, token=world.admin)
        assert (refused.status, "unknown node" in refused.error["message"]) == (404, True), refused.body
    refused = await world.call("PUT", "/vclusters/both", {"nodes": ["n1", "n7"]}, token=world.admin)
    assert (refused.status, "n7" in refused.error["message"]) == (404, True)
    assert world.state.vclusters["both"].nodes == ("n1", "n2")


@in_world
async def test_a_vcluster_always_has_a_default_walltime(world: World) -> None:
    for name, body, walltime_s in (("plain", {}, 3600), ("short", {"max_walltime": "10m"}, 600)):
        made = await world.call("POST", "/vclusters", {"name": name, **body}, token=world.admin)
        assert made.json()["default_walltime_s"] == walltime_s
    refused = await world.call("PUT", "/vclusters/plain", {"default_walltime": None}, token=world.admin)
    assert (refused.status, "default_walltime" in refused.error["message"]) == (400, True)
    await world.do(SetVcluster(vcluster=Vcluster(name="old"), create=True))
    work = await world.submit(vcluster="old")
    assert work["walltime_s"] == 3600, "one that was made before there was a default"


@in_world
async def test_figures_beyond_their_range_are_refused(world: World) -> None:
    for target in (2, -0.1, 1.01):
        refused = await world.call("PUT", "/tenants/default", {"fair_share_target": target}, token=world.admin)
        assert (refused.status, "fair_share_target" in refused.error["message"]) == (400, True)
    assert (await world.call("PUT", "/tenants/default", {"fair_share_target": 1}, token=world.admin)).status == 200


@in_world
async def test_a_request_beyond_its_projects_limit_is_refused(world: World) -> None:
    made = await world.call("POST", "/projects", {"name": "x", "tenant": "default", "max_nodes": 1}, token=world.admin)
    assert made.status == 201
    body = {"entrypoint": ["true"], "project": "x", "resources": {"nodes": 2}}
    refused = await world.call("POST", "/allocations", body)
    assert (refused.error["code"], refused.error["limit"]) == ("quota", "1 nodes")
    dag = {"allocations": [{"name": "a", **body}]}
    assert (await world.call("POST", "/dags", dag)).error["code"] == "quota"
    assert (await world.call("POST", "/allocations", {**body, "resources": {"nodes": 1}})).status == 201


@in_world
async def test_projects_belong_to_tenants(world: World) -> None:
    chief = world.token("chief", scope="tenant:admin")
    made = await world.call("POST", "/projects", {"name": "p1", "max_nodes": 3}, token=chief)
    assert (made.status, made.json()["tenant"], made.json()["max_nodes"]) == (201, "default", 3)
    changed = await world.call("PUT", "/projects/default/p1", {"max_nodes": None}, token=chief)
    assert changed.json()["max_nodes"] is None
    assert (await world.call("POST", "/projects", {"name": "p2", "tenant": "physics"}, token=chief)).status == 403
    assert [item["name"] for item in (await world.call("GET", "/projects")).json()["items"]] == ["p1"]
    assert (await world.call("GET", "/projects?tenant=physics", token=world.admin)).json()["items"] == []


@in_world
async def test_settings_have_defaults_and_can_be_changed(world: World) -> None:
    listed = (await world.call("GET", "/settings", token=world.admin)).json()["items"]
    assert {"agent.grace_s", "archive.after_s"} <= {item["key"] for item in listed}
    changed = await world.call("PUT", "/settings/agent.grace_s", {"value": 5}, token=world.admin)
    assert (changed.json()["value"], changed.json()["default"]) == ("5", "30")
    assert (await world.call("GET", "/settings/agent.grace_s", token=world.admin)).json()["value"] == "5"
    switched = await world.call("PUT", "/settings/scheduler.trace_capture", {"value": True}, token=world.admin)
    assert switched.json()["value"] == "true"


@in_world
async def test_a_setting_that_nothing_reads_is_refused_by_name(world: World) -> None:
    unread = ["accounting.enabled"]
    listed = (await world.call("GET", "/settings", token=world.admin)).json()["items"]
    assert not {item["key"] for item in listed} & set(unread)
    for key in unread:
        for method, body in (("GET", None), ("PUT", {"value": "1"})):
            refused = await world.call(method, f"/settings/{key}", body, token=world.admin)
            assert (refused.status, key in refused.error["message"]) == (400, True), refused.body
    await world.do(SetSetting(key="accounting.enabled", value="true"))  # as an older log may hold it


@in_world
async def test_scheduler_status(world: World) -> None:
    await world.submit(tasks="0-2")
    await world.start_run(2)
    status = (await world.call("GET", "/scheduler")).json()
    assert (status["server"], status["leader"], status["cycles"]) == ("s1", True, 3)
    assert (status["pending"], status["running"], status["nodes"]) == (2, 1, {"Ready": 2})
    assert status["last_cycle_at"] == "2026-03-05T08:40:00.000Z"
    assert status["applied_index"] == world.replica.applied_index


@in_world
async def test_what_nothing_uses_is_deleted_and_what_is_used_says_by_whom(world: World) -> None:
    await world.call("POST", "/tenants", {"name": "chemistry"}, token=world.admin)
    await world.call("POST", "/projects", {"tenant": "chemistry", "name": "dft"}, token=world.admin)
    await world.call("POST", "/vclusters", {"name": "gpu", "nodes": ["n2"]}, token=world.admin)
    used = await world.call("DELETE", "/tenants/chemistry", token=world.admin)
    assert (used.status, used.error["message"]) == (409, 'tenant "chemistry" has projects: dft')
    for path in ("/projects/chemistry/dft", "/tenants/chemistry", "/vclusters/gpu"):
        assert (await world.call("DELETE", path, token=world.admin)).status == 200
        assert (await world.call("DELETE", path, token=world.admin)).status == 404
    for path in ("/tenants/default", "/vclusters/default"):
        kept = await world.call("DELETE", path, token=world.admin)
        assert (kept.status, kept.error["message"].endswith("is the default and stays")) == (409, True)


@in_world
async def test_a_node_is_deleted_once_it_is_drained_and_its_agent_stopped(world: World) -> None:
    world.observations.hear("n2", world.clock.monotonic_s(), Beat(seq=1))
    connected = await world.call("DELETE", "/nodes/n2", token=world.admin)
    assert (connected.status, connected.error["message"]) == (409, "the agent of node n2 is connected")
    world.observations.leave("n2")
    in_use = await world.call("DELETE", "/nodes/n2", token=world.admin)
    assert (in_use.status, in_use.error["message"]) == (409, "node n2 is in use")
    await world.call("POST", "/nodes/n2/drain", {"reason": "sold"}, token=world.admin)
    assert (await world.call("DELETE", "/nodes/n2", token=world.admin)).status == 200
    assert [node["id"] for node in (await world.call("GET", "/nodes")).json()["items"]] == ["n1"]
    assert (await world.call("DELETE", "/nodes/n1")).status == 403
