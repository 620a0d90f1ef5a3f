"""Server-sent events: framing, and taking up again where a stream was cut off."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lattice_sdk import Client, NotAuthenticated, RetryPolicy, Unreachable
from lattice_sdk.streams import EventParser, ServerEvent
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply

TEXT = b": hello\n\nid: 7\nevent: state\ndata: one\ndata: two\n\ndata:three\r\n\r\nid: 9\ndata: lost"
EVENTS = [ServerEvent("state", "one\ntwo", "7"), ServerEvent("message", "three", "7")]


@given(st.lists(st.integers(0, len(TEXT)), max_size=6))
def test_events_do_not_depend_on_how_the_bytes_arrive(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    parser = EventParser()
    found = [event for a, b in itertools.pairwise(places) for event in parser.feed(TEXT[a:b])]
    assert found == EVENTS


def chunk(offset: int, text: str) -> str:
    return f'id: {offset + len(text)}\ndata: {{"node":"n1","stream":"stdout","offset":{offset},"data":"{text}"}}\n\n'


def test_output_is_followed_across_a_cut_without_loss_or_repeat(api: FakeApi, client: Client) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.headers.get("last-event-id") == "6":
            return Reply(events=(chunk(6, "cd"), "event: end\ndata: {}\n\n"))
        return Reply(events=(chunk(0, "ab"), ": still here\n\n", chunk(2, "EFGH"), 'id: 99\ndata: {"node"'))

    api.on("GET", "/allocations/a1/logs/stream", answer)
    assert b"".join(piece.data for piece in client.stream_logs("a1", tail=5)) == b"abEFGHcd"
    assert [asked.parameter("tail") for asked in api.asked] == ["5", "5"]


def test_output_that_is_not_utf8_comes_as_it_was(api: FakeApi, client: Client) -> None:
    data = '{"node":"n1","stream":"stdout","offset":0,"data_b64":"/wA="}'
    api.on("GET", "/allocations/a1/logs/stream", Reply(events=(f"data: {data}\n\n", "event: end\n\n")))
    assert [piece.data for piece in client.stream_logs("a1")] == [b"\xff\x00"]


def test_a_new_run_is_announced_and_read_from_its_beginning(api: FakeApi, client: Client) -> None:
    def answer(asked: Asked) -> Reply:
        if len(api.asked) == 1:
            return Reply(events=(chunk(0, "old"), 'event: restart\ndata: {"run": 2}\n\n'))
        assert "last-event-id" not in asked.headers
        return Reply(events=(chunk(0, "new"), "event: end\n\n"))

    runs: list[int] = []
    api.on("GET", "/allocations/a1/logs/stream", answer)
    pieces = [piece.data for piece in client.stream_logs("a1", restarted=runs.append)]
    assert (pieces, runs) == ([b"old", b"new"], [2])


def test_a_watch_resumes_after_the_last_event_it_saw(api: FakeApi, client: Client) -> None:
    def event(index: int, state: str) -> str:
        return f'id: {index}\ndata: {{"index":{index},"kind":"ended","id":"a1","number":1,"state":"{state}"}}\n\n'

    def answer(asked: Asked) -> Reply:
        if asked.headers.get("last-event-id") == "5":
            return Reply(events=(event(8, "Completed"),))
        return Reply(events=(event(5, "Running"),))

    api.on("GET", "/events", answer)
    stream = client.watch(["a1"], since=3)
    events = iter(stream)
    assert [next(events).state, next(events).state] == ["Running", "Completed"]
    stream.close()
    assert (api.asked[0].parameter("ids"), api.asked[0].parameter("since")) == ("a1", "3")


def test_a_gap_is_an_event_of_its_own_kind(api: FakeApi, client: Client) -> None:
    api.on("GET", "/events", Reply(events=('event: gap\ndata: {"index": 44}\n\n', "event: end\n\n")))
    assert [(event.kind, event.index) for event in client.watch()] == [("gap", 44)]


def test_an_error_inside_a_stream_is_raised(api: FakeApi, client: Client) -> None:
    error = 'event: error\ndata: {"error": {"code": "unauthenticated", "message": "token expired"}}\n\n'
    api.on("GET", "/events", Reply(events=(error,)))
    with pytest.raises(NotAuthenticated, match="token expired"):
        list(client.watch())


def test_a_stream_that_never_says_anything_is_given_up(api: FakeApi) -> None:
    api.on("GET", "/events", Reply(events=()))
    with Client(api.url, token="t", retry_for=0.1) as client, pytest.raises(Unreachable):
        list(client.watch())


def test_a_long_silence_leaves_the_whole_time_for_trying_again(api: FakeApi) -> None:
    now = [0.0]
    policy = RetryPolicy(retry_for_s=5, clock=lambda: now[0], pause=lambda _seconds: None)
    event = 'id: 1\ndata: {"index": 1, "kind": "submitted", "id": "a1", "state": "Pending"}\n\n'
    api.on("GET", "/events", Reply(events=(event,)), Reply(is_cut=True), Reply(events=("event: end\n\n",)))
    with Client(api.url, token="t", policy=policy) as client:
        events = iter(client.watch())
        assert next(events).index == 1
        now[0] = 1000.0
        assert list(events) == []
    assert len(api.asked) == 3
