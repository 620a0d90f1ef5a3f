"""Pending work is changed through the API and by scontrol: what it asks for, where, when, and after what."""

from typing import Any

from tests.integration.api.test_slurm_listings import shown, slurm
from tests.integration.api.world import World, in_world


async def change(world: World, **changes: object) -> dict[str, Any]:
    response = await world.call("PATCH", "/allocations/a1", changes)
    assert response.status == 200, response.body
    answer: dict[str, Any] = response.json()
    return answer


async def batch(world: World, *argv: str) -> None:
    body = {"program": "sbatch", "argv": list(argv), "cwd": "/tmp", "environment": {}, "script": "#!/bin/sh\ntrue\n"}
    response = await world.call("POST", "/slurm/commands", body)
    assert response.json().get("code", 0) == 0, response.body


@in_world
async def test_everything_about_waiting_work_changes_in_one_request(world: World) -> None:
    await world.submit()
    await world.submit()
    await change(
        world, nodes=1, max_nodes=2, cpus=2, memory="1G", begin="2030-01-01T00:00:00Z", depends_on="a2:any", name="x"
    )
    record = world.state.allocations[1]
    request = record.request
    assert (request.nodes, request.max_nodes, request.cpus, request.memory_mb) == (1, 2, 2, 1024)
    assert (record.name, record.waits_for[0][0].number) == ("x", 2)
    await change(world, begin="now", depends_on="")
    record = world.state.allocations[1]
    assert (record.depends_on, record.request.cpus) == ((), 2)
    assert record.eligible_at <= world.clock.ms


@in_world
async def test_bad_changes_name_the_field_and_change_nothing(world: World) -> None:
    await world.submit()
    before = world.state.allocations[1]
    for changes, words in (
        ({"nodes": 0}, "nodes: 0 is not possible"),
        ({"max_nodes": 2}, "max_nodes: needs nodes"),
        ({"memory": "lots"}, "memory: "),
        ({"begin": "whenever"}, "begin: cannot read"),
        ({"depends_on": "a77"}, "unknown dependency"),
        ({"depends_on": "a1"}, "would wait for itself"),
        ({"vcluster": "nowhere"}, 'unknown vCluster "nowhere"'),
        ({"comment": "hello"}, "was not submitted by a Slurm command"),
        ({"nodes": 50, "name": "y"}, "not enough nodes"),
    ):
        response = await world.call("PATCH", "/allocations/a1", changes)
        assert response.status >= 400, changes
        assert words in response.error["message"], response.error
    assert world.state.allocations[1] == before


@in_world
async def test_running_work_is_refused_with_what_can_be_changed(world: World) -> None:
    await world.submit()
    await world.start_run(1)
    response = await world.call("PATCH", "/allocations/a1", {"nodes": 2})
    assert (response.status, "only pending" in response.error["message"]) == (409, True)


@in_world
async def test_scontrol_changes_pending_jobs_and_shows_them_so(world: World) -> None:
    await batch(world, "--mem=100", "--comment=old")
    await batch(world)
    line = "scontrol update JobId=1 NumNodes=2 MinMemoryNode=2G Comment=new Dependency=afterany:2 JobName=other"
    answer = await slurm(world, line)
    assert (answer["code"], answer["stderr"]) == (0, "")
    text = " ".join(await shown(world, "scontrol show job 1"))
    for words in (
        "NumNodes=2",
        "MinMemoryNode=2G",
        "Comment=new",
        "Dependency=afterany:2(unfulfilled)",
        "JobName=other",
    ):
        assert words in text, text
    assert (await slurm(world, "scontrol update JobId=1 Dependency= StartTime=now+1hour"))["code"] == 0
    text = " ".join(await shown(world, "scontrol show job 1"))
    assert "Dependency=(null)" in text
    assert world.state.allocations[1].eligible_at == world.clock.ms + 3600_000


@in_world
async def test_scontrol_refuses_values_in_the_words_of_slurm(world: World) -> None:
    await batch(world)
    before = world.state.allocations[1]
    for field, words in (
        ("NumNodes=none", "Invalid NumNodes value"),
        ("Partition=nope", "Invalid partition name specified"),
        ("Dependency=afterok:x", "Job dependency problem"),
        ("StartTime=never", "Invalid StartTime value"),
        ("Gres=license:1", "Invalid generic resource"),
        ("WCKey=x", "Update of this parameter is not supported"),
    ):
        answer = await slurm(world, f"scontrol update JobId=1 {field}")
        assert answer["code"] == 1, field
        assert words in answer["stderr"], answer
    assert world.state.allocations[1] == before
