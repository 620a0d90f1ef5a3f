"""Data over REST: what is refused before anything changes, who sees which source, and what movers may."""

import asyncio
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from lattice.api.operations.data import retention
from lattice.control.data.staging import Staging, StagingSettings
from lattice.core.machine.commands import (
    ClaimCopy,
    ConfirmNode,
    RaiseLevel,
    RegisterNode,
    ReportCopy,
    SettleData,
    SetVcluster,
)
from lattice.core.machine.levels import NEWEST
from lattice.core.model.data.copies import CopyPhase, key_of
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.nodes.specifications import Figures
from lattice.core.model.site.tenants import SENSITIVE, Vcluster
from lattice.ports.data.tiers import DataTiers, WarmTier
from lattice.ports.nodes.measures import MissingFeature
from lattice.wire.files.retained import Retained, ended_name, write
from lattice.wire.text.problems import BadField
from lattice.wire.work.submissions import NO_IMAGES, Submission, work_of
from tests.integration.api.world import World, in_world

SET = "file:///warm/set"
MOUNT = {"source": SET, "target": "/data/set", "tier_hint": "hot"}


async def staged(world: World) -> None:
    """A site with a directory for all, a bucket for others, and a hot tier."""
    if world.replica.state.level < NEWEST:
        await world.replica.propose(RaiseLevel(level=NEWEST), actor="test")
    world.services.staging = Staging(world.replica, world.clock, StagingSettings())
    world.services.tiers = DataTiers(
        has_hot=True,
        exports={"shared": (), "theirs": ("nobodys",)},
        warm=(
            WarmTier(url="file:///warm"),
            WarmTier(url="s3://secret-bucket", tenants=("nobodys",)),
            WarmTier(url="file:///cold", is_cold=True, is_writable=False),
            WarmTier(url="s3://read-only", is_writable=False),
        ),
        targets=("/data",),
        why_unreadable=lambda source, account: f"{account} may not read it" if "closed" in source else "",
    )


def body(*mounts: dict[str, Any], **more: Any) -> dict[str, Any]:  # noqa: ANN401 - fields of several kinds
    return {"entrypoint": "true", "data": {"mounts": list(mounts), **more}}


MISTAKES: list[tuple[list[dict[str, Any]], str, str]] = [
    ([MOUNT, {**MOUNT, "source": "/warm/b"}], "data.mounts[1].target", "is hidden by"),
    ([{**MOUNT, "target": "data"}], "data.mounts[0].target", "not an absolute path"),
    ([{**MOUNT, "target": "/etc/x"}], "data.mounts[0].target", "belongs to the system"),
    ([{**MOUNT, "target": "/data/../etc"}], "data.mounts[0].target", "has .."),
    ([{**MOUNT, "target": "/elsewhere"}], "data.mounts[0].target", "not where data may be mounted"),
    ([{**MOUNT, "source": "gopher://x/y"}], "data.mounts[0].source", "not a known scheme"),
    ([{**MOUNT, "source": "/warm/../etc"}], "data.mounts[0].source", "has . or .."),
    ([{**MOUNT, "source": "/other/set"}], "data.mounts[0].source", "is in no tier"),
    ([{**MOUNT, "source": "s3://secret-bucket/x"}], "data.mounts[0].source", "is in no bucket"),
    ([{**MOUNT, "source": "nfs://home/x", "tier_hint": ""}], "data.mounts[0].source", "no export"),
    ([{**MOUNT, "source": "/warm/closed"}], "data.mounts[0].source", "may not read it"),
    ([{**MOUNT, "access": "rw"}], "data.mounts[0].access", "read-only"),
    ([{**MOUNT, "source": "s3://b-b/x", "tier_hint": "direct", "access": "rw"}], "data.mounts[0].access", "read-only"),
    ([{**MOUNT, "source": "/cold/x", "tier_hint": "direct"}], "data.mounts[0].tier_hint", "has to be restored"),
    ([{**MOUNT, "source": "nfs://theirs/x", "tier_hint": ""}], "data.mounts[0].source", "is no export"),
    ([{**MOUNT, "source": "nfs://shared/x"}], "data.mounts[0].tier_hint", "mounted, not copied"),
]


