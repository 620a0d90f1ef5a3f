"""The caches of nodes through the API: operators give orders, everybody may look, and paths of users stay their own."""

import tempfile
from pathlib import Path

from lattice.integrations.directory.registry import DirectoryRegistry
from lattice.ports.nodes.agents import RunKey
from lattice.ports.nodes.images import CachedImage, ComingImage, MountedImage, NodeImagesTold, VariableChange
from tests.conftest import require_program
from tests.image_files import make_greeter
from tests.integration.api.world import World, in_world

IMAGES = (
    CachedImage(reference="gnu/1.0:v1@sha256:" + "a" * 64, digest="a" * 64, size=5, idle_s=1.26, pinned=True),
    CachedImage(reference="/home/alice/own.squashfs@sha256:" + "b" * 64, digest="b" * 64, size=6),
)
COMING = (ComingImage(reference="/home/alice/x.squashfs", digest="c" * 64, done=1, total=9, error="/home/alice: no"),)


@in_world
async def test_operators_see_paths_of_users_and_others_do_not(world: World) -> None:
    world.links.lose("n2")
    world.links.images["n1"] = NodeImagesTold(capacity=100, used=11, free=50, images=IMAGES, coming=COMING)
    shown = (await world.call("GET", "/cache?nodes=n[1-2]", token=world.token("olga", scope="operator"))).json()
    first, second = shown["items"]
    assert [each["image"] for each in first["images"]] == ["gnu/1.0:v1", "/home/alice/own.squashfs"]
    assert first["images"][0]["idle_s"] == 1.3
    assert (first["coming"][0]["error"], second["error"]) == ("/home/alice: no", "node n2 is not connected")
    plain = (await world.call("GET", "/cache?nodes=n1", token=world.token("bob"))).json()["items"][0]
    assert [each["image"] for each in plain["images"]] == ["gnu/1.0:v1", ""]
    assert plain["coming"][0]["error"] == "could not be fetched"


@in_world
async def test_orders_reach_the_nodes_and_are_refused_to_users(world: World) -> None:
    olga = world.token("olga", scope="operator")
    for what in ("pin", "unpin", "evict"):
        answer = await world.call("POST", f"/cache/{what}", {"image": "gnu/1.0:v1", "nodes": "n2"}, token=olga)
        assert (answer.status, [item["node"] for item in answer.json()["items"]]) == (200, ["n2"])
        refused = await world.call("POST", f"/cache/{what}", {"image": "gnu/1.0:v1"}, token=world.token("bob"))
        assert refused.status == 403
    await world.call("POST", "/cache/evict", {"all": True}, token=olga)
    asked = [(node, ask.what, ask.name) for node, ask in world.links.asked]
    assert asked == [
        ("n2", "pin", "gnu/1.0:v1"),
        ("n2", "unpin", "gnu/1.0:v1"),
        ("n2", "evict", "gnu/1.0:v1"),
        ("n1", "evict", ""),
        ("n2", "evict", ""),
    ]


@in_world
async def test_a_node_that_never_had_the_image_is_no_problem_unless_none_had_it(world: World) -> None:
    olga, absent = (
        world.token("olga", scope="operator"),
        NodeImagesTold(error="x/1:v1 is not in the cache of this node"),
    )
    world.links.images["n2"] = absent
    for what, problem in (("evict", ""), ("unpin", ""), ("pin", absent.error)):
        items = (await world.call("POST", f"/cache/{what}", {"image": "x/1:v1"}, token=olga)).json()["items"]
        assert [item["error"] for item in items] == ["", problem]
    world.links.images["n1"] = absent
    nowhere = (await world.call("POST", "/cache/evict", {"image": "x/1:v1"}, token=olga)).json()["items"]
    assert [item["error"] for item in nowhere] == [absent.error] * 2


@in_world
async def test_a_mistake_asks_no_node(world: World) -> None:
    olga = world.token("olga", scope="operator")
    for path, body, status in (
        ("/cache/evict", {}, 400),
        ("/cache/evict", {"image": "x/1:v1", "all": True}, 400),
        ("/cache/pin", {"image": ""}, 400),
        ("/cache/pin", {"image": "x/1:v1", "nodes": "n9"}, 404),
        ("/cache/warm", {"image": "/some/file.squashfs"}, 400),
        ("/cache/warm", {"image": "x/1:v1"}, 400),
        ("/cache/warm", {"image": "host.example/x:1"}, 400),
    ):
        answer = await world.call("POST", path, body, token=olga)
        assert answer.status == status, (path, body)
    assert (await world.call("GET", "/cache?group=west", token=olga)).status == 404
    assert world.links.asked == []


@in_world
async def test_images_of_the_site_are_listed_described_and_warmed(world: World) -> None:
    require_program("mksquashfs")
    root = Path(tempfile.mkdtemp())
    make_greeter(root / "greeter" / "1.0" / "v1.squashfs")
    world.services.images = DirectoryRegistry(root)
    listed = (await world.call("GET", "/images?find=GREET")).json()["items"]
    assert [each["image"] for each in listed] == ["greeter/1.0:v1"]
    assert (await world.call("GET", "/images?find=none")).json()["items"] == []
    about = (await world.call("GET", "/images/one?image=greeter")).json()
    assert (about["image"], about["mount"]) == ("greeter/1.0:v1", "/user-environment")
    assert {view["name"] for view in about["views"]} >= {"default", "other"}
    unknown = await world.call("GET", "/images/one?image=greter")
    assert "did you mean greeter/1.0:v1" in unknown.error["hint"]
    assert (await world.call("GET", "/images/one?image=/x.squashfs")).status == 400
    olga = world.token("olga", scope="operator")
    warmed = (await world.call("POST", "/cache/warm", {"image": "greeter", "nodes": "n1"}, token=olga)).json()
    assert warmed["digest"] == about["digest"]
    order = world.links.asked[-1][1].image
    assert order is not None
    assert (order.digest, order.source, order.by_user) == (about["digest"], about["source"], False)


@in_world
async def test_images_of_an_allocation_are_shown_to_its_owner(world: World) -> None:
    await world.submit()
    nothing = (await world.call("GET", "/allocations/a1/images")).json()
    assert (nothing["node"], nothing["images"]) == ("", [])
    await world.start_run(1)
    world.links.lose("n1")
    unreachable = await world.call("GET", "/allocations/a1/images")
    assert unreachable.status == 409
    world.links.open.add("n1")
    mounted = MountedImage(
        reference="gnu/1.0:v1@sha256:" + "a" * 64, digest="a" * 64, mount="/user-environment", size=5
    )
    change = VariableChange(variable="OLD", operation="unset", view="gnu/1.0:v1:default")
    world.links.images["n1"] = NodeImagesTold(mounted=(mounted,), changes=(change,))
    shown = (await world.call("GET", "/allocations/a1/images")).json()
    assert shown["images"][0]["image"] == "gnu/1.0:v1"
    assert shown["changes"] == [{"variable": "OLD", "operation": "unset", "view": "gnu/1.0:v1:default", "value": None}]
    assert world.links.asked[-1][1].key == RunKey(1, 1)
    stranger = await world.call("GET", "/allocations/a1/images", token=world.token("bob"))
    assert stranger.status in (403, 404)
