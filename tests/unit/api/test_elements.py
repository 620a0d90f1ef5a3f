"""Messages of very many small values are refused before they are parsed; everything that clients send is let through."""

import random
import threading

import pytest
from google.protobuf.message import DecodeError, Message

from lattice.api.grpc.agents.session import StreamRefused, check_elements
from lattice.api.grpc.contract import message_class
from lattice.api.grpc.elements import UNSEEN_BYTES, Elements, Malformed, TooMany
from lattice.testing import scenario
from lattice.wire.pb import agent_pb2, allocations_pb2

DAG = message_class("SubmitDagRequest")
SUBMIT = message_class("SubmitRequest")
WHOLE = 4 << 20


def field(kind: type[Message], name: str) -> int:
    return kind.DESCRIPTOR.fields_by_name[name].number


def sized(number: int, content: bytes = b"") -> bytes:
    """One field with its tag in the shortest form; contents of up to 127 bytes."""
    return bytes((number << 3 | 2, len(content))) + content


def judged(kind: type[Message], data: bytes) -> None:
    elements = Elements(kind)
    if elements.is_suspect(data):
        elements.check(data)


def overlong(number: int) -> bytes:
    return bytes((number << 3 | 2 | 0x80, 0x80, 0x00, 0x80, 0x00))


MEMBER = field(DAG, "allocations")
HOSTILE = {
    "members": (DAG, sized(MEMBER)),
    "members with long tags": (DAG, overlong(MEMBER)),
    "messages inside a member": (DAG, sized(MEMBER, sized(1) * 10)),
    "texts": (SUBMIT, sized(field(SUBMIT, "entrypoint"))),
    "entries of a table": (SUBMIT, sized(field(SUBMIT, "tags"))),
    "numbers": (SUBMIT, sized(field(SUBMIT, "entrypoint")) + b"\x08\x01" * 30),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_small_values_without_number_are_refused(name: str) -> None:
    kind, unit = HOSTILE[name]
    with pytest.raises(TooMany):
        judged(kind, unit * (WHOLE // len(unit)))


@pytest.mark.parametrize("data", [b"\x0b\x0c", b"\x0a\x7f", b"\x80" * 20, b"\x0f"])
def test_bytes_that_are_no_message_are_not_walked(data: bytes) -> None:
    with pytest.raises(Malformed):
        Elements(DAG).check(data)


def test_a_script_may_hold_whatever_it_likes() -> None:
    for text in ("\n" * WHOLE, '"' * WHOLE, "\x12" * WHOLE):
        request = SUBMIT(script=text)
        judged(SUBMIT, request.SerializeToString())


def test_a_whole_batch_goes_through() -> None:
    kind = message_class("SubmitBatchRequest")
    one = allocations_pb2.Submission(entrypoint=["a"] * 20, tags={f"k{n}": "v" for n in range(50)})
    judged(kind, kind(submissions=[one] * 500).SerializeToString())


def test_the_report_of_a_busy_node_goes_through() -> None:
    known = agent_pb2.KnownRun(key=agent_pb2.RunKey(number=1 << 40, run=3))
    register = agent_pb2.AgentMessage(register=agent_pb2.Register(node_id="n1", runs=[known] * 10_000))
    data = register.SerializeToString()
    Elements(agent_pb2.AgentMessage, messages=65_536, values=262_144).check(data)


def test_what_the_parser_takes_is_never_called_malformed() -> None:
    """Bytes at random, most of them almost a message: whatever is parsed was walked to its end or refused for its number."""
    dice = random.Random(7)
    elements = Elements(DAG, messages=1000, values=1000)
    parsed = 0
    for _ in range(3000):
        inner = b"".join(
            sized(dice.randrange(1, 16), dice.randbytes(dice.randrange(3))) for _ in range(dice.randrange(4))
        )
        data = b"".join(sized(dice.choice((1, MEMBER)), inner[:120]) for _ in range(dice.randrange(5)))
        try:
            DAG.FromString(data)
        except (DecodeError, UnicodeDecodeError):
            continue
        parsed += 1
        elements.check(data)
    assert parsed > 100


def test_only_large_messages_are_looked_at() -> None:
    assert not Elements(DAG).is_suspect(sized(MEMBER) * (UNSEEN_BYTES // 2))


@scenario
async def test_the_values_of_an_agents_long_message_are_counted_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []

    def check(self: Elements, data: bytes) -> None:
        counted.append(threading.get_ident())
        raise TooMany("messages", 1)

    monkeypatch.setattr(Elements, "check", check)
    await check_elements(agent_pb2.AgentMessage(register=agent_pb2.Register(node_id="n1")).SerializeToString())
    assert counted == []
    claim = agent_pb2.KnownStep(
        key=agent_pb2.StepKey(run=agent_pb2.RunKey(number=1, run=1), step=1), launch_id="x" * 20
    )
    long = agent_pb2.AgentMessage(register=agent_pb2.Register(node_id="n1", steps=[claim] * 30_000))
    with pytest.raises(StreamRefused, match="more than 1 messages"):
        await check_elements(long.SerializeToString())
    assert counted != [threading.get_ident()]