@in_world
async def test_mistakes_are_refused_and_nothing_changes(world: World) -> None:
    await staged(world)
    for mounts, field, words in MISTAKES:
        refused = await world.call("POST", "/allocations", body(*mounts), token=world.alice)
        assert refused.status == 400, (words, refused.json())
        assert refused.error["message"].startswith(f"{field}: ")
        assert words in refused.error["message"]
        assert "secret-bucket" not in refused.error.get("hint", "")
    assert not world.replica.state.staging.copies


@in_world
async def test_results_go_only_where_they_may(world: World) -> None:
    await staged(world)
    for target, words in (
        ("s3://read-only/x", "results may not go to s3://read-only"),
        ("s3://secret-bucket/x", "is in no bucket"),
        ("/cold/x", "is an archive"),
        ("nfs://shared/x", "results go to directories and buckets"),
    ):
        out = [{"source": "results", "target": target}]
        refused = await world.call("POST", "/allocations", body(stage_out=out), token=world.alice)
        assert refused.status == 400
        assert words in refused.error["message"]


def test_output_and_defaults_reach_the_node() -> None:
    work = work_of(convert(body(defaults=False, output="/warm/out/{id}"), Submission), NO_IMAGES)
    assert work.no_defaults
    assert [(out.source, out.target, out.made) for out in work.stage_out] == [("output", "file:///warm/out/{id}", True)]
    assert not work_of(convert(body(), Submission), NO_IMAGES).no_defaults
    with pytest.raises(BadField):
        work_of(convert(body(output="relative"), Submission), NO_IMAGES)


async def with_site_output(world: World, pattern: str, *more: WarmTier) -> None:
    await staged(world)
    tiers = world.services.tiers
    world.services.tiers = replace(tiers, output=pattern, warm=(*tiers.warm, *more))
    features = ("stage_out", "stage_out_s3", "data")
    await world.replica.propose(
        RegisterNode(node="n1", hardware=Hardware(cpus=4, memory_mb=4096, features=features)), actor="test"
    )
    await world.replica.propose(ConfirmNode(node="n1"), actor="test")


async def outputs(world: World, **more: Any) -> list[str]:  # noqa: ANN401 - fields of several kinds
    made = await world.call("POST", "/allocations", {"entrypoint": "true", **more}, token=world.alice)
    assert made.status == 201, made.json()
    found = await world.call("GET", f"/allocations/{made.json()['id']}?details=true", token=world.alice)
    return [each["target"] for each in found.json()["details"].get("stage_out", [])]


@in_world
async def test_output_goes_where_the_site_says_unless_work_says_otherwise(world: World) -> None:
    await with_site_output(world, "file:///warm/out/{tenant}/{project}/{user}/{id}")
    assert await outputs(world) == ["file:///warm/out/default/-/alice/{id}"]
    assert await outputs(world, project="../a b") == ["file:///warm/out/default/_a_b/alice/{id}"]
    assert await outputs(world, per_node=True) == ["file:///warm/out/default/-/alice/{id}/{node}"]
    assert await outputs(world, tasks="0-3") == ["file:///warm/out/default/-/alice/{id}"]
    assert await outputs(world, data={"output": "/warm/own/{id}"}) == ["file:///warm/own/{id}"]
    assert await outputs(world, data={"defaults": False}) == []
    assert await outputs(world, lifecycle={"type": "unbounded"}) == []


@in_world
async def test_a_tenant_that_may_not_use_the_tier_has_no_output_by_default(world: World) -> None:
    await with_site_output(world, "s3://secret-bucket/{id}")
    assert await outputs(world) == []


