"""A call that gets no answer is made again, under one request id, until it is answered or time is up."""

import socket
import threading
from dataclasses import dataclass, field

import pytest

from lattice_sdk import Client, NoToken, RetryPolicy, Submission, Unavailable, Unreachable
from tests.unit.sdk.fake_api import Asked, FakeApi, Reply, refusal

ALLOCATION = {"id": "a1", "number": 1, "state": "Pending"}


@dataclass
class Stopwatch:
    """Time that passes only while somebody pauses."""

    now: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def policy_of(watch: Stopwatch, notes: list[str], retry_for_s: float = 60.0) -> RetryPolicy:
    return RetryPolicy(
        retry_for_s=retry_for_s, clock=watch.clock, pause=watch.pause, note=notes.append, jitter=lambda: 1.0
    )


def test_every_repeat_carries_the_same_request_id(api: FakeApi, client: Client) -> None:
    api.on("POST", "/allocations", Reply(is_cut=True), Reply(is_cut=True), Reply(status=201, json=ALLOCATION))
    assert client.submit(Submission(entrypoint=["true"])).id == "a1"
    ids = {asked.headers["x-request-id"] for asked in api.asked}
    assert len(api.asked) == 3
    assert len(ids) == 1


def test_two_calls_have_different_request_ids(api: FakeApi, client: Client) -> None:
    api.on("POST", "/allocations", Reply(status=201, json=ALLOCATION))
    client.submit(Submission(entrypoint=["true"]))
    client.submit(Submission(entrypoint=["true"]))
    assert len({asked.headers["x-request-id"] for asked in api.asked}) == 2


def test_a_request_id_of_the_caller_is_kept(api: FakeApi, client: Client) -> None:
    api.on("DELETE", "/allocations/a1", Reply(status=202, json=ALLOCATION))
    client.cancel("a1", request_id="mine")
    assert api.last().headers["x-request-id"] == "mine"


@pytest.mark.parametrize("status", [503, 507])
def test_an_answer_that_asks_to_come_back_is_followed(status: int, api: FakeApi, client: Client) -> None:
    api.on("GET", "/allocations/a1", refusal(status, "unavailable", "not now"), ALLOCATION)
    assert client.get_allocation("a1").number == 1


def test_a_server_that_stays_unavailable_is_quoted_in_the_end(api: FakeApi) -> None:
    watch, notes = Stopwatch(), list[str]()
    api.on("GET", "/whoami", refusal(507, "storage_full", "no room in the log", hint="make room"))
    with Client(api.url, token="t", policy=policy_of(watch, notes)) as client, pytest.raises(Unavailable) as caught:
        client.whoami()
    assert (caught.value.code, caught.value.hint) == ("storage_full", "make room")
    assert 60 <= watch.now < 63


def test_an_absent_server_is_tried_for_the_whole_time_and_noted_once() -> None:
    watch, notes = Stopwatch(), list[str]()
    address = f"http://127.0.0.1:{closed_port()}"
    with Client(address, token="t", policy=policy_of(watch, notes)) as client, pytest.raises(Unreachable) as caught:
        client.whoami()
    assert address in str(caught.value)
    assert "refused" in caught.value.cause
    assert 60 <= watch.now <= 60.01
    assert len(notes) == 1
    assert address in notes[0]
    assert max(watch.pauses) == 2.0


def test_a_short_absence_is_not_worth_a_note(api: FakeApi) -> None:
    watch, notes = Stopwatch(), list[str]()
    api.on("GET", "/whoami", Reply(is_cut=True), Reply(is_cut=True), {"user": "u"})
    with Client(api.url, token="t", policy=policy_of(watch, notes)) as client:
        assert client.whoami().user == "u"
    assert notes == []


def test_with_no_time_to_retry_the_first_failure_is_final() -> None:
    watch, notes = Stopwatch(), list[str]()
    policy = policy_of(watch, notes, retry_for_s=0)
    address = f"http://127.0.0.1:{closed_port()}"
    with Client(address, token="t", policy=policy) as client, pytest.raises(Unreachable):
        client.whoami()
    assert (watch.pauses, notes) == ([], [])


def test_a_host_that_does_not_exist_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "create_connection", unknown)
    watch, notes = Stopwatch(), list[str]()
    with (
        Client("https://no-such-host.invalid", token="t", policy=policy_of(watch, notes)) as client,
        pytest.raises(Unreachable, match="name or service not known"),
    ):
        client.whoami()
    assert watch.pauses == []


def test_the_next_address_is_asked_when_one_does_not_answer(api: FakeApi) -> None:
    watch, notes = Stopwatch(), list[str]()
    api.on("GET", "/whoami", {"user": "u"})
    addresses = f"http://127.0.0.1:{closed_port()},{api.url}"
    with Client(addresses, token="t", policy=policy_of(watch, notes, 0)) as client:
        assert client.whoami().user == "u"
        assert client.whoami().user == "u"
    assert watch.pauses == []


def test_a_server_that_is_not_ready_is_left_for_the_next(api: FakeApi) -> None:
    other = FakeApi()
    api.on("GET", "/whoami", refusal(503, "unavailable", "no leader"))
    other.on("GET", "/whoami", {"user": "u"})
    policy = RetryPolicy(retry_for_s=5, pause=lambda _seconds: None)
    with Client([api.url, other.url], token="t", policy=policy) as client:
        assert client.whoami().user == "u"
    other.close()


def test_a_kept_connection_that_the_server_closed_is_opened_again(api: FakeApi) -> None:
    api.on("GET", "/whoami", {"user": "u"}, Reply(is_cut=True), {"user": "v"})
    with Client(api.url, token="t", retry_for=0) as client:
        assert client.whoami().user == "u"
        assert client.whoami().user == "v"
    assert api.connections == 2


def test_calls_share_one_connection(api: FakeApi, client: Client) -> None:
    api.on("GET", "/whoami", {"user": "u"})
    for _ in range(3):
        client.whoami()
    assert api.connections == 1


def test_a_renewed_token_file_is_used_at_once(api: FakeApi, tmp_path: object) -> None:
    path = f"{tmp_path}/token"
    api.on("GET", "/whoami", {"user": "u"})
    with Client(api.url, token_file=path) as client:
        for token in ("first", "second"):
            with open(path, "w") as file:
                file.write(token + "\n")
            client.whoami()
    assert [asked.headers["authorization"] for asked in api.asked] == ["Bearer first", "Bearer second"]


def test_a_missing_or_empty_token_file_is_said_so(api: FakeApi, tmp_path: object) -> None:
    with Client(api.url, token_file=f"{tmp_path}/none") as client, pytest.raises(NoToken, match="cannot read"):
        client.whoami()
    with open(f"{tmp_path}/empty", "w"):
        pass
    with Client(api.url, token_file=f"{tmp_path}/empty") as client, pytest.raises(NoToken, match="is empty"):
        client.whoami()
    assert api.asked == []


def test_a_server_that_stands_still_is_not_asked_twice_without_leave(api: FakeApi) -> None:
    over = threading.Event()

    def silent(_asked: Asked) -> Reply:
        over.wait(10)
        return Reply(is_cut=True)

    api.on("GET", "/whoami", {"user": "u"}, silent)
    with Client(api.url, token="t", retry_for=0, timeout=30) as client:
        client.whoami()
        client._session._timeout_s = 0.2  # for the silence alone: a first answer may take its time
        with pytest.raises(Unreachable, match="no answer in time"):
            client.whoami()
    over.set()
    assert len(api.asked) == 2
