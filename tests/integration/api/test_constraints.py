"""What a submission may ask of its nodes, from JSON to the nodes that it gets."""

from typing import Any

import pytest

from lattice.core.machine.commands import ConfirmNode, RegisterNode
from lattice.core.model.nodes.nodes import Hardware
from tests.integration.api.test_usage import scheduled, shown
from tests.integration.api.world import World, in_world

KINDS = {
    "s1": Hardware(cpus=72, memory_mb=480 << 10, gpus=4, gpu_type="GH200", group="g2", unified_memory=True),
    "x1": Hardware(cpus=64, memory_mb=512 << 10, group="g3", cxl_memory_mb=2048 << 10),
    "v1": Hardware(cpus=64, memory_mb=256 << 10, gpus=8, gpu_type="A100", group="g3", features=("nvme",)),
}


async def machine(world: World) -> None:
    for node, hardware in KINDS.items():
        await world.do(RegisterNode(node=node, hardware=hardware))
        await world.do(ConfirmNode(node=node))
        world.observations.join(node, world.clock.monotonic_s())


def asking(constraints: dict[str, Any], **resources: object) -> dict[str, Any]:
    return {"entrypoint": ["true"], "resources": {**resources, "constraints": constraints}}


@pytest.mark.parametrize(
    ("constraints", "nodes"),
    [
        ({"require_unified_memory": True}, ["s1"]),
        ({"gpu_type": "A100", "gpu_count": 8}, ["v1"]),
        ({"features": ["nvme"]}, ["v1"]),
        ({"memory_gb": 512}, ["x1"]),
        ({"memory_gb": 1024, "allow_cxl_memory": True}, ["x1"]),
        ({"nodes": "n[1-2]", "exclude": ["n1"]}, ["n2"]),
        ({"nodes": ["v1"], "prefer_same_numa": False}, ["v1"]),
        ({"nodes": "n[1-2],x1", "topology": "tight"}, ["n1"]),
        ({"nodes": "n1", "storage_gbps": 2.5, "require_conformance": True}, ["n1"]),
    ],
)
def test_work_gets_the_nodes_that_it_asked_for(constraints: dict[str, Any], nodes: list[str]) -> None:
    @in_world
    async def check(world: World) -> None:
        await machine(world)
        answer = await world.call("POST", "/allocations", asking(constraints))
        assert answer.status == 201, answer.body
        await scheduled(world)
        assert (await shown(world, 1))["nodes"] == nodes

    check()


@pytest.mark.parametrize(
    ("constraints", "status", "said"),
    [
        ({"memory_gb": 1024}, 422, "not enough nodes"),
        ({"require_unified_memory": True, "features": ["nvme"]}, 422, "not enough nodes"),
        ({"require_unifed_memory": True}, 400, 'unknown field "require_unifed_memory"'),
        ({"topology": "loose"}, 400, "is not a topology"),
        ({"nodes": "n[2-1]"}, 400, "as names of nodes"),
        ({"nodes": ["n9"]}, 422, "not enough nodes"),
        ({"storage_gbps": -1}, 400, "must lie between"),
        ({"allow_cxl_memory": "yes"}, 400, "expected true or false"),
    ],
)
def test_what_no_node_can_give_is_refused(constraints: dict[str, Any], status: int, said: str) -> None:
    @in_world
    async def check(world: World) -> None:
        await machine(world)
        refused = await world.call("POST", "/allocations", asking(constraints))
        assert refused.status == status
        assert said in refused.error["message"]

    check()


@in_world
async def test_what_was_asked_for_is_shown_in_the_details(world: World) -> None:
    await machine(world)
    requests = {"nodes": "x1", "allow_cxl_memory": True, "require_conformance": True, "storage_gbps": 1.5}
    requests |= {"prefer_same_numa": True, "prefer_local_memory": True}
    await world.call("POST", "/allocations", asking(requests))
    details = (await world.call("GET", "/allocations/1?details=true")).json()["details"]["constraints"]
    assert details["nodes"] == ["x1"]
    assert (details["allow_cxl_memory"], details["require_conformance"], details["storage_gbps"]) == (True, True, 1.5)
    assert (details["prefer_same_numa"], details["prefer_local_memory"], details["memory_policy"]) == (True, True, "")
    assert details["require_unified_memory"] is False


@in_world
async def test_a_range_of_nodes_takes_what_is_free(world: World) -> None:
    await world.call("POST", "/allocations", asking({"nodes": "n[1-2]"}, nodes={"min": 1, "max": 4}))
    await scheduled(world)
    assert (await shown(world, 1))["nodes"] == ["n1", "n2"]


@in_world
async def test_storage_bandwidth_is_shared_by_what_runs(world: World) -> None:
    setting = {"value": "10"}
    await world.call("PUT", "/settings/scheduler.storage_bandwidth_gbps", setting, token=world.admin)
    for _ in range(2):
        await world.call("POST", "/allocations", asking({"storage_gbps": 6}))
    loop = await scheduled(world)
    assert [(await shown(world, number))["state"] for number in (1, 2)] == ["Starting", "Pending"]
    assert "storage" in (await shown(world, 2))["reason"]
    await world.report_running(1)
    await world.finish(1)
    await loop.run_cycle()
    assert (await shown(world, 2))["state"] == "Starting"