@in_world
async def test_sensitive_work_writes_to_no_tier_that_others_may_use(world: World) -> None:
    own = WarmTier(url="file:///ward", tenants=("default",))
    await with_site_output(world, "file:///warm/{id}", own)
    ward = Vcluster(name="ward", scheduler=SENSITIVE, default_walltime_s=60)
    await world.replica.propose(SetVcluster(vcluster=ward, create=True), actor="test")
    assert await outputs(world, vcluster="ward") == []
    shared = {"stage_out": [{"source": "results", "target": "/warm/{id}"}]}
    mounted = {"mounts": [{**MOUNT, "tier_hint": "direct", "access": "rw"}]}
    for data in (shared, mounted, {"output": "/warm/{id}"}):
        request = {"entrypoint": "true", "vcluster": "ward", "data": data}
        refused = await world.call("POST", "/allocations", request, token=world.alice)
        assert refused.status == 400, refused.json()
        assert "sensitive work, which writes to no shared tier" in refused.error["message"]
    mine = {"stage_out": [{"source": "results", "target": "/ward/{id}"}]}
    assert await outputs(world, vcluster="ward", data=mine) == ["file:///ward/{id}"]


@in_world
async def test_more_scratch_than_any_node_has_is_refused(world: World) -> None:
    await staged(world)
    hardware = Hardware(cpus=4, memory_mb=4096, features=("scratch", "stage_out", "data"))
    for node, size_mb in (("n1", 1_000), ("n2", 2_000)):
        figures = Figures(tmp_disk_mb=size_mb)
        await world.replica.propose(RegisterNode(node=node, hardware=hardware, figures=figures), actor="test")
        await world.replica.propose(ConfirmNode(node=node), actor="test")
    for fields in ({"scratch": "3G"}, {"data": {"scratch_per_node": "3G"}}):
        refused = await world.call("POST", "/allocations", {"entrypoint": "true", **fields}, token=world.alice)
        assert refused.status == 400, refused.json()
        assert refused.error["message"] == "scratch: no node has as much"
        assert refused.error["limit"].startswith("2,000 MB")
    assert (
        await world.call("POST", "/allocations", {"entrypoint": "true", "scratch": "1G"}, token=world.alice)
    ).status == 201
    await world.replica.propose(RegisterNode(node="n3", hardware=hardware), actor="test")
    await world.replica.propose(ConfirmNode(node="n3"), actor="test")
    unknown = await world.call("POST", "/allocations", {"entrypoint": "true", "scratch": "3G"}, token=world.alice)
    assert unknown.status == 201, "one node does not say how much it has"


@in_world
async def test_scratch_that_no_node_can_bound_is_refused_with_the_reason_of_the_node(world: World) -> None:
    await staged(world)
    await world.replica.propose(RegisterNode(node="n1", hardware=Hardware(cpus=4, memory_mb=4096)), actor="test")
    await world.replica.propose(ConfirmNode(node="n1"), actor="test")
    asked = {"entrypoint": "true", "scratch": "1G"}
    world.links.open.discard("n2")
    for why in ("", ": n1: mke2fs is not installed"):
        if why:
            world.links.missing["n1"] = (MissingFeature(name="scratch", reason="mke2fs is not installed"),)
        for request in (asked, {"entrypoint": "true", "data": {"scratch_per_node": "1G"}}):
            refused = await world.call("POST", "/allocations", request, token=world.alice)
            assert refused.error["message"] == f"scratch: no node of this cluster can give it a size{why}"
            assert refused.error["hint"]
    dag = await world.call("POST", "/dags", {"allocations": [{"id": "a", **asked}]}, token=world.alice)
    assert "mke2fs is not installed" in dag.error["message"]


