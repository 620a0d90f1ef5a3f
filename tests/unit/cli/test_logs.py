"""`logs` and `watch`: bytes as they were written, events as they come."""

import json
from collections.abc import Callable

import pytest

from lattice.cli.views.log_lines import in_order
from tests.unit.cli.runner import Cli, allocation, ended
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply, refusal


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
    return by_time({stream: [("12:00:00.000", text)] for stream, text in texts.items()})


def by_time(streams: dict[str, list[tuple[str, bytes]]]) -> Callable[[Asked], Reply]:
    """A server that knows when each line was written."""

    def answer(asked: Asked) -> Reply:
        lines = streams[asked.parameter("stream") or ""]
        is_stamped = asked.parameter("timestamps") == "true"
        return Reply(raw=b"".join((f"2026-03-01T{at}Z ".encode() if is_stamped else b"") + line for at, line in lines))

    return answer


MIXED: dict[str, list[tuple[str, bytes]]] = {
    "stdout": [("12:00:00.000", b"one\n"), ("12:00:02.000", b"three\n")],
    "stderr": [("12:00:01.000", b"two\n"), ("12:00:03.000", b"four")],
}


def test_both_streams_come_in_order_of_time(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", by_time(MIXED))
    outcome = cli("logs", "a17")
    assert (outcome.raw, outcome.err) == (b"one\nthree\n", "two\nfour")
    assert [stream for stream, _ in in_order({name: [b"".join(stamped(MIXED[name]))] for name in MIXED})] == [
        "stdout",
        "stderr",
        "stdout",
        "stderr",
    ]
    shown = cli("logs", "a17", "--timestamps", "--stdout")
    assert shown.raw == b"2026-03-01T12:00:00.000Z one\n2026-03-01T12:00:02.000Z three\n"


def stamped(lines: list[tuple[str, bytes]]) -> list[bytes]:
    return [f"2026-03-01T{at}Z ".encode() + line for at, line in lines]


def test_an_older_server_gives_one_stream_behind_the_other(api: FakeApi, cli: Cli) -> None:
    plain = by_stream(stdout=b"result\n", stderr=b"oops\n")

    def answer(asked: Asked) -> Reply:
        if asked.parameter("timestamps"):
            return refusal(400, "invalid", "unknown parameter")
        return plain(asked)

    api.on("GET", "/allocations/a17/logs", answer)
    outcome = cli("logs", "a17")
    assert (outcome.code, outcome.raw, outcome.err) == (0, b"result\n", "oops\n")


def test_lines_are_chosen_by_time_and_pattern(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs", by_time(MIXED))
    outcome = cli("logs", "a17", "--since=2026-03-01T10:00:00Z", "--until=2026-03-02T10:00:00Z", "--grep=^t|u")
    assert (outcome.raw, outcome.err) == (b"three\n", "two\nfour")
    asked = dict(api.last().query)
    assert (asked["since"], asked["until"]) == ("2026-03-01T10:00:00Z", "2026-03-02T10:00:00Z")
    cli("logs", "a17", "--stdout", "--since=2026-03-01T10:00:00.250Z")
    assert dict(api.last().query)["since"] == "2026-03-01T10:00:00.250Z", "as --timestamps shows it"
    found = json.loads(cli("logs", "a17", "--grep=ee", "-o", "json").out)
    assert (found["stdout"], found["stderr"]) == ("three\n", "")


def test_following_ends_at_the_time_that_is_named(api: FakeApi, cli: Cli) -> None:
    api.on("GET", "/allocations/a17/logs/stream", Reply(events=("event: end\n\n",)))
    assert cli("logs", "-f", "a17", "--stdout", "--until=2026-03-02T10:00:00Z").code == 0
    assert dict(api.last().query)["until"] == "2026-03-02T10:00:00Z"


def test_patterns_apply_to_lines_that_are_followed(api: FakeApi, cli: Cli) -> None:
    pieces = [
        "data: " + json.dumps({"node": "n1", "stream": "stdout", "offset": offset, "data": text}) + "\n\n"
        for offset, text in ((0, "one\ntw"), (6, "o\nthree"))
    ]
    api.on("GET", "/allocations/a17/logs/stream", Reply(events=(*pieces, "event: end\n\n")))
    assert cli("logs", "-f", "a17", "--stdout", "--grep=t").raw == b"two\nthree"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--grep=(",), "not a regular expression"),
        (("--grep=" + "x" * 1001,), "at most 1,000 characters"),
        (("--since=never",), "never"),
    ],
)
def test_what_makes_no_sense_is_refused(api: FakeApi, cli: Cli, words: tuple[str, ...], told: str) -> None:
    outcome = cli("logs", "a17", *words)
    assert (outcome.code, told in outcome.err) == (2, True), outcome.err


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


def test_stored_output_is_deleted(api: FakeApi, cli: Cli) -> None:
    api.on("DELETE", "/allocations/a17/logs", {"id": "a17", "objects": 3})
    outcome = cli("logs", "delete", "a17", "--run=2")
    assert (outcome.code, outcome.out) == (0, "a17: 3 stored objects deleted\n")
    assert dict(api.last().query) == {"run": "2"}
    assert json.loads(cli("logs", "delete", "a17", "-o", "json").out) == [{"id": "a17", "objects": 3}]
    assert "name what is to be deleted" in cli("logs", "delete").err
    assert "takes no flag but --run" in cli("logs", "delete", "a17", "--tail=3").err
