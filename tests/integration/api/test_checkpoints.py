"""Checkpoints over REST: asked for, listed, refused, and continued by their own user alone."""

from typing import Any

import pytest

from lattice.core.machine.commands import ConfirmNode, RegisterNode, ReportCheckpoint, SetSetting
from lattice.core.model.nodes.nodes import Hardware
from lattice.core.model.work.checkpoints import CheckpointPhase
from tests.integration.api.test_watching import OneTerminal
from tests.integration.api.world import World, in_world

SIGNAL = {"protocol": "signal"}


async def able(world: World) -> None:
    """A node that can ask its work."""
    hardware = Hardware(cpus=4, memory_mb=4096, group="g1", features=("checkpoint",))
    await world.do(RegisterNode(node="n1", hardware=hardware))
    await world.do(ConfirmNode(node="n1"))


async def asked(world: World) -> dict[str, Any]:
    """Running work that can be asked."""
    await able(world)
    await world.do(SetSetting(key="checkpoint.root", value="/ck"))
    made = await world.submit(checkpoint=SIGNAL)
    await world.start_run(made["number"])
    return made


async def say(world: World, number: int, *phases: str, n: int = 1) -> None:
    for phase in phases:
        command = ReportCheckpoint(
            number=number, run=1, n=n, node="n1", phase=CheckpointPhase(phase), bytes=7, elapsed_s=2.0
        )
        await world.do(command)


async def written(world: World) -> dict[str, Any]:
    """Running work with one complete checkpoint."""
    made = await asked(world)
    answer = await world.call("POST", f"/allocations/{made['id']}/checkpoint")
    assert (answer.status, answer.json()["state"]) == (202, "writing")
    await say(world, made["number"], "done", "sealed")
    return made


@in_world
async def test_no_terminal_is_opened_while_a_checkpoint_is_written_and_open_ones_are_found(world: World) -> None:
    made = await asked(world)
    desk = OneTerminal()
    world.services.steps = desk
    path = f"/allocations/{made['id']}"
    assert (await world.call("POST", f"{path}/attach", {"request_id": "before"})).status == 201
    desk.names = [desk.asked[0].launch_id, "x"]
    await world.call("POST", f"{path}/checkpoint")
    refused = await world.call("POST", f"{path}/attach", {"request_id": "late"})
    assert (refused.status, refused.error["current"]) == (409, "Checkpointing")
    assert "being checkpointed: no terminal can be opened" in refused.error["message"]
    assert f"lattice watch {made['id']}" in refused.error["hint"]
    assert (await world.call("POST", f"{path}/attach", {"request_id": "before"})).status == 201, "its answer was lost"
    await say(world, made["number"], "done", "sealed")
    assert (await world.call("POST", f"{path}/attach", {"request_id": "late"})).status == 201


@in_world
async def test_a_request_is_made_once_and_its_outcome_is_listed(world: World) -> None:
    made = await asked(world)
    path = f"/allocations/{made['id']}"
    for _ in range(2):
        answer = await world.call("POST", f"{path}/checkpoint", {"request_id": "once"})
        assert (answer.json()["n"], answer.json()["state"]) == (1, "writing")
    assert (await world.call("GET", path)).json()["state"] == "Checkpointing"
    await say(world, made["number"], "done", "sealed")
    (listed,) = (await world.call("GET", f"{path}/checkpoints")).json()["items"]
    assert listed == (await world.call("GET", f"{path}/checkpoints/1")).json()
    assert (listed["state"], listed["bytes"], listed["path"]) == (
        "complete",
        7,
        f"/ck/default/-/{made['id']}/checkpoints/1",
    )
    standing = (await world.call("GET", path)).json()["checkpoint"]
    assert (standing["complete"], standing["resume_from"]) == (1, listed["path"])
    assert (standing["protocol"], standing["signal"], standing["port"]) == ("signal", "USR1", 0)


