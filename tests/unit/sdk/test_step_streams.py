"""A step is followed over broken connections: each byte once, then how it ended."""

import base64
import struct

import pytest

from lattice_sdk import Client
from lattice_sdk.errors import BadAnswer
from lattice_sdk.models.steps import StepRequest
from lattice_sdk.step_streams import STDERR, STDOUT, OutputGap, TaskOutput
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply

PATH = "/allocations/a1/steps/0/stream"


def output(node: int, next_place: int, *records: tuple[int, int, bytes]) -> str:
    raw = b"".join(struct.pack(">BII", stream, rank, len(data)) + data for rank, stream, data in records)
    return f'data: {{"node":{node},"next":{next_place},"data":"{base64.b64encode(raw).decode()}"}}\n\n'


RESULT = 'event: result\ndata: {"exit_code":3,"failures":["task 1 on n2: exited with code 3"]}\n\n'
END = "event: end\ndata: {}\n\n"


def test_output_and_result_across_a_cut(api: FakeApi, client: Client) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.headers.get("last-event-id") == "0:30,1:12":
            return Reply(events=(output(0, 50, (0, STDERR, b"c")), RESULT, END))
        first = output(0, 30, (0, STDOUT, b"a"), (2, STDOUT, b"b"))
        return Reply(events=(first, output(1, 12, (1, STDOUT, b"x")), 'data: {"node":0,"ne'))

    api.on("GET", PATH, answer)
    stream = client.follow_step("a1", 0)
    found = [event for event in stream if isinstance(event, TaskOutput)]
    assert found == [
        TaskOutput(0, STDOUT, b"a"),
        TaskOutput(2, STDOUT, b"b"),
        TaskOutput(1, STDOUT, b"x"),
        TaskOutput(0, STDERR, b"c"),
    ]
    assert stream.result is not None
    assert (stream.result.exit_code, stream.result.failures) == (3, ["task 1 on n2: exited with code 3"])


def test_what_is_gone_is_told(api: FakeApi, client: Client) -> None:
    gap = 'event: gap\ndata: {"node":1,"next":99,"bytes":42}\n\n'
    api.on("GET", PATH, lambda asked: Reply(events=(gap, RESULT, END)))
    assert list(client.follow_step("a1", 0)) == [OutputGap(1, 42)]


def test_nonsense_is_a_bad_answer(api: FakeApi, client: Client) -> None:
    api.on("GET", PATH, lambda asked: Reply(events=('data: {"node":0}\n\n',)))
    with pytest.raises(BadAnswer):
        list(client.follow_step("a1", 0))


def test_a_launch_is_sent_with_what_was_asked_for_and_no_more(api: FakeApi, client: Client) -> None:
    step = {"id": "a1.0", "allocation": "a1", "step": 0}
    api.on("POST", "/allocations/a1/steps", lambda asked: Reply(status=201, json=step))
    assert client.launch_step("a1", StepRequest(argv=["work"], tasks=4)).id == "a1.0"
    assert api.asked[0].json == {"argv": ["work"], "tasks": 4}