@in_world
async def test_scratch_in_memory_is_no_larger_than_the_memory_of_the_work(world: World) -> None:
    await staged(world)

    async def add(node: str, kind: str) -> None:
        hardware = Hardware(cpus=4, memory_mb=4096, features=("scratch", kind))
        await world.replica.propose(RegisterNode(node=node, hardware=hardware), actor="test")
        await world.replica.propose(ConfirmNode(node=node), actor="test")

    async def asked(scratch: str) -> Any:  # noqa: ANN401 - an answer
        request = {"entrypoint": "true", "scratch": scratch, "resources": {"cpus": 1, "memory": "1G"}}
        return await world.call("POST", "/allocations", request, token=world.alice)

    async def features(scratch: str) -> tuple[str, ...]:
        return world.state.allocations[(await asked(scratch)).json()["number"]].request.features

    await add("n1", "memory_scratch")
    refused = await asked("2G")
    assert refused.error["message"].startswith("scratch: is more than the memory of the work")
    assert refused.error["limit"].startswith("1,024 MB")
    assert await features("1G") == ("scratch",)
    await add("n2", "disk_scratch")
    assert await features("2G") == ("disk_scratch", "scratch"), "only n2 can have it"
    assert await features("1G") == ("scratch",)


@in_world
async def test_only_movers_move_and_only_operators_evict(world: World) -> None:
    await staged(world)
    mover = world.token("mover", scope="data:move")
    for token in (world.alice, world.admin):
        assert (await world.call("POST", "/data/work", {"mover": "m"}, token=token)).status == 403
        assert (await world.call("POST", "/data/reports", {"mover": "m", "reports": []}, token=token)).status == 403
    assert (await world.call("GET", "/allocations", token=mover)).status == 403
    assert (await world.call("POST", "/data/evict", {"source": SET}, token=world.alice)).status == 403
    missing = await world.call("POST", "/data/evict", {"source": SET}, token=world.admin)
    assert missing.status == 404
    given = await world.call("POST", "/data/work", {"mover": "m", "slots": 2}, token=mover)
    assert given.json() == {"tasks": [], "remove": [], "stop": [], "bytes_per_s": 0.0}
    assert (await world.call("POST", "/data/work", {"mover": "m", "slots": 999}, token=mover)).status == 400


@in_world
async def test_sources_are_shown_to_those_who_asked_for_them(world: World) -> None:
    await staged(world)
    made = await world.call("POST", "/data/stage", {"source": "/warm/set"}, token=world.alice)
    assert (made.status, made.json()["state"], made.json()["source"]) == (200, "wanted", SET)
    for token, count in ((world.alice, 1), (world.token("bob"), 0), (world.admin, 1)):
        listed = (await world.call("GET", "/data", token=token)).json()["items"]
        assert len(listed) == count
    mover = world.token("mover", scope="data:move")
    task = (await world.call("POST", "/data/work", {"mover": "m", "slots": 1}, token=mover)).json()["tasks"][0]
    assert (task["source"], len(task["accounts"])) == (SET, 1)
    sized = {"key": task["key"], "generation": 1, "phase": "sized", "size": 10, "readers": task["accounts"]}
    ready = {**sized, "phase": "ready", "version": "v"}
    answers = await world.call("POST", "/data/reports", {"mover": "m", "reports": [sized, ready]}, token=mover)
    assert [each["go_on"] for each in answers.json()["answers"]] == [True, True]
    shown = (await world.call("GET", "/data?source=/warm/set", token=world.alice)).json()["items"][0]
    assert (shown["state"], shown["size"]) == ("ready", 10)
    tier = (await world.call("GET", "/data/tier", token=world.alice)).json()
    assert (tier["used"], tier["movers"], tier["waiting"]) == (10, 1, 0)
    gone = await world.call("POST", "/data/evict", {"source": SET}, token=world.admin)
    assert gone.json()["state"] == "leaving"


@in_world
async def test_owners_keep_what_they_left_and_others_do_not(world: World) -> None:
    await staged(world)
    made = (await world.call("POST", "/allocations", {"entrypoint": ["true"]}, token=world.alice)).json()["id"]
    bob = world.token("bob")
    for who, status in ((bob, 403), (world.alice, 200)):
        assert (await world.call("POST", "/retention/keep", {"id": made}, token=who)).status == status
    listed = (await world.call("GET", "/retention", token=world.alice)).json()
    assert (listed["logs_s"], listed["checkpoints_s"], listed["output_s"]) == (30 * 86400, 7 * 86400, 0)
    assert [(each["id"], each["kept"], each["kept_by"]) for each in listed["items"]] == [(made, True, "alice")]
    assert (await world.call("GET", "/retention", token=bob)).json()["items"] == []
    gone = await world.call("POST", "/retention/keep", {"id": made, "keep": False}, token=world.alice)
    assert (gone.json()["kept"], (await world.call("GET", "/retention", token=world.alice)).json()["items"]) == (
        False,
        [],
    )


