"""Orders for sets of nodes: each node has its answer, a set that cannot be read or names strangers changes nothing."""

from tests.integration.api.world import World, in_world


async def with_nodes(world: World, count: int) -> str:
    for number in range(3, count + 1):
        await world.add_node(f"n{number}")
    return world.token("olga", scope="operator")


def states(world: World) -> dict[str, str]:
    return {name: str(node.state) for name, node in world.state.nodes.items()}


@in_world
async def test_a_set_is_drained_and_undrained_in_one_call_each(world: World) -> None:
    olga = await with_nodes(world, 6)
    await world.submit()
    await world.start_run(1)
    body = {"nodes": "n[1-3,5]", "reason": "new filters"}
    answer = await world.call("POST", "/nodes/drain", body, token=olga)
    assert answer.json()["items"] == [
        {"id": "n1", "ok": True, "state": "Draining"},
        *({"id": name, "ok": True, "state": "Drained"} for name in ("n2", "n3", "n5")),
    ]
    node = (await world.call("GET", "/nodes/n3")).json()
    assert (node["reason"], node["reason_by"]) == ("new filters", "olga")
    back = (await world.call("POST", "/nodes/undrain", {"nodes": ["n[1-2]", "n5"]}, token=olga)).json()["items"]
    assert [(item["id"], item["ok"], item["state"]) for item in back] == [
        ("n1", False, "Draining"),
        ("n2", True, "Ready"),
        ("n5", True, "Ready"),
    ]
    assert "a1" in back[0]["error"]["current"]


@in_world
async def test_disable_enable_and_a_fault_reported_from_outside(world: World) -> None:
    olga = await with_nodes(world, 4)
    disabled = await world.call("POST", "/nodes/disable", {"nodes": "n[1-2]"}, token=olga)
    assert [item["state"] for item in disabled.json()["items"]] == ["Down", "Down"]
    enabled = await world.call("POST", "/nodes/enable", {"nodes": "n[1-3]"}, token=olga)
    assert [item["state"] for item in enabled.json()["items"]] == ["Booting", "Booting", "Ready"]
    fault = (await world.call("POST", "/nodes/n3/fault", {"reason": "PSU 2 lost input"}, token=olga)).json()
    assert (fault["state"], fault["down_cause"], fault["reason"]) == ("Down", "hardware", "PSU 2 lost input")
    many = await world.call("POST", "/nodes/fault", {"nodes": "n[3-4]", "reason": "ECC"}, token=olga)
    assert [item["state"] for item in many.json()["items"]] == ["Down", "Down"]


@in_world
async def test_one_unknown_name_and_nothing_is_done(world: World) -> None:
    olga = await with_nodes(world, 3)
    answer = await world.call("POST", "/nodes/drain", {"nodes": "n[1-3],n[07-09],x"}, token=olga)
    assert (answer.status, answer.error["message"]) == (404, "4 unknown nodes: n[07-09],x")
    assert "nothing was changed" in answer.error["hint"]
    assert set(states(world).values()) == {"Ready"}


MISTYPED: list[tuple[object, str]] = [
    ("n[1-2,3x]", "'3x' at character 7 is not a range"),
    ("n1,n[2-1]", "'2-1' at character 6 is not a range"),
    ("n[1-2", "the one at character 2 is not closed"),
    ("n1],n2", "do not match at character 3"),
    ("n[1-9999999]", "more than"),
    ("", "names no node"),
    ([], "names no node"),
]


@in_world
async def test_a_typing_error_is_named_with_its_place(world: World) -> None:
    for nodes, said in MISTYPED:
        answer = await world.call("POST", "/nodes/drain", {"nodes": nodes}, token=world.admin)
        assert (answer.status, answer.error["code"]) == (400, "invalid")
        assert said in answer.error["message"]
    assert set(states(world).values()) == {"Ready"}


@in_world
async def test_only_operators_and_administrators(world: World) -> None:
    for order in ("drain", "undrain", "disable", "enable", "reboot", "fault", "wipe"):
        for path, body in ((f"/nodes/{order}", {"nodes": "n1"}), (f"/nodes/n1/{order}", {})):
            refused = await world.call("POST", path, body, token=world.alice)
            assert (refused.status, refused.error["code"]) == (403, "forbidden")
    assert set(states(world).values()) == {"Ready"}