@in_world
async def test_work_that_cannot_answer_is_an_error_at_once(world: World) -> None:
    made = await asked(world)
    path = f"/allocations/{made['id']}/checkpoint"
    await world.call("POST", path)
    await say(world, made["number"], "nothing")
    again = await world.call("POST", path, {"wait": 0})
    assert (again.status, again.json()["n"]) == (202, 1)  # it is asked again, and may have learned to answer
    await say(world, made["number"], "nothing")
    assert (await world.call("GET", f"{path}s")).json()["items"] == []
    refused = await world.call("GET", f"{path}s/1")
    assert (refused.status, "wrote no checkpoint" in refused.error["message"]) == (409, True)


@in_world
async def test_others_may_neither_ask_nor_look_nor_continue(world: World) -> None:
    made = await written(world)
    path = f"/allocations/{made['id']}"
    body = {"entrypoint": ["true"], "resume_from": made["id"]}
    stranger = world.token("mallory", tenants=("physics",))
    assert (await world.call("POST", f"{path}/checkpoint", token=stranger)).status == 404
    assert (await world.call("GET", f"{path}/checkpoints", token=stranger)).status == 404
    assert (await world.call("POST", "/allocations", body, token=stranger)).status == 404
    colleague = world.token("bob")
    assert (await world.call("POST", f"{path}/checkpoint", token=colleague)).status == 403
    assert (await world.call("POST", "/allocations", body, token=colleague)).status == 403
    admin = await world.call("POST", "/allocations", body, token=world.token("root", scope="admin"))
    assert (admin.status, "is not yours" in admin.error["message"]) == (403, True)


@in_world
async def test_new_work_continues_and_the_order_says_from_where(world: World) -> None:
    made = await written(world)
    for wanted in (made["id"], f"{made['id']}:1"):
        heir = await world.submit(resume_from=wanted)
        assert heir["checkpoint"]["resume_from"].endswith("/checkpoints/1")
    refused = await world.call("POST", "/allocations", {"entrypoint": ["true"], "resume_from": f"{made['id']}:9"})
    assert (refused.status, refused.error["message"]) == (409, f"{made['id']} has no complete checkpoint 9")
    unknown = await world.call("POST", "/allocations", {"entrypoint": ["true"], "resume_from": "a999"})
    assert unknown.status == 404


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"checkpoint": {"protocol": "telepathy"}}, "is no protocol"),
        ({"checkpoint": {"protocol": "dmtcp"}}, "unsupported"),
        ({"checkpoint": {"strategy": "often"}}, "is no strategy"),
        ({"checkpoint": {}}, "says nothing"),
        ({"checkpoint": {"strategy": "none", "protocol": "signal"}}, "neither a protocol nor a signal"),
        ({"checkpoint": {"protocol": "shmem", "signal": "USR1"}}, "gets no signal"),
        ({"checkpoint": {"protocol": "grpc", "port": 65_536}}, "65536 is not possible"),
        ({"checkpoint": {"protocol": "grpc", "port": -1}}, "-1 is not possible"),
        ({"checkpoint": {"port": 4711}}, "4711 is not possible"),
        ({"checkpoint": {"protocol": "grpc", "signal": "USR1"}}, "gets no signal"),
        ({"checkpoint": {"signal": "KILL"}}, "no signal that work can catch"),
        ({"checkpoint": {"signal": "NOPE"}}, "no signal that work can catch"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    @in_world
    async def check(world: World) -> None:
        await world.do(SetSetting(key="checkpoint.root", value="/ck"))
        refused = await world.call("POST", "/allocations", {"entrypoint": ["true"], **fields})
        assert (refused.status, named in refused.error["message"]) == (400, True), refused.error
        assert world.state.allocations == {}

    check()


@in_world
async def test_without_a_place_for_checkpoints_none_are_promised(world: World) -> None:
    await able(world)
    refused = await world.call("POST", "/allocations", {"entrypoint": ["true"], "checkpoint": SIGNAL})
    assert (refused.status, "checkpoint.root" in refused.error["message"]) == (409, True)
    made = await world.submit(checkpoint={"strategy": "none"})
    assert "checkpoint" not in made


def test_a_dag_has_no_work_that_continues() -> None:
    @in_world
    async def check(world: World) -> None:
        member = {"id": "x", "entrypoint": ["true"], "resume_from": "a1"}
        refused = await world.call("POST", "/dags", {"allocations": [member]})
        assert (refused.status, "resume_from is not possible in a DAG" in refused.error["message"]) == (400, True)

    check()
