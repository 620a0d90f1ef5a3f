"""Messages made up from their descriptions, and bytes that are none: whatever they say, no call fails inside the server or hangs."""

import itertools
import logging
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from lattice.api.grpc.contract import Rpc, message_class, rpcs
from lattice.testing import LocalCluster
from tests.fuzz.conftest import LONG_S, SHORT_S

pytestmark = pytest.mark.e2e

_log = logging.getLogger(__name__)
LATE_S = 15.0
STREAM_S = 0.2
LEFT_OUT = frozenset({"create_backup", "restore_backup", "verify_backup", "wait"})
GOOD = frozenset(
    {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.ALREADY_EXISTS,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
INTS = (0, 1, -1, 2, 7, 500, 10_000, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63))
FLOATS = (0.0, 1.5, -1.0, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), 5e-324)
TEXTS = (
    *("", "a1", "a2", "1", "n1", "default", "true", "x", "0-9", "a1_3", "2030-01-01", "1h", "4G", "pending", "stdout"),
    *(
        "bounded",
        "..",
        "/",
        "\0",
        "é",
        "\u202e",
        "\U0001d518",
        "%00",
        "a" * 200,
        "k=v",
        "n[1-3]",
        "{}",
        "scheduler.budget_period_days",
    ),
)


def text(dice: random.Random) -> str:
    if dice.random() < 0.8:
        return dice.choice(TEXTS)
    return "".join(
        chr(dice.choice((dice.randrange(32, 127), dice.randrange(0xD000)))) for _ in range(dice.randrange(30))
    )


def scalar(field: FieldDescriptor, dice: random.Random) -> Any:  # noqa: ANN401 - of whatever kind the field is
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return text(dice)
        case FieldDescriptor.TYPE_INT64:
            return dice.choice(INTS)
        case FieldDescriptor.TYPE_DOUBLE:
            return dice.choice(FLOATS)
        case FieldDescriptor.TYPE_BOOL:
            return dice.random() < 0.5
        case _:
            return dice.randbytes(dice.randrange(20))


def fill(message: Message, dice: random.Random, depth: int = 0) -> Message:
    """Some of its fields, each with something."""
    described: Descriptor = message.DESCRIPTOR  # type: ignore[assignment] # two names for one type
    for field in described.fields:
        if dice.random() < 0.6 or depth > 4:
            continue
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            entry = field.message_type.fields_by_name["value"]
            for _ in range(dice.randrange(4)):
                if entry.message_type is None:
                    value[text(dice)] = scalar(entry, dice)
                else:
                    fill(value[text(dice)], dice, depth + 1)
        elif field.is_repeated:
            for _ in range(dice.randrange(4)):
                if field.message_type is None:
                    value.append(scalar(field, dice))
                else:
                    fill(value.add(), dice, depth + 1)
        elif field.message_type is not None:
            value.SetInParent()
            fill(value, dice, depth + 1)
        else:
            setattr(message, field.name, scalar(field, dice))
    return message


def request(rpc: Rpc, dice: random.Random) -> bytes:
    data: bytes = fill(message_class(rpc.request_message)(), dice).SerializeToString()
    if dice.random() < 0.2:
        return dice.randbytes(dice.randrange(64))
    if data and dice.random() < 0.2:
        place = dice.randrange(len(data))
        return data[:place] + dice.randbytes(1) + data[place + 1 :]
    return data


UNAUTHENTICATED = grpc.StatusCode.UNAUTHENTICATED


def call(channel: grpc.Channel, rpc: Rpc, data: bytes, token: str, stream_s: float = STREAM_S) -> grpc.StatusCode:
    metadata = (("authorization", f"Bearer {token}"),)
    try:
        if rpc.response.is_stream:
            stream: Any = channel.unary_stream(rpc.path)  # type: ignore[call-arg] # bytes both ways
            next(stream(data, metadata=metadata, timeout=stream_s), None)
        else:
            single: Any = channel.unary_unary(rpc.path)  # type: ignore[call-arg] # bytes both ways
            single(data, metadata=metadata, timeout=LATE_S)
    except grpc.RpcError as error:
        code: grpc.StatusCode = error.code()
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and rpc.response.is_stream:
            return grpc.StatusCode.OK
        return code
    return grpc.StatusCode.OK


def go_on(target: LocalCluster, seconds: float) -> None:
    """Throws one thing after the other for so long, and at least one at each operation."""
    chosen = [rpc for rpc in rpcs() if rpc.operation.name not in LEFT_OUT]
    end = time.monotonic() + seconds
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(target.file.grpc, options=options) as channel:
        for number, rpc in zip(itertools.count(1), itertools.cycle(chosen)):
            if time.monotonic() > end and number > len(chosen):
                break
            data = request(rpc, random.Random(number))
            code = call(channel, rpc, data, target.token)
            assert code in GOOD, f"{rpc.path} answered {code} to call {number}: {data!r}"
    _log.info("the last seed was %d", number - 1)


def test_no_message_makes_the_server_fail(target: LocalCluster) -> None:
    go_on(target, SHORT_S)


@pytest.mark.soak
def test_no_message_makes_the_server_fail_for_long(target: LocalCluster) -> None:
    go_on(target, LONG_S)


@pytest.mark.parametrize("token", ["", "x", "a.b.c"])
def test_whatever_a_stranger_sends_nothing_is_looked_at(target: LocalCluster, token: str) -> None:
    """All at once: after a burst of wrong tokens from one address each waits a second for its answer."""
    every = rpcs()
    with grpc.insecure_channel(target.file.grpc) as channel, ThreadPoolExecutor(len(every)) as pool:

        def answer(numbered: tuple[int, Rpc]) -> grpc.StatusCode:
            number, rpc = numbered
            return call(channel, rpc, random.Random(number).randbytes(40), token, stream_s=LATE_S)

        codes = pool.map(answer, enumerate(every))
        looked = {rpc.path: code for rpc, code in zip(every, codes, strict=True) if code is not UNAUTHENTICATED}
        assert looked == {}
