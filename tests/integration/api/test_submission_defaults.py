"""The vCluster that a submission gets which names none, and filters by project and tag."""

from lattice.core.machine.commands import SetVcluster
from lattice.core.model.site.tenants import Vcluster
from lattice.core.model.work.intent import IntentRule
from tests.integration.api.world import World, in_world

RULES = (
    IntentRule(vcluster="gone", name='rule "gone"'),
    IntentRule(vcluster="wide", name='rule "wide"', nodes=(2, None)),
    IntentRule(vcluster="train", name="rule 3", tags=(("stage", "train"),)),
)


async def prepared(world: World) -> None:
    for name in ("wide", "train"):
        await world.do(SetVcluster(vcluster=Vcluster(name=name, default_walltime_s=60), create=True))
    world.services.rules = RULES


@in_world
async def test_rules_choose_the_vcluster_and_the_answer_says_so(world: World) -> None:
    await prepared(world)
    wide = await world.submit(resources={"nodes": 2})
    assert (wide["vcluster"], wide["chosen_by"], wide["walltime_s"]) == ("wide", 'rule "wide"', 60)
    train = await world.submit(tags={"stage": "train"})
    assert (train["vcluster"], train["chosen_by"]) == ("train", "rule 3")
    named = await world.submit(vcluster="default", resources={"nodes": 2})
    assert named["vcluster"] == "default"
    assert "chosen_by" not in named
    other = await world.submit()
    assert other["vcluster"] == "default"
    assert "chosen_by" not in other


@in_world
async def test_a_dry_run_tells_where_it_would_go(world: World) -> None:
    await prepared(world)
    body = {"entrypoint": ["true"], "resources": {"nodes": 2}, "notify": {"on": ["end"]}}
    told = (await world.call("POST", "/allocations?dry_run=true", body)).json()
    assert (told["vcluster"], told["chosen_by"]) == ("wide", 'rule "wide"')
    assert len(told["warnings"]) == 1


async def tagged(world: World) -> None:
    """a1, a2 of project lhc, the second tagged; a3 tagged alone."""
    await world.submit(project="lhc")
    await world.submit(project="lhc", tags={"sweep": "3"})
    await world.submit(tags={"sweep": "3"})


async def ids(world: World, path: str) -> list[str]:
    return [item["id"] for item in (await world.call("GET", path)).json()["items"]]


@in_world
async def test_project_and_tag_narrow_lists_counts_and_history(world: World) -> None:
    await tagged(world)
    assert await ids(world, "/allocations?project=lhc") == ["a2", "a1"]
    assert await ids(world, "/allocations?tag=sweep=3") == ["a3", "a2"]
    assert (await world.call("GET", "/allocations/count?project=lhc&tag=sweep=3")).json()["total"] == 1
    await world.call("DELETE", "/allocations/a2")
    await world.call("DELETE", "/allocations/a3")
    assert await ids(world, "/accounting?project=lhc") == ["a2"]
    await world.archive(2, 3)
    assert await ids(world, "/accounting?tag=sweep=3&project=lhc") == ["a2"]


@in_world
async def test_project_and_tag_narrow_what_is_cancelled(world: World) -> None:
    await tagged(world)
    body = {"all_mine": True, "project": "lhc", "tag": ["sweep=3"]}
    cancelled = (await world.call("POST", "/allocations/cancel", body)).json()["items"]
    assert [item["id"] for item in cancelled] == ["a2"]
    refused = await world.call("POST", "/allocations/cancel", {"project": "lhc"})
    assert refused.status == 400
    assert "all_mine" in refused.error["message"]


@in_world
async def test_tags_change_and_the_change_is_seen(world: World) -> None:
    await tagged(world)
    body = {"tags": {"sweep": "4", "more": "yes"}}
    changed = (await world.call("PATCH", "/allocations/a2", body)).json()
    assert changed["tags"] == {"more": "yes", "sweep": "4"}
    changed = (await world.call("PATCH", "/allocations/a2", {"untag": ["sweep"]})).json()
    assert changed["tags"] == {"more": "yes"}
    assert (await world.call("PATCH", "/allocations/a2", {})).status == 400


@in_world
async def test_usage_is_narrowed_by_project(world: World) -> None:
    await tagged(world)
    for number in (1, 3):
        await world.start_run(number)
        world.clock.ms += 3_600_000
        await world.finish(number)
    assert (await world.call("GET", "/usage")).json()["node_hours"] == 2.0
    of_project = (await world.call("GET", "/usage?project=lhc")).json()
    assert (of_project["node_hours"], of_project["project"]) == (1.0, "lhc")


@in_world
async def test_a_watch_is_narrowed_by_project_tag_user_and_kind(world: World) -> None:
    by_project = await world.open("/events?project=lhc")
    by_tag = await world.open("/events?tag=sweep=3")
    by_user = await world.open("/events?user=bob")
    of_tenants = await world.open("/events?what=vcluster,project", token=world.admin)
    await tagged(world)
    await world.submit(token=world.token("bob"))
    await prepared(world)
    assert [(await by_project.next()).data["id"] for _ in range(2)] == ["a1", "a2"]  # type: ignore[union-attr]
    first = await by_tag.next()
    assert first is not None
    assert (first.data["id"], first.data["tags"], first.data["project"]) == ("a2", {"sweep": "3"}, "lhc")
    assert (await by_user.next()).data["id"] == "a4"  # type: ignore[union-attr]
    seen = [(await of_tenants.next()).data for _ in range(2)]  # type: ignore[union-attr]
    assert [(event["kind"], event["id"], event["state"]) for event in seen] == [
        ("vcluster", "wide", "up"),
        ("vcluster", "train", "up"),
    ]
    for stream in (by_project, by_tag, by_user, of_tenants):
        await stream.close()
    assert (await world.call("GET", "/events?what=weather")).status == 400
    assert (await world.call("GET", "/events?ids=d99")).status == 404
    assert (await world.call("GET", "/events?tag=x")).status == 400
