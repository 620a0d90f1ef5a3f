"""A megabyte of every kind of character in every text of every operation, on every wire: refused, or answered in linear time.

The operation table and the annotations of the requests say where texts can stand; a new operation or field is tried without a word here.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote

import grpc
import pytest
from msgspec import Struct, json
from msgspec import inspect as i

from lattice.api.operations.operation import Operation
from lattice.api.operations.table import OPERATIONS
from lattice.api.slurm.registry import PROGRAMS
from lattice.daemons.server.local_socket import PEER_USER, LocalAccess
from lattice.slurm.submit.options import OPTIONS, Takes
from lattice.testing import scenario
from lattice.wire.bounds import MAX_ARGUMENT, MAX_TEXT
from tests.integration.api.grpc_wire import RPCS, ask, grpc_of
from tests.integration.api.world import World, in_world

WHOLE = 1 << 20
# Less is not worth a second look; of what takes longer four times the size may take so many times as long.
UNSEEN_S = 0.05
MOST_GROWTH = 8.0
# Each with an end that fits none of the others: patterns that almost match are the slow ones.
CLASSES = {
    "digits": ("1", "x"),
    "letters": ("a", "!"),
    "spaces": (" ", "b"),
    "punctuation": ("a|", "!"),
    "brackets": ("[", "]"),
    "ranges": ("a[0-9],", "["),
    "commas": (",", "x"),
    "numbers": ("1,", "x"),
    "escapes": ("\x1b[31m\n", "\0"),
    "other": ("\u00e9\u0661", "x"),
}
FEW = ("numbers", "escapes")
HANG_ON = frozenset({"wait", "watch", "stream_logs", "follow_step", "stream_metrics"})


@dataclass(frozen=True)
class Place:
    """One text of a request; `bound` is what its annotation says, or what texts without one are tried with as well."""

    path: tuple[str, ...]
    bound: int
    is_bounded: bool

    def __str__(self) -> str:
        return ".".join(self.path)


@cache
def text_of(kind: str, size: int) -> str:
    piece, end = CLASSES[kind]
    return (piece * (size // len(piece) + 1))[: size - 1] + end


@cache
def quoted(kind: str, size: int) -> str:
    return quote(text_of(kind, size), safe="")


@cache
def places_of(record: type[Struct]) -> tuple[Place, ...]:
    return tuple(places(i.type_info(record)))


@cache
def described_as(record: type[Struct]) -> i.StructType:
    described = i.type_info(record)
    assert isinstance(described, i.StructType)
    return described


def places(described: i.Type, path: tuple[str, ...] = ()) -> Iterator[Place]:
    match described:
        case i.StrType():
            yield Place(path, described.max_length or MAX_TEXT, described.max_length is not None)
        case i.ListType() | i.VarTupleType():
            yield from places(described.item_type, (*path, "[]"))
        case i.DictType():
            yield from places(described.key_type, (*path, "{key}"))
            yield from places(described.value_type, (*path, "{value}"))
        case i.UnionType():
            for member in described.types:
                yield from places(member, path)
        case i.StructType():
            for field in described.fields:
                yield from places(field.type, (*path, field.encode_name))


def filled(record: type[Struct], path: tuple[str, ...], text: str) -> dict[str, Any]:
    """The smallest request that has the text there."""
    described = described_as(record)
    wanted: dict[str, Any] = {field.encode_name: least(field.type) for field in described.fields if field.required}
    if path:
        field = next(each for each in described.fields if each.encode_name == path[0])
        wanted[path[0]] = value_at(field.type, path[1:], text)
    if "entrypoint" in record.__struct_fields__ and not {"entrypoint", "script"} & set(wanted):
        wanted["entrypoint"] = ["true"]
    if "argv" in record.__struct_fields__ and "argv" not in wanted and "program" not in wanted:
        wanted["argv"] = ["true"]
    return wanted


def value_at(described: i.Type, path: tuple[str, ...], text: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(described, i.UnionType):
        members = [each for each in described.types if path in {place.path for place in places(each)}]
        return value_at(members[0], path, text)
    if not path:
        return text
    match described:
        case i.ListType() | i.VarTupleType():
            return [value_at(described.item_type, path[1:], text)]
        case i.DictType() if path[0] == "{key}":
            return {text: least(described.value_type)}
        case i.DictType():
            return {"k": value_at(described.value_type, path[1:], text)}
        case i.StructType():
            return filled(described.cls, path, text)
    raise AssertionError(described)


def least(described: i.Type) -> Any:  # noqa: ANN401 - any JSON
    match described:
        case i.UnionType():
            return least(described.types[0])
        case i.IntType() | i.FloatType():
            return 1
        case i.ListType() | i.VarTupleType():
            return [least(described.item_type)]
        case i.DictType():
            return {}
        case i.StructType():
            return filled(described.cls, (), "")
        case i.EnumType():
            return next(iter(described.cls)).value
        case i.LiteralType():
            return described.values[0]
    return "a1"


def rows() -> list[Operation]:
    """Every operation that takes anything."""
    return [each for each in OPERATIONS if each.request.__struct_fields__]


def sizes(place: Place, kind: str) -> tuple[int, ...]:
    """What is longer than its annotation allows is refused before anybody looks at what it consists of."""
    if place.bound >= WHOLE:
        return (WHOLE,)
    return (place.bound,) if place.is_bounded and kind not in FEW else (place.bound, WHOLE)


async def measured(call: Callable[[], Awaitable[None]]) -> float:
    started = time.process_time()
    await call()
    return time.process_time() - started


async def check_growth(call: Callable[[int], Awaitable[None]], size: int, what: str) -> None:
    """Anything that takes a noticeable time is looked at again, three times, beside a quarter of its size."""
    if await measured(lambda: call(size)) < UNSEEN_S:
        return
    whole = min([await measured(lambda: call(size)) for _ in range(3)])
    part = min([await measured(lambda: call(size // 4)) for _ in range(3)])
    assert whole < UNSEEN_S or whole < MOST_GROWTH * part, f"{what}: {part:.3f} s, four times the size {whole:.3f} s"


@pytest.mark.parametrize("power", [1, 2])
@scenario
async def test_the_measure_tells_linear_from_quadratic_work(power: int) -> None:
    async def call(size: int) -> None:
        for _ in range(1_000_000 * (size // 4) ** power // 16**power):
            pass

    with pytest.raises(AssertionError) if power > 1 else nullcontext():
        await check_growth(call, 256, "counting")


def rest_request(operation: Operation, place: Place, kind: str, size: int) -> tuple[str, bytes | None]:
    mark = "TEXT"
    is_body = operation.method != "GET" and f"{{{place.path[0]}}}" not in operation.path
    path, rest = operation.path, filled(operation.request, place.path, text_of(kind, size) if is_body else mark)
    for name in list(rest):
        if f"{{{name}}}" in path:
            path = path.replace(f"{{{name}}}", str(rest.pop(name)))
    if operation.method != "GET":
        # The path comes to an application as it was before it was quoted.
        return path.replace(mark, text_of(kind, size)), json.encode(rest)
    pairs = [(name, each) for name, value in rest.items() for each in (value if isinstance(value, list) else [value])]
    query = "&".join(f"{name}={value}" for name, value in pairs)
    return path.replace(mark, text_of(kind, size)) + "?" + query.replace(mark, quoted(kind, size)), None


def kinds(operation: Operation, place: Place) -> tuple[str, ...]:
    """All of them; two for texts of a submission where `submit` has tried them already."""
    submitted = {"submit_batch": 2, "submit_dag": 2, "create_session": 0, "update_service": 0}.get(operation.name)
    is_known = submitted is not None and place.path[submitted:] in texts_of_submit()
    return FEW if is_known else tuple(CLASSES)


@cache
def texts_of_submit() -> frozenset[tuple[str, ...]]:
    submit = next(each for each in OPERATIONS if each.name == "submit")
    return frozenset(place.path for place in places_of(submit.request))


async def within(work: Awaitable[Any]) -> Any:  # noqa: ANN401 - whatever it answers
    """Nothing for what waits for events: it was accepted."""
    try:
        async with asyncio.timeout(0.02):
            return await work
    except TimeoutError:
        return None


@pytest.mark.parametrize("operation", rows(), ids=lambda each: each.name)
def test_rest(operation: Operation) -> None:
    @in_world
    async def check(world: World) -> None:
        for place in places_of(operation.request):
            for kind in kinds(operation, place):

                async def call(size: int, kind: str = kind, place: Place = place) -> None:
                    path, body = rest_request(operation, place, kind, size)
                    work = world.call(operation.method, path, body, token=world.admin)
                    answer = await (within(work) if operation.name in HANG_ON else work)
                    assert answer is None or answer.status in (503, *range(200, 500)), (place, kind, answer.body[:300])

                for size in sizes(place, kind):
                    await check_growth(call, size, f"{operation.name} {place} {kind}")

    check()


@pytest.mark.parametrize("operation", rows(), ids=lambda each: each.name)
def test_grpc(operation: Operation) -> None:
    bad = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DEADLINE_EXCEEDED}

    @in_world
    async def check(world: World) -> None:
        async with grpc_of(world.services) as channel:
            for place in places_of(operation.request):
                for kind in FEW:  # what the texts consist of matters to the operation, which is the same over REST
                    await one(world, channel, place, kind)

    async def one(world: World, channel: grpc.aio.Channel, place: Place, kind: str) -> None:
        async def call(size: int) -> None:
            wanted = filled(operation.request, place.path, text_of(kind, size))
            work = ask(channel, operation.name, wanted, token=world.admin, most=1)
            answer = await (within(work) if operation.name in HANG_ON else work)
            assert answer is None or answer.status not in bad, (place, kind, answer)

        await check_growth(call, WHOLE, f"{operation.name} {place} {kind}")

    if operation.name in RPCS:
        check()


def lines(program: str, text: str) -> list[list[str]]:
    return list(_lines(program, text))


def _lines(program: str, text: str) -> Iterator[list[str]]:
    yield [text]
    yield ["show", "job", text]
    yield ["show", "hostnames", text]
    yield ["update", "JobId=1", f"TimeLimit={text}"]
    for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ":
        yield [f"-{letter}", text]
    if program == "sbatch":
        yield from (
            [f"--{option.name}={text}", "--wrap=true"] for option in OPTIONS if option.takes is not Takes.NOTHING
        )


@pytest.mark.parametrize("program", PROGRAMS)
def test_slurm_commands(program: str) -> None:
    @in_world
    async def check(world: World) -> None:
        await world.submit()
        mark = "TEXT"
        for kind in CLASSES:
            for form in range(len(lines(program, ""))):

                async def call(size: int, form: int = form, kind: str = kind) -> None:
                    argv = [word.replace(mark, text_of(kind, size)) for word in lines(program, mark)[form]]
                    body = {"program": program, "argv": argv, "cwd": "/home/alice"}
                    answer = await within(world.call("POST", "/slurm/commands", body))
                    assert answer is None or answer.status == 200, (argv[0][:20], kind, answer.body[:300])

                await check_growth(call, MAX_ARGUMENT // 2, f"{program} {form} {kind}")

    check()


@in_world
async def test_scripts_of_slurm(world: World) -> None:
    for kind in CLASSES:
        for head in ("#!/bin/sh\n", "#!/bin/sh\n#SBATCH --comment=", "#!/bin/sh\n#SBATCH "):

            async def call(size: int, head: str = head, kind: str = kind) -> None:
                script = (head + text_of(kind, WHOLE).replace("\0", "0"))[:size]
                answer = await world.call("POST", "/slurm/commands", {"program": "sbatch", "script": script})
                assert answer.status == 200

            await check_growth(call, WHOLE, f"{head} {kind}")


@in_world
async def test_the_unix_socket(world: World) -> None:
    local = LocalAccess(world.app, lambda user: world.token(user))
    reached = [each for each in rows() if each.method == "GET" and each.path.startswith("/node")]
    assert reached
    for operation in reached:
        for place in places_of(operation.request):
            for kind in CLASSES:

                async def call(
                    size: int, operation: Operation = operation, place: Place = place, kind: str = kind
                ) -> None:
                    path, _ = rest_request(operation, place, kind, size)
                    assert await status_of(local, path) in (503, *range(200, 500))

                for size in sizes(place, kind):
                    await check_growth(call, size, f"{operation.name} {place} {kind}")


async def status_of(app: LocalAccess, address: str) -> int:
    path, _, query = address.partition("?")
    scope = {"type": "http", "method": "GET", "path": f"/v1{path}", "query_string": query.encode(), "headers": []}
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
        statuses.extend([message["status"]] if "status" in message else [])

    await app({**scope, PEER_USER: "bob"}, receive, send)
    return statuses[0]
