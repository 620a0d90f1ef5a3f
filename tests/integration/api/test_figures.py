"""Metrics over REST: what anybody may read, what only some, and what is remembered."""

import pytest

from lattice.observe.figures.ring import FigureRing
from tests.integration.api.world import World, in_world


@in_world
async def test_the_public_page_names_no_tenant_user_or_allocation(world: World) -> None:
    await world.submit(name="secret-project")
    await world.start_run(1)
    page = (await world.call("GET", "/metrics", prefix="", token="")).body.decode()
    for word in ("physics", "alice", "secret-project", "tenant="):
        assert word not in page


@in_world
async def test_tenants_are_shown_to_those_who_may_see_all_of_them(world: World) -> None:
    for token, status in (
        (world.admin, 200),
        (world.token("op", scope="operator"), 200),
        (world.token("prometheus", scope="readonly", tenants=()), 200),
        (world.token("eve", scope="readonly", tenants=("physics",)), 403),
        (world.alice, 403),
        (world.token("boss", scope="tenant:admin"), 403),
        (world.token("n", kind="agent"), 403),
        ("", 401),
        ("nonsense", 401),
    ):
        answer = await world.call("GET", "/metrics/tenants", prefix="", token=token)
        assert answer.status == status, answer.body
        assert (b'lattice_quota_used_nodes{tenant="physics"}' in answer.body) == (status == 200)


@in_world
async def test_history_is_told_by_component_to_operators(world: World) -> None:
    ring = world.services.figures = FigureRing()
    now_s = world.services.wall_ms() / 1000
    for minute in range(3):
        await world.call("GET", "/allocations")
        ring.take(world.services.metrics.registry, now_s - 60 * (2 - minute))
    operator = world.token("op", scope="operator")
    answer = await world.call("GET", "/metrics/history?component=api&duration_s=90", token=operator)
    assert answer.status == 200, answer.body
    history = answer.json()
    assert (history["server"], history["component"]) == ("s1", "api")
    series = next(
        each
        for each in history["series"]
        if each["name"] == "lattice_api_requests_total" and each["labels"]["operation"] == "list_allocations"
    )
    assert [point["value"] for point in series["points"]] == [2.0, 3.0]
    assert all(each["name"].startswith("lattice_api_") for each in history["series"])


@pytest.mark.parametrize(
    ("query", "code"), [("component=kitchen", "invalid"), ("duration_s=0", "invalid"), ("duration_s=86401", "invalid")]
)
def test_history_refuses_what_is_not_kept(query: str, code: str) -> None:
    @in_world
    async def ask(world: World) -> None:
        world.services.figures = FigureRing()
        answer = await world.call("GET", f"/metrics/history?{query}", token=world.admin)
        assert (answer.status, answer.error["code"]) == (400, code)

    ask()


@in_world
async def test_history_is_not_for_users(world: World) -> None:
    assert (await world.call("GET", "/metrics/history")).status == 403
    assert (await world.call("GET", "/metrics/history", token=world.admin)).status == 503, "no ring here"


@in_world
async def test_targets_leave_out_what_other_machines_cannot_reach_and_say_why(world: World) -> None:
    for node in ("n3", "n4", "n5"):
        await world.add_node(node)
    world.services.metric_addresses = lambda: {
        "n1": "10.0.0.1:9103",
        "n2": "127.0.0.1:9103",
        "n3": "",
        "n4": "[::1]:9103",
    }
    answer = (await world.call("GET", "/metrics/targets", token=world.admin)).json()
    assert answer["targets"] == [{"node": "n1", "address": "10.0.0.1:9103", "group": "g1"}]
    why = {each["node"]: each["why"] for each in answer["left_out"]}
    assert "its own machine only" in why["n2"]
    assert "its own machine only" in why["n4"]
    assert "shows no metrics" in why["n3"]
    assert why["n5"] == "is not connected"
    assert (await world.call("GET", "/metrics/targets")).status == 403


@in_world
async def test_logs_and_configuration_are_for_administrators_and_without_secrets(world: World) -> None:
    world.services.configuration = lambda: "hmac_secret: hunter2\ndata_dir: /var/lib/lattice\n"
    world.links.logged["n1"] = ['{"message":"hello","password":"hunter2"}']
    answer = await world.call("GET", "/admin/diagnostics?since_s=60", token=world.admin)
    assert (answer.status, answer.json()["server"]) == (200, "s1")
    assert "/var/lib/lattice" in answer.json()["configuration"]
    assert b"hunter2" not in answer.body
    log = await world.call("GET", "/nodes/n1/log?since_s=60", token=world.admin)
    assert (log.status, len(log.json()["log"])) == (200, 1)
    assert b"hunter2" not in log.body
    assert (await world.call("GET", "/nodes/nowhere/log", token=world.admin)).status == 404
    for path in ("/admin/diagnostics", "/nodes/n1/log"):
        for token in (world.alice, world.token("op", scope="operator"), world.token("boss", scope="tenant:admin")):
            assert (await world.call("GET", path, token=token)).status == 403
    assert (await world.call("GET", "/admin/diagnostics?since_s=0", token=world.admin)).status == 400
