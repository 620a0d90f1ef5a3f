"""Configurations over the API: groups, baselines, comparisons, refreshes and approvals, for those who may."""

from collections.abc import Sequence

from lattice.control.nodes.conformance import Conformance
from lattice.core.machine.commands import SetVcluster
from lattice.core.model.nodes.conformance import fingerprint
from lattice.core.model.nodes.health import CheckStanding, Consequence, Verdict
from lattice.core.model.nodes.nodes import NodeState
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from tests.integration.api.world import World, in_world
from tests.unit.control.reports import Reports

OLD, NEW = {"bios": "1", "kernel": "6.1"}, {"bios": "1", "kernel": "6.2"}


class Site:
    """Four nodes, of which n4 is another than the others."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.reports = Reports()
        self.loop = Conformance(world.replica, world.clock, self.reports, lambda: None)
        self.olga = world.token("olga", scope="operator")

    async def begin(self) -> "Site":
        for name in ("n3", "n4", "n5"):
            await self.world.add_node(name)
        for name in ("n1", "n2", "n3"):
            self.reports.say(name, OLD)
        self.reports.say("n4", NEW)
        self.world.services.conformance = self.loop
        await self.loop.look()
        return self


@in_world
async def test_groups_and_drifts_are_shown_with_what_separates_them(world: World) -> None:
    await Site(world).begin()
    found = (await world.call("GET", "/conformance")).json()
    assert [(group["size"], group["nodes"], group["baseline_of"]) for group in found["groups"]] == [
        (3, ["n1", "n2", "n3"], ["default"]),
        (1, ["n4"], []),
    ]
    kernel = {"component": "kernel", "expected": "6.1", "actual": "6.2"}
    assert found["groups"][1]["differences"] == [kernel]
    assert (found["nodes"], found["unknown"]) == (5, ["n5"])
    [drift] = found["drifted"]
    assert (drift["node"], drift["state"], drift["differences"]) == ("n4", "Ready", [kernel])
    assert drift["given_up_at"] > drift["since"]
    assert drift["escalated_at"] is drift["verified_at"] is None


@in_world
async def test_of_two_groups_of_one_size_the_baseline_comes_first(world: World) -> None:
    site = await Site(world).begin()
    site.reports.forget("n3")
    for right, wrong in ((OLD, NEW), (NEW, OLD)):
        await world.call("PUT", "/conformance/baselines/default", {"fingerprint": fingerprint(right)}, token=site.olga)
        for name, parts in {"n1": OLD, "n2": NEW}.items():
            site.reports.say(name, parts)
        site.reports.say("n4", NEW)
        site.reports.say("n5", OLD)
        await site.loop.look()
        first, second = (await world.call("GET", "/conformance")).json()["groups"]
        assert (first["fingerprint"], first["differences"]) == (fingerprint(right), [])
        assert second["fingerprint"] == fingerprint(wrong)


@in_world
async def test_nodes_show_their_group_and_how_they_stand(world: World) -> None:
    await Site(world).begin()
    nodes = (await world.call("GET", "/nodes")).json()["items"]
    assert [(node["fingerprint"][:4], node["conformance"]) for node in nodes] == [
        *([(fingerprint(OLD)[:4], "baseline")] * 3),
        (fingerprint(NEW)[:4], "drifted"),
        ("", "unknown"),
    ]


@in_world
async def test_two_nodes_are_compared(world: World) -> None:
    await Site(world).begin()
    same = (await world.call("GET", "/nodes/n1/diff/n2")).json()
    assert (same["is_same"], same["differences"]) == (True, [])
    other = (await world.call("GET", "/nodes/n1/diff/n4")).json()
    assert (other["is_same"], other["second_fingerprint"]) == (False, fingerprint(NEW))
    assert [each["component"] for each in other["differences"]] == ["kernel"]
    assert (await world.call("GET", "/nodes/n1/diff/n9")).status == 404
    unknown = await world.call("GET", "/nodes/n1/diff/n5")
    assert (unknown.status, unknown.error["message"]) == (409, "the configuration of node n5 is not known")


@in_world
async def test_a_baseline_is_declared_by_a_node_or_a_fingerprint(world: World) -> None:
    site = await Site(world).begin()
    path = "/conformance/baselines/default"
    assert (await world.call("GET", path)).json()["source"] == "majority"
    declared = (await world.call("PUT", path, {"node": "n4"}, token=site.olga)).json()
    assert (declared["source"], declared["node"], declared["set_by"]) == ("declared", "n4", "olga")
    assert (declared["components"], declared["fingerprint"]) == (NEW, fingerprint(NEW))
    await site.loop.look()
    assert sorted(world.state.drift.drifts) == ["n1", "n2", "n3"]
    by_print = (await world.call("PUT", path, {"fingerprint": fingerprint(OLD).upper()}, token=site.olga)).json()
    assert (by_print["components"], by_print["node"]) == (OLD, "")
    by_beginning = (await world.call("PUT", path, {"fingerprint": fingerprint(NEW)[:12]}, token=site.olga)).json()
    assert by_beginning["fingerprint"] == fingerprint(NEW)
    unknown = (await world.call("PUT", path, {"fingerprint": "f" * 64}, token=site.olga)).json()
    assert unknown["components"] == {}
    assert (await world.call("DELETE", path, token=site.olga)).json()["source"] == "majority"
    assert (await world.call("DELETE", path, token=site.olga)).status == 404


@in_world
async def test_a_baseline_that_makes_no_sense_is_refused(world: World) -> None:
    site = await Site(world).begin()
    path = "/conformance/baselines/default"
    for body in ({}, {"node": "n1", "fingerprint": "f" * 64}, {"fingerprint": "abc"}, {"fingerprint": "0" * 12}):
        assert (await world.call("PUT", path, body, token=site.olga)).status == 400
    assert (await world.call("PUT", path, {"node": "n9"}, token=site.olga)).status == 404
    assert (await world.call("PUT", path, {"node": "n5"}, token=site.olga)).status == 409
    nowhere = await world.call("PUT", "/conformance/baselines/nowhere", {"node": "n1"}, token=site.olga)
    assert (nowhere.status, nowhere.error["message"]) == (404, 'unknown vCluster "nowhere"')
    assert (await world.call("GET", "/conformance/baselines/nowhere")).status == 404
    assert (await world.call("PUT", path, {"node": "n1"})).status == 403


@in_world
async def test_a_vcluster_without_nodes_has_no_baseline(world: World) -> None:
    await Site(world).begin()
    await world.do(SetVcluster(vcluster=Vcluster(name="empty", nodes=("n9",)), create=True))
    found = (await world.call("GET", "/conformance/baselines/empty")).json()
    assert (found["source"], found["fingerprint"], found["components"]) == ("none", "", {})


@in_world
async def test_nodes_are_asked_to_look_again(world: World) -> None:
    site = await Site(world).begin()
    site.reports.unreachable.add("n5")
    answer = (await world.call("POST", "/conformance/refresh", {"nodes": "n[1-2]"}, token=site.olga)).json()
    assert answer == {"asked": ["n1", "n2"], "unreachable": []}
    everybody = (await world.call("POST", "/conformance/refresh", {}, token=site.olga)).json()
    assert everybody == {"asked": ["n1", "n2", "n3", "n4"], "unreachable": ["n5"]}
    assert (await world.call("POST", "/conformance/refresh", {"nodes": ["n9"]}, token=site.olga)).status == 404
    assert (await world.call("POST", "/conformance/refresh", {})).status == 403


@in_world
async def test_a_sensitive_node_is_approved_once_it_is_right_again(world: World) -> None:
    site = await Site(world).begin()
    await world.do(SetVcluster(vcluster=Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n1",)), create=True))
    await world.call("PUT", "/conformance/baselines/hospital", {"node": "n1"}, token=site.olga)
    site.reports.say("n1", NEW)
    await site.loop.look()
    refused = await world.call("POST", "/nodes/n1/approve", {}, token=site.olga)
    assert (refused.status, refused.error["limit"]) == (409, f"baseline {fingerprint(OLD)}")
    site.reports.say("n1", OLD)
    await site.loop.look()
    assert (await world.call("GET", "/nodes/n1")).json()["conformance"] == "waits for approval"
    assert (await world.call("POST", "/nodes/n1/approve", {})).status == 403
    approved = (await world.call("POST", "/nodes/n1/approve", {}, token=site.olga)).json()
    assert (approved["state"], approved["conformance"]) == ("Ready", "baseline")


class Desk:
    """What the checks of the nodes say, whenever they are asked."""

    def __init__(self, *failed: str) -> None:
        self.checks = tuple(
            CheckStanding(name=name, verdict=Verdict.FAILED, text="broken", consequence=Consequence.DRAIN)
            for name in failed
        )

    def checks_of(self, node: str) -> tuple[CheckStanding, ...]:
        return self.checks

    def unfit_because(self, node: str) -> str:
        return ""

    async def run_now(self, node: str, names: Sequence[str] = ()) -> tuple[CheckStanding, ...]:
        return self.checks


@in_world
async def test_a_node_whose_checks_fail_is_not_approved(world: World) -> None:
    site = await Site(world).begin()
    await world.do(SetVcluster(vcluster=Vcluster(name="hospital", scheduler=SENSITIVE, nodes=("n1",)), create=True))
    await world.call("PUT", "/conformance/baselines/hospital", {"node": "n1"}, token=site.olga)
    for parts in (NEW, OLD):
        site.reports.say("n1", parts)
        await site.loop.look()
    world.services.health = Desk("memory_errors")
    refused = await world.call("POST", "/nodes/n1/approve", {}, token=site.olga)
    assert (refused.status, refused.error["message"]) == (409, "node n1 is not fit: check memory_errors: broken")
    assert world.state.nodes["n1"].state is NodeState.DRAINED
    world.services.health = Desk()
    assert (await world.call("POST", "/nodes/n1/approve", {}, token=site.olga)).json()["state"] == "Ready"


@in_world
async def test_a_server_that_follows_says_that_it_does_not_know(world: World) -> None:
    answer = await world.call("GET", "/conformance")
    assert (answer.status, answer.error["code"]) == (503, "unavailable")
    assert (await world.call("GET", "/nodes/n1")).json()["conformance"] == ""


@in_world
async def test_what_the_kernel_was_started_with_is_for_those_who_manage_nodes(world: World) -> None:
    site = Site(world)
    await site.begin()
    for name, secret in {"n1": "root=live:http://deploy/x", "n2": "root=live:http://deploy/x", "n4": "debug"}.items():
        site.reports.say(name, {**OLD, "boot_parameters": secret})
    await site.loop.look()
    baseline = {"node": "n1"}
    assert (await world.call("PUT", "/conformance/baselines/default", baseline, token=site.olga)).status == 200
    await site.loop.look()
    paths = ("/conformance", "/nodes/n1/diff/n4", "/conformance/baselines/default")
    for path in paths:
        assert b"deploy" in (await world.call("GET", path, token=site.olga)).body, path
        assert b"deploy" not in (await world.call("GET", path)).body, path
    hidden = {"component": "boot_parameters", "expected": "not shown", "actual": "not shown"}
    assert (await world.call("GET", paths[1])).json()["differences"] == [hidden]
