"""REST and gRPC are one API: the same requests get the same answers and the same refusals, for every caller.

Two worlds alike are asked the same things in the same order, one over each wire.
"""

import asyncio
import itertools
import re
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import grpc
import msgspec
import pytest

from lattice.api.errors import STATUS
from lattice.api.grpc.contract import rpcs
from lattice.api.grpc.statuses import STATUS as GRPC_STATUS
from lattice.api.operations.operation import Operation
from lattice.api.operations.table import OPERATIONS
from lattice.api.rates import RateLimits
from lattice.wire.shapes import shape_of
from tests.integration.api.grpc_wire import RPCS, Answer, ask, grpc_of, rich_status, said
from tests.integration.api.parity_examples import EXAMPLES, Request
from tests.integration.api.world import Response, World, in_world

BY_NAME = {operation.name: operation for operation in OPERATIONS}
_IN_PATH = re.compile(r"\{(\w+)\}")


def with_words(operation: Operation) -> Request:
    """The required fields and those of the path, each filled with something of its kind."""
    filled: Request = dict.fromkeys(_IN_PATH.findall(operation.path), "nothing")
    for field in msgspec.structs.fields(operation.request):
        if field.required:
            filled[field.name] = _something(field.type)
    return filled


def _something(kind: object) -> object:
    if str(kind).startswith(("list", "tuple")):
        return []
    return 1 if kind is int else "nothing"


def all_examples() -> list[tuple[str, Request]]:
    named = {name for name, _ in EXAMPLES}
    return [*EXAMPLES, *((each.name, with_words(each)) for each in OPERATIONS if each.name not in named)]


async def over_rest(world: World, operation: Operation, request: Request, token: str) -> Response:
    path = _IN_PATH.sub(lambda match: quote(str(request[match[1]]), safe=""), operation.path)
    rest = {key: value for key, value in request.items() if f"{{{key}}}" not in operation.path}
    if operation.method in ("GET", "DELETE"):
        headers = {"last-event-id": rest.pop("last_event_id")} if "last_event_id" in rest else {}
        pairs = [(key, _worded(each)) for key, value in rest.items() for each in _several(value)]
        query = "&".join(f"{key}={quote(value)}" for key, value in pairs)
        address = f"{path}?{query}" if query else path
        return await world.call(operation.method, address, token=token, headers=headers)
    return await world.call(operation.method, path, rest, token=token)


