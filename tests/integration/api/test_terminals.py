"""Terminals over REST: who may open one where, and what is refused with which words."""

import asyncio
import base64
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from lattice.api.context import Context
from lattice.api.errors import ApiError
from lattice.api.operations.work.steps import check_steers
from lattice.core.machine.commands import SetVcluster
from lattice.core.model.site.tenants import SENSITIVE
from lattice.ports.nodes.agents import OutputPiece
from lattice.ports.nodes.steps import StepView
from lattice.wire.agents.journals import RECORD
from tests.integration.api.test_watching import OneTerminal
from tests.integration.api.world import World, in_world


async def submitted(world: World, **fields: object) -> str:
    answer = await world.call("POST", "/allocations", {"entrypoint": ["true"], **fields})
    assert answer.status == 201, answer.body
    return str(answer.json()["id"])


@in_world
async def test_only_the_owner_may_attach_and_strangers_see_nothing(world: World) -> None:
    path = f"/allocations/{await submitted(world)}/attach"
    for token, status, told in (
        (world.token("bert"), 403, "belongs to alice"),
        (world.token("root", scope="admin"), 403, "belongs to alice"),
        (world.token("zoe", tenants=("other",)), 404, "no allocation"),
        (world.token("rita", scope="readonly"), 403, "your role does not allow"),
    ):
        answer = await world.call("POST", path, {}, token=token)
        assert (answer.status, told in answer.error["message"]) == (status, True), answer.error


@in_world
async def test_a_token_for_terminals_reaches_terminals_alone(world: World) -> None:
    name = await submitted(world)
    await world.start_run(int(name[1:]))
    token = world.token("alice", scope="allocations:attach")
    opened = await world.call("POST", f"/allocations/{name}/attach", {"node": "n[1-2]"}, token=token)
    assert opened.status == 400, "allowed, and then refused for its field"
    for path, body in (("steps", {"argv": ["true"]}), ("signal", {"signal": "USR1"})):
        answer = await world.call("POST", f"/allocations/{name}/{path}", body, token=token)
        assert (answer.status, "your role does not allow" in answer.error["message"]) == (403, True)
    context = Context(world.services, world.services.verifier.verify(token))
    terminal = StepView(
        number=1, run=1, step=0, launch_id="x", name="", layout=None, tasks=1, started_at=0, is_terminal=True
    )
    check_steers(context, terminal)
    with pytest.raises(ApiError, match="for terminals alone"):
        check_steers(context, replace(terminal, is_terminal=False))


@in_world
async def test_work_that_waits_or_has_ended_has_no_terminals(world: World) -> None:
    name = await submitted(world)
    answer = await world.call("POST", f"/allocations/{name}/attach", {})
    assert (answer.status, answer.error["current"]) == (409, "Pending")
    assert f"lattice watch {name}" in answer.error["hint"]
    await world.call("DELETE", f"/allocations/{name}")
    answer = await world.call("POST", f"/allocations/{name}/attach", {})
    assert (answer.status, answer.error["current"]) == (409, "Cancelled")


class Overtaken(OneTerminal):
    """Its node has dropped what a follower needs: it wrote faster than that one read."""

    async def read(
        self, node: str, number: int, run: int, step: int, *, offset: int, follow: bool = True
    ) -> AsyncIterator[OutputPiece]:
        late = RECORD.pack(1, 0, 4) + b"late"
        if offset == 0:
            yield OutputPiece(offset=0, data=RECORD.pack(1, 0, 5) + b"early")
            yield OutputPiece(offset=70_000, data=RECORD.pack(1, 0, 4) + b"lost")
        elif offset < 0:
            yield OutputPiece(offset=90_000, data=late)
        else:
            yield OutputPiece(offset=offset, data=RECORD.pack(1, 0, 4) + b"next")
        if follow:
            await asyncio.Event().wait()


@in_world
async def test_a_client_that_is_too_slow_is_moved_ahead_and_sees_the_screen_as_it_is_then(world: World) -> None:
    name = await submitted(world)
    await world.start_run(int(name[1:]))
    world.services.steps = Overtaken()
    stream = await world.open(f"/allocations/{name}/steps/0/stream")
    events = [event for _ in range(4) if (event := await stream.next()) is not None]
    await stream.close()
    assert [event.event for event in events] == ["step", "", "screen", ""]
    early, screen, following = (base64.b64decode(event.data["data"]) for event in events[1:])
    assert b"early" in early
    assert (b"late" in screen, b"lost" in screen) == (True, False)
    assert b"next" in following
    assert events[2].data["next"] == 90_000 + RECORD.size + 4


@in_world
async def test_wrong_requests_name_the_field(world: World) -> None:
    name = await submitted(world)
    await world.start_run(int(name[1:]))
    for body, told in (
        ({"command": "ls", "argv": ["ls"]}, "command"),
        ({"argv": [""]}, "argv"),
        ({"node": "n[1-2]"}, "several nodes"),
        ({"rows": -1}, "rows"),
        ({"ends_allocation": True, "node": "n2"}, "ends_allocation"),
        ({"nonsense": 1}, "nonsense"),
    ):
        answer = await world.call("POST", f"/allocations/{name}/attach", body)
        assert (answer.status, told in answer.error["message"]) == (400, True), answer.error


@in_world
async def test_terminals_of_sensitive_work_are_refused_until_they_can_be_recorded(world: World) -> None:
    vcluster = world.state.vclusters["default"]
    await world.do(SetVcluster(vcluster=replace(vcluster, scheduler=SENSITIVE)))
    answer = await world.call("POST", f"/allocations/{await submitted(world)}/attach", {})
    assert (answer.status, "recorded" in answer.error["message"]) == (403, True), answer.error