@in_world
async def test_a_repeated_order_has_the_same_answers(world: World) -> None:
    olga = await with_nodes(world, 3)
    await world.call("POST", "/nodes/drain", {"nodes": "n[1-3]"}, token=olga)
    body = {"nodes": "n[1-3]", "request_id": "once"}
    first = (await world.call("POST", "/nodes/undrain", body, token=olga)).json()
    again = (await world.call("POST", "/nodes/undrain", body, token=olga)).json()
    assert first == again
    assert [item["ok"] for item in again["items"]] == [True, True, True]


@in_world
async def test_more_nodes_than_one_entry_of_the_log_holds(world: World) -> None:
    olga = await with_nodes(world, 700)
    answer = await world.call("POST", "/nodes/drain", {"nodes": "n[1-700]"}, token=olga)
    items = answer.json()["items"]
    assert [item["id"] for item in items] == [f"n{number}" for number in range(1, 701)]
    assert {item["state"] for item in items} == {"Drained"}


@in_world
async def test_a_node_tells_what_happened_by_whom_and_why(world: World) -> None:
    olga = await with_nodes(world, 2)
    await world.submit()
    await world.start_run(1)
    world.clock.ms += 60_000
    await world.call("POST", "/nodes/n1/drain", {"reason": "fan 3", "urgent": True}, token=olga)
    await world.call("POST", "/nodes/n1/disable", {"reason": "smoke"}, token=olga)
    page = (await world.call("GET", "/nodes/n1/events", token=olga)).json()
    assert page["next_cursor"] is None
    assert [(entry["previous"], entry["state"]) for entry in page["items"][-3:]] == [
        ("Booting", "Ready"),
        ("Ready", "Draining"),
        ("Draining", "Down"),
    ]
    drained, disabled = page["items"][-2:]
    assert (drained["trigger"], drained["by"], drained["reason"]) == ("drain_urgent", "olga", "fan 3")
    assert (disabled["by"], disabled["reason"], disabled["allocations"]) == ("olga", "smoke", ["a1"])
    await world.call("POST", "/nodes/n1/enable", {"reason": "aired"}, token=olga)
    told = (await world.call("GET", "/nodes/n1/events", token=olga)).json()["items"][-1]
    assert (told["state"], told["by"], told["reason"]) == ("Booting", "olga", "aired")
    since = (await world.call("GET", f"/nodes/n1/events?since={drained['at']}", token=olga)).json()["items"]
    assert [entry["state"] for entry in since] == ["Draining", "Down", "Booting"]


@in_world
async def test_a_story_names_only_work_that_the_reader_may_see(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    await world.call("POST", "/nodes/n1/disable", {"reason": "smoke"}, token=world.admin)
    bob = world.token("bob", tenants=("physics",))
    seen = {}
    for who, token in (("alice", world.alice), ("bob", bob), ("root", world.admin)):
        seen[who] = (await world.call("GET", "/nodes/n1/events", token=token)).json()["items"][-1]["allocations"]
    assert seen == {"alice": ["a1"], "bob": [], "root": ["a1"]}
    assert (await world.call("GET", "/nodes/n9/events", token=bob)).status == 404
    assert (await world.call("GET", "/nodes/n1/events?since=then", token=bob)).error["code"] == "invalid"


@in_world
async def test_reboot_and_wipe_only_what_may_be(world: World) -> None:
    olga = await with_nodes(world, 3)
    early = await world.call("POST", "/nodes/n1/reboot", {}, token=olga)
    assert (early.status, early.error["hint"]) == (409, "drain it first")
    await world.call("POST", "/nodes/drain", {"nodes": "n[1-2]"}, token=olga)
    body = {"nodes": "n[1-3]", "reason": "new kernel"}
    rebooted = (await world.call("POST", "/nodes/reboot", body, token=olga)).json()["items"]
    assert [(item["ok"], item["state"]) for item in rebooted] == [
        (True, "Booting"),
        (True, "Booting"),
        (False, "Ready"),
    ]
    assert "by hand" in rebooted[0]["note"]
    assert "note" not in rebooted[2]
    wiped = (await world.call("POST", "/nodes/n3/wipe", {"force": True, "reason": "disk swapped"}, token=olga)).json()
    assert (wiped["state"], wiped["reason"]) == ("Drained", "to be wiped: disk swapped")
    again = (await world.call("POST", "/nodes/wipe", {"nodes": "n[1,3]"}, token=olga)).json()["items"]
    assert [(item["id"], item["ok"]) for item in again] == [("n1", False), ("n3", True)]
