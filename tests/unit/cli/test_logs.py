"""`logs` and `watch`: bytes as they were written, events as they come."""

import json
from collections.abc import Callable

import pytest

from tests.unit.cli.runner import Cli, allocation, ended
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply


def test_logs_are_bare_bytes(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", Reply(raw=b"one\n\xff\x00two"))
    outcome = cli("logs", "a17", "--stderr", "--tail=5", "--node=n1", "--run=2")
    assert (outcome.code, outcome.raw, outcome.err) == (0, b"one\n\xff\x00two", "")
    asked = dict(api.last().query)
    assert asked == {"stream": "stderr", "tail": "5", "node": "n1", "run": "2"}


def test_a_lost_beginning_is_told_beside_the_output(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", Reply(raw=b"end\n", headers={"X-Lattice-Dropped-Bytes": "33554432"}))
    outcome = cli("logs", "a17", "--stdout")
    assert (outcome.code, outcome.raw) == (0, b"end\n")
    assert "the first 33,554,432 bytes of stdout are gone" in outcome.err
    late = "data: " + json.dumps({"node": "n1", "stream": "stdout", "offset": 7, "data": "x"}) + "\n\n"
    api.on("GET", "/allocations/a17/logs/stream", Reply(events=(late, "event: end\n\n")))
    assert "the first 7 bytes of stdout are gone" in cli("logs", "-f", "a17", "--stdout").err
    assert cli("logs", "-f", "--tail=1", "a17", "--stdout").err == ""


def by_stream(**texts: bytes) -> Callable[[Asked], Reply]:
    return lambda asked: Reply(raw=texts[asked.parameter("stream") or ""])


def test_both_streams_are_shown_each_where_it_belongs(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", by_stream(stdout=b"result\n", stderr=b"oops\n"))
    outcome = cli("logs", "a17")
    assert (outcome.code, outcome.raw, outcome.err) == (0, b"result\n", "oops\n")
    only = cli("logs", "a17", "--stderr")
    assert (only.raw, only.err) == (b"oops\n", "")
    only = cli("logs", "a17", "--stdout")
    assert (only.raw, only.err) == (b"result\n", "")


def test_logs_of_several_allocations_under_their_names(api: FakeApi, cli: Cli) -> None:
    for name in ("a17", "a18"):
        api.on("GET", f"/allocations/{name}/logs", Reply(raw=f"of {name}\n".encode()))
    outcome = cli("logs", "a17", "a404", "a18", "--stdout")
    assert outcome.code == 4
    assert outcome.lines == ["==> a17 <==", "of a17", "==> a404 <==", "==> a18 <==", "of a18"]
    assert cli("logs", "-f", "a17", "a18").code == 2


def test_logs_as_json(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", by_stream(stdout=b"one\n", stderr=b"two\n"))
    assert cli("logs", "a17", "-o", "json").json == {"id": "a17", "stdout": "one\n", "stderr": "two\n"}
    assert cli("logs", "a17", "--stderr", "-o", "json").json == {"id": "a17", "stream": "stderr", "data": "two\n"}


def piece(text: str) -> str:
    return "data: " + json.dumps({"node": "n1", "stream": "stdout", "offset": 0, "data": text}) + "\n\n"


def test_following_writes_what_comes_until_the_end(api: FakeApi, cli: Cli) -> None:
    events = (piece("a\n"), 'event: restart\ndata: {"run": 2}\n\n', piece("b"), "event: end\n\n")
    api.on("GET", "/allocations/a17/logs/stream", Reply(events=events))
    outcome = cli("logs", "a17", "--follow", "--tail=1", "--stdout")
    assert (outcome.code, outcome.out) == (0, "a\nb")
    assert "run 2 of a17 begins" in outcome.err
    lines = [json.loads(line) for line in cli("logs", "-f", "a17", "--stdout", "-o", "json").lines]
    assert [line["data"] for line in lines] == ["a\n", "b"]


def test_a_negative_tail_is_refused(api: FakeApi, cli: Cli) -> None:
    assert cli("logs", "a17", "--tail=-1").code == 2
    assert cli("logs", "a17", "--tail=x").code == 2
    assert api.asked == []


def event(index: int, kind: str, state: str, **fields: object) -> str:
    data = {"index": index, "at": "2026-03-05T10:00:00Z", "kind": kind, "id": "a17", "state": state, **fields}
    return f"id: {index}\ndata: {json.dumps(data)}\n\n"


def test_watching_one_allocation_ends_with_it(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17", allocation(state="Pending", started_at=None))
    events = (event(5, "started", "Running", nodes=["n1"]), event(6, "ended", "Failed", cause="exit", exit_code=3))
    api.on("GET", "/events", Reply(events=events))
    outcome = cli("watch", "a17")
    assert outcome.code == 0
    assert [line.split()[1:4] for line in outcome.lines] == [
        ["a17", "now", "Pending"],
        ["a17", "started", "Running"],
        ["a17", "ended", "Failed"],
    ]
    assert "exit code 3" in outcome.lines[2]
    assert [asked.path for asked in api.asked] == ["/api/v1/events", "/api/v1/allocations/a17"]


def test_watching_what_is_over_ends_at_once(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17", ended())
    api.on("GET", "/events", Reply(events=()))
    assert len(cli("watch", "a17").lines) == 1


def test_watching_everything_as_lines_of_json(api: FakeApi, cli: Cli) -> None:
    node = 'id: 9\ndata: {"index": 9, "kind": "node", "id": "n1", "state": "Degraded", "reason": "silent"}\n\n'
    api.on("GET", "/events", Reply(events=(event(8, "submitted", "Pending"), node, "event: end\n\n")))
    lines = [json.loads(line) for line in cli("watch", "-o", "json", "--since=7").lines]
    assert [(line["index"], line["kind"]) for line in lines] == [(8, "submitted"), (9, "node")]
    assert api.last().parameter("since") == "7"


@pytest.mark.parametrize("line", [("watch", "--alerts-only"), ("watch", "--since=now")])
def test_what_a_watch_does_not_take(line: tuple[str, ...], api: FakeApi, cli: Cli) -> None:
    assert cli(*line).code == 2
    assert api.asked == []


def test_a_watch_that_may_have_missed_something_looks_again(api: FakeApi, cli: Cli) -> None:
    gap = 'event: gap\ndata: {"index": 44}\n\n'
    api.on("GET", "/allocations/a17", allocation(), ended())
    api.on("GET", "/events", Reply(events=(gap,)))
    assert [line.split()[3] for line in cli("watch", "a17").lines] == ["Running", "Completed"]


def test_a_watch_that_was_cut_off_before_its_first_event_looks_again(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17", allocation(), ended())
    api.on("GET", "/events", Reply(events=()))
    assert [line.split()[3] for line in cli("watch", "a17").lines] == ["Running", "Completed"]


def test_output_that_is_cut_off_is_an_error(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", Reply(raw=b"half", is_short=True))
    outcome = cli("logs", "a17", "--stdout", "--retry-for=0")
    assert (outcome.code, outcome.out) == (6, "half")
    assert "the answer was cut off" in outcome.err