@in_world
async def test_other_members_do_not_learn_which_data_work_waits_for(world: World) -> None:
    await staged(world)
    hardware = Hardware(cpus=4, memory_mb=4096, features=("data",))
    await world.replica.propose(RegisterNode(node="n9", hardware=hardware, boot_id="b"), actor="test")
    await world.replica.propose(ConfirmNode(node="n9"), actor="test")
    made = await world.call("POST", "/allocations", body(MOUNT), token=world.alice)
    assert made.status == 201, made.json()
    number = made.json()["id"]
    for token, named in ((world.alice, True), (world.token("bob"), False)):
        shown = (await world.call("GET", f"/allocations/{number}", token=token)).json()
        assert (shown["state"], SET in shown["reason"]) == ("Staging", named)
        assert "waits to be staged" in shown["reason"]
        assert "/warm/set" in shown["reason"] or not named
        explained = (await world.call("GET", f"/allocations/{number}/explanation", token=token)).json()
        assert (SET in str(explained)) is named


@in_world
async def test_other_members_do_not_learn_which_data_could_not_be_staged(world: World) -> None:
    await staged(world)
    hardware = Hardware(cpus=4, memory_mb=4096, features=("data",))
    await world.replica.propose(RegisterNode(node="n9", hardware=hardware, boot_id="b"), actor="test")
    await world.replica.propose(ConfirmNode(node="n9"), actor="test")
    work = {"name": "flow", "allocations": [{"id": "read", **body(MOUNT)}]}
    dag = (await world.call("POST", "/dags", work, token=world.alice)).json()
    number = dag["allocations"][0]["number"]
    key, account = key_of(SET), world.replica.state.allocations[number].account
    world.clock.ms += 1000
    await world.replica.propose(ClaimCopy(key=key, mover="m"), actor="test")
    closed = ReportCopy(
        key=key,
        mover="m",
        generation=1,
        phase=CopyPhase.SIZED,
        denied=((account, "it may not be read"),),
    )
    await world.replica.propose(closed, actor="test")
    await world.replica.propose(SettleData(numbers=(number,)), actor="test")
    for token, named in ((world.alice, True), (world.token("bob"), False)):
        shown = await world.call("GET", f"/allocations/a{number}", token=token)
        listed = await world.call("GET", "/allocations", token=token)
        whole = await world.call("GET", f"/dags/{dag['id']}", token=token)
        for answer in (shown, listed, whole):
            assert answer.status == 200
            assert f"a{number}" in str(answer.json())
            assert ("/warm/set" in str(answer.json())) is named, answer.json()
        assert (await world.call("GET", f"/allocations/a{number}", token=token)).json()["message"]


@in_world
async def test_a_list_of_what_is_kept_reads_several_objects_at_once_and_not_all_of_them(world: World) -> None:
    for number in range(1000, 1200):
        user = "alice" if number == 1150 or number < 1050 else "carol"
        record = Retained(
            number=number, user=user, tenant="default", ended_at=1, root="/c", directory="/c/d", count=1, bytes=1
        )
        await world.objects.put(ended_name(number), write(record))
    under_way, most, reads, get = 0, 0, 0, world.objects.get

    async def counted(name: str, **more: Any) -> bytes:  # noqa: ANN401 - handed on
        nonlocal under_way, most, reads
        under_way, reads = under_way + 1, reads + 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return await get(name, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "MAX_SEARCHED", 100)
        patch.setattr(world.objects, "get", counted)
        listed = (await world.call("GET", "/retention", token=world.alice)).json()["items"]
    assert [each["id"] for each in listed] == ["a1150"]  # older than those that are searched: not shown
    assert (reads, 1 < most <= retention.CONCURRENCY) == (100, True)