def _several(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _worded(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Twins:
    """Two worlds alike; `both` asks one over REST and the other over gRPC."""

    def __init__(self) -> None:
        self.rest, self.grpc = World(), World()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> "Twins":
        for world in (self.rest, self.grpc):
            await world.start()
            self._stack.push_async_callback(world.stop)
        self.channel = await self._stack.enter_async_context(grpc_of(self.grpc.services))
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self._stack.aclose()

    async def both(self, name: str, request: Request, token: str) -> tuple[Response, Answer]:
        operation = BY_NAME[name]
        answers = asyncio.gather(
            over_rest(self.rest, operation, request, token), ask(self.channel, name, request, token=token)
        )
        async with asyncio.timeout(30):
            return await answers


# How long ago a node was heard is another thing a moment later.
VOLATILE = frozenset({"last_heartbeat_s", "last_response", "LastResponse"})


def steady(value: Any) -> Any:  # noqa: ANN401 - any JSON
    """What is said, without what changes by itself."""
    if isinstance(value, dict):
        return {key: steady(each) for key, each in value.items() if key not in VOLATILE}
    return [steady(each) for each in value] if isinstance(value, list) else value


def check_alike(name: str, request: Request, rest: Response, answer: Answer) -> None:
    where = f"{name} {request}"
    if rest.status >= 400:
        assert answer.error is not None, f"{where}: REST refused with {rest.error}, gRPC answered {answer}"
        assert answer.error == rest.error, where
        assert GRPC_STATUS[rest.error["code"]] is answer.status, where
        assert rest.status != 500, f"{where}: {rest.error}"
        return
    assert answer.error is None, f"{where}: REST answered, gRPC refused with {answer.error}"
    kind = RPCS[name].response.kind
    if kind == "text":
        assert b"".join(piece.get("data", b"") for piece in answer.values) == rest.body, where
    elif kind == "choice":
        assert steady(said(next(iter(answer.value.values())))) == steady(said(rest.json())), where
    else:
        assert steady(said(answer.value)) == steady(said(rest.json())), where


def test_every_example_gets_the_same_answer_over_both_wires() -> None:
    async def compare() -> None:
        async with Twins() as twins:
            for name, request in all_examples():
                if RPCS[name].response.kind == "events" and name not in {each for each, _ in EXAMPLES}:
                    continue
                rest, answer = await twins.both(name, request, twins.rest.admin)
                check_alike(name, request, rest, answer)

    asyncio.run(compare())


CALLERS: dict[str, dict[str, Any]] = {
    "owner": {"user": "alice"},
    "same tenant": {"user": "bob"},
    "other tenant": {"user": "eve", "tenants": ("physics",)},
    "no tenant": {"user": "nobody", "tenants": ()},
    "read only": {"user": "eye", "scope": "readonly"},
    "operator": {"user": "op", "scope": "operator"},
    "tenant admin": {"user": "boss", "scope": "tenant:admin"},
    "agent": {"user": "agent", "kind": "agent"},
}


@pytest.mark.parametrize("caller", CALLERS)
def test_every_operation_has_the_same_permissions_over_both_wires(caller: str) -> None:
    async def compare() -> None:
        async with Twins() as twins:
            for world in (twins.rest, twins.grpc):
                await world.submit(name="of alice")
            token = twins.rest.token(**CALLERS[caller])
            for operation in OPERATIONS:
                if RPCS[operation.name].response.kind == "events":
                    continue
                request = {**with_words(operation), **({"id": "a1"} if "/allocations/{id}" in operation.path else {})}
                if operation.name == "wait":
                    request["timeout"] = 0
                rest, answer = await twins.both(operation.name, request, token)
                check_alike(operation.name, request, rest, answer)

    asyncio.run(compare())


@pytest.mark.parametrize("token", ["", "x", "a.b.c"])
def test_nobody_gets_in_without_a_token_over_either_wire(token: str) -> None:
    async def compare() -> None:
        async with Twins() as twins:
            # A minute goes by between two of these calls: strangers in a hurry wait for their answer (tests/unit/api/test_rates.py).
            twins.grpc.services.limits = RateLimits({}, itertools.count(step=60).__next__)
            for operation in OPERATIONS:
                rest, answer = await twins.both(operation.name, with_words(operation), token)
                assert rest.status == 401
                assert answer.status is grpc.StatusCode.UNAUTHENTICATED
                check_alike(operation.name, {}, rest, answer)

    asyncio.run(compare())


def test_every_operation_has_one_method_and_every_field_of_its_request() -> None:
    assert [rpc.operation.name for rpc in rpcs()] == [operation.name for operation in OPERATIONS]
    assert len({rpc.path for rpc in rpcs()}) == len(OPERATIONS)
    for rpc in rpcs():
        fields = {field.attribute for field in shape_of(rpc.operation.request).fields}
        assert fields == {field.encode_name for field in msgspec.structs.fields(rpc.operation.request)}, rpc.name


def test_every_error_code_has_a_status_on_grpc() -> None:
    assert STATUS.keys() <= GRPC_STATUS.keys()


@in_world
async def test_a_refusal_carries_its_figures_and_its_request_id(world: World) -> None:
    async with grpc_of(world.services) as channel:
        answer = await ask(
            channel,
            "submit",
            {"entrypoint": ["true"], "tasks": "0-200000"},
            token=world.alice,
            headers={"X-Request-Id": "r1"},
        )
        assert answer.status is grpc.StatusCode.INVALID_ARGUMENT
        assert answer.error is not None
        assert (answer.error["current"], answer.error["limit"]) == ("200,001 tasks", "100,000 tasks")
        assert answer.trailers["x-request-id"] == "r1"
        rich = rich_status(answer)
        assert rich.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
        assert rich.details[0].type_url.endswith("lattice.v1.ErrorView")


@in_world
async def test_the_request_id_of_the_metadata_makes_a_repeat_the_same(world: World) -> None:
    async with grpc_of(world.services) as channel:
        ids = [
            (
                await ask(
                    channel, "submit", {"entrypoint": ["true"]}, token=world.alice, headers={"x-request-id": "one"}
                )
            ).value
            for _ in range(2)
        ]
    assert ids[0]["allocation"]["id"] == ids[1]["allocation"]["id"]
    assert len(world.state.allocations) == 1


@in_world
async def test_the_tenant_of_the_metadata_chooses(world: World) -> None:
    token = world.token("ann", tenants=("default", "physics"))
    async with grpc_of(world.services) as channel:
        answer = await ask(
            channel, "submit", {"entrypoint": ["true"]}, token=token, headers={"x-lattice-tenant": "physics"}
        )
        assert answer.value["allocation"]["tenant"] == "physics"


@in_world
async def test_a_watch_over_grpc_shows_what_the_watch_over_rest_shows(world: World) -> None:
    stream = await world.open("/events?since=0")
    async with grpc_of(world.services) as channel:
        watching = asyncio.create_task(ask(channel, "watch", {"since": 0}, token=world.alice, most=4))
        number = (await world.submit(name="watched"))["number"]
        await world.start_run(number)
        answer = await watching
    assert answer.error is None
    shown = [each["change"] for each in answer.values if "change" in each]
    indexes = {change["index"]: change["id"] for change in shown}
    assert len(indexes) > 1
    while indexes:
        event = await stream.until(lambda seen: seen.data.get("index") in indexes)
        assert indexes.pop(event.data["index"]) == event.data["id"]
    await stream.close()


@in_world
async def test_output_over_grpc_comes_as_it_is(world: World) -> None:
    number = (await world.submit())["number"]
    await world.start_run(number)
    world.links.write("n1", number, 1, "stdout", b"\xff\x00one\ntwo\n")
    async with grpc_of(world.services) as channel:
        whole = await ask(channel, "logs", {"id": f"a{number}"}, token=world.alice)
        assert b"".join(piece["data"] for piece in whole.values) == b"\xff\x00one\ntwo\n"
        following = asyncio.create_task(ask(channel, "stream_logs", {"id": f"a{number}"}, token=world.alice))
        world.links.end(number, 1)
        await world.finish(number)
        answer = await following
    assert [next(iter(each.keys() - {"event_id", "event"})) for each in answer.values] == ["piece", "end"]
    assert answer.values[0]["piece"]["data_b64"]
    assert answer.values[-1]["end"]["state"] == "Completed"


@in_world
async def test_a_deadline_ends_a_wait(world: World) -> None:
    await world.submit()
    async with grpc_of(world.services) as channel:
        answer = await ask(channel, "wait", {"id": "a1", "timeout": 30}, token=world.alice, timeout=0.1)
        assert answer.status is grpc.StatusCode.DEADLINE_EXCEEDED
        again = await ask(channel, "get_allocation", {"id": "a1"}, token=world.alice)
        assert again.value["state"] == "Pending"


@in_world
async def test_a_stream_ends_with_its_token(world: World) -> None:
    token = world.token("alice", lifetime_s=5)
    async with grpc_of(world.services) as channel:
        watching = asyncio.create_task(ask(channel, "watch", {}, token=token, most=5))
        for _ in range(3):
            await asyncio.sleep(0)
        world.clock.ms += 6000
        while not watching.done():
            await world.submit(token=world.admin, tenant="default")
            await asyncio.sleep(0.01)
        answer = watching.result()
    assert answer.error is not None or len(answer.values) == 5


@in_world
async def test_bytes_that_are_no_message_are_refused(world: World) -> None:
    async with grpc_of(world.services) as channel:
        answer = await ask(channel, "submit", b"\xff\xff\xff", token=world.alice)
        assert answer.error is not None
        assert answer.error["code"] == "invalid"
        large = await ask(channel, "submit", {"entrypoint": ["x" * (4 << 20)]}, token=world.alice)
        assert large.status in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)


@in_world
async def test_a_field_that_is_given_in_two_ways_is_refused(world: World) -> None:
    async with grpc_of(world.services) as channel:
        answer = await ask(channel, "submit", {"entrypoint": ["true"], "entrypoint_text": "true"}, token=world.alice)
        assert answer.error is not None
        assert "given twice" in answer.error["message"]
        unknown = await ask(channel, "update_tenant", {"name": "default", "cleared": ["mood"]}, token=world.admin)
        assert unknown.error is not None
        assert 'no field "mood"' in unknown.error["message"]
